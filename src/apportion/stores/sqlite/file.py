"""One SQLite file with one connection: transactions that wait for locks without blocking, and their errors.

Promises: a transaction happens whole or not at all. When COMMIT itself fails, the error says whether it may have
happened. Waiting for a lock is sleeping. A durable transaction is on the disk when it returns. A file that replaced
the open one is noticed before the next transaction. No connection is open while the process forks: SQLite's locks
belong to a process. A child that inherits the library's memory of them would write without any lock.
Source: https://www.sqlite.org/howtocorrupt.html (§2.6), https://www.sqlite.org/pragma.html#pragma_synchronous
"""

import asyncio
import gc
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from apportion.errors import InvalidInput, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import Clock
from apportion.stores.sqlite.checkpoint import Checkpoints
from apportion.stores.sqlite.connection import Connection, code_of, is_busy, open_sqlite, value_of
from apportion.stores.sqlite.leftover import COPYING, NOTHING_RESTORED, RESTORING, has_leftover
from apportion.stores.sqlite.migrations import NEWEST
from apportion.stores.sqlite.place import check, identity, refuse_empty
from apportion.stores.sqlite.schema import make_schema, settle_at, stood_at, use_wal, version_of
from apportion.stores.sqlite.turns import Turns

Result = TypeVar("Result")
LOCK_WAIT_SECONDS = 5.0
_CHECKPOINT_SECONDS = 1.0
_LOOK_SECONDS = 0.02
_OUT_OF_REACH = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_REASONS = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Nothing was changed. Make room, then try again."),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", RESTORING),
    sqlite3.SQLITE_NOTADB: ("the file is no database", RESTORING),
}


class InDoubt(StoreUnavailable):
    """COMMIT failed, and it is unknown whether the transaction will be there; `result` is its return value."""

    def __init__(self, store: str, error: sqlite3.Error, result: object) -> None:
        super().__init__(store, f"COMMIT failed ({error})", "It may have happened, and does no harm twice: ask again.")
        self.result = result


class SqliteFile:
    """A connection that opens when needed, and closes for a fork. A test can replace `opener`."""

    def __init__(
        self, path: Path, name: str, clock: Clock, *, opener: Callable[[Path], Connection] = open_sqlite
    ) -> None:
        self.path = path
        self.name = name
        self._clock = clock
        self._opener = opener
        self._pid = os.getpid()
        self._connection: Connection | None = None
        self._openings = 0
        self._opening = asyncio.Lock()
        self._turns = Turns(clock)
        self._checkpoints = Checkpoints(path, clock)
        self._synchronous = ""
        self._stood_at: tuple[int, int] | None = None
        self._closed = False
        _files.add(self)

    async def open(self) -> None:
        """Open the file, unless it is open; make a new file where there is none.

        A file with another inode than at the begin of its incarnation is a copy: it begins another incarnation.
        """
        self.require_open()
        check(self.path)
        async with self._opening:
            if self._connection is None or self.moved:
                await self._opened()

    async def reopen(self) -> None:
        """Open the file that replaced the open one; no file is made."""
        self.require_open()
        check(self.path)
        async with self._opening:
            if not self.moved:
                return
            if identity(self.path) is None:
                raise self._gone()
            refuse_empty(self.path)
            await self._opened()

    async def _opened(self) -> None:
        await self.refuse_leftover()
        await self._patiently(self._adopt)
        inode = (self._stood_at or (0, 0))[1]
        if await self.read(lambda connection: stood_at(connection) != inode):
            await self.write(lambda connection: settle_at(connection, inode))

    async def upgrade(self) -> int:
        """Bring the schema of the file to the newest version, or make it; return the version before."""
        await self.refuse_leftover()
        await self._patiently(self._open)
        return await self._patiently(self._upgrade)

    async def refuse_leftover(self, *, is_restored: bool = False) -> None:
        """Raise `StoreUnavailable` when an earlier file's -wal stands beside the file: opening it would do harm.

        While a checkpoint is being made, the -wal looks like that for a moment.
        """
        deadline = self._clock.elapsed() + _CHECKPOINT_SECONDS
        while self._has_leftover(is_restored=is_restored):
            if self._clock.elapsed() >= deadline:
                reason = f"{self.path.name}-wal is not of this file, and SQLite would play it over it"
                raise StoreUnavailable(self.name, reason, f"To restore: {COPYING}. {NOTHING_RESTORED}")
            await asyncio.sleep(_LOOK_SECONDS)

    def _has_leftover(self, *, is_restored: bool) -> bool:
        with _forking:
            place = identity(self.path)
            is_open_here = any(file.holds(place) for file in list(_files))
            return not is_open_here and has_leftover(self.path, is_restored=is_restored)

    def holds(self, place: tuple[int, int] | None) -> bool:
        """Say whether a connection is open to the file with this identity."""
        return self._connection is not None and self._stood_at == place

    @property
    def moved(self) -> bool:
        """Whether another file, or none, stands where the open one stood."""
        return identity(self.path) != self._stood_at

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run reads that all see one state."""
        return await self._patiently(lambda: self._transact("BEGIN", work))

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run a transaction without interference by others; it is on the disk when this returns.

        `InDoubt` when COMMIT failed so that the outcome is unknown. Any other error means that nothing was changed.
        """
        deadline = self._clock.elapsed() + LOCK_WAIT_SECONDS
        async with self._turns.ordinary():
            step = self._patiently(lambda: self._transact("BEGIN IMMEDIATE", work, "FULL"), deadline, is_first=False)
            result = await step
            if self._connection is not None:
                with _forking:
                    self._checkpoints.make(self._connection)
        return result

    async def renew(self, work: Callable[[Connection], Result]) -> Result:
        """As `write`, before all others of this process, and not flushed to the disk."""
        with self._turns.first():
            return await self._patiently(lambda: self._transact("BEGIN IMMEDIATE", work, "NORMAL"))

    async def data_version(self) -> tuple[int, int]:
        """Return a value that differs after a change by others; cheap enough for a poll, which pauses by itself."""
        version = await self._tried(lambda: int(value_of(self._connected(), "PRAGMA data_version")))
        return self._openings, version

    @property
    def is_ours(self) -> bool:
        """Whether this process opened the file, and did not just inherit it in a fork."""
        return os.getpid() == self._pid

    @property
    def closed(self) -> bool:
        """Whether its owner closed it."""
        return self._closed

    def close(self) -> None:
        """Close for good; in a forked child, do nothing."""
        if os.getpid() == self._pid:
            self._closed = True
            self.let_go()

    def let_go(self) -> None:
        """Close the connection; the next transaction opens another."""
        if os.getpid() != self._pid:
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.DatabaseError):  # the next process to open the file makes up for a failed checkpoint
                connection.close()

    async def _patiently(
        self, step: Callable[[], Result], deadline: float | None = None, *, is_first: bool = True
    ) -> Result:
        """Let others of this loop go first, then run a step as `_tried` does."""
        self.require_open()
        await asyncio.sleep(0)  # a caller that never pauses must not keep the loop from renewals and watches
        return await self._tried(step, deadline, is_first=is_first)

    async def _tried(
        self, step: Callable[[], Result], deadline: float | None = None, *, is_first: bool = True
    ) -> Result:
        """Run a step again and again while others hold the lock, up to the longest wait; renewals go first."""
        deadline = self._clock.elapsed() + LOCK_WAIT_SECONDS if deadline is None else deadline
        while True:
            if not is_first:
                await self._turns.before_trying()
            try:
                with _forking:
                    return step()
            except sqlite3.DatabaseError as error:
                if not is_busy(error) or self._clock.elapsed() >= deadline:
                    raise self._translated(error) from error
            await asyncio.sleep(self._turns.pause_seconds())

    def _transact(self, begin: str, work: Callable[[Connection], Result], synchronous: str = "") -> Result:
        connection = self._connected()
        if synchronous and synchronous != self._synchronous:
            connection.execute(f"PRAGMA synchronous={synchronous}")
            self._synchronous = synchronous
        connection.execute(begin)
        try:
            if self.moved:
                raise self._replaced()
            version = int(value_of(connection, "PRAGMA data_version")) if synchronous else 0
            result = work(connection)
            if synchronous:
                self._commit(connection, result)
                self._turns.wrote(version)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return result

    def _commit(self, connection: Connection, result: object) -> None:
        """Commit. A full disk stops before the last frame, and a lock before the first; other errors leave doubt."""
        try:
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if is_busy(error) or code_of(error) == sqlite3.SQLITE_FULL:
                raise
            raise InDoubt(self.name, error, result) from error

    def _connected(self) -> Connection:
        self.require_open()
        if self._connection is not None:
            return self._connection
        if self.moved:
            raise self._replaced()
        return self._open()

    def require_open(self) -> None:
        """Raise `StoreClosed` for a file that was closed or that crossed a fork."""
        if os.getpid() != self._pid:
            _inherited.append(self._connection)  # this is None, unless Python did not see the fork: never close it here
            raise StoreClosed(self.name, "it belongs to the process that this one was forked from")
        if self._closed:
            raise StoreClosed(self.name)

    def _open(self) -> Connection:
        self.let_go()
        self._connection = connection = self._opener(self.path)
        self._openings += 1
        self._synchronous = ""
        self._stood_at = identity(self.path)
        connection.execute("PRAGMA fullfsync=ON")  # where fsync alone does not reach the disk: macOS
        return connection

    def _adopt(self) -> None:
        """Open the present file if it holds a store; otherwise leave the state as it was, with nothing open."""
        before, is_ours = self._stood_at, False
        try:
            self._prepare(self._open())
            is_ours = True
        finally:
            if not is_ours:
                self.let_go()
                self._stood_at = before

    def _prepare(self, connection: Connection) -> None:
        """Check that the file is a store's; make the schema in an empty file."""
        version = version_of(connection, self.path)
        if 0 < version < NEWEST:
            raise InvalidInput("schema version of the store", version, f"{NEWEST}", "Run: apportion store upgrade URL")
        if version == 0:
            make_schema(connection)
        mode = use_wal(connection)
        if mode != "wal":
            hint = "Use a local disk whose file system lets processes share memory."
            raise InvalidInput("journal mode of the store", str(mode), "wal", hint)

    def _upgrade(self) -> int:
        connection = self._connected()
        version_of(connection, self.path)
        return make_schema(connection)

    def _replaced(self) -> StoreUnavailable | StoreWentBack:
        found = identity(self.path)
        if found is None:
            return self._gone()
        seen = f"inode {self._stood_at[1]}" if self._stood_at else "no file"
        return StoreWentBack(self.name, seen, f"another file stands in its place, inode {found[1]}")

    def _gone(self) -> StoreUnavailable:
        hint = "Nothing was changed. Put the file back, or connect anew to begin an empty store."
        return StoreUnavailable(self.name, "its file is gone", hint)

    def _translated(self, error: sqlite3.DatabaseError) -> StoreUnavailable | StoreDenied | sqlite3.DatabaseError:
        """Return our error for SQLite's error; an error in our own statements is returned unchanged."""
        if is_busy(error):
            return StoreUnavailable(self.name, f"others held its lock for {LOCK_WAIT_SECONDS:g} s")
        code = code_of(error)
        if code in _OUT_OF_REACH:
            self.let_go()  # a connection that was opened without a right to write would stay without it
        if code in _REASONS:
            return StoreUnavailable(self.name, *_REASONS[code])
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return StoreDenied(self.name, "the file is read-only", "Let members write file and directory.")
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            return StoreUnavailable(self.name, f"{error}")
        return error


_files: WeakSet[SqliteFile] = WeakSet()
_inherited: list[Connection | None] = []
_forking = threading.Lock()  # held by a transaction, and from before a fork until after it


_collects: list[bool] = []  # whether the collector was on before the fork


def _before_fork() -> None:
    """Take the lock, with garbage collection off: a finalizer that waits for a store would wait for the lock."""
    collects = gc.isenabled()
    gc.disable()
    _forking.acquire()
    _collects.append(collects)
    for file in list(_files):
        file.let_go()


def _after_fork() -> None:
    collects = _collects.pop()
    _forking.release()
    if collects:
        gc.enable()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
