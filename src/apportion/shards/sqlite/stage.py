"""Stage: the rows of one table between the source and the target, in memory.

The rows are read from the source in one transaction, and written to the target in another. So no lock of the source is
held while the target flushes to its disk.

Promises: values keep their types. The columns of a stage have no type, and the two tables have the same types.
Refuses: to overwrite a row of a slot that does not move. `Unequal` names such rows.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from apportion.errors import Unequal
from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite.key_rows import children_noted
from apportion.shards.sqlite.schema import quoted
from apportion.shards.sqlite.tables import ShardTable, columns
from apportion.shards.sqlite.unique_index import unique_indexes

KEYS = "temp.apportion_keys"
_SHOWN = 8
_SORTED = "temp.apportion_sorted"


class RowStage:
    """The rows of a table that move next. `slots` is the SQL list of the group's slots."""

    def __init__(self, table: ShardTable, number: int, slots: str) -> None:
        self.table: ShardTable = table
        self._name = f"temp.apportion_stage_{number}"
        self._slots = slots
        self._parts = [f"c{place}" for place in range(len(table.names))]
        self._part_of = dict(zip(table.names, self._parts, strict=True))

    def make(self, connection: sqlite3.Connection) -> None:
        """Make the stage anew, without rows."""
        connection.execute(f"DROP TABLE IF EXISTS {self._name}")
        connection.execute(f"CREATE TABLE {self._name} ({', '.join(self._parts)})")

    def count(self, connection: sqlite3.Connection, slot: int, most: int) -> int:
        """Return the number of rows of a slot on the source, at most `most`."""
        counted = f"SELECT count(*) FROM (SELECT 1 FROM {self.table.source} WHERE slot = ? LIMIT ?)"
        [(count,)] = connection.execute(counted, (slot, most)).fetchall()
        return int(count)

    def take_window(self, connection: sqlite3.Connection, slots: Sequence[int], after: str, most: int) -> int:
        """Take at most `most` rows of some slots, sorted by key, above the key that `after` selects.

        Return their number.
        """
        connection.execute(f"DROP TABLE IF EXISTS {_SORTED}")
        connection.execute(f"CREATE TABLE {_SORTED} ({', '.join(self._parts)})")
        key = columns(self.table.key)
        where = f"slot IN ({', '.join(map(str, slots))})" + (f" AND ({key}) > ({after})" if after else "")
        found = f"SELECT {columns(self.table.names)} FROM {self.table.source} WHERE {where} ORDER BY {key} LIMIT ?"
        return connection.execute(f"INSERT INTO {_SORTED} {found}", (most,)).rowcount

    def take_keys(self, connection: sqlite3.Connection) -> None:
        """Take the rows of the group that have one of the keys in `KEYS`."""
        found = f"SELECT {columns(self.table.names, 'kept')} FROM {KEYS} keys CROSS JOIN {self.table.source} kept"
        same = " AND ".join(f"kept.{quoted(name)} = keys.{key}" for name, key in self._keys())
        where = f"WHERE keys.name = ? AND {same} AND +kept.slot IN {self._slots}"
        connection.execute(f"INSERT INTO {self._name} {found} {where}", (self.table.name,))

    def key_at(self, place: int) -> str:
        """Return the query for the key of a sorted row, as four values."""
        parts = [*(self._part_of[name] for name in self.table.key), "NULL", "NULL", "NULL"][:4]
        return f"SELECT {', '.join(parts)} FROM {_SORTED} WHERE rowid = {place}"

    def write_sorted(self, connection: sqlite3.Connection, first: int, last: int) -> None:
        """Write the sorted rows after the place `first`, up to the place `last`."""
        self._write(connection, f"(SELECT * FROM {_SORTED} WHERE rowid > {first} AND rowid <= {last})")

    def replace(self, connection: sqlite3.Connection) -> None:
        """On the target, replace the rows of the group that have one of the keys by the staged rows.

        Then compare them.
        """
        key = columns(self.table.key)
        keyed = f"({key}) IN (SELECT {', '.join(self.table.key_names)} FROM {KEYS} WHERE name = ?)"
        here = f"FROM main.{self.table.quoted} WHERE {keyed} AND +slot IN {self._slots}"
        connection.execute(f"DELETE {here}", (self.table.name,))
        self._write(connection, self._name)
        [(count,)] = connection.execute(f"SELECT count(*) {here}", (self.table.name,)).fetchall()
        [(staged,)] = connection.execute(f"SELECT count(*) FROM {self._name}").fetchall()
        differ = self._differing(connection)
        if differ or count != staged:
            raise Unequal(
                self.table.name, differ or [f"{count} rows instead of {staged}"], "has changed while it was written"
            )

    def _write(self, connection: sqlite3.Connection, rows: str) -> None:
        """Write the staged rows to the target. A conflicting row of the group is out of date, and is deleted."""
        names = columns(self.table.names)
        insert = f"INSERT INTO main.{self.table.quoted} ({names}) SELECT {', '.join(self._parts)} FROM {rows}"
        self._require_keys(connection, rows)
        try:
            connection.execute(insert)
        except sqlite3.IntegrityError:
            for rivals in self._rivals(connection, rows):
                connection.execute(f"DELETE FROM main.{self.table.quoted} WHERE {rivals} AND +slot IN {self._slots}")
            try:
                connection.execute(insert)
            except sqlite3.IntegrityError as error:
                raise self._refusal(connection, rows, error) from error

    def _require_keys(self, connection: sqlite3.Connection, rows: str) -> None:
        """Raise if a row has NULL in its key. SQLite allows this in some tables, but such rows cannot be told apart."""
        absent = " OR ".join(f"{self._part_of[name]} IS NULL" for name in self.table.key)
        slot = self._part_of["slot"]
        without = connection.execute(f"SELECT {slot} FROM {rows} WHERE {absent} LIMIT {_SHOWN}").fetchall()
        if without:
            hint = "Nothing was written. Give each row a key, and declare its columns NOT NULL."
            found = [f"one of slot {place}" for (place,) in without]
            raise Unequal(self.table.name, found, "has rows with NULL in their primary key", hint)

    def _refusal(self, connection: sqlite3.Connection, rows: str, error: sqlite3.IntegrityError) -> Unequal:
        for rivals in self._rivals(connection, rows):
            found = f"SELECT slot, {columns(self.table.key)} FROM main.{self.table.quoted} WHERE {rivals}"
            there = connection.execute(f"{found} LIMIT {_SHOWN + 1}").fetchall()
            if there:
                hint = "Nothing was written. Give one of the two rows another key; a key must be unique in the set."
                shown = [row_name(slot, key) for slot, *key in there]
                raise Unequal(self.table.name, shown, "has rows of other slots with the same keys on the target", hint)
        hint = "Nothing was written. Bring both shards to one schema, then go on."
        return Unequal(self.table.name, [f"{error}"], "has rows that the target refuses", hint)

    def _differing(self, connection: sqlite3.Connection) -> list[str]:
        same = " AND ".join(f"kept.{quoted(name)} = row.{self._part_of[name]}" for name in self.table.key)
        pairs = [(f"row.{part}", f"kept.{quoted(name)}") for name, part in self._part_of.items()]
        key = [f"row.{self._part_of[name]}" for name in self.table.key]
        statement = f"""SELECT row.{self._part_of["slot"]}, {", ".join(key)} FROM {self._name} row
            LEFT JOIN main.{self.table.quoted} kept ON {same} WHERE {differing(self.table, pairs)} LIMIT {_SHOWN + 1}"""
        return [row_name(slot, values) for slot, *values in connection.execute(statement)]

    def _rivals(self, connection: sqlite3.Connection, rows: str) -> Iterator[str]:
        """Yield the condition for rows of the target that cannot be there beside the staged rows, for each index.

        An index over a computed column is left out, because a stage has no such column.
        """
        named = ", ".join(f"{part} AS {quoted(name)}" for name, part in self._part_of.items())
        for index in unique_indexes(connection, self.table.name, self.table.key):
            if self._part_of.keys() >= set(index.columns):
                yield index.rivals(f"(SELECT {named} FROM {rows})")

    def _keys(self) -> Iterable[tuple[str, str]]:
        return zip(self.table.key, self.table.key_names, strict=True)


def piece(table: ShardTable, after: str = "", until: str = "") -> str:
    """Return the condition for rows of a slot above the key of `after`, up to the key of `until`.

    Both are queries for a key.
    """
    bounds = [f"AND ({columns(table.key)}) {sign} ({key})" for sign, key in ((">", after), ("<=", until)) if key]
    return " ".join(["slot = ?", *bounds])


def differing(table: ShardTable, pairs: Iterable[tuple[str, str]]) -> str:
    """Return the condition that two rows differ in a value or its type. 1, 1.0 and '1' are three values.

    The type is compared if a column can store both 1 and 1.0: with the affinity BLOB, and with ANY.
    """
    conditions = []
    for (left, right), (_, form) in zip(pairs, table.columns, strict=True):
        conditions.append(f"{left} IS NOT {right} COLLATE BINARY")
        if "BLOB" in form or "ANY" in form:
            conditions.append(f"typeof({left}) <> typeof({right})")
    return " OR ".join(conditions)


def row_name(slot: object, key: Sequence[object]) -> str:
    """Return the name of a row for a message."""
    return f"{', '.join(map(repr, key))} of slot {slot}"


def note_keys(connection: sqlite3.Connection, group: MoveGroup, tables: Iterable[ShardTable], most: int) -> int | None:
    """Put the keys of the oldest entries of the log into `KEYS`, and those of children that go with their rows.

    Return the id of the last entry, None if there is none.
    """
    connection.execute(f"DROP TABLE IF EXISTS {KEYS}")
    connection.execute(f"CREATE TABLE {KEYS} (name, k1, k2, k3, k4)")
    oldest = "SELECT id, name, k1, k2, k3, k4 FROM source.apportion_log WHERE move = ? ORDER BY id LIMIT ?"
    [(last,)] = connection.execute(f"SELECT max(id) FROM ({oldest})", (group.move, most)).fetchall()
    connection.execute(f"INSERT INTO {KEYS} SELECT DISTINCT name, k1, k2, k3, k4 FROM ({oldest})", (group.move, most))
    for statement in children_noted(group, tables, KEYS):
        connection.execute(statement)
    return None if last is None else int(last)
