"""Capture: the log of keys of rows that writers change in moving slots. Triggers write it in the writer's transaction.

    apportion_capture    a row for each slot with logged changes, and its move
    apportion_log        the keys of changed rows, in the order of their commits

The tables and triggers exist while at least one move captures. All such moves share them. `INSERT OR REPLACE` deletes
rows without a trigger. So a BEFORE trigger finds the rows that the new row will replace, even in other slots, by each
unique index of the table. It refuses a statement that would replace a row of a fenced slot.
Source: https://www.sqlite.org/lang_conflict.html
"""

# ruff: noqa: S608 - names are quoted, values are bound

import sqlite3
from collections.abc import Iterator, Sequence

from apportion.errors import BadSnapshot, Unequal
from apportion.shards.lost_table import next_step
from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite.replacement import refusal, replaced
from apportion.shards.sqlite.schema import literal, quoted
from apportion.shards.sqlite.tables import ShardTable, columns
from apportion.shards.sqlite.unique_index import UniqueIndex, unique_indexes

TABLES = ("apportion_capture", "apportion_log")
_MADE = (
    "CREATE TABLE IF NOT EXISTS apportion_capture (slot INTEGER PRIMARY KEY, move TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS apportion_log (
    id INTEGER PRIMARY KEY, move TEXT NOT NULL, name TEXT NOT NULL, k1, k2, k3, k4
)""",
    "CREATE INDEX IF NOT EXISTS apportion_log_by_move ON apportion_log (move)",
)
_SUFFIXES = ("logged_new", "logged_changed", "logged_gone", "logged_over_new", "logged_over_changed")
_FROM = "FROM apportion_capture WHERE slot ="


def begin(connection: sqlite3.Connection, group: MoveGroup, tables: Sequence[ShardTable]) -> None:
    """Log the changes of a group from now on, in the open transaction."""
    for statement in _MADE:
        connection.execute(statement)
    for table in tables:
        for statement in _triggers(table, unique_indexes(connection, table.name, table.key)):
            connection.execute(statement)
    row = "INSERT INTO apportion_capture (slot, move) VALUES (?, ?) ON CONFLICT (slot) DO NOTHING"
    connection.executemany(row, [(slot, group.move) for slot in group.slots])


def end(connection: sqlite3.Connection, move: str, most: int) -> bool:
    """Stop the log of a move, and delete at most `most` of its entries. Return True when nothing of the log is left.

    A table of the log that was dropped is made again first. Its triggers make every write fail until they are dropped.
    """
    if not is_there(connection):
        return True
    for statement in _MADE:
        connection.execute(statement)
    connection.execute("DELETE FROM apportion_capture WHERE move = ?", (move,))
    piece = "DELETE FROM apportion_log WHERE id IN (SELECT id FROM apportion_log WHERE move = ? LIMIT ?)"
    if connection.execute(piece, (move, most)).rowcount >= most:
        return False
    if not connection.execute("SELECT 1 FROM apportion_capture LIMIT 1").fetchall():
        for (trigger,) in connection.execute(_LISTED, _patterns()).fetchall():
            connection.execute(f"DROP TRIGGER {quoted(trigger)}")
        for table in TABLES:
            connection.execute(f"DROP TABLE {table}")
    return True


def has_log(connection: sqlite3.Connection, move: str, schema: str = "main") -> bool:
    """Whether a file logs changes for a move, or has a part of its log."""
    mine = f"SELECT 1 FROM {schema}.{{}} WHERE move = ? LIMIT 1"
    return any(connection.execute(mine.format(each), (move,)).fetchall() for each in log_tables(connection, schema))


def parts(connection: sqlite3.Connection, move: str, schema: str = "main") -> list[str]:
    """Return the existing tables and triggers of the log, [] if other moves need them."""
    there = log_tables(connection, schema)
    others = f"SELECT 1 FROM {schema}.{TABLES[0]} WHERE move <> ? LIMIT 1"
    if TABLES[0] in there and connection.execute(others, (move,)).fetchall():
        return []
    return [*there, *sorted(triggers_of(connection, schema))]


def log_tables(connection: sqlite3.Connection, schema: str = "main") -> list[str]:
    """Return the existing tables of the log."""
    found = f"SELECT name FROM {schema}.sqlite_master WHERE type = 'table' AND name IN (?, ?) ORDER BY name"
    return [name for (name,) in connection.execute(found, TABLES)]


def is_there(connection: sqlite3.Connection, schema: str = "main") -> bool:
    """Whether a part of the log is there, for any move."""
    return bool(log_tables(connection, schema) or triggers_of(connection, schema))


def is_whole(connection: sqlite3.Connection, schema: str = "main") -> bool:
    """Whether both tables of the log are there, for any move."""
    return len(log_tables(connection, schema)) == len(TABLES)


def triggers_of(connection: sqlite3.Connection, schema: str = "main") -> set[str]:
    """Return the names of the existing triggers of the log."""
    listed = _LISTED.replace("sqlite_master", f"{schema}.sqlite_master")
    return {name for (name,) in connection.execute(listed, _patterns())}


def require(connection: sqlite3.Connection, group: MoveGroup, tables: Sequence[ShardTable]) -> None:
    """Raise if changes of a table or of a slot on the source are not logged, or if a table of the log is lost.

    A table that was made anew has lost its triggers. A slot has lost its row if another program deleted it.
    """
    for table in sorted({*TABLES}.difference(log_tables(connection, "source"))):
        problem = f"no such table: {table}"
        raise BadSnapshot(f"log of shard {group.source}", problem, "both tables of the log", next_step(problem))
    there = triggers_of(connection, "source")
    hint = "Changes of its rows may be lost. Abort the move, and begin it again."
    lost = [table.name for table in tables if not there.issuperset(trigger_names(table.name))]
    if lost:
        why = f"is not logged on shard {group.source} any more, because these tables have lost triggers"
        raise Unequal(lost[0], lost, why, hint)
    rows = connection.execute("SELECT slot FROM source.apportion_capture WHERE move = ?", (group.move,)).fetchall()
    if absent := sorted({*group.slots}.difference(slot for (slot,) in rows)):
        why = f"has lost slots on shard {group.source}, so their changes are not logged any more"
        raise Unequal(TABLES[0], [f"slot {slot}" for slot in absent], why, hint)


def trigger_names(table: str) -> tuple[str, ...]:
    """Return the names of the triggers of the log on a table."""
    return tuple(f"apportion_{table}_{suffix}" for suffix in _SUFFIXES)


_LISTED = (
    "SELECT name FROM sqlite_master WHERE type = 'trigger' AND ("
    + " OR ".join(["name = 'apportion_' || tbl_name || ?"] * len(_SUFFIXES))
    + ")"
)


def _patterns() -> list[str]:
    return [f"_{suffix}" for suffix in _SUFFIXES]


def _triggers(table: ShardTable, indexes: Sequence[UniqueIndex]) -> Iterator[str]:
    new, old = (_logged(table, row) for row in ("NEW", "OLD"))
    bodies = (
        ("AFTER INSERT", [f"{new} {_FROM} NEW.slot"]),
        ("AFTER UPDATE", [f"{new} {_FROM} NEW.slot", f"{old} {_FROM} OLD.slot AND {_key_changed(table)}"]),
        ("AFTER DELETE", [f"{old} {_FROM} OLD.slot"]),
        ("BEFORE INSERT", [each for index in indexes for each in _replaced(table, index)]),
        ("BEFORE UPDATE", [each for index in indexes for each in _replaced(table, index, is_update=True)]),
    )
    for name, (event, body) in zip(trigger_names(table.name), bodies, strict=True):
        made = f"CREATE TRIGGER IF NOT EXISTS {quoted(name)} {event} ON {table.quoted}"
        yield f"{made} BEGIN {'; '.join(body)}; END"


def _logged(table: ShardTable, row: str) -> str:
    """Return the first part of a statement that logs the key of a row."""
    into = f"INSERT INTO apportion_log (move, name, {', '.join(table.key_names)})"
    return f"{into} SELECT move, {literal(table.name)}, {columns(table.key, row)}"


def _key_changed(table: ShardTable) -> str:
    parts = (*table.key, "slot")
    return "(" + " OR ".join(f"OLD.{quoted(each)} IS NOT NEW.{quoted(each)}" for each in parts) + ")"


def _replaced(table: ShardTable, index: UniqueIndex, *, is_update: bool = False) -> Iterator[str]:
    """Yield the statements that refuse the replacement of a row, or log the key of the replaced row."""
    yield refusal(table, index, "fenced", is_update=is_update)
    into = _logged(table, "kept").replace("SELECT move", "SELECT owner.move")
    yield f"{into} {replaced(table, index, 'apportion_capture', is_update=is_update)}"
