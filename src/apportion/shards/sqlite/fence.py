"""The fence of a shard in SQLite: every transaction that may write takes the lock of the file before it reads.

`BEGIN IMMEDIATE` takes the lock, and the row of the slot is read under it. The mover changes that row under the same
lock. So no writer has an open transaction at the moment of the fence.

Promises: no transaction begins in a file that was moved away from its path, or replaced at its path.
Source: https://docs.sqlalchemy.org/en/20/dialects/sqlite.html#serializable-isolation-savepoints-transactional-ddl
"""

import sqlite3
from collections.abc import Mapping, Sequence, Set
from inspect import isawaitable
from itertools import chain
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Engine, Table, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import OperationalError
from sqlalchemy.util import await_only

from apportion.errors import BadSnapshot, InvalidInput, StoreUnavailable
from apportion.shards.lost_table import next_step
from apportion.shards.meta import ShardMeta, check_meta, meta_of
from apportion.shards.models import key_columns
from apportion.shards.periods.timed_table import timed_of
from apportion.shards.pin import PIN_OPTION, NotAccepted
from apportion.shards.pins.pinned_slot import FUNCTION
from apportion.shards.slot_rows import DAMAGE, SlotRow, SlotState, accepts, check_state, slot_row
from apportion.shards.sqlite import schema
from apportion.shards.sqlite.child_tables import child_triggers
from apportion.shards.timeline.admission import Admission
from apportion.stores.sqlite.place import identity
from apportion.tables.layout import Version

_META = "apportion_meta"
_QUERY_ONLY, _SLOT = "apportion_query_only", "apportion_slot"
_FILE = "apportion_file"
_READ_ONLY_OPTION = "apportion_read_only"
_STEPS = 1_000  # of the virtual machine of SQLite, between two looks at a limit


class SqliteFence:
    """See `Fence`. Begins transactions of SQLite, and reads the slot rows of the shard."""

    read_only: Mapping[str, bool] = MappingProxyType({_READ_ONLY_OPTION: True})
    snapshot: Mapping[str, Any] = read_only

    def prepare(self, engine: Engine, admission: Admission | None = None) -> None:  # noqa: ARG002 - of the protocol
        """Let SQLAlchemy, and not the driver, begin transactions. An engine of two routers is prepared once.

        A file needs no admission: each transaction compares the identity of the file.
        """
        if not event.contains(engine, "begin", _begun):
            event.listen(engine, "begin", _begun)
            event.listen(engine, "handle_error", _explained)

    def check(self, connection: Connection, meta: ShardMeta) -> None:
        """Refuse a database that is not the shard that the control store names."""
        check_meta(connection, meta, _META)

    def enter(self, connection: Connection, slots: Sequence[int], version: Version, *, is_read_only: bool) -> None:
        """Accept the slots, or raise `NotAccepted`. An `incoming` slot becomes `owner` with the first write."""
        connection.info[_SLOT][0] = slots[0]
        for slot in slots:
            row = _row(connection, slot)
            if row is None or not accepts(row, version):
                raise NotAccepted(is_switching=row is not None and row.state == "fenced")
            if row.state == "incoming" and not is_read_only:
                connection.exec_driver_sql("UPDATE apportion_slot SET state = 'owner' WHERE slot = ?", (slot,))

    def settle(self, engine: Engine, slots: Sequence[int], version: Version) -> None:
        """Do nothing. A file has one writer at a time anyway, so the first writer of a slot delays no other one."""

    def states(self, connection: Connection) -> Mapping[int, SlotState]:
        """Return the state of each slot that a reader of all shards may read. See `Fence`."""
        said = """SELECT slot, state FROM apportion_slot
            WHERE (state <> 'incoming' OR number IS NOT NULL) AND former IS NOT 'owner'"""
        try:
            rows = connection.exec_driver_sql(said).all()  # After an error, an open cursor would keep its lock.
        except OperationalError as error:
            if not f"{error.orig}".startswith("no such"):
                raise
            raise BadSnapshot(_SLOT, f"{error.orig}", "the table that apportion makes", DAMAGE) from error
        found = dict(map(tuple, rows))
        for state, slot in {state: slot for slot, state in found.items()}.items():
            check_state(slot, state)
        return found

    def others(self, connection: Connection) -> Set[int]:
        """Return the slots with a row here, and perhaps with rows of tables here, that no reader may count."""
        said = "SELECT slot FROM apportion_slot WHERE state <> 'owner' OR former = 'owner'"
        return {*connection.exec_driver_sql(said).scalars()}

    def limit(self, connection: Connection, seconds: float | None) -> None:
        """Limit the time of all statements of a connection from now on together. None ends the limit."""
        driver: Any = connection.connection.driver_connection
        end = None if seconds is None else monotonic() + seconds
        found = driver.set_progress_handler(None if end is None else lambda: monotonic() > end, _STEPS)
        if isawaitable(found):
            await_only(found)

    def found(self, connection: Connection, meta: ShardMeta, tables: Sequence[Table], slots: Sequence[int]) -> None:
        """Turn the database into this shard: add triggers to the tables, and make the shard the owner of the slots."""
        made = (schema.triggers(table.name, key_columns(table)) for table in tables)
        of_children = [each for table in tables for _, each in child_triggers(connection, table)]
        times = (schema.time_index(table.name, timed.column) for table in tables if (timed := timed_of(table)))
        for statement in (*schema.TABLES, *chain.from_iterable(made), *of_children, *times):
            connection.exec_driver_sql(statement)
        if meta_of(connection, _META) is not None:
            check_meta(connection, meta, _META)
            connection.exec_driver_sql(
                "DELETE FROM apportion_mover"
            )  # a stray row: the row of a live mover is invisible here
            return
        connection.exec_driver_sql(
            "INSERT INTO apportion_meta (only, set_id, shard, slots, hasher, format) VALUES (1, ?, ?, ?, ?, ?)",
            (meta.set_id, meta.shard, meta.slots, meta.hasher, meta.format),
        )
        if rows := [(slot,) for slot in slots]:
            connection.exec_driver_sql("INSERT INTO apportion_slot (slot, state) VALUES (?, 'owner')", rows)


def _explained(context: ExceptionContext) -> None:
    """Raise `BadSnapshot` in place of the driver's error if a table of the set was dropped: triggers need it."""
    problem = f"{context.original_exception}"
    connection = context.connection
    is_pinned = connection is not None and PIN_OPTION in connection.get_execution_options()
    if is_pinned and (hint := next_step(problem)):
        raise BadSnapshot("tables of a shard", problem, "those that apportion makes", hint)


def _row(connection: Connection, slot: int) -> SlotRow | None:
    """Read the row of a slot with a cursor of the driver. It costs a tenth of a statement of SQLAlchemy."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute("SELECT state, life, number FROM apportion_slot WHERE slot = ?", (slot,))
        found = cursor.fetchone()
    except sqlite3.OperationalError as error:
        if not f"{error}".startswith("no such"):
            raise
        cursor.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_META,))
        if cursor.fetchone() is None:
            raise NotAccepted(is_switching=False) from error  # This shard has left the set.
        raise BadSnapshot("apportion_slot", f"{error}", "the table that apportion makes", DAMAGE) from error
    finally:
        cursor.close()
    if found is None:
        return None
    state, life, number = found
    return slot_row(slot, state, life, number)


def _prepared(connection: Connection) -> None:
    """Prepare a connection of the driver at its first transaction here. The connection may be older than the router."""
    driver: Any = connection.connection.dbapi_connection
    driver.isolation_level = None  # The driver itself begins no transaction.
    connection.exec_driver_sql("PRAGMA foreign_keys = ON")  # a child belongs to the slot of its parent
    pinned = connection.info[_SLOT] = [None]
    driver.create_function(FUNCTION, 0, lambda: pinned[0], deterministic=True)
    path = Path(connection.exec_driver_sql("PRAGMA database_list").all()[0].file)
    connection.info[_FILE] = path, identity(path)


def _check_file(connection: Connection) -> None:
    """Raise `StoreUnavailable` if the path of the open file now has another file, or none.

    The next connection opens the file that is there then.
    """
    path, opened = connection.info[_FILE]
    if identity(path) != opened:
        connection.invalidate()
        hint = "Nothing was written. Look at the file: apportion shards doctor URL SET. Then run the work again."
        raise StoreUnavailable(f"{path}", "the file was replaced or removed", hint)


def _begun(connection: Connection) -> None:
    """Begin a transaction in the mode of the session. A reader takes no lock and cannot write."""
    if _SLOT not in connection.info:
        _prepared(connection)
    _check_file(connection)
    is_read_only = _READ_ONLY_OPTION in connection.get_execution_options()
    if connection.info.get(_QUERY_ONLY, False) != is_read_only:
        connection.exec_driver_sql(f"PRAGMA query_only = {int(is_read_only)}")
        connection.info[_QUERY_ONLY] = is_read_only
    try:
        connection.exec_driver_sql("BEGIN" if is_read_only else "BEGIN IMMEDIATE")
    except OperationalError as error:
        if "within a transaction" not in f"{error.orig}":
            raise
        found, expected = "an engine that begins transactions itself", "one without a listener for the event begin"
        raise InvalidInput("create_engine", found, expected, "Leave the listener out: sessions do this.") from error
