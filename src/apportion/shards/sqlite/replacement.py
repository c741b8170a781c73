"""Replacement: rows that `INSERT OR REPLACE` deletes, because another row gets their unique value.

SQLite runs no trigger for such a row. So a trigger before the statement finds the row by each unique index.

    apportion_<table>_kept_*    while slots come to this file: refuses to replace a row of a slot that still comes

Promises: between its comparison and the switch, a copied row stays on the target. A row of another slot cannot take its
unique value there.
Source: https://www.sqlite.org/lang_conflict.html
"""

import sqlite3
from collections.abc import Sequence

from apportion.shards.sqlite.schema import literal, quoted
from apportion.shards.sqlite.tables import ShardTable
from apportion.shards.sqlite.unique_index import UniqueIndex, unique_indexes

_REFUSED = "apportion: a row of another slot has this unique value, and its slot is moving"
_EVENTS = (("kept_new", "INSERT"), ("kept_changed", "UPDATE"))
_OPEN = "WHEN NOT EXISTS (SELECT 1 FROM apportion_mover)"
_COMING = "SELECT 1 FROM apportion_slot WHERE state = 'incoming' LIMIT 1"
_LISTED = """SELECT name FROM sqlite_master
    WHERE type = 'trigger' AND name IN ('apportion_' || tbl_name || ?, 'apportion_' || tbl_name || ?)"""


def keep(connection: sqlite3.Connection, tables: Sequence[ShardTable]) -> None:
    """From now on, refuse statements that would replace rows of incoming slots."""
    for table in tables:
        indexes = unique_indexes(connection, table.name, table.key)
        for (suffix, event), is_update in zip(_EVENTS, (False, True), strict=True):
            body = "; ".join(refusal(table, index, "incoming", is_update=is_update) for index in indexes)
            made = f"CREATE TRIGGER IF NOT EXISTS {quoted(f'apportion_{table.name}_{suffix}')}"
            connection.execute(f"{made} BEFORE {event} ON {table.quoted} {_OPEN} BEGIN {body}; END")


def let_go(connection: sqlite3.Connection) -> None:
    """Drop the triggers, unless slots still come to this file."""
    if not connection.execute(_COMING).fetchall():
        for name in keeping(connection):
            connection.execute(f"DROP TRIGGER {quoted(name)}")


def keeping(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the triggers."""
    return sorted(name for (name,) in connection.execute(_LISTED, [f"_{suffix}" for suffix, _ in _EVENTS]))


def refusal(table: ShardTable, index: UniqueIndex, state: str, *, is_update: bool = False) -> str:
    """Return the statement that fails if a row of a slot in this state would be replaced."""
    found = replaced(table, index, "apportion_slot", is_update=is_update)
    return f"SELECT RAISE(ABORT, {literal(_REFUSED)}) {found} AND owner.state = {literal(state)}"


def replaced(table: ShardTable, index: UniqueIndex, owners: str, *, is_update: bool = False) -> str:
    """Return the part of a query that finds the old row (`kept`) that cannot be there beside the new row.

    `owners` is a table with a row for some slots; the row for the slot of `kept` is `owner`. An update that changes no
    column of the index replaces no row. CROSS JOIN keeps the order of the tables, so the old row is found by the index.
    """
    named = [(f"NEW.{name}", f"OLD.{name}", name) for name in map(quoted, index.columns)]
    changed = " OR ".join(f"{new} IS NOT {old}" for new, old, _ in named) if is_update else "true"
    fresh = index.query(f"(SELECT {', '.join(f'{new} AS {name}' for new, _, name in named)} WHERE {changed})")
    kept = index.query(table.quoted, "slot", *map(quoted, table.key))
    same = " AND ".join(f"kept.{name} = fresh.{name}" for name in index.names)
    found = f"FROM ({fresh}) fresh CROSS JOIN ({kept}) kept CROSS JOIN {owners} owner"
    return f"{found} WHERE {same} AND owner.slot = kept.slot"
