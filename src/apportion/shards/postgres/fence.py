"""The fence of a shard in PostgreSQL: the first statement of each transaction takes the shared lock of its slots.

The mover takes the same lock exclusively before it changes the row of a slot. So it waits for writers in flight. A
writer that waited for the mover reads the new row. The lock ends with the transaction, and so does the setting that
names the slots. So a session works through a pooler that lends connections by the transaction.

A new connection also compares the shard and the timeline of its server. Each transaction compares the timeline again in
the round trip of its fence, because a pooler may lend it another server.

Promises: one round trip for each transaction, and one more for each connection. A statement that writes rows of other
slots is `CrossShard`.
Refuses: connections in autocommit, where a fence would end before the write; servers older than PostgreSQL 14.
Source: https://docs.sqlalchemy.org/en/20/core/events.html#sqlalchemy.events.DialectEvents.handle_error
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import fields
from itertools import chain
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Engine, Table, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

from apportion.errors import CrossShard, InvalidInput
from apportion.shards.meta import ShardMeta, check_meta, compare_meta, meta_of
from apportion.shards.pin import PIN_OPTION, NotAccepted, Pin
from apportion.shards.postgres import schema
from apportion.shards.postgres.functions import FOREIGN, MOVED, SWITCHING
from apportion.shards.postgres.partitions.layout import check_partitioned, make_first
from apportion.shards.postgres.timeline import NUMBER, TIMELINE, timeline_in
from apportion.shards.slot_rows import SlotRow, SlotState, slot_row
from apportion.shards.timeline.admission import Admission
from apportion.shards.timeline.timeline import Timeline
from apportion.tables.layout import Version

_META = "apportion.shard_meta"
_OLDEST = (14,)
_SLOT = re.compile(r"slot (\d+) is not fenced")
_CALL = f"SELECT apportion.{{name}}({{0}}::smallint[], {{1}}::bigint, {{2}}::bigint), {NUMBER}"
_LAZY = ", set_config('synchronous_commit', 'off', true)"
_FIELDS = [each.name for each in fields(ShardMeta)]
_NAMED = f"SELECT {', '.join(_FIELDS)}, {TIMELINE} FROM {_META}"  # noqa: S608 - ours
_SLOTS = "SELECT slot, state, life, number FROM apportion.slot"
_SEEN = "apportion_timeline"
"""The key of a connection's admitted timeline in its `info`."""

# Codes after which the shard may accept the slots soon. 40001: outside READ COMMITTED, a row has changed meanwhile.
# 40P01: two first writers were in a deadlock. 55P03: a mover held the lock for 2 s.
_LATER = frozenset({SWITCHING, "40001", "40P01", "55P03"})

# The schema, its functions or its tables do not exist: this shard has left the set. A fence that waited for the removal
# finds its function, and no table.
_LEFT = frozenset({"3F000", "42883", "42P01"})


class PostgresFence:
    """Asks a shard in PostgreSQL."""

    read_only: Mapping[str, bool] = MappingProxyType({"postgresql_readonly": True})
    snapshot: Mapping[str, Any] = MappingProxyType({**read_only, "isolation_level": "REPEATABLE READ"})

    _admission: Admission | None = None

    def prepare(self, engine: Engine, admission: Admission | None = None) -> None:
        """Let a refusal of the triggers be `CrossShard`. An operator's engine has no admission."""
        self._admission = admission
        event.listen(engine, "handle_error", _explained)

    def check(self, connection: Connection, meta: ShardMeta) -> None:
        """Refuse a database that is not the shard that the control store says, and a connection in autocommit."""
        check_meta(connection, meta, _META)
        connection.exec_driver_sql("SELECT set_config('apportion.slots', 'x', true)").close()
        kept = connection.exec_driver_sql("SELECT current_setting('apportion.slots', true)").scalar()
        if kept != "x":
            hint = "Make the engine without isolation_level='AUTOCOMMIT'."
            raise InvalidInput("engine of a shard", "one in autocommit", "one that begins transactions", hint)

    def enter(self, connection: Connection, slots: Sequence[int], version: Version, *, is_read_only: bool) -> None:
        """Accept the slots, or raise `NotAccepted`. `StoreWentBack` on a timeline that may lack commits."""
        with _refused():
            self._admit(connection)
            self._admit(connection, _called(connection, "read" if is_read_only else "fence", slots, version))

    def settle(self, engine: Engine, slots: Sequence[int], version: Version) -> None:
        """See `Fence`. It has a transaction of its own, so that no writer waits for the commit of the first writer.

        Its commit waits for no disk. A write of the slot is durable only together with this commit, which is older.
        """
        with engine.connect() as connection, _refused():
            connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                self._admit(connection)
                self._admit(connection, _called(connection, "fence", slots, version, _LAZY))

    def _admit(self, connection: Connection, number: int | None = None) -> None:
        """Admit a new connection, or a pooled one that now leads to a server with another timeline `number`."""
        seen = connection.info.get(_SEEN)
        if self._admission is None or (isinstance(seen, Timeline) and number in (None, seen.number)):
            return
        connection.info.pop(_SEEN, None)
        row = connection.exec_driver_sql(_NAMED).one()
        found, meta = timeline_in(*row[5:]), ShardMeta(**dict(zip(_FIELDS, row[:5], strict=True)))
        try:
            compare_meta(meta, self._admission.meta)
        except InvalidInput:
            if self._admission.has_left():
                raise NotAccepted(is_switching=False) from None  # The table in memory is older.
            raise
        self._admission.check(found, lambda: _rows(connection))
        connection.info[_SEEN] = found

    def states(self, connection: Connection) -> Mapping[int, SlotState]:
        """Return the state of each slot that a reader of all shards may read. See `Fence`."""
        if self._admission is not None:
            digits = connection.exec_driver_sql(f"SELECT {NUMBER}").scalar_one()
            self._admit(connection, int(digits, 16))
        said = """SELECT slot, state FROM apportion.slot
            WHERE (state <> 'incoming' OR number IS NOT NULL) AND former IS DISTINCT FROM 'owner'"""
        return {row[0]: row[1] for row in connection.exec_driver_sql(said)}

    def others(self, connection: Connection) -> Set[int]:
        """Return the slots with a row here, and perhaps with rows of tables here, that no reader may count."""
        said = "SELECT slot FROM apportion.slot WHERE state <> 'owner' OR former = 'owner'"
        return {*connection.exec_driver_sql(said).scalars()}

    def limit(self, connection: Connection, seconds: float | None) -> None:
        """Limit each statement of the transaction of a connection. The limit ends with the transaction."""
        if seconds is not None:
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")

    def found(self, connection: Connection, meta: ShardMeta, tables: Sequence[Table], slots: Sequence[int]) -> None:
        """Turn the database into this shard: add triggers and partitions, and make the shard the owner of the slots."""
        _check_server(connection)
        check_partitioned(connection, tables, is_shard=True)
        named = map(connection.dialect.identifier_preparer.format_table, tables)  # as drivers read it: with %%
        own = (statement.replace("%", "%%") for statement in schema.STATEMENTS)
        for statement in chain(own, chain.from_iterable(map(schema.triggers, named))):
            connection.exec_driver_sql(statement)
        make_first(connection, tables)
        if meta_of(connection, _META) is not None:
            check_meta(connection, meta, _META)
            return
        connection.exec_driver_sql(
            "INSERT INTO apportion.shard_meta (id, set_id, shard, slots, hasher, format) SELECT 1, %s, %s, %s, %s, %s",
            (meta.set_id, meta.shard, meta.slots, meta.hasher, meta.format),
        )
        owned = "INSERT INTO apportion.slot (slot, state) SELECT unnest(%s::smallint[]), 'owner'"
        connection.exec_driver_sql(owned, (list(slots),))


def _rows(connection: Connection) -> dict[int, SlotRow]:
    """Return the rows of the slots that a shard has."""
    return {
        slot: slot_row(slot, state, life, number) for slot, state, life, number in connection.exec_driver_sql(_SLOTS)
    }


def _called(connection: Connection, name: str, slots: Sequence[int], version: Version, more: str = "") -> int:
    """Call a function of the fence, and `more` in the same wait. Return the number of the server's timeline."""
    marks = ("$1", "$2", "$3") if connection.dialect.paramstyle == "numeric_dollar" else ("%s", "%s", "%s")
    call = _CALL.format(*marks, name=name) + more
    _, digits, *_ = connection.exec_driver_sql(call, (list(slots), version.incarnation, version.number)).one()
    return int(digits, 16)


@contextmanager
def _refused() -> Iterator[None]:
    """Turn the refusals of a shard into `NotAccepted`."""
    try:
        yield
    except DBAPIError as error:
        code = _code(error.orig)
        if code == MOVED or code in _LATER | _LEFT:
            raise NotAccepted(is_switching=code in _LATER) from error
        raise


def _explained(context: ExceptionContext) -> None:
    """Raise `CrossShard` in place of the driver's error where a pinned session wrote a row of another slot."""
    connection = context.connection
    pin = None if connection is None else connection.get_execution_options().get(PIN_OPTION)
    if isinstance(pin, Pin) and _code(context.original_exception) == FOREIGN:
        slot = _SLOT.search(str(context.original_exception))
        hint = "Open a session of that key; a row keeps its slot, and TRUNCATE is refused."
        act = "a row of the statement"
        raise CrossShard(act, slot[1] if slot else "another", pin.slots, hint) from context.original_exception


def _code(error: BaseException | None) -> str | None:
    """Return the SQLSTATE of a driver's error: psycopg and asyncpg name it `sqlstate`, psycopg2 `pgcode`."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _check_server(connection: Connection) -> None:
    found = connection.dialect.server_version_info
    if found is not None and tuple(found) < _OLDEST:
        version = ".".join(map(str, found))
        hint = "Upgrade the server of the shard."
        raise InvalidInput("PostgreSQL of a shard", version, f"{_OLDEST[0]} or newer", hint)
