"""The shared part of a process's handles in one SQLite file: its connection, and the lookout over it.

Promises: handles on one event loop share one connection when their URLs differ only in the namespace. The last handle
that is closed closes the connection. Refuses: to judge for a handle. Each handle keeps its own view of the store.
"""

from collections.abc import Hashable
from dataclasses import replace

from apportion.runtime.clock import Clock, SystemClock
from apportion.stores.shared import Shared
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.lookout import SqliteLookout
from apportion.stores.sqlite.place import path_of
from apportion.stores.url import StoreUrl


class SharedFile:
    """One file of one process. Without a key it belongs to one handle alone."""

    def __init__(self, file: SqliteFile, clock: Clock, key: Hashable = None) -> None:
        self.file = file
        self.lookout: SqliteLookout = SqliteLookout(file, clock)
        self._key = key

    @classmethod
    def taken(cls, url: StoreUrl, clock: Clock) -> "SharedFile":
        """Return this process's share of the file of a URL, with one more user. The file need not be open yet."""
        path = path_of(url)
        key = (replace(url.canonical(), namespace=""), None if isinstance(clock, SystemClock) else id(clock))
        return _shared.take(key, lambda: cls(SqliteFile(path, str(url), clock), clock, key))

    def give_back(self) -> None:
        """Stop using the file; the last user closes it."""
        if self.file.is_ours and (self._key is None or _shared.give_back(self._key)):
            self.file.close()


_shared: Shared[SharedFile] = Shared()
