"""Comparison: compares all rows of a group on both shards, in pieces. Each piece is read in one short transaction.

A different row is no error while its key is in the log, because it is compared when the entry is applied. Every other
different row is logged, copied again and reported.

Promises: the comparison finds a row that either side lacks, a value of another type, and a row of another slot.
Refuses: to call rows equal if the source has rows and none of them was compared.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import sqlite3
from dataclasses import replace
from time import monotonic

from apportion.errors import Unequal
from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite import capture, cursors
from apportion.shards.sqlite.cursors import NO_KEY, Cursor
from apportion.shards.sqlite.portion import Portion, read_seconds
from apportion.shards.sqlite.schema import quoted
from apportion.shards.sqlite.stage import KEYS, differing, note_keys, piece, row_name
from apportion.shards.sqlite.tables import MOST_KEY_COLUMNS, EqualTables, ShardTable, columns

VERIFY_SECONDS = 1.0
_AFTER, _UNTIL = "temp.apportion_after", "temp.apportion_until"
_MOST_WRONG = 1_000
_ALL = 2**62
_CAPTURED = "SELECT slot FROM source.apportion_capture WHERE move = ?"


class RowComparison:
    """One call of `verify`. It continues from the cursors of the attempt, for about a second."""

    def __init__(self, group: MoveGroup, attempt: int, tables: EqualTables, portion: Portion) -> None:
        self._group, self._attempt, self._equal, self._portion = group, attempt, tables, portion
        self._ends = monotonic() + VERIFY_SECONDS
        self._tables: dict[str, ShardTable] = {}
        self._before: dict[str, Cursor] = {}
        self._now: dict[str, Cursor] = {}
        self.wrong: list[tuple[str, object, tuple[object, ...]]] = []

    def begin(self, connection: sqlite3.Connection) -> bool:
        """Read the cursors. Return False if the attempt has none."""
        tables = self._equal.read(connection)
        capture.require(connection, self._group, tables)
        self._tables = {table.name: table for table in tables}
        self._before = self._now = cursors.cursors(connection, self._group.move, "verify")
        attempts = {each.attempt for each in self._now.values()}
        if attempts != {self._attempt} or self._now.keys() != self._tables.keys():
            return False
        open_table = self._open()
        if open_table is not None and self._now[open_table.name].within:
            self._note(connection, _AFTER, cursors.key_after(self._group.move, "verify", open_table.name))
        return True

    def restart(self, connection: sqlite3.Connection) -> None:
        """Begin the comparison of this attempt anew."""
        cursors.begin(connection, self._group.move, "verify", list(self._tables.values()), self._attempt)

    def goes_on(self) -> bool:
        """Whether a piece is left to compare in this call."""
        return self._open() is not None and not self.wrong and monotonic() < self._ends

    def compare(self, connection: sqlite3.Connection) -> None:
        """Compare slots piece by piece. Stop after the longest time for which a reader may block a writer."""
        begun, left, table = monotonic(), self._portion.rows, self._open()
        if table is None:
            return
        while left > 0 and not self._now[table.name].is_done:
            left -= self._compare_piece(connection, table, left)
        self._portion.seconds = read_seconds(connection)
        self._portion.took(self._portion.rows - left, monotonic() - begun)

    def keep(self, connection: sqlite3.Connection) -> None:
        """Write the cursors of the comparison."""
        for name, cursor in self._now.items():
            if cursor != self._before[name]:
                key = f"SELECT * FROM {_AFTER}" if cursor.within else NO_KEY
                cursors.advance(
                    connection, self._group.move, "verify", before=self._before[name], after=cursor, key=key
                )

    def has_missed_all(self, connection: sqlite3.Connection) -> bool:
        """Whether a finished comparison has compared no row, although the source has rows that are not in the log.

        If an earlier call began the comparison, such rows may be new ones, whose log entries were applied since. If
        this call began the comparison, `Unequal` is raised.
        """
        if self._open() is not None or any(each.rows for each in self._now.values()):
            return False
        note_keys(connection, self._group, self._tables.values(), _ALL)
        for table in self._tables.values():
            captured = "? IS NOT NULL" if table.origin else f"slot IN ({_CAPTURED})"  # a view has moving rows alone
            found = f"SELECT 1 FROM {table.source} row WHERE {captured} AND {_unlogged(table)} LIMIT 1"
            if connection.execute(found, (self._group.move, table.name)).fetchall():
                if all(each.slot is None for each in self._before.values()):
                    raise Unequal(table.name, ["all of them"], "has rows on the source that were not compared")
                return True
        return False

    def log(self, connection: sqlite3.Connection) -> None:
        """Log the rows that differ, so that they are copied again."""
        for name, _, key in self.wrong:
            names = ", ".join(f"k{place}" for place in range(1, len(key) + 1))
            insert = f"INSERT INTO apportion_log (move, name, {names}) VALUES (?, ?{', ?' * len(key)})"
            connection.execute(insert, (self._group.move, name, *key))

    def refusal(self) -> Unequal:
        """Return the error that names the rows of the first table that differ."""
        name = self.wrong[0][0]
        rows = [row_name(slot, key) for table, slot, key in self.wrong if table == name]
        return Unequal(name, rows, "has rows that differ on the target and are not in the log")

    def _open(self) -> ShardTable | None:
        return next((table for name, table in self._tables.items() if not self._now[name].is_done), None)

    def _compare_piece(self, connection: sqlite3.Connection, table: ShardTable, most: int) -> int:
        """Compare the rest of a slot, up to `most` rows. Return the number of rows on the source, at least 1."""
        cursor = self._now[table.name]
        group = self._group.arriving
        slots = [each for each in group.slots if cursor.slot is None or each > cursor.slot - cursor.within]
        if not slots:
            self._now = {**self._now, table.name: replace(cursor, within=False, is_done=True)}
            return 1
        slot, after = slots[0], f"SELECT {', '.join(table.key_names)} FROM {_AFTER}" if cursor.within else ""
        parts = ", ".join([columns(table.key), *["NULL"] * (MOST_KEY_COLUMNS - len(table.key))])
        bound = f"SELECT {parts} FROM {table.source} WHERE {piece(table, after)}"
        is_cut = self._note(
            connection, _UNTIL, f"{bound} ORDER BY {columns(table.key)} LIMIT 1 OFFSET ?", slot, most - 1
        )
        until = f"SELECT {', '.join(table.key_names)} FROM {_UNTIL}" if is_cut else ""
        rows = self._compare_rows(connection, table, slot, piece(table, after, until))
        if is_cut:
            self._note(connection, _AFTER, f"SELECT * FROM {_UNTIL}")
        changed = replace(cursor, slot=slot, within=is_cut, rows=cursor.rows + rows)
        self._now = {**self._now, table.name: changed}
        return max(rows, 1)

    def _compare_rows(self, connection: sqlite3.Connection, table: ShardTable, slot: int, where: str) -> int:
        """Compare the rows of a piece. Return the number of its rows on the source."""
        here, there = (
            int(connection.execute(f"SELECT count(*) FROM {side} WHERE {where}", (slot,)).fetchone()[0])
            for side in (table.source, f"main.{table.quoted}")
        )
        differ = _differ(table, where)
        if not connection.execute(f"{differ} LIMIT 1", (slot,)).fetchall() and here == there:
            return here
        note_keys(connection, self._group, self._tables.values(), _ALL)
        for statement in (differ, _extra(table, where)):
            limited = f"{statement} AND {_unlogged(table)} LIMIT {_MOST_WRONG}"
            found = connection.execute(limited, (slot, table.name))
            self.wrong += [(table.name, place, tuple(key)) for place, *key in found]
        return here

    def _note(self, connection: sqlite3.Connection, name: str, select: str, *values: int) -> bool:
        """Write the key that a statement selects into a table in memory. Return whether it selected a key."""
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} (k1, k2, k3, k4)")
        connection.execute(f"DELETE FROM {name}")
        return connection.execute(f"INSERT INTO {name} {select}", values).rowcount == 1


def _differ(table: ShardTable, where: str) -> str:
    same = " AND ".join(f"kept.{quoted(name)} = row.{quoted(name)}" for name in table.key)
    pairs = [(f"row.{quoted(name)}", f"kept.{quoted(name)}") for name in table.names]
    rows = f"(SELECT * FROM {table.source} WHERE {where}) row LEFT JOIN main.{table.quoted} kept ON {same}"
    return f"SELECT row.slot, {columns(table.key, 'row')} FROM {rows} WHERE ({differing(table, pairs)})"


def _extra(table: ShardTable, where: str) -> str:
    same = " AND ".join(f"kept.{quoted(name)} = row.{quoted(name)}" for name in (*table.key, "slot"))
    absent = f"NOT EXISTS (SELECT 1 FROM {table.source} kept WHERE {same})"
    rows = f"(SELECT * FROM main.{table.quoted} WHERE {where}) row"
    return f"SELECT row.slot, {columns(table.key, 'row')} FROM {rows} WHERE {absent}"


def _unlogged(table: ShardTable) -> str:
    """Return the condition that the key of a row is not among the noted keys of a table."""
    same = " AND ".join(f"keys.{key} = row.{quoted(name)}" for key, name in _keys(table))
    return f"NOT EXISTS (SELECT 1 FROM {KEYS} keys WHERE keys.name = ? AND {same})"


def _keys(table: ShardTable) -> list[tuple[str, str]]:
    return list(zip(table.key_names, table.key, strict=True))
