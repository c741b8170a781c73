"""The file of an SQLite node: runs transactions on a thread of its own, and translates their errors.

Promises: the event loop never waits for the disk. A writing transaction is on the disk when it returns
(`synchronous=FULL`). A file that another one has replaced is noticed before a transaction begins. The connection is not
used in a forked child.
Refuses: to make a file, unless the caller says so; a path on a file system without shared memory (no WAL there).
Source: https://www.sqlite.org/wal.html, https://www.sqlite.org/howtocorrupt.html
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TypeVar
from urllib.parse import quote

from apportion.errors import ApportionError, InvalidInput, StoreClosed, StoreDenied, StoreUnavailable
from apportion.shards.replicas.nodes.sqlite.schema import STATEMENTS
from apportion.stores.sqlite.connection import code_of, is_busy
from apportion.stores.sqlite.place import identity

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

LOCK_WAIT_SECONDS = 2.0
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0005, 0.01
_DENIED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


class NodeFile:
    """One connection to the file of a node, opened when it is first needed. `makes` lets it make the file."""

    def __init__(self, path: Path, *, makes: bool = False) -> None:
        self.name: str = f"sqlite:///{path}"
        self._path, self._makes, self._pid = path, makes, os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._seen: object = None
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="apportion-replica")

    async def read(self, work: Work[Result]) -> Result:
        """Run reads in one transaction; they see one state of the file."""
        return await self._run("BEGIN", work)

    async def write(self, work: Work[Result]) -> Result:
        """Run a transaction that takes the lock of the file first, and is durable when it returns."""
        return await self._run("BEGIN IMMEDIATE", work)

    async def close(self) -> None:
        """Close the connection after the work that is under way. May be called twice."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown(wait=False)
        await closing

    async def _run(self, begin: str, work: Work[Result]) -> Result:
        if os.getpid() != self._pid:
            raise StoreClosed(self.name, "it belongs to the parent of this forked process")
        if self._is_closed:
            raise StoreClosed(self.name)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._tried, begin, work)

    def _tried(self, begin: str, work: Work[Result]) -> Result:
        """Repeat a transaction while another connection holds the lock, for a bounded time."""
        deadline, pause = time.monotonic() + LOCK_WAIT_SECONDS, _SHORTEST_PAUSE_SECONDS
        while True:
            try:
                return _transacted(self._opened(), begin, work)
            except sqlite3.DatabaseError as error:
                if not is_busy(error) or self._is_closed or time.monotonic() >= deadline:
                    raise self._translated(error) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _opened(self) -> sqlite3.Connection:
        found = identity(self._path)
        if self._connection is not None and found != self._seen:
            self._let_go()
        if self._connection is None:
            self._connection = self._connected(found)
            self._seen = identity(self._path)
        return self._connection

    def _connected(self, found: object) -> sqlite3.Connection:
        if found is None and not self._makes:
            raise StoreUnavailable(self.name, "its file is gone", "Put the file back. Its node counts for nothing now.")
        mode = "rwc" if self._makes else "rw"
        address = f"file:{quote(str(self._path))}?mode={mode}"
        connection = sqlite3.connect(address, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, self.name)
        except (sqlite3.DatabaseError, ApportionError):
            connection.close()
            raise
        return connection

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.DatabaseError):  # the next process to open the file ends the failed checkpoint
                connection.close()

    def _translated(self, error: sqlite3.DatabaseError) -> ApportionError:
        if code_of(error) in _DENIED:
            return StoreDenied(self.name, f"{error}", "Give this user the right to write the file and its folder.")
        return StoreUnavailable(self.name, f"{error}")


def _transacted(connection: sqlite3.Connection, begin: str, work: Work[Result]) -> Result:
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return result


def _prepare(connection: sqlite3.Connection, name: str) -> None:
    """Set a new connection up, and make the tables in a file without them."""
    connection.create_aggregate("apportion_xor", 1, _Xor)
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        hint = "Use a local disk with a file system that lets processes share memory."
        raise InvalidInput(f"journal mode of {name}", str(mode), "wal", hint)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")  # where fsync alone does not reach the disk: macOS
    _transacted(connection, "BEGIN IMMEDIATE", _made)


def _made(connection: sqlite3.Connection) -> None:
    for statement in STATEMENTS:
        connection.execute(statement)
    if connection.execute("SELECT 1 FROM apportion_replica_file").fetchone() is None:
        connection.execute("INSERT INTO apportion_replica_file (life) VALUES (?)", (token_hex(8),))


class _Xor:
    """The aggregate function `apportion_xor`: the exclusive or of integers, 0 for none."""

    def __init__(self) -> None:
        self._value = 0

    def step(self, value: int) -> None:
        """Take one value."""
        self._value ^= value

    def finalize(self) -> int:
        """Return the result."""
        return self._value
