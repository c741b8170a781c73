"""The rows of an isolated key in a file: the condition that finds them, the view of them, and their removal.

On the source, a view for each table shows the rows of the key alone, with the slot that they get. So the copy, the log
and the comparison read the view as they read a table of moving slots.

Promises: a row costs one look at each of its parents, by their keys. Text is compared by its bytes.
"""

# ruff: noqa: S608 - names are quoted, values are literals

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from apportion.shards.move_group import MoveGroup
from apportion.shards.pins.isolated_key import IsolatedKey, KeyCondition
from apportion.shards.shard import check_few
from apportion.shards.sqlite.schema import literal, quoted
from apportion.shards.sqlite.tables import EqualTables, ShardTable, columns

_ROW = "kept"
_MARKED = """SELECT 1 FROM main.apportion_slot
    WHERE slot = ? AND state = 'owner' AND former = 'owner' AND move = ?"""
_CLEARED = "UPDATE main.apportion_slot SET former = NULL WHERE slot = ? AND former = 'owner' AND move = ?"


def condition(isolated: IsolatedKey, table: str, slot: int, *, schema: str = "main", row: str = _ROW) -> str:
    """Return the condition that a row of a table is in a slot, and belongs to the key."""
    return _joined(isolated.line_of(table), slot, schema, row, 0)


def _joined(line: Sequence[KeyCondition], slot: int, schema: str, row: str, depth: int) -> str:
    own, inside = line[0], f"{row}.slot = {slot}"
    if own.parent:
        parent = f"parent_{depth}"
        named = f"{parent}.{quoted(own.target)} = {row}.{quoted(own.columns[0])}"
        rest = _joined(line[1:], slot, schema, parent, depth + 1)
        return f"{inside} AND EXISTS (SELECT 1 FROM {schema}.{quoted(own.parent)} {parent} WHERE {named} AND {rest})"
    pairs = zip(own.columns, own.values, strict=True)
    sign = ">=" if own.is_from else "="
    same = [f"{row}.{quoted(name)} {sign} {_value(value)} COLLATE BINARY" for name, value in pairs]
    return " AND ".join([inside, *(same or ["0"])])


def _value(value: int | str) -> str:
    return f"{value}" if isinstance(value, int) else literal(value)


class MovingTables(EqualTables):
    """The tables of both shards of a group. For an isolated key, each table has a view of the key's rows."""

    def read(self, connection: sqlite3.Connection) -> tuple[ShardTable, ...]:
        """Return the tables. The views are made anew each time, because a rollback brings older ones back."""
        tables, isolated = super().read(connection), self._group.isolated
        if isolated is None:
            return tables
        isolated.check(table.name for table in tables)
        viewed = tuple(replace(table, origin=f"temp.{quoted(f'apportion_of_{table.name}')}") for table in tables)
        for table in viewed:
            connection.execute(f"DROP VIEW IF EXISTS {table.origin}")
            connection.execute(f"CREATE TEMP VIEW {_made(table, isolated, self._group.slots[0])}")
        return viewed


def _made(table: ShardTable, isolated: IsolatedKey, slot: int) -> str:
    """Return the name and the query of the view of a key's rows, with the slot that they get."""
    parts = (f"{isolated.slot} AS slot" if name == "slot" else f"{_ROW}.{quoted(name)}" for name in table.names)
    where = condition(isolated, table.name, slot, schema="source")
    rows = f"SELECT {', '.join(parts)} FROM source.{table.quoted} {_ROW} WHERE {where}"
    return f"{table.origin.removeprefix('temp.')} AS {rows}"


def children_noted(group: MoveGroup, tables: Iterable[ShardTable], noted: str) -> Iterator[str]:
    """Yield the statements that note the children of noted rows which have a parent of their own.

    Such a row may have got another parent, and belong to another key since. The log has the key of this row alone.
    `noted` is the table of the noted keys. Parents come before their children.
    """
    isolated, named = group.isolated, {table.name: table for table in tables}
    if isolated is None:
        return
    for line in sorted(map(isolated.line_of, named), key=len):
        if len(line) > 2:
            own, parent, table = line[0], named[line[1].table], named[line[0].table]
            same = " AND ".join(
                f"up.{quoted(name)} = keys.{key}" for name, key in zip(parent.key, parent.key_names, strict=True)
            )
            names, name = ", ".join(table.key_names), literal(table.name)
            yield f"""INSERT INTO {noted} (name, {names})
                SELECT {name}, {columns(table.key, "kept")} FROM {noted} keys
                JOIN source.{parent.quoted} up ON keys.name = {literal(parent.name)} AND {same}
                JOIN source.{table.quoted} kept ON kept.{quoted(own.columns[0])} = up.{quoted(own.target)}
                WHERE kept.slot = {group.slots[0]} EXCEPT SELECT name, {names} FROM {noted} WHERE name = {name}"""


def shed(connection: sqlite3.Connection, group: MoveGroup, tables: Iterable[ShardTable], most: int) -> int:
    """Delete at most `most` old rows of the key from its former slot. Return their number, 0 if none is left.

    The mark of the slot is read in the same transaction. After the last row, the mark is taken off.
    """
    isolated, [slot], count = group.isolated, group.slots, 0
    if isolated is None or not connection.execute(_MARKED, (slot, group.move)).fetchall():
        return 0
    for table in tables:
        if count < most:
            key = columns(table.key)
            found = (
                f"SELECT {key} FROM main.{table.quoted} {_ROW} WHERE {condition(isolated, table.name, slot)} LIMIT ?"
            )
            delete = f"DELETE FROM main.{table.quoted} WHERE ({key}) IN ({found})"
            count += connection.execute(delete, (most - count,)).rowcount
    if not count:
        connection.execute(_CLEARED, (slot, group.move))
    return count


def take(connection: sqlite3.Connection, group: MoveGroup, tables: Iterable[ShardTable]) -> None:
    """Give the rows of the key their slot in this file, children first. `InvalidInput` for too many rows."""
    isolated, [slot], count = group.isolated, group.slots, 0
    if isolated is None:
        return
    named = tuple(tables)
    isolated.check(table.name for table in named)
    for table in named:
        key = columns(table.key)
        found = f"SELECT {key} FROM main.{table.quoted} {_ROW} WHERE {condition(isolated, table.name, slot)}"
        update = f"UPDATE main.{table.quoted} SET slot = ? WHERE ({key}) IN ({found})"
        count += connection.execute(update, (isolated.slot,)).rowcount
        check_few(slot, rows=count, command=isolated.command)


def join(connection: sqlite3.Connection, group: MoveGroup, tables: Iterable[ShardTable], gone: int) -> None:
    """Give the rows of the slot `gone` the other slot of the group, children first, and delete the row of that slot.

    Nothing changes unless this file owns both slots. `InvalidInput` for too many rows.
    """
    [kept], count = [slot for slot in group.slots if slot != gone], 0
    owned = "SELECT count(*) FROM main.apportion_slot WHERE slot IN (?, ?) AND state = 'owner'"
    if connection.execute(owned, (kept, gone)).fetchall() != [(2,)]:
        return
    for table in tables:
        count += connection.execute(f"UPDATE main.{table.quoted} SET slot = ? WHERE slot = ?", (kept, gone)).rowcount
        check_few(gone, rows=count)
    connection.execute("DELETE FROM main.apportion_slot WHERE slot = ?", (gone,))
