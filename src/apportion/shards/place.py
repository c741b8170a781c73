"""Place of a shard: its database, its engines, and the parts that depend on its kind of database."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import filterfalse
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import Connection, Engine, Table, column, create_engine, inspect, select, table
from sqlalchemy.engine import URL

from apportion.errors import InvalidInput
from apportion.guards.sql import SqlGuard
from apportion.shards.dialects import address_of, fence_of, kind_of
from apportion.shards.forms import sync_form
from apportion.shards.lost_table import next_step
from apportion.shards.meta import ShardMeta, meta_of
from apportion.shards.models import key_columns
from apportion.shards.pin import Fence
from apportion.shards.postgres.partitions.layout import check_partitioned
from apportion.shards.postgres.schema import GUARD
from apportion.shards.postgres.table_lock import table_lock as lock_of_server
from apportion.shards.postgres.takeover import PostgresTakeover
from apportion.shards.postgres.timeline import timeline_of
from apportion.shards.records import ShardRecord
from apportion.shards.slot_rows import SlotRow, slot_row
from apportion.shards.sqlite.capture import TABLES as CAPTURE_TABLES
from apportion.shards.sqlite.child_tables import child_triggers
from apportion.shards.sqlite.table_lock import remove_lock
from apportion.shards.sqlite.table_lock import table_lock as lock_of_file
from apportion.shards.sqlite.takeover import SqliteTakeover
from apportion.shards.takeover.takeover import TakeoverStatements
from apportion.shards.timeline.timeline import Timeline
from apportion.stores.catalog import parsed_url
from apportion.stores.sqlite.place import check, path_of

_TAKEOVERS: dict[str, type[TakeoverStatements]] = {"postgresql": PostgresTakeover, "sqlite": SqliteTakeover}
_GUARDS = {"postgresql": GUARD, "sqlite": SqlGuard()}
LOCK_SECONDS = 30.0
"""The longest wait of an operator's call for the lock of a file that other programs write to."""

# A pooler lends a connection that has the prepared statements of others.
_OPTIONS: Mapping[str, dict[str, Any]] = {
    "sqlite+pysqlite": {"timeout": LOCK_SECONDS},
    "postgresql+psycopg": {"prepare_threshold": None},
}

SLOT_TABLE = "apportion_slot"
_SLOT_ROWS = {"sqlite": (None, SLOT_TABLE), "postgresql": ("apportion", "slot")}
SQLITE_TABLES = ("apportion_mover", "apportion_fences", "apportion_move")
_LOGGED = re.compile(r"apportion_.*_logged_(over_)?(new|changed|gone)")
SQLITE_ACTS = ("insert", "update", "delete", "slot")
POSTGRES_ACTS = ("insert", "update", "delete", "truncate")
_STRAY_SLOTS = """SELECT slot_name FROM pg_replication_slots
    WHERE database = current_database() AND starts_with(slot_name, 'apportion_') AND NOT EXISTS
    (SELECT FROM apportion.move WHERE relation = 'publication' AND starts_with(slot_name, cursor || '_')) ORDER BY 1"""
_IDENTITY = """SELECT system_identifier::text, oid::text FROM pg_control_system(), pg_database
    WHERE datname = current_database()"""
_METAS = {"sqlite": (None, "apportion_meta"), "postgresql": ("apportion", "shard_meta")}


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """The database at an address. An operator's call opens it for a moment."""

    address: str

    @property
    def url(self) -> URL:
        """The URL, with the driver of its database."""
        return address_of(self.address, sync_form.drivers)

    @property
    def fence(self) -> Fence:
        """The fence of its kind of database."""
        return fence_of(self.url)

    @property
    def statements(self) -> TakeoverStatements | None:
        """The statements of a takeover. None for a kind of database that must be empty when it becomes a shard."""
        made = _TAKEOVERS.get(self.url.get_backend_name())
        return None if made is None else made()

    @property
    def path(self) -> Path | None:
        """The file of SQLite, None for a server."""
        name = self.url.database
        return Path(name) if self.url.get_backend_name() == "sqlite" and name else None

    def meta(self, connection: Connection) -> ShardMeta | None:
        """Return the row that names the shard in this database, None if the database is not a shard."""
        schema, name = _METAS[self.url.get_backend_name()]
        if not inspect(connection).has_table(name, schema=schema):
            return None
        return meta_of(connection, name if schema is None else f"{schema}.{name}")

    def check_times(self, connection: Connection, tables: Sequence[Table]) -> None:
        """Refuse timed tables of a server without partitions. A file has none."""
        if self.url.get_backend_name() == "postgresql":
            check_partitioned(connection, tables, is_shard=self.meta(connection) is not None)

    def timeline(self, connection: Connection) -> Timeline | None:
        """Return the timeline of the server. None for a file, which has none."""
        return timeline_of(connection) if self.url.get_backend_name() == "postgresql" else None

    def identity(self, connection: Connection) -> tuple[str, str] | None:
        """Return the cluster and the number of a database of a server, the same under each name of its host."""
        if self.url.get_backend_name() != "postgresql":
            return None
        cluster, number = connection.exec_driver_sql(_IDENTITY).one()
        return cluster, number

    def slot_rows(self, connection: Connection) -> dict[int, SlotRow]:
        """Return the rows of the slots that a shard has."""
        schema, name = _SLOT_ROWS[self.url.get_backend_name()]
        columns: list[Any] = [column(each) for each in ("slot", "state", "life", "number")]
        rows = connection.execute(select(table(name, *columns, schema=schema))).all()  # An open cursor keeps a lock.
        return {slot: slot_row(slot, state, life, number) for slot, state, life, number in rows}

    def marks_left(self, connection: Connection) -> int:
        """Return the number of marks of movers that stand without a transaction.

        A mover deletes its mark in the transaction that wrote it. So the number is 0 unless another program wrote one.
        """
        if self.url.get_backend_name() != "sqlite" or not inspect(connection).has_table(SQLITE_TABLES[0]):
            return 0
        return int(connection.exec_driver_sql("SELECT count(*) FROM apportion_mover").scalar_one())

    def absent_tables(self, connection: Connection) -> dict[str, str]:
        """Return the tables of apportion that this shard in a file lacks, each with the next step.

        Both tables of the log are needed as long as one of its triggers is there.
        """
        if self.path is None:
            return {}
        there = {*connection.exec_driver_sql("SELECT name FROM sqlite_schema").scalars()}
        has_log = any(_LOGGED.search(name) for name in there)
        needed = (SLOT_TABLE, *SQLITE_TABLES, *(CAPTURE_TABLES if has_log else ()))
        return {name: next_step(f"no such table: {name}") for name in needed if name not in there}

    def absent_triggers(self, connection: Connection, tables: Sequence[Table]) -> list[str]:
        """Return the triggers that the tables of this shard lack. A disabled trigger counts as absent."""
        if self.url.get_backend_name() == "sqlite":
            expected = [f"apportion_{each.name}_{act}" for each in tables for act in SQLITE_ACTS]
            expected += [f"apportion_{each.name}_key" for each in tables if key_columns(each)]
            expected += [name for each in tables for name, _ in child_triggers(connection, each)]
            there = connection.exec_driver_sql("SELECT name FROM sqlite_schema WHERE type = 'trigger'").scalars()
            return [*filterfalse(set(there).__contains__, expected)]
        statement = (
            "SELECT c.relname || '.' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "WHERE t.tgname LIKE 'apportion_' || chr(37) AND t.tgenabled <> 'D'"
        )
        found = set(connection.exec_driver_sql(statement).scalars())
        named = [f"{each.name}.apportion_{act}" for each in tables for act in POSTGRES_ACTS]
        return [*filterfalse(found.__contains__, named)]

    def stray_slots(self, connection: Connection) -> list[str]:
        """Return apportion's replication slots in this database that no move lists. SQLite has none."""
        if self.url.get_backend_name() == "sqlite":
            return []
        return [*connection.exec_driver_sql(_STRAY_SLOTS).scalars()]

    @property
    def guard(self) -> SqlGuard:
        """The guard of the tokens of movers and migrations in this database."""
        return _GUARDS[self.url.get_backend_name()]

    @contextmanager
    def tables_locked(self, shard: str) -> Iterator[None]:
        """Hold the lock of the shard's tables until the end of a block. A mover shares it while it writes.

        `StoreUnavailable` if another process holds it for ten seconds. It ends with the process.
        """
        if self.path is not None:
            with lock_of_file(self.path, f"shard {shard}"):
                yield
            return
        with self.reader() as engine, lock_of_server(engine, shard):
            yield

    def remove_lock(self, shard: str) -> None:
        """Delete the file of the lock of a shard that has left its set. A lock of a server has no file."""
        if self.path is not None:
            remove_lock(self.path, f"shard {shard}")

    def is_there(self) -> bool:
        """Whether the file of the database exists. A server always counts as there."""
        return self.path is None or self.path.exists()

    def check_place(self) -> None:
        """Refuse an absent directory, a network file system, and a kind of database without a fence."""
        _ = self.fence
        if self.path is not None:
            check(self.path)

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Open an engine for writers."""
        with self.reader() as made:
            self.fence.prepare(made)
            yield made

    @contextmanager
    def reader(self) -> Iterator[Engine]:
        """Open an engine that takes no lock before it writes."""
        made = create_engine(self.url, connect_args=_OPTIONS.get(self.url.drivername, {}))
        try:
            yield made
        finally:
            made.dispose()


def check_apart(store: str, shards: Mapping[str, ShardRecord]) -> None:
    """Refuse one database for two shards, under any name, and refuse the file of the control store."""
    taken: dict[object, str] = {}
    if (parsed := parsed_url(store)).scheme == "sqlite":
        taken[_file(path_of(parsed))] = "the control store"
    for shard, record in sorted(shards.items()):
        place = DatabasePlace(record.address())
        url, path = place.url, place.path
        known = (url.host, url.port, url.database) if path is None else _file(path)
        owner = taken.setdefault(known, f"shard {shard}")
        if owner != f"shard {shard}":
            raise one_database(shard, url, owner)


def one_database(shard: str, url: URL, owner: str) -> InvalidInput:
    """Return the error for a shard in the database of another shard, or of the control store."""
    hint = "Give each shard a database of its own. Nothing was written."
    return InvalidInput(f"database of shard {shard}", url.database, f"another one than that of {owner}", hint)


def _file(path: Path) -> object:
    """Return the identity of a file, which is the same for all links to it.

    For an absent file, return its absolute path.
    """
    try:
        found = path.stat()
    except OSError:
        return path.resolve()
    return found.st_dev, found.st_ino


def is_relative(record: ShardRecord) -> bool:
    """Whether a record names a file by a relative path, which means another file from another folder."""
    scheme, _, path = record.url.partition(":///")
    return scheme.startswith("sqlite") and not path.startswith("/")


def placed(shards: Mapping[str, ShardRecord]) -> dict[str, ShardRecord]:
    """Check the place of each record, and return the records with absolute paths."""
    for shard, each in shards.items():
        _check_file(shard, each)
    whole = {shard: _whole(each) for shard, each in shards.items()}
    for each in whole.values():
        DatabasePlace(each.address()).check_place()
    return whole


def _check_file(shard: str, record: ShardRecord) -> None:
    """Refuse a URL of SQLite with variables or options, or of a database in memory: a mover opens the path alone."""
    if kind_of(record.url) == "sqlite" and "${" in record.url:
        hint = "Write the path itself. Only URLs of servers have variables."
        raise InvalidInput(f"URL of shard {shard}", record.url, "a path without variables", hint)
    url = DatabasePlace(record.address()).url
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            found, hint = f"{url}", "Write sqlite:///path/to/file.db."
            raise InvalidInput(f"URL of shard {shard}", found, "the path of a file", hint)
        if url.query:
            found, hint = f"{sorted(url.query)}", "Give options to the engine: open_shards(..., create_engine=...)."
            raise InvalidInput(f"options in the URL of shard {shard}", found, "a path alone", hint)


def _whole(record: ShardRecord) -> ShardRecord:
    """Return a record with a URL that names the same file from every folder."""
    scheme, mark, path = record.url.partition(":///")
    if not scheme.startswith("sqlite") or not path:
        return record
    whole = quote(f"{Path(unquote(path)).absolute()}", safe="/")
    return replace(record, url=f"{scheme}{mark}{whole}")
