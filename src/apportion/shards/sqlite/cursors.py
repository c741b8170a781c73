"""Cursors of a move on its target: how far each table is copied and compared. Cursor and rows change together.

The key of the last row stays inside the database, so its values are never converted.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.errors import BadSnapshot
from apportion.errors.shown import shown
from apportion.shards.slot_rows import DAMAGE
from apportion.shards.sqlite.schema import literal
from apportion.shards.sqlite.tables import MOST_KEY_COLUMNS, ShardTable, key_names

Step: TypeAlias = Literal["copy", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The progress of a step of a move in one table.

    If `within` is False, the step is done with all slots up to `slot`.

    If `within` is True, the step is done with the slots before `slot`, and with the rows of `slot` up to a key. With
    `until`, it is done with the rows up to that key in each slot from `slot` to `until`.
    """

    name: str
    attempt: int = 0
    slot: int | None = None
    until: int | None = None
    within: bool = False
    rows: int = 0
    is_done: bool = False


def cursors(connection: sqlite3.Connection, move: str, step: Step) -> dict[str, Cursor]:
    """Return the cursors of a step, by table. `BadSnapshot` for a cursor that no mover writes."""
    read = """SELECT name, attempt, slot, until, k1 IS NOT NULL, rows, is_done FROM main.apportion_move
        WHERE move = ? AND step = ?"""
    rows = connection.execute(read, (move, step)).fetchall()  # after an error, an open cursor would keep its lock
    return {name: _cursor(move, name, *values) for name, *values in rows}


def _cursor(move: str, name: str, *values: object) -> Cursor:
    attempt, slot, until, within, rows, is_done = values
    match attempt, slot, until, rows, is_done:
        case int(), int() | None, int() | None, int(), int():
            return Cursor(
                name=name,
                attempt=attempt,
                slot=slot,
                until=until,
                within=bool(within),
                rows=rows,
                is_done=bool(is_done),
            )
    raise BadSnapshot(f"progress of move {move} in table {shown(name)}", shown(values), "integers", DAMAGE)


def require_all(connection: sqlite3.Connection, move: str, tables: Collection[str]) -> None:
    """Raise `BadSnapshot` unless a copy has a cursor for each table and no other one, or has not begun."""
    kept = cursors(connection, move, "copy")
    if kept and kept.keys() != {*tables}:
        found, hint = (
            ", ".join(sorted(map(shown, kept))),
            "Take the move back, then plan it again: apportion shards abort URL SET",
        )
        raise BadSnapshot(f"tables in the progress of move {move}", found, ", ".join(sorted(tables)), hint)


def begin(connection: sqlite3.Connection, move: str, step: Step, tables: Sequence[ShardTable], attempt: int) -> None:
    """Begin a step anew in all tables."""
    connection.execute("DELETE FROM main.apportion_move WHERE move = ? AND step = ?", (move, step))
    row = """INSERT INTO main.apportion_move (move, step, name, attempt, rows, is_done) VALUES (?, ?, ?, ?, 0, 0)"""
    connection.executemany(row, [(move, step, table.name, attempt) for table in tables])


def advance(connection: sqlite3.Connection, move: str, step: Step, *, before: Cursor, after: Cursor, key: str) -> bool:
    """Write a cursor.

    Return False if it changed since it was read. `key` selects the values k1 .. k4 of the last row.
    """
    count = connection.execute(
        f"""UPDATE main.apportion_move SET slot = ?, until = ?, (k1, k2, k3, k4) = ({key}), rows = ?, is_done = ?
        WHERE move = ? AND step = ? AND name = ? AND attempt = ? AND rows = ? AND slot IS ? AND NOT is_done""",
        (
            after.slot,
            after.until,
            after.rows,
            after.is_done,
            move,
            step,
            before.name,
            before.attempt,
            before.rows,
            before.slot,
        ),
    ).rowcount
    return count == 1


NO_KEY = "SELECT NULL, NULL, NULL, NULL"


def disturb(connection: sqlite3.Connection, move: str) -> None:
    """From now on, refuse the rows that a copy has already read: rows from the log are newer."""
    disturbed = "UPDATE main.apportion_move SET attempt = attempt + 1 WHERE move = ? AND step = 'copy' AND NOT is_done"
    connection.execute(disturbed, (move,))


def forget(connection: sqlite3.Connection, move: str) -> None:
    """Delete the cursors of a move."""
    connection.execute("DELETE FROM main.apportion_move WHERE move = ?", (move,))


def key_after(move: str, step: Step, name: str, count: int = MOST_KEY_COLUMNS) -> str:
    """Return the query for the key of the last row that a step has done in a table."""
    kept = f"move = {literal(move)} AND step = '{step}' AND name = {literal(name)}"
    return f"SELECT {', '.join(key_names(count))} FROM main.apportion_move WHERE {kept}"
