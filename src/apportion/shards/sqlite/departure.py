"""Departure of a shard in SQLite: drops all that a set added to a file. The tables of the application stay.

Promises: each statement may run again. A guard table with tokens of other resources stays.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import sqlite3
from collections.abc import Iterator

from sqlalchemy import Connection

from apportion.shards.sqlite.capture import TABLES as CAPTURE_TABLES
from apportion.shards.sqlite.schema import quoted
from apportion.stores.sqlite.connection import code_of

LOCK = ()
OWNED = "SELECT slot, state FROM apportion_slot WHERE state <> 'moved' ORDER BY slot LIMIT 1"
_TABLES = ("apportion_meta", "apportion_slot", "apportion_mover", "apportion_move", *CAPTURE_TABLES)
_FENCES = "apportion_fences"
_SHARDED = """SELECT DISTINCT tbl_name FROM sqlite_master WHERE type = 'index' AND name = tbl_name || '_by_slot'
    OR type = 'trigger' AND name = 'apportion_' || tbl_name || '_insert' ORDER BY 1"""
_TRIGGERS = """SELECT type, name FROM sqlite_master
    WHERE type IN ('trigger', 'index') AND name GLOB 'apportion_*' AND sql IS NOT NULL ORDER BY 2"""
_DAMAGES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)


def answers(error: BaseException | None) -> bool:
    """Whether the file of an error is there and sound, for example after an error of a lock or of rights."""
    return isinstance(error, sqlite3.Error) and code_of(error) not in _DAMAGES


def sharded(connection: Connection) -> Iterator[str]:
    """Yield the quoted name of each table with a trigger of the set, or with its index."""
    yield from map(quoted, connection.exec_driver_sql(_SHARDED).scalars().all())


def drop_triggers(connection: Connection) -> None:
    """Drop the triggers of the set, and its indexes over times."""
    for kind, name in connection.exec_driver_sql(_TRIGGERS).all():
        connection.exec_driver_sql(f"DROP {kind} {quoted(name)}")


def drop_rest(connection: Connection, prefix: str) -> None:
    """Drop the tables of the set. The resources of its movers begin with `prefix`."""
    for name in _TABLES:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
    there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    if connection.exec_driver_sql(there, (_FENCES,)).first() is None:
        return
    connection.exec_driver_sql(f"DELETE FROM {_FENCES} WHERE substr(resource, 1, ?) = ?", (len(prefix), prefix))
    if connection.exec_driver_sql(f"SELECT 1 FROM {_FENCES} LIMIT 1").first() is None:
        connection.exec_driver_sql(f"DROP TABLE {_FENCES}")
