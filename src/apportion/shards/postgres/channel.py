"""The channel of a move group between two shards in PostgreSQL: chunks, a log of keys, and a comparison.

The mover has a connection to each server. It needs no right of replication, and no connection from one server to the
other. A part of the log is taken from the source, the rows are read again, and the target commits first. So a mover
that was killed between the two commits applies the part again.

Promises: the cursor of a chunk is written in the transaction that writes the rows. A comparison of rows stays valid
until one of the schemas changes. If both schemas change, the rows that this change made unequal are copied again.
Refuses: tables that are not the same on both servers, with `SchemaDiffers`.
"""

# ruff: noqa: S608 - names are quoted, values are bound or quoted

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, TypeAlias

from apportion.errors import Unequal
from apportion.model.epoch import FencingToken
from apportion.runtime.both import both
from apportion.shards.channel import ChannelState
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres import key_log
from apportion.shards.postgres.comparison import RowDigests
from apportion.shards.postgres.moving_rows import moving, swept, with_children
from apportion.shards.postgres.readiness import facts_of, require_no_rows, require_ready, require_rights
from apportion.shards.postgres.schema_mark import SCHEMA_MARK
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import ServerPlace, ShardServer, require_no_holder, rows
from apportion.shards.postgres.table_differences import require_equal, require_still_equal
from apportion.shards.postgres.tables import NAMES, TABLES, ServerTable, columns, require_movable, tables_in
from apportion.shards.postgres.transport import given, placed, replaced, require_incoming, slots_of, staged, text
from apportion.stores.postgres.driver import Connection

APPLY_SECONDS = 0.25
"""The time that one call of `apply` goes on while the log has entries."""

CHUNK_ROWS = 500
_LONG_SECONDS = 1
_PART_ROWS = 500
_COPY, _VERIFIED, _BACK, _SCHEMA = "copy:", "verified", "back", "schema"
_KEPT = "SELECT relation, cursor FROM apportion.move WHERE move = %s"
_KEPT_AND_LOG = f"{_KEPT} UNION ALL SELECT %s, '' WHERE to_regclass(%s) IS NOT NULL"
_KEEP = """INSERT INTO apportion.move (move, relation, cursor) VALUES (%s, %s, %s)
    ON CONFLICT (move, relation) DO UPDATE SET cursor = excluded.cursor"""
_FORGET = "DELETE FROM apportion.move WHERE move = %s"
_MARK = Statement(SCHEMA_MARK)
_NO_WAIT_FOR_DISK = Statement("SET LOCAL synchronous_commit = off")

_Form: TypeAlias = tuple[tuple[ServerTable, ...], str]
"""The sharded tables of a database, and the mark of its schema."""


class PostgresChannel:
    """See `Channel`."""

    def __init__(self, group: MoveGroup, source: ServerPlace, target: ServerPlace) -> None:
        self._group = group
        self._source, self._target = ShardServer(source), ShardServer(target)
        self._digests: RowDigests | None = None
        self._marks, self._is_changed = "", False  # the marks of both schemas; whether a schema has changed

    async def has_begun(self) -> bool:
        """Whether the source has a log of this move."""
        return await self._source.read(lambda base: key_log.has_log(base, self._group.move))

    async def check(self, _size: int, /) -> None:
        """See `Channel`. `InvalidInput` or `SchemaDiffers` names the shard."""
        require_ready(self._group, await self._source.read(facts_of), await self._target.read(facts_of))
        await self._source.read(lambda base: require_rights(base, self._group.source))
        await self._target.read(lambda base: require_rights(base, self._group.target))
        here, there = await self._form(self._source), await self._form(self._target)
        require_equal(self._group, here[0], there[0])
        await self._source.read(lambda base: require_movable(base, self._group.source))
        await self._target.read(lambda base: require_no_rows(base, self._group.arriving, there[0]))

    async def state(self, attempt: int) -> ChannelState:
        """See `Channel`."""
        move = self._group.move
        asked = Statement(_KEPT_AND_LOG, (move, _BACK, key_log.place(move)))
        (is_captured, lag, here), found_there = await both(self._captured(), self._target.ask(asked, _MARK))
        found, [(there,)] = found_there
        kept = dict(found)
        cursors = _cursors(kept)
        return ChannelState(
            is_captured=is_captured,
            is_captured_back=_BACK in kept,
            is_copied=bool(cursors) and all(each["is_done"] for each in cursors.values()),
            is_drained=not lag,
            is_verified=is_captured and kept.get(_VERIFIED) == f"{attempt} {here} {there}",
            copied=sum(each["rows"] for each in cursors.values()),
            lag=lag,
        )

    async def capture(self, token: FencingToken) -> None:
        """See `Channel`. `SchemaDiffers` if a table is not the same on both shards."""
        tables, marks = await self._same(token)
        await self._source.read(lambda base: require_movable(base, self._group.source))
        await self._source.write(self._group, token, lambda base: key_log.begin(base, self._group, tables))
        await self._target.write(self._group, token, lambda base: self._keep(base, _SCHEMA, marks))

    async def copy(self, token: FencingToken) -> None:
        """See `Channel`. The first calls delete old rows of the slots on the target."""
        tables, _ = await self._same(token)
        kept = _cursors(await self._kept())
        if not kept:
            await self._target.write(self._group, token, lambda base: self._begun(base, tables), is_bare=True)
            return
        table = next((each for each in tables if not kept.get(each.name, {"is_done": False})["is_done"]), None)
        if table is None:
            return
        cursor = kept.get(table.name, {"key": None, "rows": 0, "is_done": False})

        async def _both(here: Connection) -> None:
            is_known = cursor["key"] is not None and _has_form(cursor["key"], dict(_key_parts(table)))
            where, last = await self._chunk(here, table, cursor["key"] if is_known else None)

            async def _write(there: Connection) -> None:
                await require_incoming(there, self._group.arriving)
                number = await staged(here, there, table, where)
                await placed(there, self._group.arriving, table)
                after = {"key": last, "rows": cursor["rows"] + number, "is_done": last is None}
                await self._keep(there, f"{_COPY}{table.name}", json.dumps(after))

            await self._target.write(self._group, token, _write, is_bare=True)

        await self._source.read(_both)

    async def apply(self, token: FencingToken) -> None:
        """See `Channel`. It goes on for a quarter of a second, or until a part of the log is not full."""
        move, ends = self._group.move, monotonic() + APPLY_SECONDS
        asked = self._source.ask(*TABLES, _MARK, key_log.presence_of(move))
        (*source, [(mark,)], [(has_log,)]), there = await both(asked, self._form(self._target))
        tables, _ = await self._equal(token, (tables_in(source), mark), there)
        if not has_log:
            return

        async def _part(here: Connection) -> int:
            # After a crash, deleted entries may be there again. Then their rows are brought again.
            taken, logged, _ = await script(
                here, key_log.taken(move, _PART_ROWS), key_log.triggers_of(move), _NO_WAIT_FOR_DISK
            )
            if taken:
                self._all_logged(tables, logged)
                moved = await with_children(here, self._group, tables, [*_of_form(tables, taken)])

                async def _write(there: Connection) -> None:
                    await require_incoming(there, self._group.arriving)
                    for table in tables:
                        if keys := [key for name, key in moved if name == table.name]:
                            await replaced(here, there, self._group.arriving, table, keys)

                await self._target.write(self._group, token, _write, is_bare=True)
            return len(taken)

        while await self._source.write(self._group, token, _part) == _PART_ROWS and monotonic() < ends:
            pass

    async def verify(self, attempt: int, token: FencingToken) -> None:
        """See `Channel`. It goes on for a second; the next call of the same attempt goes on from there."""
        tables, marks = await self._same(token)
        await self._source.read(lambda base: require_movable(base, self._group.source))
        [logged] = await self._source.ask(key_log.triggers_of(self._group.move))
        if not self._all_logged(tables, logged):
            return
        compared = f"{attempt} {marks}"
        if self._digests is None or self._digests.mark != compared:
            self._digests = RowDigests(self._group, compared)
        digests = self._digests
        is_equal = await digests.compare(self._source, self._target, tables)
        if digests.wrong:
            self._digests = None
            await self._source.write(self._group, token, digests.log)
            await self._target.write(self._group, token, lambda base: self._keep(base, _VERIFIED, "none"))
            if not self._is_changed:
                raise digests.refusal()
        elif is_equal:
            self._digests = None

            async def _end(there: Connection) -> None:
                await self._keep(there, _VERIFIED, compared)
                await self._keep(there, _SCHEMA, marks)

            await self._target.write(self._group, token, _end)
            self._is_changed = False

    async def uncapture(self, token: FencingToken) -> None:
        """See `Channel`. The cursors on the target are deleted first, because a move that still captures is not over.

        DROP TRIGGER waits for every reader of the table, and all other sessions wait behind it. So the triggers first
        stop logging, which waits for no session. Then `StoreUnavailable` names a long reader, and no session waits.
        """
        move = self._group.move
        await self._target.write(self._group, token, lambda base: rows(base, _FORGET, move))
        await self._source.write(self._group, token, lambda base: key_log.silence(base, move))

        async def _end(connection: Connection) -> None:
            await require_no_holder(connection, f"shard {self._group.source}", _LONG_SECONDS)
            await key_log.end(connection, move)

        await self._source.write(self._group, token, _end, within=_LONG_SECONDS)

    async def close(self) -> None:
        """See `Channel`."""
        await self._target.close()
        await self._source.close()

    async def _form(self, server: ShardServer) -> _Form:
        *found, [(mark,)] = await server.ask(*TABLES, _MARK)
        return tables_in(found), mark

    async def _same(self, token: FencingToken) -> tuple[tuple[ServerTable, ...], str]:
        """Do as `_equal` with the forms that both servers have now."""
        return await self._equal(token, *await both(self._form(self._source), self._form(self._target)))

    async def _equal(self, token: FencingToken, here: _Form, there: _Form) -> tuple[tuple[ServerTable, ...], str]:
        """Return the tables of the target, which are those of the source, and the marks of both schemas.

        After a change of a schema, the triggers of the log are made anew for the changed tables.
        """
        marks = f"{here[1]} {there[1]}"
        if marks != self._marks:
            self._is_changed = (await self._kept()).get(_SCHEMA, marks) != marks
            if self._is_changed:
                await self._target.write(self._group, token, lambda base: self._keep(base, _VERIFIED, "none"))
                await self._source.write(self._group, token, lambda base: key_log.begin(base, self._group, here[0]))
            self._marks = marks
        require_still_equal(self._group, here[0], there[0])
        return moving(self._group, there[0]), marks

    async def _kept(self) -> dict[str, str]:
        [kept] = await self._target.ask(Statement(_KEPT, (self._group.move,)))
        return dict(kept)

    async def _keep(self, connection: Connection, name: str, value: str) -> None:
        await rows(connection, _KEEP, self._group.move, name, value)

    async def _captured(self) -> tuple[bool, int, str]:
        """Return whether all changes of the slots are logged, the number of logged ones, and the mark of the schema."""
        move = self._group.move
        asked = (NAMES, key_log.triggers_of(move), key_log.length_of(move), _MARK)
        if (found := await self._source.ask_if_there(*asked)) is None:
            return False, 0, ""
        wanted, logged, [(lag,)], [(mark,)] = found
        return {name for _, name in wanted} <= {name for (name,) in logged}, int(lag), mark

    def _all_logged(self, tables: Sequence[ServerTable], logged: Sequence[Sequence[Any]]) -> bool:
        """Return whether the changes of all tables are logged.

        If a table is not logged after a change of a schema, the next call mends the log. Without such a change, a table
        that is not logged is `Unequal`.
        """
        lost = sorted({each.name for each in tables} - {name for (name,) in logged})
        if lost and not self._is_changed:
            hint = "Changes of its rows may be lost. Abort the move, and begin it again."
            why = f"is not logged on shard {self._group.source} any more, because these tables have lost triggers"
            raise Unequal(lost[0], lost, why, hint)
        if lost:
            self._marks = ""
        return not lost

    async def _begun(self, connection: Connection, tables: Sequence[ServerTable]) -> None:
        """Delete old rows of the slots; begin the copy when none is left."""
        group = self._group.arriving
        await require_incoming(connection, group)
        if not await swept(connection, tables[::-1], group.slots, CHUNK_ROWS):
            first = json.dumps({"key": None, "rows": 0, "is_done": False})
            for table in tables:
                await self._keep(connection, f"{_COPY}{table.name}", first)

    async def _chunk(self, connection: Connection, table: ServerTable, after: str | None) -> tuple[str, str | None]:
        """Return the condition of the rows of the next chunk, and its last key if other rows may follow."""
        forms = (*_first(table), *(each for each in table.key_forms if each[0] != "slot"))
        key = columns(name for name, _ in forms)
        where = slots_of(self._group.arriving) + ("" if after is None else f" AND ({key}) > ({given(forms, [after])})")
        parts = ", ".join(f"{text(each)}, {name}" for each, name in _key_parts(table))
        found = f"SELECT jsonb_build_object({parts})::text FROM {table.source} kept WHERE {where} ORDER BY {key}"
        last = await rows(connection, f"{found} LIMIT 1 OFFSET {CHUNK_ROWS - 1}".replace("%", "%%"))
        if not last:
            return where, None
        return f"{where} AND ({key}) <= ({given(forms, [last[0][0]])})", last[0][0]


def _of_form(tables: Iterable[ServerTable], logged: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield the logged tables and keys, each once. Leave out keys of other columns.

    Such a key was logged before a change of the schema. Each change of a schema makes earlier comparisons invalid, so a
    new comparison finds the row of the key.
    """
    names = {table.name: table.key_names for table in tables}
    for name, key in dict.fromkeys((name, key) for name, key in logged):
        if name in names and _has_form(key, names[name]):
            yield name, key


def _has_form(key: str, names: Iterable[str]) -> bool:
    return {*json.loads(key, parse_int=str, parse_float=str)} == {*names}


def _key_parts(table: ServerTable) -> list[tuple[str, str]]:
    names = [*((name, name) for name, _ in _first(table)), *zip(table.key_names, table.key, strict=True)]
    return [*dict(names).items()]


def _first(table: ServerTable) -> tuple[tuple[str, str], ...]:
    """Return the slot, which is the first part of a cursor's key. All rows of an isolated key have one slot."""
    return () if table.origin and "slot" not in table.key else (("slot", "smallint"),)


def _cursors(kept: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(_COPY): json.loads(cursor) for name, cursor in kept.items() if name.startswith(_COPY)}
