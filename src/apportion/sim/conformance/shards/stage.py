"""Stage: a pair of shards as a mover of the cases uses it, with the acts that cases repeat."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from apportion.model.epoch import FencingToken
from apportion.shards.channel import Channel
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.reshard import Label
from apportion.shards.shard import Shard
from apportion.shards.slot_rows import SlotRow
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.shards.rig import ShardPair
from apportion.tables.layout import Version

GROUP = MoveGroup(move="move-1", source="one", target="two", slots=(1, 2, 5))
OTHER = MoveGroup(move="move-2", source="one", target="two", slots=(3, 4))
BACK = MoveGroup(move="move-3", source="two", target="one", slots=(9, 10))
STAYS = 0
"""A slot of shard one that no group moves."""

FILLED = {number: f"text {number}" for number in range(40)}
NUMBER = Version(incarnation=7, number=12)
_MOST_CALLS = 1_000


def token_of(epoch: int, holder: str = "mover") -> FencingToken:
    """Return the token of a mover."""
    return FencingToken(resource="world.mover", holder=holder, incarnation=1, epoch=epoch)


def key_of(slot: int, number: int) -> int:
    """Return the key of a row that `fill` writes."""
    return 1_000 * (slot + 1) + number


TOKEN = token_of(5)
OLD = token_of(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStage:
    """One case's pair of shards. All handles are closed at the end."""

    pair: ShardPair
    exits: AsyncExitStack

    async def shard(self, shard_id: str) -> Shard:
        """Return a new handle of a shard."""
        shard = await self.pair.shard(shard_id)
        self.exits.push_async_callback(shard.close)
        return shard

    async def channel(self, group: MoveGroup = GROUP) -> Channel:
        """Return a new handle of a channel."""
        channel = await self.pair.channel(group)
        self.exits.push_async_callback(channel.close)
        return channel

    async def fill(self, *slots: int, rows: Mapping[int, str] = FILLED) -> None:
        """Write rows to slots of their owner; each slot has keys of its own."""
        for slot in slots:
            own = {key_of(slot, number): text for number, text in rows.items()}
            holds(await self.pair.write("one" if slot < 8 else "two", slot, own), "an owner accepts rows")

    async def change(self, shard_id: str, act: Label, group: MoveGroup = GROUP, number: Version | None = None) -> None:
        """Change the rows of the slots as an act does."""
        change = ROW_CHANGES[act]
        change = replace(change, number=number) if number is not None else change
        await (await self.shard(shard_id)).change(group, change, TOKEN)

    async def rows(self, shard_id: str, group: MoveGroup = GROUP) -> list[SlotRow | None]:
        """Return the rows of the slots of a group."""
        return list(await (await self.shard(shard_id)).rows(group))

    async def states(self, shard_id: str, group: MoveGroup = GROUP) -> set[str | None]:
        """Return the states of the slots of a group."""
        return {None if row is None else row.state for row in await self.rows(shard_id, group)}

    async def prepared(self, group: MoveGroup = GROUP) -> Channel:
        """Guard both shards, prepare the target, and capture."""
        for shard_id in (group.source, group.target):
            await (await self.shard(shard_id)).guard(group, TOKEN)
        await self.change(group.target, "prepare", group)
        channel = await self.channel(group)
        await channel.capture(TOKEN)
        return channel

    async def copied(self, group: MoveGroup = GROUP) -> Channel:
        """Prepare a group, and copy all its rows."""
        channel = await self.prepared(group)
        await self.finish_copy(channel)
        return channel

    async def finish_copy(self, channel: Channel) -> None:
        """Copy chunks until none is left."""
        for _ in range(_MOST_CALLS):
            if (await channel.state(1)).is_copied:
                return
            await channel.copy(TOKEN)
        holds(False, f"the copy ends after {_MOST_CALLS} chunks at most")

    async def drain(self, channel: Channel) -> None:
        """Apply until the target has each change that was made before the call."""
        for _ in range(_MOST_CALLS):
            await channel.apply(TOKEN)
            if (await channel.state(1)).is_drained:
                return
        holds(False, f"the log ends after {_MOST_CALLS} parts at most")

    async def verify(self, channel: Channel, attempt: int = 1) -> None:
        """Compare until all rows are compared."""
        for _ in range(_MOST_CALLS):
            if (await channel.state(attempt)).is_verified:
                return
            await channel.verify(attempt, TOKEN)
        holds(False, f"the comparison ends after {_MOST_CALLS} calls at most")

    async def switch(self, group: MoveGroup = GROUP) -> None:
        """Fence the source, announce a number on the target, and settle both."""
        await self.change(group.source, "fence", group)
        await self.change(group.target, "announce", group, NUMBER)
        await self.change(group.source, "settle-source", group)
        await self.change(group.target, "settle-target", group)

    async def clean(self, group: MoveGroup = GROUP) -> int:
        """Delete the old rows of the source; return how many."""
        shard, count = await self.shard(group.source), 0
        while deleted := await shard.clean(group, TOKEN):
            count += deleted
        return count

    async def left_behind(self, group: MoveGroup = GROUP) -> list[str]:
        """Return all that is left of a move on both shards."""
        return [
            name
            for each in (group.source, group.target)
            for name in await (await self.shard(each)).left_behind(group.move)
        ]

    async def equal(self, group: MoveGroup = GROUP) -> None:
        """Fail unless both shards have the same rows of the group."""
        for slot in group.slots:
            source, target = await self.pair.read(group.source, slot), await self.pair.read(group.target, slot)
            same(dict(source), dict(target), f"rows of slot {slot}")
