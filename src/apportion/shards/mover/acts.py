"""Acts: does one act of a move, a single commit in the control store, on a shard, or on the channel of the group."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from apportion.errors import InvalidInput, InvariantBroken
from apportion.model.assignment import Assignment
from apportion.model.epoch import FencingToken
from apportion.model.topology import Node
from apportion.shards.channel import Channel
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.mover.book import KeptMove, MoveBook
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.sites import ShardSites
from apportion.shards.reshard import MoveAct, MoveRecord
from apportion.shards.slots import shifted
from apportion.tables.publisher import Publisher

INTENT_SECONDS = 1.0
"""A control store whose last commit took longer is too slow to end a fence."""

_ON_SOURCE = frozenset({"fence", "unfence", "settle-source"})
_ON_CHANNEL = frozenset({"capture", "chunk", "apply-log", "verify", "uncapture"})


class MoveActs:
    """Does the acts of moves of one set. Each method changes one database, and compares before it changes."""

    def __init__(
        self,
        book: MoveBook,
        publisher: Publisher,
        sites: ShardSites,
        nodes: Mapping[str, Node],
        wall: Callable[[], float],
    ) -> None:
        self._book, self._publisher, self._sites, self._nodes, self._wall = book, publisher, sites, nodes, wall

    async def do(self, act: MoveAct, kept: KeptMove, token: FencingToken) -> int:
        """Do an act; return how many rows of the source it deleted. Errors are those of the databases.

        `StaleEpoch` or `Conflict`: a switch came too late, and changed nothing.
        """
        group, label = kept.entry.group, act.label
        if label == "record" and act.record is not None:
            await self._write(kept, act.record)
        elif label == "switch":
            await self._switch(act, kept)
        elif label == "release":
            await self._book.release(kept)
        elif label in _ON_CHANNEL:
            await self._follow(act, kept.entry, await self._sites.channel(group), token)
        elif label == "clean-batch":
            return await (await self._sites.shard(group.source)).clean(group, token)
        elif label == "drop":
            await (await self._sites.shard(group.target)).drop(group, token)
        else:
            await self._change(act, group, token)
        return 0

    async def _write(self, kept: KeptMove, record: MoveRecord) -> None:
        """Write the record. An intent to fence writes the old record again while the control store is slow."""
        seconds = self._book.commit_seconds
        if record.state == "fenced" and (seconds is None or seconds > INTENT_SECONDS):
            await self._book.write(kept, kept.entry)
        else:
            await self._book.write(kept, replace(kept.entry, record=record, since=self._wall()))

    async def _switch(self, act: MoveAct, kept: KeptMove) -> None:
        """Publish the table that names the target, and the record that says so, in one commit."""
        group, record, number = kept.entry.group, act.record, act.number
        if record is None or number is None:
            raise InvariantBroken(f"a switch of move {group.move} without a record or a number")
        if group.target not in self._nodes:
            known = ", ".join(sorted(self._nodes))
            raise InvalidInput("target of a move", group.target, f"one of {known}", "Add the shard again, or abort.")
        value = await self._publisher.newest()
        if not isinstance(value, Assignment):
            raise InvalidInput(
                "table of the set", "a table", "an assignment of slots", "Publish the set's table again."
            )
        entry = replace(kept.entry, record=record, since=self._wall())
        await self._publisher.publish(
            shifted(value, group.slots, self._nodes[group.target]),
            when=[self._book.compare(kept)],
            puts=[self._book.put(entry)],
            number=number.number,
        )

    async def _follow(self, act: MoveAct, entry: MoveEntry, channel: Channel, token: FencingToken) -> None:
        if act.label == "verify":
            await channel.verify(entry.record.attempt, token)
        elif act.label == "capture":
            await channel.capture(token)
        elif act.label == "chunk":
            await channel.copy(token)
        elif act.label == "apply-log":
            await channel.apply(token)
        else:
            await channel.uncapture(token)

    async def _change(self, act: MoveAct, group: MoveGroup, token: FencingToken) -> None:
        change = ROW_CHANGES[act.label]
        if act.number is not None:
            change = replace(change, number=act.number)
        shard = await self._sites.shard(group.source if act.label in _ON_SOURCE else group.target)
        await shard.change(group, change, token)
