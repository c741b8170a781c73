"""The connection of one process to an SQLite file: opened when needed, and closed while the process forks.

Promises: a file that replaced the open one is noticed, and is opened only on request. No connection is open while the
process forks, because SQLite's locks belong to a process. A child would inherit the library's record of the locks, and
would write without any lock.
Refuses: to wait, to repeat, and to begin or end a transaction of its users; `file` does that.
Source: https://www.sqlite.org/howtocorrupt.html (§2.6)
"""

import gc
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from apportion.errors import InvalidInput, StoreClosed, StoreUnavailable, StoreWentBack
from apportion.stores.sqlite.connection import Connection, open_sqlite
from apportion.stores.sqlite.leftover import has_leftover
from apportion.stores.sqlite.place import identity
from apportion.stores.sqlite.schema import NEWEST, make_schema, use_wal, version_of


class SqliteLink:
    """At most one open connection to the file at a path. `inode` is that of the file opened last, or 0.

    All methods that use the connection are called under the lock `forking`. A test can replace `opener`.
    """

    openings: int

    def __init__(self, path: Path, name: str, opener: Callable[[Path], Connection] = open_sqlite) -> None:
        self.path = path
        self.name = name
        self.opener = opener
        self.connection: Connection | None = None
        self.openings = 0
        self._pid = os.getpid()
        self._synchronous = ""
        self._stood_at: tuple[int, int] | None = None
        self._closed = False
        links.add(self)

    @property
    def inode(self) -> int:
        """The inode of the file that was opened last, 0 if there is none."""
        return (self._stood_at or (0, 0))[1]

    @property
    def moved(self) -> bool:
        """Whether the path names another file than the one opened last, or none."""
        return identity(self.path) != self._stood_at

    @property
    def is_ours(self) -> bool:
        """Whether this process opened the file, and did not just inherit it in a fork."""
        return os.getpid() == self._pid

    def require_open(self) -> None:
        """Raise `StoreClosed` for a file that was closed or that crossed a fork."""
        if not self.is_ours:
            # After a fork that Python did not see, the parent's connection is still here. It must never be closed here.
            _inherited.append(self.connection)
            raise StoreClosed(self.name, "it belongs to the parent of this forked process")
        if self._closed:
            raise StoreClosed(self.name)

    def connected(self) -> Connection:
        """Return the connection; if it was closed and the file is still the same, open it again."""
        self.require_open()
        if self.connection is not None:
            return self.connection
        self.require_same()
        return self.open()

    def require_same(self) -> None:
        """Raise `StoreWentBack` when the path names another file, `StoreUnavailable` when it names none."""
        if not self.moved:
            return
        found = identity(self.path)
        if found is None:
            raise self.gone()
        seen = f"inode {self.inode}" if self._stood_at else "no file"
        raise StoreWentBack(self.name, seen, f"another file has its name now, inode {found[1]}")

    def gone(self) -> StoreUnavailable:
        """Return the error for a file that no longer exists."""
        hint = "Nothing was changed. Put the file back, or connect again to begin an empty store."
        return StoreUnavailable(self.name, "its file is gone", hint)

    def open(self) -> Connection:
        """Open the present file, without a look at its content."""
        self.let_go()
        self.connection = connection = self.opener(self.path)
        self.openings += 1
        self._synchronous = ""
        self._stood_at = identity(self.path)
        connection.execute("PRAGMA fullfsync=ON")  # where fsync alone does not reach the disk: macOS
        return connection

    def adopt(self) -> None:
        """Open the present file if it holds a store. Otherwise close it, and keep the earlier identity."""
        before, is_ours = self._stood_at, False
        try:
            self._prepare(self.open())
            is_ours = True
        finally:
            if not is_ours:
                self.let_go()
                self._stood_at = before

    def _prepare(self, connection: Connection) -> None:
        """Check that the file contains a store. In an empty file, make the schema."""
        version = version_of(connection, self.path)
        if 0 < version < NEWEST:
            raise InvalidInput("schema version of the store", version, f"{NEWEST}", "Run: apportion store upgrade URL")
        if version == 0:
            make_schema(connection)
        mode = use_wal(connection)
        if mode != "wal":
            hint = "Use a local disk with a file system that lets processes share memory."
            raise InvalidInput("journal mode of the store", str(mode), "wal", hint)

    def upgrade(self) -> int:
        """Bring the schema to the newest version; return the version before."""
        connection = self.connected()
        version_of(connection, self.path)
        return make_schema(connection)

    def flush(self, synchronous: str) -> None:
        """Set the flush of transactions to the disk to `FULL` or `NORMAL`, unless it is set so already."""
        if synchronous != self._synchronous:
            self.connected().execute(f"PRAGMA synchronous={synchronous}")
            self._synchronous = synchronous

    def has_leftover(self, *, is_restored: bool) -> bool:
        """Say whether the -wal belongs to an earlier file. False while this process has the file open."""
        place = identity(self.path)
        is_open_here = any(link.holds(place) for link in list(links))
        return not is_open_here and has_leftover(self.path, is_restored=is_restored)

    def holds(self, place: tuple[int, int] | None) -> bool:
        """Say whether the connection is open to the file with this identity."""
        return self.connection is not None and self._stood_at == place

    def close(self) -> None:
        """Close for good; in a forked child, do nothing."""
        if self.is_ours:
            self._closed = True
            self.let_go()

    def let_go(self) -> None:
        """Close the connection; the next transaction opens another."""
        if not self.is_ours:
            return
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(sqlite3.DatabaseError):  # the next process to open the file makes up for a failed checkpoint
                connection.close()


links: WeakSet[SqliteLink] = WeakSet()
forking: threading.Lock = threading.Lock()  # held by a transaction, and from before a fork until after it
_inherited: list[Connection | None] = []
_collects: list[bool] = []  # whether the collector was on before the fork


def _before_fork() -> None:
    """Take the lock, with garbage collection off: a finalizer that waits for a store would wait for the lock."""
    collects = gc.isenabled()
    gc.disable()
    forking.acquire()
    _collects.append(collects)
    for link in list(links):
        link.let_go()


def _after_fork() -> None:
    collects = _collects.pop()
    forking.release()
    if collects:
        gc.enable()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
