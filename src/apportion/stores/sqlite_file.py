"""One SQLite file with one connection: transactions that wait for locks without blocking, and what can go wrong.

Promises: a transaction happens whole or not at all; when COMMIT itself fails, the caller is told what became of it.
A lock is waited for by sleeping, a durable transaction is on the disk when it returns. A file that was put in the place
of the open one is noticed before the next transaction. No connection is open while the process forks: SQLite's locks
belong to a process, and a child that inherits what the library remembers of them would write without any.
Source: https://www.sqlite.org/howtocorrupt.html (§2.6), https://www.sqlite.org/pragma.html#pragma_synchronous
"""

import asyncio
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from apportion.errors import InvalidInput, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.model.clock import Clock
from apportion.stores.migrations.sqlite import APPLICATION_ID, NEWEST, statements
from apportion.stores.sql import sqlite as sql
from apportion.stores.sqlite_place import check, identity

Result = TypeVar("Result")
Value = bytes | int | float | str | None
LOCK_WAIT_SECONDS = 5.0
_SHORTEST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.000_5, 0.02
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_REASONS = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Nothing was changed. Make room, then try again."),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", "Restore a copy, then run: apportion store restored URL"),
    sqlite3.SQLITE_NOTADB: ("the file is no database", "Restore a copy, then run: apportion store restored URL"),
}


class Rows(Protocol):
    """What a statement returned: a foreign library's values, whose types the schema knows."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        ...


class Connection(Protocol):
    """The part of `sqlite3.Connection` that is used, without transactions of its own making."""

    @property
    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""
        ...

    def execute(self, statement: str, values: Sequence[Value] = (), /) -> Rows:
        """Run one statement."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class InDoubt(StoreUnavailable):
    """COMMIT failed, and it cannot be told whether the transaction will be there; `result` is what it would return."""

    def __init__(self, store: str, error: sqlite3.Error, result: object) -> None:
        super().__init__(store, f"COMMIT failed ({error})", "It may have happened, and does no harm twice: ask again.")
        self.result = result


def open_sqlite(path: Path) -> Connection:
    """Open a file with the standard library's SQLite: no waiting, no transactions of its own, any thread."""
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=64)


class SqliteFile:
    """A connection that opens when needed, and closes for a fork. `opener` is what a test replaces."""

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
        self._synchronous = ""
        self._stood_at: tuple[int, int] | None = None
        self._closed = False
        _files.add(self)

    async def open(self) -> None:
        """Open the file, for the first time or again after another one was put in its place; a new one is made.

        A file that stands elsewhere than when its incarnation began is a copy: it begins another.
        """
        again = self._stood_at is not None
        self.require_open()
        check(self.path)
        if again and identity(self.path) is None:
            raise self._gone()
        await self._patiently(self._open)
        if not again:
            await self._patiently(self._prepare)
        inode = (self._stood_at or (0, 0))[1]
        if await self.read(lambda connection: stood_at(connection) != inode):
            await self.write(lambda connection: settle_at(connection, inode), durable=True)

    async def upgrade(self) -> int:
        """Bring the schema of the file to the newest version, or make it; return the version before."""
        await self._patiently(self._open)
        return await self._patiently(self._upgrade)

    @property
    def moved(self) -> bool:
        """Whether another file, or none, stands where the open one stood."""
        return identity(self.path) != self._stood_at

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run reads that all see one state."""
        return await self._patiently(lambda: self._transact("BEGIN", work))

    async def write(self, work: Callable[[Connection], Result], *, durable: bool) -> Result:
        """Run a transaction that nobody else's can come between; if durable, it is on the disk when this returns.

        `InDoubt` when COMMIT failed so that nobody can know; any other error means that nothing was changed.
        """
        synchronous = "FULL" if durable else "NORMAL"
        return await self._patiently(lambda: self._transact("BEGIN IMMEDIATE", work, synchronous))

    async def data_version(self) -> tuple[int, int]:
        """Return what is another whenever somebody else has changed the file; cheap enough for a poll."""
        version = await self._patiently(lambda: int(value_of(self._connected(), "PRAGMA data_version")))
        return self._openings, version

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
            with suppress(sqlite3.DatabaseError):  # a checkpoint that fails is made by the next who opens the file
                connection.close()

    async def _patiently(self, step: Callable[[], Result]) -> Result:
        """Run a step again and again while others hold the lock, up to the longest wait."""
        self.require_open()
        await asyncio.sleep(0)  # a caller who asks without a pause must not keep the loop from renewals and watches
        deadline = self._clock.elapsed() + LOCK_WAIT_SECONDS
        pause = _SHORTEST_WAIT_SECONDS
        while True:
            try:
                with _forking:
                    return step()
            except sqlite3.DatabaseError as error:
                if not is_busy(error) or self._clock.elapsed() >= deadline:
                    raise self._translated(error) from error
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - jitter
            pause = min(2 * pause, _LONGEST_WAIT_SECONDS)

    def _transact(self, begin: str, work: Callable[[Connection], Result], synchronous: str = "") -> Result:
        connection = self._connected()
        if synchronous and synchronous != self._synchronous:
            connection.execute(f"PRAGMA synchronous={synchronous}")
            self._synchronous = synchronous
        connection.execute(begin)
        try:
            if self.moved:
                raise self._replaced()
            result = work(connection)
            if synchronous:
                self._commit(connection, result)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return result

    def _commit(self, connection: Connection, result: object) -> None:
        """Commit. A full disk stops before the last frame, and a lock before the first; of others nobody can know."""
        try:
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if is_busy(error) or _code(error) == sqlite3.SQLITE_FULL:
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
            _inherited.append(self._connection)  # there is none, unless it was forked past Python: never close it here
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

    def _prepare(self) -> None:
        """See whose file it is; make the schema in an empty one."""
        connection = self._connected()
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
        """Return our error for SQLite's; one of our own statements being wrong stays what it is."""
        if is_busy(error):
            return StoreUnavailable(self.name, f"others held its lock for {LOCK_WAIT_SECONDS:g} s")
        code = _code(error)
        if code in _REASONS:
            return StoreUnavailable(self.name, *_REASONS[code])
        if code == sqlite3.SQLITE_READONLY:
            return StoreDenied(self.name, "the file is read-only", "Let members write file and directory.")
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            return StoreUnavailable(self.name, f"{error}")
        return error


def make_schema(connection: Connection) -> int:
    """Bring the schema to the newest version, if nobody else has; return the version before."""
    use_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        before = int(value_of(connection, "PRAGMA user_version"))
        for statement in statements(since=before):
            connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return before


def use_wal(connection: Connection) -> str:
    """Change the journal mode for good, unless it is WAL already; return what it is then."""
    # EXTRA syncs the directory after the rollback journal of this change is deleted. Were that journal back after a
    # power cut, it would roll back all that was committed since.
    connection.execute("PRAGMA synchronous=EXTRA")
    return str(value_of(connection, "PRAGMA journal_mode=WAL"))


def version_of(connection: Connection, path: Path) -> int:
    """Return the version of the schema, 0 for an empty file; `InvalidInput` for one of the future, or not ours."""
    hint = "Name another file; nothing was written to this one."
    try:
        mark = value_of(connection, "PRAGMA application_id")
        tables = value_of(connection, "SELECT count(*) FROM sqlite_master")
        version = value_of(connection, "PRAGMA user_version")
    except sqlite3.DatabaseError as error:
        if _code(error) != sqlite3.SQLITE_NOTADB:
            raise
        raise InvalidInput("file of the store", f"no database: {path}", "an SQLite file, or none", hint) from error
    if mark != APPLICATION_ID and (mark or tables or version):
        raise InvalidInput("file of the store", f"another application's: {path}", "a store of apportion", hint)
    if version > NEWEST:
        expected = f"at most {NEWEST}, which this release writes"
        raise InvalidInput("schema version of the store", version, expected, "Upgrade apportion on this host.")
    return int(version)


def stood_at(connection: Connection) -> int:
    """Return the inode at which the present incarnation began."""
    return int(value_of(connection, sql.INODE))


def settle_at(connection: Connection, inode: int) -> None:
    """Remember the inode; where another one is remembered, this is a copy and begins another incarnation."""
    remembered = stood_at(connection)
    if remembered != inode:
        connection.execute(sql.NEW_INCARNATION if remembered else sql.MOVE, (inode,))


def value_of(connection: Connection, statement: str, values: Sequence[Value] = ()) -> Any:  # noqa: ANN401 - foreign
    """Return the one value that a statement returns, None for no row."""
    rows = connection.execute(statement, values).fetchall()
    return rows[0][0] if rows else None


def is_busy(error: sqlite3.Error) -> bool:
    """Say whether another connection held a lock, so that nothing was done."""
    return _code(error) in _BUSY


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


_files: WeakSet[SqliteFile] = WeakSet()
_inherited: list[Connection | None] = []
_forking = threading.Lock()  # held by a transaction, and from before a fork until after it


def _before_fork() -> None:
    _forking.acquire()
    for file in list(_files):
        file.let_go()


os.register_at_fork(before=_before_fork, after_in_parent=_forking.release, after_in_child=_forking.release)
