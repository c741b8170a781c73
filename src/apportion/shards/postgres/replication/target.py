"""The target of a native channel: a subscription, which copies the rows and then applies each change.

The workers of a subscription run no ordinary triggers and check no foreign keys. So the guard of a slot that is
`incoming` lets them write, and refuses everybody else.

Promises: the subscription is made without workers. They begin after the source has listed it, because each copy of a
table makes a replication slot there. A subscription is dropped with its workers and its origins in one transaction.
Source: https://www.postgresql.org/docs/current/logical-replication-subscription.html
"""

# ruff: noqa: S608 - names are quoted, values are bound or quoted

from dataclasses import dataclass
from typing import Any

from psycopg.conninfo import make_conninfo
from sqlalchemy.engine import make_url

from apportion.shards.postgres.key_log import quoted
from apportion.shards.postgres.server import rows
from apportion.shards.postgres.transport import text
from apportion.stores.postgres.driver import Connection

_HERE = "s.subname = %s AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
_HAS = f"SELECT EXISTS (SELECT FROM pg_subscription s WHERE {_HERE})"
_FOUND = f"""SELECT s.oid::bigint, s.subenabled, s.subslotname, t.apply_error_count + t.sync_error_count,
    (SELECT count(*) FROM pg_subscription_rel r WHERE r.srsubid = s.oid AND r.srsubstate <> 'r')
    FROM pg_subscription s LEFT JOIN pg_stat_subscription_stats t ON t.subid = s.oid WHERE {_HERE}"""
_COPYING = """SELECT relid::bigint, tuples_processed FROM pg_stat_progress_copy
    WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND relid IN
    (SELECT r.srrelid FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid WHERE s.subname = %s)"""
# A subscription has a password. These settings keep the rest of a transaction out of the log of a server.
_UNLOGGED = """SELECT set_config(name, kept, true) FROM pg_roles,
    (VALUES ('log_statement', 'none'), ('log_min_error_statement', 'panic'), ('log_min_duration_statement', '-1'),
        ('log_min_duration_sample', '-1'), ('log_error_verbosity', 'terse')) AS logged (name, kept)
    WHERE rolname = current_user AND rolsuper"""

# Roles that watch a server see the text of each statement, and the text of a statement in the context of its error. So
# the password is a value, and an error is raised anew.
_KEPT = "SELECT set_config('apportion.connection', %s, true)"
_MADE = """DO $made$ BEGIN
    EXECUTE {0} || quote_literal(current_setting('apportion.connection')) || {1};
EXCEPTION WHEN OTHERS OR query_canceled THEN RAISE EXCEPTION USING MESSAGE = SQLERRM, ERRCODE = SQLSTATE; END $made$"""

_PATIENCE: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """A subscription. `unready` counts its tables that are not copied yet, and `errors` its errors so far."""

    id: int
    is_enabled: bool
    slot: str | None
    errors: int
    unready: int


async def has_subscription(connection: Connection, name: str) -> bool:
    """Whether a move has a subscription. A server that is too old for a native channel answers too."""
    [(found,)] = await rows(connection, _HAS, name)
    return bool(found)


async def subscribed(connection: Connection, name: str) -> Subscribed | None:
    """Read the subscription of a move. None if there is none."""
    found = await rows(connection, _FOUND, name)
    if not found:
        return None
    [(number, is_enabled, slot, errors, unready)] = found
    return Subscribed(id=number, is_enabled=is_enabled, slot=slot, errors=errors or 0, unready=unready)


async def rows_on_their_way(connection: Connection, name: str) -> dict[int, int]:
    """Return the number of rows that each running copy has brought, by the id of the table."""
    return dict(await rows(connection, _COPYING, name))


async def subscribe(connection: Connection, name: str, slot: str, address: str) -> None:
    """Make the subscription without workers. The target connects to the source at this address."""
    await make_subscription(connection, name, address, f"slot_name = {text(slot)}, copy_data = true")


async def make_subscription(connection: Connection, name: str, address: str, options: str) -> None:
    """Make a subscription which has no worker yet, in the open transaction. Nobody sees its password."""
    await rows(connection, _UNLOGGED)
    await rows(connection, _KEPT, conninfo(address))
    end = f" PUBLICATION {quoted(name)} WITH (create_slot = false, enabled = false, {options})"
    made = _MADE.format(text(f"CREATE SUBSCRIPTION {quoted(name)} CONNECTION "), text(end))
    await rows(connection, made.replace("%", "%%"))


def conninfo(address: str) -> str:
    """Return the address of a shard as libpq reads it."""
    url = make_url(address)
    named = {"host": url.host, "port": url.port, "user": url.username, "password": url.password}
    options: dict[str, Any] = {**_PATIENCE, "dbname": url.database, **named, **url.query}
    return make_conninfo("", **options)


async def enable(connection: Connection, name: str) -> None:
    """Let the workers of the subscription begin."""
    await rows(connection, f"ALTER SUBSCRIPTION {quoted(name)} ENABLE")


async def unsubscribe(connection: Connection, name: str) -> None:
    """End the workers of the subscription, and drop it. The source keeps its replication slot."""
    if await has_subscription(connection, name):
        for act in ("DISABLE", "SET (slot_name = NONE)"):
            await rows(connection, f"ALTER SUBSCRIPTION {quoted(name)} {act}")
        await rows(connection, f"DROP SUBSCRIPTION {quoted(name)}")
