"""Facts about logical replication, as two servers tell them, and a test of the connection between them.

Promises: the test leaves nothing on a server. It makes a subscription that is rolled back, so the target's server
itself connects to the source.
"""

# ruff: noqa: S608 - names are quoted, values are bound or quoted

from dataclasses import replace

from apportion.shards.channel import ChannelWish
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.replication.choice import ReplicationFacts, obstacle_in, warning_of
from apportion.shards.postgres.replication.names import object_name
from apportion.shards.postgres.replication.target import make_subscription
from apportion.shards.postgres.server import ShardServer, rows
from apportion.stores.postgres.driver import Connection, psycopg

_LEFT = "current_setting('{0}')::int - (SELECT count(*) FROM {1})::int"
_FACTS = f"""SELECT current_setting('server_version_num')::int / 10000, current_setting('wal_level'),
    {_LEFT.format("max_replication_slots", "pg_replication_slots")},
    {_LEFT.format("max_wal_senders", "pg_stat_replication")},
    {_LEFT.format("max_replication_slots", "pg_replication_origin")},
    {_LEFT.format("max_logical_replication_workers", "pg_stat_subscription WHERE pid IS NOT NULL")},
    current_setting('max_sync_workers_per_subscription')::int, current_setting('max_slot_wal_keep_size') <> '-1',
    rolsuper OR (rolreplication AND has_database_privilege(current_database(), 'CREATE')),
    rolsuper OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'pg_create_subscription'
        AND pg_has_role(r.oid, 'MEMBER') AND has_database_privilege(current_database(), 'CREATE'))
    FROM pg_roles WHERE rolname = current_user"""
_OWN = """SELECT (SELECT count(*) FROM pg_replication_slots
        WHERE starts_with(slot_name, 'apportion_') OR slot_name ~ '^pg_[0-9]+_sync_')::int,
    (SELECT count(*) FROM pg_stat_replication
        WHERE starts_with(application_name, 'apportion_') OR application_name ~ '^pg_[0-9]+_sync_')::int,
    (SELECT count(*) FROM pg_replication_origin o JOIN pg_subscription s ON starts_with(s.subname, 'apportion_')
        AND (o.roname = 'pg_' || s.oid OR starts_with(o.roname, 'pg_' || s.oid || '_')))::int,
    (SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL AND starts_with(subname, 'apportion_'))::int"""
# A timed table has a partition for a row of any time. Partitions of others may lack one on the target.
_UNFIT = """SELECT format('%%I.%%I', n.nspname, c.relname),
    c.relkind = 'p' AND NOT EXISTS (SELECT FROM pg_inherits h JOIN pg_class p ON p.oid = h.inhrelid
        WHERE h.inhparent = c.oid AND p.relnamespace = to_regnamespace('apportion_periods')),
    NOT EXISTS (SELECT FROM pg_index i JOIN pg_class made ON made.oid = i.indexrelid WHERE i.indrelid = c.oid
        AND made.relname = c.relname || '_by_slot' AND i.indisunique AND i.indisvalid AND i.indimmediate
        AND i.indpred IS NULL AND i.indexprs IS NULL), (SELECT min(o.tgname) FROM pg_trigger o
        WHERE o.tgrelid = c.oid AND NOT o.tgisinternal AND o.tgenabled IN ('R', 'A'))
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE t.tgname = 'apportion_insert' AND NOT t.tgisinternal AND NOT c.relispartition ORDER BY 1"""


async def obstacle_of(group: MoveGroup, source: ShardServer, target: ShardServer, wish: ChannelWish) -> str:
    """Return the reason why a group cannot have a native channel, "" if it can."""
    here, there = await source.read(facts_of), await target.read(facts_of)
    here = replace(here, keeps_bounded=here.keeps_bounded or wish.allows_unbounded_wal)
    found = obstacle_in(group.source, here, group.target, there, at_once=wish.at_once)
    address = source.place.replication_address
    return found or await target.rehearse(lambda connection: _way(connection, group, address))


async def warning_about(group: MoveGroup, source: ShardServer) -> str:
    """Return a warning about the source, "" if there is none."""
    return warning_of(group.source, await source.read(facts_of))


async def facts_of(connection: Connection) -> ReplicationFacts:
    """Read the facts of a server."""
    [found] = await rows(connection, _FACTS)
    [own] = await rows(connection, _OWN)
    release, level, slots, senders, origins, workers, copies, keeps_bounded, publishes, subscribes = found
    unfit = []
    for name, is_partitioned, lacks_index, trigger in await rows(connection, _UNFIT):
        unfit += [f"{name} is partitioned"] if is_partitioned else []
        unfit += [f"{name} has no unique index over slot and primary key"] if lacks_index else []
        unfit += [f"{name} has the trigger {trigger}, which runs for replicated rows"] if trigger else []
    return ReplicationFacts(
        release=release,
        wal_level=level,
        slots=slots,
        senders=senders,
        origins=origins,
        workers=workers,
        copies=copies,
        may_publish=publishes,
        may_subscribe=subscribes,
        keeps_bounded=keeps_bounded,
        own=tuple(own),
        unfit=tuple(unfit),
    )


async def _way(connection: Connection, group: MoveGroup, address: str) -> str:
    """Let the target's server connect to the source. Return its words if it cannot."""
    try:
        options = "slot_name = NONE, copy_data = false"
        await make_subscription(connection, object_name("", group.move), address, options)
    except psycopg.Error as error:
        said = " ".join((error.diag.message_primary or f"{error}").split())
        return f"the server of shard {group.target} does not reach shard {group.source}: {said}"
    return ""
