"""One SQLite file: transactions that wait for locks without blocking, and their errors.

Promises: a transaction happens whole or not at all. When COMMIT itself fails, the error says whether the transaction
may have happened. A wait for a lock does not block the event loop. A durable transaction is on the disk when its call
returns. Each transaction first checks that no other file replaced the open one.
Source: https://www.sqlite.org/pragma.html#pragma_synchronous
"""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from apportion.errors import StoreDenied, StoreUnavailable
from apportion.runtime.clock import Clock
from apportion.runtime.prompt_start import is_prompt_start
from apportion.stores.sqlite.checkpoint import Checkpoints
from apportion.stores.sqlite.connection import Connection, code_of, is_busy, open_sqlite, value_of
from apportion.stores.sqlite.leftover import COPYING, NOTHING_RESTORED, RESTORING
from apportion.stores.sqlite.link import SqliteLink, forking
from apportion.stores.sqlite.place import check, identity, refuse_empty
from apportion.stores.sqlite.schema import settle_at, stood_at
from apportion.stores.sqlite.turns import Turns

Result = TypeVar("Result")
LOCK_WAIT_SECONDS = 5.0
_CHECKPOINT_SECONDS = 3.0
_LOOK_SECONDS = 0.02
_OUT_OF_REACH = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_REASONS = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Nothing was changed. Make room, then try again."),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", RESTORING),
    sqlite3.SQLITE_NOTADB: ("the file is not a database", RESTORING),
}


class InDoubt(StoreUnavailable):
    """COMMIT failed, and the outcome of the transaction is unknown. `result` is its return value."""

    def __init__(self, store: str, error: sqlite3.Error, result: object) -> None:
        super().__init__(
            store, f"COMMIT failed ({error})", "The commit may have happened. See if it has before you repeat it."
        )
        self.result = result


class SqliteFile:
    """The transactions of one process in one file. A test can replace `opener`."""

    require_open: Callable[[], None]
    close: Callable[[], None]

    def __init__(
        self, path: Path, name: str, clock: Clock, *, opener: Callable[[Path], Connection] = open_sqlite
    ) -> None:
        self.path = path
        self.name = name
        self._clock = clock
        self._link = SqliteLink(path, name, opener)
        self.require_open, self.close = self._link.require_open, self._link.close
        self._opening = asyncio.Lock()
        self._turns = Turns(clock)
        self._checkpoints = Checkpoints(path, clock)

    async def open(self) -> None:
        """Open the file, unless it is open; make a new file where there is none.

        If the inode differs from the one at the beginning of the incarnation, the file is a copy: another incarnation
        begins.
        """
        self.require_open()
        check(self.path)
        async with self._opening:
            if self._link.connection is None or self.moved:
                await self._opened()

    async def reopen(self) -> None:
        """Open the file that replaced the open one; no file is made."""
        self.require_open()
        check(self.path)
        async with self._opening:
            if not self.moved:
                return
            if identity(self.path) is None:
                raise self._link.gone()
            refuse_empty(self.path)
            await self._opened()

    async def _opened(self) -> None:
        await self.refuse_leftover()
        await self._patiently(self._link.adopt)
        inode = self._link.inode
        if await self.read(lambda connection: stood_at(connection) != inode):
            await self.write(lambda connection: settle_at(connection, inode))

    async def upgrade(self) -> int:
        """Bring the schema of the file to the newest version, or make it; return the version before."""
        await self.refuse_leftover()
        await self._patiently(self._link.open)
        return await self._patiently(self._link.upgrade)

    async def refuse_leftover(self, *, is_restored: bool = False) -> None:
        """Raise `StoreUnavailable` when the -wal beside the file belongs to an earlier file: SQLite would apply it.

        During a checkpoint, the -wal may look like this for a moment.
        """
        deadline = self._clock.elapsed() + _CHECKPOINT_SECONDS
        while self._has_leftover(is_restored=is_restored):
            if self._clock.elapsed() >= deadline:
                reason = f"{self.path.name}-wal belongs to another file, and SQLite would apply it to this one"
                raise StoreUnavailable(self.name, reason, f"To restore: {COPYING}. {NOTHING_RESTORED}")
            await asyncio.sleep(_LOOK_SECONDS)

    def _has_leftover(self, *, is_restored: bool) -> bool:
        with forking:
            return self._link.has_leftover(is_restored=is_restored)

    @property
    def moved(self) -> bool:
        """Whether the path names another file than the open one, or none."""
        return self._link.moved

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run reads that all see one state."""
        return await self._patiently(lambda: self._transact("BEGIN", work))

    async def write(self, work: Callable[[Connection], Result], *, synchronous: str = "FULL") -> Result:
        """Run a transaction that writes. With `FULL`, it is on the disk when this returns; no other write interferes.

        `InDoubt` when COMMIT failed and the outcome is unknown. Any other error means that nothing was changed.
        """
        deadline = self._clock.elapsed() + LOCK_WAIT_SECONDS
        async with self._turns.ordinary:
            await self._turns.rest()
            step = self._patiently(
                lambda: self._transact("BEGIN IMMEDIATE", work, synchronous), deadline, is_first=False
            )
            result = await step
            if self._link.connection is not None:
                with forking:
                    self._checkpoints.make(self._link.connection)
        return result

    async def renew(self, work: Callable[[Connection], Result]) -> Result:
        """As `write`, but before all other writes of this process, and without a flush to the disk."""
        with self._turns.first():
            return await self._patiently(lambda: self._transact("BEGIN IMMEDIATE", work, "NORMAL"))

    async def data_version(self) -> tuple[int, int]:
        """Return a value that differs after a change by others. It is cheap; the caller pauses between two calls."""
        version = await self._tried(lambda: int(value_of(self._link.connected(), "PRAGMA data_version")))
        return self._link.openings, version

    @property
    def is_ours(self) -> bool:
        """Whether this process opened the file, and did not just inherit it in a fork."""
        return self._link.is_ours

    async def _patiently(
        self, step: Callable[[], Result], deadline: float | None = None, *, is_first: bool = True
    ) -> Result:
        """Run a step as `_tried` does. Inside a task, let other tasks of the loop run first."""
        self.require_open()
        if not is_prompt_start():
            await asyncio.sleep(0)  # else a caller that never pauses would starve renewals and watches
        return await self._tried(step, deadline, is_first=is_first)

    async def _tried(
        self, step: Callable[[], Result], deadline: float | None = None, *, is_first: bool = True
    ) -> Result:
        """Run a step, and repeat it while others hold the lock, up to the longest wait. Renewals go first."""
        deadline = self._clock.elapsed() + LOCK_WAIT_SECONDS if deadline is None else deadline
        while True:
            if not is_first:
                await self._turns.before_trying()
            try:
                with forking:
                    return step()
            except sqlite3.DatabaseError as error:
                if not is_busy(error) or self._clock.elapsed() >= deadline:
                    raise self._translated(error) from error
            await asyncio.sleep(self._turns.pause_seconds())

    def _transact(self, begin: str, work: Callable[[Connection], Result], synchronous: str = "") -> Result:
        connection = self._link.connected()
        if synchronous:
            self._link.flush(synchronous)
        connection.execute(begin)
        try:
            self._link.require_same()
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
        """Commit, or raise `InDoubt` when the outcome is unknown.

        Nothing has happened when the disk is full or another process holds the lock: the last frame was not written.
        """
        try:
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if is_busy(error) or code_of(error) == sqlite3.SQLITE_FULL:
                raise
            raise InDoubt(self.name, error, result) from error

    def _translated(self, error: sqlite3.DatabaseError) -> StoreUnavailable | StoreDenied | sqlite3.DatabaseError:
        """Return our error for an error of SQLite. An error in one of our statements is returned unchanged."""
        if is_busy(error):
            return StoreUnavailable(self.name, f"other processes held its lock for {LOCK_WAIT_SECONDS:g} s")
        code = code_of(error)
        if code in _OUT_OF_REACH:
            self._link.let_go()  # a connection that was opened read-only would stay read-only
        if code in _REASONS:
            return StoreUnavailable(self.name, *_REASONS[code])
        if f"{error}".startswith("no such "):  # of a column or table that every file has
            return StoreUnavailable(self.name, f"the file is damaged ({error})", RESTORING)
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return StoreDenied(self.name, "the file is read-only", "Let members write file and directory.")
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            return StoreUnavailable(self.name, f"{error}")
        return error
