"""The source of a native channel: a publication of the moving rows, a marker, and a replication slot.

The transaction of the fence raises the marker behind the locks of its slots. Transactions arrive on the target in the
order of their commits. So the target has every row of the slots once it shows the raised marker.

Promises: the move lists its publication in the transaction that makes it. An UPDATE of the application goes on working:
each table first gets a replica identity that has the column of the filter.
Source: https://www.postgresql.org/docs/current/logical-replication-row-filter.html
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.shards.channel import LogSize
from apportion.shards.move_group import MoveGroup
from apportion.shards.plan.size_text import size_text
from apportion.shards.postgres.key_log import quoted
from apportion.shards.postgres.replication.names import sync_prefix
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import rows
from apportion.shards.postgres.tables import ServerTable
from apportion.shards.postgres.transport import slots_of, text
from apportion.stores.postgres.driver import Connection, psycopg

PUBLICATION, SUBSCRIPTION = "publication", "subscription"
"""The parts of a native channel that `apportion.move` of the source lists."""

LOST = "lost"
"""The state of a replication slot that the server has invalidated, because it kept too much of the log."""

CREATE_SECONDS = 10
"""The longest wait for the transactions that were writing when a replication slot is made."""

_DROP_SECONDS, _DROP_PAUSE_SECONDS = 5.0, 0.01

_KEEP = """INSERT INTO apportion.move (move, relation, cursor) VALUES (%s, %s, %s)
    ON CONFLICT (move, relation) DO UPDATE SET cursor = excluded.cursor"""
_IDENTITY = """SELECT i.indisreplident, format('%%I', made.relname) FROM pg_index i
    JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class made ON made.oid = i.indexrelid
    WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL
    AND i.indexprs IS NULL AND made.relname = c.relname || '_by_slot'"""
# Each partition of a table needs the identity of its own index, which belongs to that of the table.
_PARTS = """SELECT format('%%I.%%I', n.nspname, c.relname), i.indisreplident, format('%%I', made.relname)
    FROM pg_index top JOIN pg_class t ON t.oid = top.indrelid JOIN pg_class named ON named.oid = top.indexrelid
    JOIN pg_inherits h ON h.inhparent = top.indexrelid JOIN pg_index i ON i.indexrelid = h.inhrelid
    JOIN pg_class made ON made.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE top.indrelid = %s::regclass AND named.relname = t.relname || '_by_slot' ORDER BY 1"""
_FOUND = """SELECT (SELECT attempt FROM apportion.marker WHERE move = %(move)s),
    EXISTS (SELECT FROM apportion.move WHERE move = %(move)s AND relation = 'publication'),
    EXISTS (SELECT FROM pg_publication WHERE pubname = %(name)s),
    EXISTS (SELECT FROM pg_replication_slots
        WHERE database = current_database() AND starts_with(slot_name, %(name)s || '_')),
    (SELECT count(*) FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = %(name)s)
    > (SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE t.tgname = 'apportion_insert' AND NOT t.tgisinternal AND NOT c.relispartition)"""
_SLOTS = """SELECT slot_name, coalesce(wal_status, ''), active_pid, CASE WHEN pg_is_in_recovery() THEN NULL
    ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint END FROM pg_replication_slots
    WHERE database = current_database() AND (starts_with(slot_name, %s) OR starts_with(slot_name, %s)) ORDER BY 1"""
_NOTED = "SELECT cursor FROM apportion.move WHERE move = %s AND relation = %s"
_WRITERS = """SELECT pid, coalesce(usename, backend_type), extract(epoch FROM now() - xact_start)::int
    FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The source of a channel. `marker` is None without one. `is_whole`: each sharded table is published.

    The target has the marker too. Only the source lists the publication.
    """

    marker: int | None
    is_listed: bool
    has_publication: bool
    has_slot: bool
    is_whole: bool

    @property
    def is_there(self) -> bool:
        """Whether a part of the channel is left on the source."""
        return self.is_listed or self.has_publication or self.has_slot


async def published(connection: Connection, name: str, move: str) -> Publication:
    """Read the source of a channel."""
    [[found]] = await script(connection, publication_of(name, move))
    return publication_in(found)


def publication_of(name: str, move: str) -> Statement:
    """Return the statement that asks for the source of a channel. `publication_in` reads its row."""
    return Statement(_FOUND, {"name": name, "move": move})


def publication_in(found: Sequence[object]) -> Publication:
    """Return the source of a channel from a row."""
    marker, is_listed, has_publication, has_slot, is_whole = found
    return Publication(
        marker=None if marker is None else int(str(marker)),
        is_listed=bool(is_listed),
        has_publication=bool(has_publication),
        has_slot=bool(has_slot),
        is_whole=bool(has_publication and is_whole),
    )


async def publish(connection: Connection, name: str, group: MoveGroup, tables: Sequence[ServerTable]) -> None:
    """Publish the rows of a group and its marker, in the open transaction. A publication that is there stays.

    A table in partitions is published as a whole, so the target may have other partitions.
    """
    await rows(connection, _KEEP, group.move, PUBLICATION, name)
    await rows(connection, "INSERT INTO apportion.marker VALUES (%s, 0) ON CONFLICT DO NOTHING", group.move)
    if (await published(connection, name, group.move)).has_publication:
        return
    for table in tables:
        await _identify(connection, group.source, table)
    each = [f"{table.name} WHERE ({slots_of(group)})" for table in tables]
    each.append(f"apportion.marker WHERE (move = {text(group.move)})")
    options = "publish = 'insert, update, delete', publish_via_partition_root = true"
    made = f"CREATE PUBLICATION {quoted(name)} FOR TABLE {', '.join(each)} WITH ({options})"
    await rows(connection, made.replace("%", "%%"))


async def _identify(connection: Connection, shard: str, table: ServerTable) -> None:
    found = await rows(connection, _IDENTITY, table.name)
    if not found:
        hint = f"Make the unique index again: apportion shards add URL SET {shard}=URL --models MODULE:Base"
        raise InvalidInput(f"index of table {table.name} in shard {shard}", "absent", "one over slot and key", hint)
    for name, is_identity, index in ((table.name, *found[0]), *await rows(connection, _PARTS, table.name)):
        if not is_identity:
            made = f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX {index}"
            await rows(connection, made.replace("%", "%%"))


async def raised(connection: Connection, move: str) -> int:
    """Raise the marker of a move, and return it. 0 for a move without a native channel."""
    [found] = await script(connection, rise_of(move))
    return int(found[0][0]) if found else 0


def rise_of(move: str) -> Statement:
    """Return the statement that raises the marker of a move. It changes nothing without a native channel."""
    return Statement("UPDATE apportion.marker SET attempt = attempt + 1 WHERE move = %s RETURNING attempt", (move,))


def end_of(name: str) -> Statement:
    """Return the statement that drops a publication: from its commit on, no change of the source reaches the target."""
    return Statement(f"DROP PUBLICATION IF EXISTS {quoted(name)}".replace("%", "%%"))


async def make_slot(connection: Connection, slot: str) -> None:
    """Make a replication slot. It waits for all transactions that have written, in any database of the server.

    The server cancels a wait of `CREATE_SECONDS`, and leaves no slot. `is_cut_off` knows the error.
    """
    await rows(connection, "SELECT set_config('statement_timeout', %s, true)", f"{CREATE_SECONDS}s")
    await rows(connection, "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", slot)


async def oldest_writer(connection: Connection) -> str:
    """Return a sentence about the oldest transaction that has written."""
    found = await rows(connection, _WRITERS)
    if not found:
        return "the server does not name them"
    return f"process {found[0][0]} of {found[0][1]} has written for {found[0][2]} s"


async def slots_made(connection: Connection, name: str, move: str) -> list[tuple[str, str, int | None]]:
    """Return the name, the state and the user of each replication slot of a move, also those of copies of tables."""
    return [(slot, state, pid) for slot, state, pid, _ in await _slots(connection, name, move)]


async def slot_sizes(connection: Connection, name: str, move: str) -> list[str]:
    """Return the name of each replication slot of a move, with the size of the log that the server keeps for it."""
    return [
        f"{slot}, which the server has invalidated"
        if state == LOST
        else f"{slot}, which keeps {size_text(size)} of WAL"
        for slot, state, _, size in await _slots(connection, name, move)
    ]


async def kept_log(connection: Connection, name: str, move: str) -> LogSize | None:
    """Return the size of the log that the server keeps for a move, None without a replication slot.

    The slots share the log. So the size is that of the slot that is furthest behind.
    """
    found = await _slots(connection, name, move)
    if not found:
        return None
    return LogSize(bytes=max(size for *_, size in found), is_lost=any(state == LOST for _, state, *_ in found))


async def _slots(connection: Connection, name: str, move: str) -> list[tuple[str, str, int | None, int]]:
    noted = await rows(connection, _NOTED, move, SUBSCRIPTION)
    other = sync_prefix(int(noted[0][0])) if noted else f"{name}_"
    found = await rows(connection, _SLOTS, f"{name}_", other)
    return [(slot, state, pid, max(0, size or 0)) for slot, state, pid, size in found]


async def drop_slot(connection: Connection, slot: str) -> None:
    """Drop one replication slot that nobody uses."""
    await rows(connection, "SELECT pg_drop_replication_slot(%s)", slot)


async def drop_slots(connection: Connection, name: str, move: str, shard: str, *, kept: str = "") -> None:
    """Drop the replication slots of a move, except `kept`. A sender that still uses one is ended first."""
    for _ in range(round(_DROP_SECONDS / _DROP_PAUSE_SECONDS)):
        found = [each for each in await slots_made(connection, name, move) if each[0] != kept]
        for slot, _, pid in found:
            if pid is None:
                await drop_slot(connection, slot)
            else:
                await rows(connection, "SELECT pg_terminate_backend(%s)", pid)
        if not found:
            return
        await asyncio.sleep(_DROP_PAUSE_SECONDS)
    raise StoreUnavailable(f"shard {shard}", f"the replication slots of move {move} are still in use")


async def note_subscription(connection: Connection, move: str, subscription: int) -> None:
    """List the subscription on the source, before the subscription makes replication slots there."""
    await rows(connection, _KEEP, move, SUBSCRIPTION, f"{subscription}")


async def forget(connection: Connection, move: str) -> None:
    """Delete the marker of a move, and all that it lists in `apportion.move`, on either shard."""
    await rows(connection, "DELETE FROM apportion.marker WHERE move = %s", move)
    await rows(connection, "DELETE FROM apportion.move WHERE move = %s", move)


def is_cut_off(error: psycopg.Error) -> bool:
    """Whether the server cancelled a statement, as `statement_timeout` does."""
    return error.sqlstate == "57014"
