"""Moving rows: the locks of their slots on a server, the rows of an isolated key, and the removal of rows in parts.

The rows of an isolated key are those of a query, with the slot that they get. So the copy, the log and the comparison
read the query as they read a table of moving slots. A row costs one look at each of its parents.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from apportion.shards.move_group import MoveGroup
from apportion.shards.pins.isolated_key import IsolatedKey, KeyCondition
from apportion.shards.postgres.functions import LOCK_CLASS
from apportion.shards.postgres.key_log import quoted
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import count, rows
from apportion.shards.postgres.tables import ServerTable, columns
from apportion.shards.postgres.transport import given, text
from apportion.shards.shard import check_few
from apportion.stores.postgres.driver import Connection

_PART = re.compile(r'"(?:[^"]|"")*"|[^."]+')
_LOCKS = "SELECT pg_advisory_xact_lock(%s, slot) FROM (SELECT unnest(%s::integer[]) AS slot ORDER BY 1) each"


async def locked(connection: Connection, slots: Sequence[int]) -> None:
    """Take the locks of slots, ascending, so that no writer of them is in flight."""
    await script(connection, locks_of(slots))


def locks_of(slots: Sequence[int]) -> Statement:
    """Return the statement that takes the locks of slots, ascending."""
    return Statement(_LOCKS, (LOCK_CLASS, list(slots)))


async def swept(connection: Connection, tables: Sequence[ServerTable], slots: Sequence[int], most: int) -> int:
    """Delete at most `most` rows of some slots, from one table after another. Return their number."""
    done = 0
    for table in tables:
        if done < most and slots:
            key = columns(table.key)
            found = f"SELECT {key} FROM {table.name} WHERE slot = ANY (%s) LIMIT %s"
            delete = f"DELETE FROM {table.name} WHERE slot = ANY (%s) AND ({key}) IN ({found})"
            done += await count(connection, _filled(delete), list(slots), list(slots), most - done)
    return done


def moving(group: MoveGroup, tables: Sequence[ServerTable]) -> tuple[ServerTable, ...]:
    """Return the tables, with the query of the key's rows for a group of an isolated key."""
    isolated = group.isolated
    if isolated is None:
        return tuple(tables)
    names = {_raw(table.name): table.name for table in tables}
    isolated.check(names)
    return tuple(replace(table, origin=_query(table, isolated, group.slots[0], names)) for table in tables)


def _query(table: ServerTable, isolated: IsolatedKey, slot: int, names: Mapping[str, str]) -> str:
    parts = [f"{isolated.slot}::smallint AS slot" if name == "slot" else f"kept.{name}" for name, _ in table.columns]
    where = key_condition(isolated.line_of(_raw(table.name)), slot, names)
    return f"(SELECT {columns(parts)} FROM {table.name} kept WHERE {where})"


def key_condition(line: Sequence[KeyCondition], slot: int, names: Mapping[str, str], row: str = "kept") -> str:
    """Return the condition that a row is in a slot, and belongs to a key. `names` has the quoted name of each table."""
    own, inside, parent = line[0], f"{row}.slot = {slot}::smallint", f"parent_{len(line)}"
    if own.parent:
        named = f"{parent}.{quoted(own.target)} = {row}.{quoted(own.columns[0])}"
        rest = key_condition(line[1:], slot, names, parent)
        return f"{inside} AND EXISTS (SELECT FROM {names[own.parent]} {parent} WHERE {named} AND {rest})"
    pairs = zip(own.columns, own.values, strict=True)
    same = [_compared(f"{row}.{quoted(name)}", value, is_from=own.is_from) for name, value in pairs]
    return " AND ".join([inside, *(same or ["false"])])


def _compared(column: str, value: int | str, *, is_from: bool) -> str:
    """Return the condition for the value in a column, or for values from that one on. Integers are ordered by value."""
    if is_from and isinstance(value, int):
        return f"{column} >= {value}"
    return f'{column}::text COLLATE "C" {">=" if is_from else "="} {text(f"{value}")}'


def _raw(name: str) -> str:
    """Return the name of a table without its schema and quotes.

    >>> _raw("public.place"), _raw('"a.b"."odd ""x"" y"')
    ('place', 'odd "x" y')
    """
    last: str = _PART.findall(name)[-1]
    return last[1:-1].replace('""', '"') if last.startswith('"') else last


async def with_children(
    connection: Connection, group: MoveGroup, tables: Sequence[ServerTable], logged: Sequence[Sequence[str]]
) -> Sequence[Sequence[str]]:
    """Return logged keys, and those of the children of logged rows which have a parent of their own.

    Such a row may have got another parent, and belong to another key since. The log has the key of this row alone.
    """
    isolated, found = group.isolated, {(name, key): (name, key) for name, key in logged}
    if isolated is None:
        return logged
    named = {_raw(table.name): table for table in tables}
    for line in sorted(map(isolated.line_of, named), key=len):
        if len(line) > 2:
            table, parent = named[line[0].table], named[line[1].table]
            keys = [key for name, key in found if name == parent.name]
            for statement in [_children(group.slots[0], table, parent, line[0], keys)] if keys else ():
                found |= {(table.name, key): (table.name, key) for (key,) in await rows(connection, statement)}
    return [*found]


def _children(slot: int, table: ServerTable, parent: ServerTable, own: KeyCondition, keys: Sequence[str]) -> str:
    """Return the query for the keys of the children of some rows, each in JSON as in the log."""
    parts = ", ".join(f"{text(raw)}, kept.{name}" for name, raw in zip(table.key, table.key_names, strict=True))
    same = f"kept.{quoted(own.columns[0])} = up.{quoted(own.target)}"
    of_keys = f"({columns(f'up.{each}' for each in parent.key)}) IN ({given(parent.key_forms, keys)})"
    joined = f"{table.name} kept JOIN {parent.name} up ON {same}"
    found = f"SELECT jsonb_build_object({parts})::text FROM {joined} WHERE kept.slot = {slot} AND {of_keys}"
    return found.replace("%", "%%")


async def shed(connection: Connection, group: MoveGroup, tables: Sequence[ServerTable], most: int) -> int:
    """Delete at most `most` old rows of an isolated key from its former slot. Return their number, 0 if none is left.

    The mark of the slot is read in the same transaction. After the last row, the mark is taken off.
    """
    marked = (
        "SELECT 1 FROM apportion.slot WHERE slot = %s AND state = 'owner' AND former = 'owner' AND move = %s FOR SHARE"
    )
    if group.isolated is None or not await rows(connection, marked, group.slots[0], group.move):
        return 0
    names, done = {_raw(table.name): table.name for table in tables}, 0
    for table in tables:
        if done < most:
            key, line = columns(table.key), group.isolated.line_of(_raw(table.name))
            found = f"SELECT {key} FROM {table.name} kept WHERE {key_condition(line, group.slots[0], names)}"
            delete = f"DELETE FROM {table.name} WHERE ({key}) IN ({found} LIMIT {most - done})"
            done += await count(connection, delete.replace("%", "%%"))
    if not done:
        cleared = "UPDATE apportion.slot SET former = NULL WHERE slot = %s AND former = 'owner' AND move = %s"
        await rows(connection, cleared, group.slots[0], group.move)
    return done


async def take(connection: Connection, group: MoveGroup, tables: Sequence[ServerTable]) -> None:
    """Give the rows of an isolated key their slot in this database, children first. `InvalidInput` for too many rows.

    Also make the slot its row, with the number of the former slot.
    """
    isolated, slot, done = group.isolated, group.slots[0], 0
    changed = "SELECT 1 FROM apportion.slot WHERE slot = %s AND state = 'owner' AND move = %s"
    if isolated is None or not await rows(connection, changed, slot, group.move):
        return
    names = {_raw(table.name): table.name for table in tables}
    isolated.check(names)
    for table in tables:
        where = key_condition(isolated.line_of(_raw(table.name)), slot, names)
        update = f"UPDATE {table.name} kept SET slot = {isolated.slot} WHERE {where}"
        done += await count(connection, update.replace("%", "%%"))
        check_few(slot, rows=done, command=isolated.command)
    own = """INSERT INTO apportion.slot (slot, state, life, number, move)
        SELECT %s, 'owner', life, number, move FROM apportion.slot WHERE slot = %s
        ON CONFLICT (slot) DO UPDATE SET state = excluded.state, life = excluded.life, number = excluded.number,
        move = excluded.move, former = NULL"""
    await rows(connection, own, isolated.slot, slot)


async def join(connection: Connection, group: MoveGroup, tables: Sequence[ServerTable], gone: int) -> None:
    """Give the rows of the slot `gone` the other slot of the group, children first, and delete the row of that slot.

    Nothing changes unless this database owns both slots. `InvalidInput` for too many rows.
    """
    [kept], done = [slot for slot in group.slots if slot != gone], 0
    owned = "SELECT count(*) FROM apportion.slot WHERE slot = ANY (%s) AND state = 'owner'"
    if await rows(connection, owned, list(group.slots)) != [(2,)]:
        return
    for table in tables:
        done += await count(connection, _filled(f"UPDATE {table.name} SET slot = %s WHERE slot = %s"), kept, gone)
        check_few(gone, rows=done)
    await rows(connection, "DELETE FROM apportion.slot WHERE slot = %s", gone)


def _filled(statement: str) -> str:
    """Return a statement with the percent signs of its names doubled, and those of its values kept."""
    return statement.replace("%", "%%").replace("%%s", "%s")
