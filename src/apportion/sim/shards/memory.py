"""A shard and a channel of a world, as a mover sees them; see `shards.shard` and `shards.channel`."""

from collections.abc import Mapping, Sequence

from apportion.errors import Unequal
from apportion.model.epoch import FencingToken
from apportion.shards.channel import ChannelState
from apportion.shards.move_group import MoveGroup, RowChange
from apportion.shards.shard import SlotSize
from apportion.shards.slot_rows import SlotRow
from apportion.sim.shard_facts import RowPlace
from apportion.sim.shards.database import CopyCursor, Row, ShardDatabase
from apportion.sim.shards.wire import ShardPlace, ShardWire

CHUNK_ROWS, LOG_ROWS, CLEAN_ROWS = 3, 8, 4
_ROW_BYTES = 100


class MemoryShard:
    """See `Shard`."""

    def __init__(self, process: str, place: ShardPlace) -> None:
        self._wire = ShardWire(process, place)

    async def guard(self, group: MoveGroup, token: FencingToken) -> None:
        """See `Shard`."""
        await self._wire.guarded("guard", group.move, token, lambda _: None)

    async def rows(self, group: MoveGroup) -> Sequence[SlotRow | None]:
        """See `Shard`."""

        def _perform(database: ShardDatabase) -> list[SlotRow | None]:
            found = map(database.slots.get, group.slots)
            return [None if kept is None else kept.row for kept in found]

        return await self._wire.read("rows", _perform)

    async def change(self, group: MoveGroup, change: RowChange, token: FencingToken) -> None:
        """See `Shard`."""
        await self._wire.guarded("change", group.move, token, lambda database: database.change(group, change))

    async def sizes(self) -> Mapping[int, SlotSize]:
        """See `Shard`."""

        def _perform(database: ShardDatabase) -> dict[int, SlotSize]:
            slots = [place.slot for place in database.rows]
            return {each: SlotSize(rows=slots.count(each), bytes=_ROW_BYTES * slots.count(each)) for each in set(slots)}

        return await self._wire.read("sizes", _perform)

    async def clean(self, group: MoveGroup, token: FencingToken) -> int:
        """See `Shard`."""
        return await self._wire.guarded("clean", group.move, token, lambda base: base.clean(group, CLEAN_ROWS))

    async def drop(self, group: MoveGroup, token: FencingToken) -> None:
        """See `Shard`."""
        await self._wire.guarded("drop", group.move, token, lambda database: database.drop(group))

    async def left_behind(self, move: str) -> Sequence[str]:
        """See `Shard`."""
        return await self._wire.read("left behind", lambda database: database.left_behind(move))

    async def close(self) -> None:
        """See `Shard`."""


class MemoryChannel:
    """See `Channel`. Each call is a few transactions, and the mover may end between any two of them."""

    def __init__(self, process: str, group: MoveGroup, source: ShardPlace, target: ShardPlace) -> None:
        self._group, self._source, self._target = group, ShardWire(process, source), ShardWire(process, target)

    async def check(self, _size: int, /) -> None:
        """See `Channel`."""

    async def state(self, attempt: int) -> ChannelState:
        """See `Channel`."""
        move = self._group.move
        lag = await self._source.read("lag", lambda base: len(base.logs[move].entries) if move in base.logs else None)
        cursor, is_back = await self._target.read(
            "cursor", lambda base: (base.cursors.get(move, CopyCursor()), move in base.logs)
        )
        return ChannelState(
            is_captured=lag is not None,
            is_captured_back=is_back,
            is_copied=cursor.is_copied,
            is_drained=not lag,
            is_verified=cursor.verified == attempt,
            copied=cursor.copied,
            lag=lag or 0,
        )

    async def capture(self, token: FencingToken) -> None:
        """See `Channel`."""
        group = self._group
        await self._source.guarded("capture", group.move, token, lambda database: database.capture(group))

    async def copy(self, token: FencingToken) -> None:
        """See `Channel`."""
        group, before = self._group, await self._cursor()
        rows = await self._source.read("chunk", lambda base: base.read(group.slots, before.after, CHUNK_ROWS))
        after = CopyCursor(
            after=next(reversed(rows), before.after),
            is_copied=len(rows) < CHUNK_ROWS,
            copied=before.copied + len(rows),
            verified=before.verified,
        )

        def _perform(database: ShardDatabase) -> None:
            if database.cursors.get(group.move, CopyCursor()) == before:
                old = database.read(group.slots, before.after)
                gone = [each for each in old if each not in rows and (after.is_copied or each <= max(rows))]
                database.bring(group, {**dict.fromkeys(gone), **rows})
                database.cursors[group.move] = after

        await self._target.guarded("copy", group.move, token, _perform)

    async def apply(self, token: FencingToken) -> None:
        """See `Channel`."""
        move = self._group.move

        def _part(database: ShardDatabase) -> tuple[int, dict[RowPlace, Row | None]]:
            entries = list(database.logs[move].entries.items())[:LOG_ROWS] if move in database.logs else []
            places = [place for _, place in entries]
            return max((number for number, _ in entries), default=0), {each: database.rows.get(each) for each in places}

        def _forget(database: ShardDatabase) -> None:
            entries = database.logs[move].entries if move in database.logs else {}
            for number in [each for each in entries if each <= last]:
                del entries[number]

        last, rows = await self._source.read("log", _part)
        if rows:
            await self._target.guarded("apply", move, token, lambda database: database.bring(self._group, rows))
        await self._source.guarded("forget", move, token, _forget)

    async def verify(self, attempt: int, token: FencingToken) -> None:
        """See `Channel`."""
        group = self._group
        there = await self._target.read("compare", lambda database: database.read(group.slots))

        def _perform(database: ShardDatabase) -> tuple[dict[RowPlace, Row], set[RowPlace]]:
            log = database.logs.get(group.move)
            return database.read(group.slots), set() if log is None else set(log.entries.values())

        here, logged = await self._source.read("compare", _perform)
        wrong = sorted(place for place in {**here, **there} if here.get(place) != there.get(place))
        unlogged = [place for place in wrong if place not in logged]
        if unlogged:
            await self._source.guarded("again", group.move, token, lambda base: base.log(group, unlogged))
            keys = [place.key for place in unlogged]
            raise Unequal(unlogged[0].table, keys, "has rows that differ on the target and are not in the log")

        def _mark(database: ShardDatabase) -> None:
            cursor = database.cursors.get(group.move, CopyCursor())
            database.cursors[group.move] = CopyCursor(
                after=cursor.after, is_copied=cursor.is_copied, copied=cursor.copied, verified=attempt
            )

        await self._target.guarded("verify", group.move, token, _mark)

    async def uncapture(self, token: FencingToken) -> None:
        """See `Channel`."""
        group = self._group
        await self._target.guarded("forget", group.move, token, lambda database: database.forget(group))
        await self._source.guarded("uncapture", group.move, token, lambda database: database.end_log(group))

    async def close(self) -> None:
        """See `Channel`."""

    async def _cursor(self) -> CopyCursor:
        move = self._group.move
        return await self._target.read("cursor", lambda database: database.cursors.get(move, CopyCursor()))
