"""The file of a shard, for a mover: runs transactions on its own thread, and translates their errors.

Promises: the event loop never waits for the disk. A writing transaction first shows the mover's token, and is durable
when it returns. It holds the lock of this file alone, because an attached file is only read. A transaction that cannot
get a lock in time raises `StoreUnavailable`, and has changed nothing. So does a transaction that finds another file at
a path, or none, and one that meets a migration of the shard's tables. Foreign keys do nothing here, because rows that a
cascade changed on the source are logged one by one.
Refuses: an absent file, and a file that is not the expected shard.
Source: https://www.sqlite.org/lang_attach.html, https://www.sqlite.org/pragma.html#pragma_synchronous
"""

# ruff: noqa: S608 - names are ours

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from apportion.errors import ApportionError, BadSnapshot, InvalidInput, SchemaDiffers, StoreDenied, StoreUnavailable
from apportion.guards.sql import SqlGuard
from apportion.model.epoch import FencingToken
from apportion.shards.lost_table import next_step
from apportion.shards.move_group import MoverWork
from apportion.shards.slot_rows import DAMAGE
from apportion.shards.sqlite.table_lock import FileLock
from apportion.stores.sqlite.connection import code_of, is_busy
from apportion.stores.sqlite.place import identity

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

LOCK_WAIT_SECONDS = 5.0
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0005, 0.01
_GUARD = SqlGuard()
_MASK, _UNMASK = "INSERT INTO main.apportion_mover (token) VALUES (?)", "DELETE FROM main.apportion_mover"
_AGAIN = "Check the file and its folder. Then run the same call again; that does no harm."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPath:
    """The place of a shard: the path of its file, and the names of set and shard for messages and tokens."""

    set_name: str
    shard: str
    path: Path

    def uri(self, mode: str) -> str:
        """Return the address of the file for SQLite. With it, SQLite never makes a file."""
        return f"file:{quote(str(self.path))}?mode={mode}"


class ShardFile:
    """One connection to a file. The file `source` is attached to it under the name `source`, and only read."""

    def __init__(self, place: ShardPath, *, source: ShardPath | None = None) -> None:
        self.place: ShardPath = place
        self.name: str = f"shard {place.shard}"
        self._source = source
        self._connection: sqlite3.Connection | None = None
        self._seen: object = None  # the identity of each open file
        self._lock: FileLock | None = None
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="apportion-shard")

    async def read(self, work: Work[Result]) -> Result:
        """Run reads in one transaction. They see one state of each file."""
        return await self._run(lambda connection: self._transact(connection, work))

    async def write(self, group: MoverWork, token: FencingToken, work: Work[Result]) -> Result:
        """Run a durable transaction of a mover. The triggers that refuse other writers are off in it."""
        shown = replace(token, resource=f"shards/{self.place.set_name}/{group.move}")

        def _guarded(connection: sqlite3.Connection) -> Result:
            _GUARD.check(connection, shown)  # The first statement takes the lock of this file alone.
            connection.execute(_MASK, (str(token),))
            result = work(connection)
            connection.execute(_UNMASK)
            return result

        return await self._run(lambda connection: self._locked(connection, _guarded))

    async def close(self) -> None:
        """Close the connection, after the work that is under way. A cancelled close still closes it."""
        if self._is_closed:
            return
        self._is_closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown(wait=False)
        await closing

    async def _run(self, step: Work[Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._tried, step)

    def _tried(self, step: Work[Result]) -> Result:
        """Repeat a step while other connections hold the lock, up to the longest wait, or until a close."""
        deadline, pause = time.monotonic() + LOCK_WAIT_SECONDS, _SHORTEST_PAUSE_SECONDS
        while True:
            try:
                return step(self._opened())
            except sqlite3.DatabaseError as error:
                if not _is_held(error) or self._is_closed or time.monotonic() >= deadline:
                    raise self._translated(error) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _locked(self, connection: sqlite3.Connection, work: Work[Result]) -> Result:
        """Run a transaction under the shared lock of the tables, which is kept until the file is closed.

        If another process has deleted the file of the lock, the lock is taken again.
        """
        if self._lock is not None and not self._lock.is_in_place:
            self._unlock()
        if self._lock is None:
            self._lock = FileLock(self.place.path, self.name, is_shared=True)
        return self._transact(connection, work)

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _transact(self, connection: sqlite3.Connection, work: Work[Result]) -> Result:
        connection.execute("BEGIN")
        try:
            result = work(connection)
            _commit(connection)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return result

    def _opened(self) -> sqlite3.Connection:
        """Return the connection. If a path has another file now, or none, raise: the next call opens that file."""
        files = [identity(each.path) for each in (self.place, self._source) if each is not None]
        if self._connection is not None and files != self._seen:
            self._let_go()
            raise StoreUnavailable(self.name, f"a file was replaced or removed: {self._paths()}", _AGAIN)
        if self._connection is None:
            self._connection, self._seen = self._open(), files
        return self._connection

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.place.uri("rw"), uri=True, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in ("synchronous = FULL", "fullfsync = ON", "foreign_keys = OFF", "temp_store = MEMORY"):
                connection.execute(f"PRAGMA {pragma}")
            _require_shard(connection, self.place, "main")
            if self._source is not None:
                self._attach(connection, self._source)
        except (sqlite3.DatabaseError, ApportionError):
            connection.close()
            raise
        return connection

    def _attach(self, connection: sqlite3.Connection, source: ShardPath) -> None:
        try:
            connection.execute("ATTACH ? AS source", (source.uri("ro"),))
        except sqlite3.OperationalError as error:
            if "text encoding" not in str(error):
                raise
            found = ["one writes text as UTF-8 and the other as UTF-16"]
            raise SchemaDiffers(f"shard {source.shard}", self.name, found) from error
        _require_shard(connection, source, "source")

    def _paths(self) -> str:
        return " or ".join(f"{each.path}" for each in (self.place, self._source) if each is not None)

    def _let_go(self) -> None:
        self._unlock()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _translated(self, error: sqlite3.DatabaseError) -> ApportionError | sqlite3.DatabaseError:
        """Return the error of this package for an error of SQLite. An error in our own statements stays unchanged."""
        code = code_of(error)
        if _is_held(error):
            return StoreUnavailable(self.name, f"others held the lock of {self._paths()} for {LOCK_WAIT_SECONDS:g} s")
        if code == sqlite3.SQLITE_FULL:
            return StoreUnavailable(self.name, "its disk is full", "Nothing was changed. Free some space, then go on.")
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return StoreDenied(self.name, "the file is read-only", "Allow this user to write both file and folder.")
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            self._let_go()
            return StoreUnavailable(self.name, f"{error}", _AGAIN)
        if f"{error}".startswith("no such"):
            hint = next_step(f"{error}") or DAMAGE
            return BadSnapshot(f"tables of {self.name}", f"{error}", "those that apportion makes", hint)
        return error


def _require_shard(connection: sqlite3.Connection, place: ShardPath, schema: str) -> None:
    """Raise unless the row in a file names the shard of this place."""
    has_meta = f"SELECT 1 FROM {schema}.sqlite_master WHERE name = 'apportion_meta'"
    there = connection.execute(has_meta).fetchall()
    found = connection.execute(f"SELECT set_id, shard FROM {schema}.apportion_meta").fetchall() if there else []
    if found != [(place.set_name, place.shard)]:
        shown = " and ".join(f"shard {shard} of set {name}" for name, shard in found) or "no shard of a set"
        hint = "Look at the URL of the shard: apportion shards status URL SET"
        raise InvalidInput(f"file {place.path.name}", shown, f"shard {place.shard} of set {place.set_name}", hint)


def _is_held(error: sqlite3.DatabaseError) -> bool:
    """Whether other connections hold a lock. During a read of a schema, only the text of the error says so."""
    return is_busy(error) or "is locked" in str(error)


def _commit(connection: sqlite3.Connection) -> None:
    """Commit. Readers of a file without a write-ahead log can delay it for a moment."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or not connection.in_transaction or time.monotonic() >= deadline:
                raise
        else:
            return
        time.sleep(_SHORTEST_PAUSE_SECONDS)
