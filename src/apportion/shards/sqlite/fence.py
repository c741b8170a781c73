"""The fence of a shard in SQLite: every transaction that may write takes the lock of the file before it reads.

`BEGIN IMMEDIATE` and the read of the slot's row stand under one lock. The mover changes that row under the same lock,
so no writer is in flight when a slot is fenced.

Source: https://docs.sqlalchemy.org/en/20/dialects/sqlite.html#serializable-isolation-savepoints-transactional-ddl
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from apportion.shards.meta import ShardMeta, check_meta, meta_of
from apportion.shards.pin import READ_ONLY_OPTION, NotAccepted
from apportion.shards.pinned_slot import FUNCTION
from apportion.shards.slot_rows import SlotRow, accepts
from apportion.shards.sqlite import schema
from apportion.tables.layout import Version

_QUERY_ONLY, _SLOT = "apportion_query_only", "apportion_slot"


class SqliteFence:
    """Begins transactions of SQLite, and asks the shard."""

    def prepare(self, engine: Engine) -> None:
        """Let SQLAlchemy, and not the driver, begin transactions."""
        event.listen(engine, "connect", _connected)
        event.listen(engine, "begin", _begun)

    def enter(self, connection: Connection, slots: Sequence[int], version: Version, *, is_read_only: bool) -> None:
        """Accept the slots, or raise `NotAccepted`. An `incoming` slot becomes `owner` with the first write."""
        connection.info[_SLOT][0] = slots[0]
        for slot in slots:
            row = _row(connection, slot)
            if row is None or not accepts(row, version):
                raise NotAccepted(is_switching=row is not None and row.state == "fenced")
            if row.state == "incoming" and not is_read_only:
                connection.exec_driver_sql("UPDATE apportion_slot SET state = 'owner' WHERE slot = ?", (slot,))

    def found(self, connection: Connection, meta: ShardMeta, tables: Sequence[str], slots: Sequence[int]) -> None:
        """Make the database this shard, with triggers on these tables, the owner of these slots."""
        for statement in (*schema.TABLES, *chain.from_iterable(map(schema.triggers, tables))):
            connection.exec_driver_sql(statement)
        if meta_of(connection) is not None:
            check_meta(connection, meta)
            return
        connection.exec_driver_sql(
            "INSERT INTO apportion_meta (only, set_id, shard, slots, hasher, format) VALUES (1, ?, ?, ?, ?, ?)",
            (meta.set_id, meta.shard, meta.slots, meta.hasher, meta.format),
        )
        connection.exec_driver_sql(
            "INSERT INTO apportion_slot (slot, state) VALUES (?, 'owner')", [(slot,) for slot in slots]
        )


def _row(connection: Connection, slot: int) -> SlotRow | None:
    """Read the row of a slot by a cursor of the driver, which costs a tenth of a statement of SQLAlchemy."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute("SELECT state, life, number FROM apportion_slot WHERE slot = ?", (slot,))
        found = cursor.fetchone()
    finally:
        cursor.close()
    if found is None:
        return None
    state, life, number = found
    return SlotRow(state=state, number=None if number is None else Version(incarnation=life, number=number))


def _connected(connection: Any, record: ConnectionPoolEntry) -> None:  # noqa: ANN401 - of any driver
    connection.isolation_level = None  # the driver itself begins none
    pinned = record.info[_SLOT] = [None]
    connection.create_function(FUNCTION, 0, lambda: pinned[0], deterministic=True)


def _begun(connection: Connection) -> None:
    """Begin as the session asks: a reader takes no lock and cannot write."""
    is_read_only = READ_ONLY_OPTION in connection.get_execution_options()
    if connection.info.get(_QUERY_ONLY, False) != is_read_only:
        connection.exec_driver_sql(f"PRAGMA query_only = {int(is_read_only)}")
        connection.info[_QUERY_ONLY] = is_read_only
    connection.exec_driver_sql("BEGIN" if is_read_only else "BEGIN IMMEDIATE")
