"""Moving rows: the locks of their slots on a server, and the removal of rows in small parts."""

# ruff: noqa: S608 - names are quoted, values are bound

from collections.abc import Sequence

from apportion.shards.postgres.functions import LOCK_CLASS
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import count
from apportion.shards.postgres.tables import ServerTable, columns
from apportion.stores.postgres.driver import Connection

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


def _filled(statement: str) -> str:
    """Return a statement with the percent signs of its names doubled, and those of its values kept."""
    return statement.replace("%", "%%").replace("%%s", "%s")
