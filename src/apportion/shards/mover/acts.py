"""Acts: does one act of a move.

An act is a single commit in the control store, on a shard, or on the group's channel.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.epoch import FencingToken
from apportion.model.topology import Node
from apportion.shards.channel import Channel
from apportion.shards.move_group import ROW_CHANGES, MoveGroup, RowChange, source_change
from apportion.shards.mover.book import KeptMove, MoveBook
from apportion.shards.mover.copy_rate import CopyRate
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.sites import ShardSites
from apportion.shards.reshard import MoveAct, MoveRecord
from apportion.shards.slots import shifted
from apportion.tables.layout import Version
from apportion.tables.publisher import Publisher

INTENT_SECONDS = 1.0
"""If its last commit took longer, the control store is too slow to end a fence."""

_ON_WAY_BACK = frozenset({"capture-back", "uncapture-back"})
_ON_SOURCE = frozenset({"fence", "unfence", "settle-source", "clean-batch"})


class MoveActs:
    """Does the acts of the moves of one set. Each method changes one database, after a compare.

    `rate` limits the copy of rows, None by default.
    """

    def __init__(
        self,
        book: MoveBook,
        publisher: Publisher,
        sites: ShardSites,
        nodes: Mapping[str, Node],
        wall: Callable[[], float],
    ) -> None:
        self._book, self._publisher, self._sites, self._nodes, self._wall = book, publisher, sites, nodes, wall
        self.rate: CopyRate | None = None

    async def do(self, act: MoveAct, kept: KeptMove, token: FencingToken) -> int:
        """Do an act. Return the number of old rows that it deleted. Errors are those of the databases.

        `StaleEpoch` or `Conflict`: a switch came too late, and changed nothing.
        """
        group = kept.entry.group
        if act.label in ("record", "forgo", "switch", "release"):
            await self._commit(act, kept)
            return 0
        if act.label in _ON_CHANNEL:
            channel = await self._sites.channel(group.reversed() if act.label in _ON_WAY_BACK else group)
            if act.label == "chunk" and self.rate is not None:
                await self.rate.copy(channel, kept.entry, token)
            else:
                await _ON_CHANNEL[act.label](channel, kept.entry.record.attempt, token)
            return 0
        return await self._on_shard(act, group, token)

    async def _on_shard(self, act: MoveAct, group: MoveGroup, token: FencingToken) -> int:
        """Change the slot rows of one shard, or delete rows there. Return the number of deleted old rows."""
        is_source = act.label in _ON_SOURCE
        shard = await self._sites.shard(group.source if is_source else group.target)
        here = group if is_source else group.arriving
        if act.label in ("clean-batch", "clean-back"):
            return await shard.clean(here, token)
        if act.label == "drop":
            await shard.drop(here, token)
        elif here.isolated is not None:
            newest = await self._book.newest() if act.label == "settle-source" else None
            await shard.change(here, source_change(act.label, newest), token)
        else:
            await shard.change(here, _change(act), token)
        return 0

    async def turn(self, kept: KeptMove) -> MoveEntry | None:
        """Write the record of a move's way back, and return it. Return None if the record changed meanwhile."""
        entry = kept.entry.reversed(self._wall())
        return entry if await self._book.write(kept, entry) else None

    async def _commit(self, act: MoveAct, kept: KeptMove) -> None:
        if act.record is None:
            await self._book.release(kept)
        elif act.number is not None:
            await self._switch(kept, act.record, act.number)
        else:
            await self._write(kept, act.record)

    async def _write(self, kept: KeptMove, record: MoveRecord) -> None:
        """Write the record.

        The record `fenced` comes before a fence. It is written only if the last commit was quick. Otherwise the old
        record is written again, which measures the time of a commit anew. The table is read before it too, so that the
        switch has it in memory while writers wait.
        """
        if record.state == "fenced":
            await self._publisher.newest()
        seconds = self._book.commit_seconds
        if record.state == "fenced" and (seconds is None or seconds > INTENT_SECONDS):
            await self._book.write(kept, kept.entry)
        else:
            await self._book.write(kept, kept.entry.changed(record, self._wall()))

    async def _switch(self, kept: KeptMove, record: MoveRecord, number: Version) -> None:
        """Publish the table that names the target, and write the `switched` record, in one commit."""
        group = kept.entry.group
        if group.target not in self._nodes:
            known = ", ".join(sorted(self._nodes))
            raise InvalidInput("target of a move", group.target, f"one of {known}", "Add the shard again, or abort.")
        value = await self._publisher.newest()
        if not isinstance(value, Assignment):
            raise InvalidInput(
                "table of the set", "a table", "an assignment of slots", "Publish the set's table again."
            )
        entry, isolated = kept.entry.changed(record, self._wall()), group.isolated
        if isolated is not None:
            value = isolated.placed_in(value, group.slots[0], group.source)
        await self._publisher.publish(
            shifted(value, group.arriving.slots, self._nodes[group.target]),
            when=[self._book.compare(kept)],
            puts=[self._book.put(entry)],
            number=number.number,
        )


def _change(act: MoveAct) -> RowChange:
    change = ROW_CHANGES[act.label]
    return change if act.number is None else replace(change, number=act.number)


_Followed: TypeAlias = Callable[[Channel, int, FencingToken], Awaitable[None]]

_ON_CHANNEL: Mapping[str, _Followed] = {
    "capture": lambda channel, _, token: channel.capture(token),
    "capture-back": lambda channel, _, token: channel.capture(token),
    "chunk": lambda channel, _, token: channel.copy(token),
    "apply-log": lambda channel, _, token: channel.apply(token),
    "verify": lambda channel, attempt, token: channel.verify(attempt, token),
    "uncapture": lambda channel, _, token: channel.uncapture(token),
    "uncapture-back": lambda channel, _, token: channel.uncapture(token),
}
