"""The objects that all handles of a process share for one SQLite file: the connection and the lookout.

Promises: handles on one event loop share one connection when their URLs differ only in the namespace. The last handle
that is closed closes the connection. Refuses: to check incarnation and revision; each handle does that itself.
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
    """One file of one process. Without a key, one handle alone uses it."""

    def __init__(self, file: SqliteFile, clock: Clock, key: Hashable = None) -> None:
        self.file = file
        self.lookout: SqliteLookout = SqliteLookout(file, clock)
        self._key = key

    @classmethod
    def taken(cls, url: StoreUrl, clock: Clock) -> "SharedFile":
        """Return the shared file of a URL, with one more user. The file need not be open yet."""
        path = path_of(url)
        key = (replace(url.canonical(), namespace=""), None if isinstance(clock, SystemClock) else id(clock))
        return _shared.take(key, lambda: cls(SqliteFile(path, str(url), clock), clock, key))

    def give_back(self) -> None:
        """Stop using the file; the last user closes it."""
        if self.file.is_ours and (self._key is None or _shared.give_back(self._key)):
            self.file.close()


_shared: Shared[SharedFile] = Shared()
