"""Departure of a shard in PostgreSQL: drops all that a set added to a database. The tables of the application stay.

Promises: each statement may run again. The schema stays if it also has other things, such as tables of a control store.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import re
from collections.abc import Iterator

from sqlalchemy import Connection

LOCK = ("SET LOCAL lock_timeout = '5s'", "LOCK TABLE apportion.slot IN ACCESS EXCLUSIVE MODE")
OWNED = "SELECT slot, state FROM apportion.slot WHERE state <> 'moved' ORDER BY slot LIMIT 1"
_TABLES = ("shard_meta", "slot", "move", "marker")
_FENCES = "apportion.fences"
_ABSENT = re.compile(r"database .* does not exist")
_SHARDED = """SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT c.relispartition AND (EXISTS (SELECT FROM pg_trigger t
    WHERE t.tgrelid = c.oid AND t.tgname = 'apportion_insert' AND NOT t.tgisinternal)
    OR EXISTS (SELECT FROM pg_index i JOIN pg_class made ON made.oid = i.indexrelid
    WHERE i.indrelid = c.oid AND made.relname = c.relname || '_by_slot')) ORDER BY 1"""
_TRIGGERS = """SELECT format('DROP TRIGGER %%I ON %%I.%%I', t.tgname, n.nspname, c.relname) FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE p.pronamespace = 'apportion'::regnamespace AND t.tgname LIKE 'apportion\\_%%'
    AND NOT t.tgisinternal AND t.tgparentid = 0 ORDER BY 1"""
_CONSTRAINTS = """SELECT format('ALTER TABLE %%I.%%I DROP CONSTRAINT %%I', n.nspname, c.relname, k.conname)
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE k.conname LIKE 'apportion\\_%%' AND k.contype IN ('c', 'f') AND k.conparentid = 0
    AND n.nspname <> 'apportion' ORDER BY 1"""
_IDENTITIES = """SELECT format('ALTER TABLE %%I.%%I REPLICA IDENTITY DEFAULT', n.nspname, c.relname)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class made ON made.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE i.indisreplident AND made.relname = c.relname || '_by_slot' ORDER BY 1"""
_OURS = ("accepts", "await", "empty_children", "empty_slot", "fence", "guard", "keep", "read")
_FUNCTIONS = """SELECT format('DROP FUNCTION %%s', oid::regprocedure) FROM pg_proc
    WHERE pronamespace = 'apportion'::regnamespace AND (proname = ANY (%s) OR prorettype = 'trigger'::regtype AND
    proname LIKE 'log\\_%%') ORDER BY 1"""
_LOGS = """SELECT format('DROP TABLE apportion.%%I', relname) FROM pg_class
    WHERE relnamespace = 'apportion'::regnamespace AND relkind = 'r' AND starts_with(relname, 'log_') ORDER BY 1"""
_IS_EMPTY = """SELECT NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid)
    AND NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = n.oid)
    AND NOT EXISTS (SELECT FROM pg_type WHERE typnamespace = n.oid)
    FROM pg_namespace n WHERE nspname = 'apportion'"""


def answers(error: BaseException | None) -> bool:
    """Whether the server answered, for example to a wrong password. The error of an absent database is no answer.

    The driver gives no code for a failed connect, so the words decide.
    """
    said = f"{error}"
    return getattr(error, "sqlstate", None) is not None or ("FATAL" in said and not _ABSENT.search(said))


def sharded(connection: Connection) -> Iterator[str]:
    """Yield the quoted name of each table with a trigger of the set, or with its index."""
    for name in connection.exec_driver_sql(_SHARDED).scalars().all():
        yield name.replace("%", "%%")  # drivers read %% as one percent sign


def drop_triggers(connection: Connection) -> None:
    """Drop the triggers and constraints of the set. Each waits for the transactions that use its table."""
    for found in (_TRIGGERS, _CONSTRAINTS, _IDENTITIES):
        for statement in connection.exec_driver_sql(found).scalars().all():
            connection.exec_driver_sql(statement.replace("%", "%%"))


def drop_rest(connection: Connection, prefix: str) -> None:
    """Drop tables and functions of the set, and an empty schema. The resources of its movers begin with `prefix`."""
    for statement in connection.exec_driver_sql(_FUNCTIONS, (list(_OURS),)).scalars().all():
        connection.exec_driver_sql(statement.replace("%", "%%"))
    for statement in connection.exec_driver_sql(_LOGS).scalars().all():
        connection.exec_driver_sql(statement.replace("%", "%%"))
    for name in _TABLES:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS apportion.{name}")
    if connection.exec_driver_sql("SELECT to_regclass(%s)", (_FENCES,)).scalar() is not None:
        connection.exec_driver_sql(f"DELETE FROM {_FENCES} WHERE starts_with(resource, %s)", (prefix,))
        if connection.exec_driver_sql(f"SELECT FROM {_FENCES} LIMIT 1").first() is None:
            connection.exec_driver_sql(f"DROP TABLE {_FENCES}")
    if connection.exec_driver_sql(_IS_EMPTY).scalar():
        connection.exec_driver_sql("DROP SCHEMA apportion")
