"""The native channel of a move group: logical replication of its rows from one server to the other.

    source    a publication with a row filter, a marker, a replication slot
    target    a subscription, which copies the rows of the group and then applies each change

The target connects to the source. So rows do not pass the mover, and a mover that is killed delays no change.

Promises: the target has all rows of the group once it shows the marker that the fence has raised. A copy that was cut
off goes on by itself. Nobody waits for a lock of the channel for longer than 20 ms.
Refuses: tables that are not the same on both servers, with `SchemaDiffers`. A fence while markers take long to arrive.
"""

# ruff: noqa: S608 - names are quoted, values are bound or quoted

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, TypeAlias

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.runtime.both import both
from apportion.shards.channel import ChannelState, ChannelWish
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres import key_log
from apportion.shards.postgres.moving_rows import locked
from apportion.shards.postgres.readiness import facts_of, require_no_rows, require_ready, require_rights
from apportion.shards.postgres.replication import source as at_source
from apportion.shards.postgres.replication import target as at_target
from apportion.shards.postgres.replication.comparison import StreamDigests, Suspects, refusal
from apportion.shards.postgres.replication.facts import obstacle_of, warning_about
from apportion.shards.postgres.replication.marker import Marker
from apportion.shards.postgres.replication.names import object_name
from apportion.shards.postgres.replication.stream import AGAIN, RowStream
from apportion.shards.postgres.schema_mark import SCHEMA_MARK
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import ServerPlace, ShardServer, rows
from apportion.shards.postgres.table_differences import require_equal, require_still_equal
from apportion.shards.postgres.tables import ServerTable, require_movable, tables_of
from apportion.shards.postgres.transport import replaced, require_incoming, slots_of
from apportion.stores.postgres.driver import Connection

APPLY_SECONDS = 0.25
"""The longest wait of one call of `apply` for a marker."""

_LOOKS = 5
_COPY_SECONDS, _PAUSE_SECONDS = 0.5, 0.05
_LONGEST_HOLD_SECONDS = 0.4
_COPIED, _VERIFIED = "copied", "verified"
_THERE = """SELECT (SELECT attempt FROM apportion.marker WHERE move = %s),
    coalesce((SELECT jsonb_object_agg(relation, cursor) FROM apportion.move WHERE move = %s), '{}')::text,
    to_regclass(%s) IS NOT NULL"""
_KEEP = """INSERT INTO apportion.move (move, relation, cursor) VALUES (%s, %s, %s)
    ON CONFLICT (move, relation) DO UPDATE SET cursor = excluded.cursor"""
_MARK = Statement(SCHEMA_MARK)

_Required: TypeAlias = Callable[[MoveGroup, Sequence[ServerTable], Sequence[ServerTable]], None]


class NativeChannel:
    """See `Channel`."""

    def __init__(self, group: MoveGroup, source: ServerPlace, target: ServerPlace) -> None:
        self._group = group
        self._name = object_name(source.set_name, group.move)
        self._source, self._target = ShardServer(source), ShardServer(target)
        self._locks = ShardServer(source)
        self._marker = Marker(group, self._source, self._target)
        self._stream = RowStream(group, self._source, self._target, source, self._locks)
        self._digests: StreamDigests | None = None
        self._arrived: dict[int, int] = {}

    async def has_begun(self) -> bool:
        """Whether the source has a part of this channel."""
        move = self._group.move
        return (await self._source.read(lambda base: at_source.published(base, self._name, move))).is_there

    async def is_way_back(self) -> bool:
        """Whether this channel is the way back of a move: then the target has a native channel or a log of the move."""
        move = self._group.move
        there = await self._target.read(lambda base: at_source.published(base, self._name, move))
        return there.is_there or await self._target.read(lambda base: key_log.has_log(base, move))

    async def obstacle(self, wish: ChannelWish) -> str:
        """Return the reason why this channel is impossible, "" if it is possible."""
        return await obstacle_of(self._group, self._source, self._target, wish)

    async def warning(self) -> str:
        """Return a warning about this channel, "" if there is none."""
        return await warning_about(self._group, self._source)

    async def check(self, _size: int, /) -> None:
        """See `Channel`. `InvalidInput` or `SchemaDiffers` names the shard."""
        require_ready(self._group, await self._source.read(facts_of), await self._target.read(facts_of))
        await self._source.read(lambda base: require_rights(base, self._group.source))
        await self._target.read(lambda base: require_rights(base, self._group.target))
        tables = await self._equal(require_equal)
        await self._source.read(lambda base: require_movable(base, self._group.source))
        await self._target.read(lambda base: require_no_rows(base, self._group, tables))

    async def state(self, attempt: int) -> ChannelState:
        """See `Channel`. `lag` is the number of markers that the target does not have yet."""
        publication, mine = at_source.publication_of(self._name, self._group.move), self._mine()
        ([found], [(mark,)]), ([row], [(other,)]) = await both(
            self._source.ask(publication, _MARK), self._target.ask(mine, _MARK)
        )
        here, (there, kept, has_log) = at_source.publication_in(found), _read(row)
        is_copied = _COPIED in kept
        lag = 0 if here.marker is None else here.marker - there
        return ChannelState(
            is_captured=here.is_there,
            is_captured_back=has_log,
            is_copied=is_copied,
            is_drained=not lag and (is_copied or not here.is_there),
            is_verified=here.is_whole and kept.get(_VERIFIED) == f"{attempt} {mark} {other}",
            is_near=self._marker.is_near or not here.is_there,
            copied=int(kept[_COPIED]) if is_copied else sum(self._arrived.values()),
            lag=lag,
        )

    async def capture(self, token: FencingToken) -> None:
        """See `Channel`. `SchemaDiffers` if a table is not the same on both shards."""
        tables = await self._equal()
        await self._source.read(lambda base: require_movable(base, self._group.source))
        await self._source.write(
            self._group, token, lambda base: at_source.publish(base, self._name, self._group, tables)
        )

    async def copy(self, token: FencingToken) -> None:
        """See `Channel`. The first calls delete old rows of the slots on the target, and make the subscription."""
        tables = await self._equal()
        made = await self._stream.running(token, tables)
        ends = monotonic() + _COPY_SECONDS
        while made.unready and monotonic() < ends:
            await asyncio.sleep(_PAUSE_SECONDS)
            made = await self._stream.require_running()
            arrived = await self._target.read(lambda base: at_target.rows_on_their_way(base, self._name))
            self._arrived |= {table: max(self._arrived.get(table, 0), number) for table, number in arrived.items()}
        if made.unready:
            await self._source.write(self._group, token, lambda base: at_source.raised(base, self._group.move))
        elif await self._marker.arrived(token, _COPY_SECONDS):
            await self._target.write(self._group, token, lambda base: self._counted(base, tables))

    async def apply(self, token: FencingToken) -> None:
        """See `Channel`. It raises the marker unless a raised one is still on its way, and waits until it arrives."""
        [[row]] = await self._target.ask(self._mine())
        _, kept, _ = _read(row)
        if _COPIED not in kept:
            await self.copy(token)
        elif not await self._marker.arrived(token, APPLY_SECONDS):
            await self._stream.require_running()

    async def verify(self, attempt: int, token: FencingToken) -> None:
        """See `Channel`. It goes on for a second or longer; the next call of the same attempt goes on from there."""
        tables = await self._equal()
        await self._source.read(lambda base: require_movable(base, self._group.source))
        here = await self._source.read(lambda base: at_source.published(base, self._name, self._group.move))
        if not here.is_whole:
            subject = f"publication of shard {self._group.source}"
            raise InvalidInput(subject, "without one of the sharded tables", "one of all sharded tables", AGAIN)
        compared = f"{attempt} {await self._marks()}"
        if self._digests is None or self._digests.mark != compared:
            self._digests = StreamDigests(self._group, compared, self._source, self._target)
        is_whole, suspects = await self._digests.compare(tables)
        for _ in range(_LOOKS):
            if not suspects:
                break
            await self._marker.arrived(token, APPLY_SECONDS)
            suspects = await self._digests.again(suspects)
        if suspects:
            await self._settled(self._digests, suspects, token)
        if is_whole:
            self._digests = None
            await self._target.write(self._group, token, lambda base: self._mark(base, _VERIFIED, compared))

    async def uncapture(self, token: FencingToken) -> None:
        """See `Channel`. The subscription goes first, then all parts on the source in one transaction."""
        move = self._group.move

        async def _there(connection: Connection) -> None:
            await at_target.unsubscribe(connection, self._name)
            await at_source.forget(connection, move)

        async def _here(connection: Connection) -> None:
            await at_source.drop_slots(connection, self._name, move, self._group.source)
            await script(connection, at_source.end_of(self._name))
            await at_source.forget(connection, move)

        await self._target.write(self._group, token, _there)
        await self._source.write(self._group, token, _here)

    async def close(self) -> None:
        """See `Channel`."""
        for each in (self._target, self._source, self._locks):
            await each.close()

    def _mine(self) -> Statement:
        """Return the statement that asks the target for all that it has of this move. `_read` reads its row."""
        move = self._group.move
        return Statement(_THERE, (move, move, f"apportion.{key_log.quoted(key_log.log_name(move))}"))

    async def _equal(self, required: _Required = require_still_equal) -> tuple[ServerTable, ...]:
        source, target = await self._source.read(tables_of), await self._target.read(tables_of)
        required(self._group, source, target)
        return target

    async def _marks(self) -> str:
        """Return the marks of both schemas. A comparison of rows is valid while the marks stay the same."""
        [[(here,)]], [[(there,)]] = await both(self._source.ask(_MARK), self._target.ask(_MARK))
        return f"{here} {there}"

    async def _settled(self, digests: StreamDigests, suspects: Suspects, token: FencingToken) -> None:
        """Look at rows behind the locks of their slots, and copy the different ones again. `Unequal` names them."""
        slots = sorted({slot for keys in suspects.values() for slot in keys.values()})

        async def _held(connection: Connection) -> Suspects:
            await rows(connection, "SELECT set_config('lock_timeout', '20ms', true)")
            await locked(connection, slots)
            if not await self._marker.arrived(token, _LONGEST_HOLD_SECONDS):
                raise StoreUnavailable(f"shard {self._group.target}", "changes of the source take long to arrive")
            wrong = await digests.again(suspects)
            if wrong:
                await self._source.read(lambda here: self._mended(here, wrong, token))
            return wrong

        try:
            wrong = await self._locks.read(_held)
        finally:
            self._digests = None
        if wrong:
            raise refusal(wrong)

    async def _mended(self, here: Connection, wrong: Suspects, token: FencingToken) -> None:
        async def _write(there: Connection) -> None:
            await require_incoming(there, self._group)
            for table, keys in wrong.items():
                await replaced(here, there, self._group, table, [*keys])
            await self._mark(there, _VERIFIED, "none")

        await self._target.write(self._group, token, _write, is_bare=True)

    async def _counted(self, connection: Connection, tables: Sequence[ServerTable]) -> None:
        """Mark the end of the copy, with the number of its rows."""
        number = 0
        for table in tables:
            counted = f"SELECT count(*) FROM {table.name} WHERE {slots_of(self._group)}"
            number += (await rows(connection, counted.replace("%", "%%")))[0][0]
        await self._mark(connection, _COPIED, f"{number}")

    async def _mark(self, connection: Connection, name: str, value: str) -> None:
        await rows(connection, _KEEP, self._group.move, name, value)


def _read(row: Sequence[Any]) -> tuple[int, Mapping[str, str], bool]:
    """Return marker and notes of a move on the target, and whether the target logs keys for the way back."""
    marker, kept, has_log = row
    return marker or 0, json.loads(kept), bool(has_log)
