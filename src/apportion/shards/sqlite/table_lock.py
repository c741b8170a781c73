"""Table lock of a file: a migration holds it alone, and movers share it while they have the file open for writes.

SQLite itself has no lock that lasts longer than a transaction. So the lock is that of a file beside the database, with
the name of the database and `-apportion`. It is empty, and stays there.

Promises: the lock ends with its process, also after a kill.
Source: https://man7.org/linux/man-pages/man2/flock.2.html
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apportion.errors import StoreDenied, StoreUnavailable

LOCK_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_AGAIN = "Nothing was changed. Run the same call again after its end."


class FileLock:
    """A lock that this process holds, until `release`."""

    def __init__(self, path: Path, name: str, *, is_shared: bool) -> None:
        """Take the lock, or raise `StoreUnavailable` at once. `name` is the shard, for messages."""
        place = path.with_name(f"{path.name}-apportion")
        try:
            self._file = os.open(place, os.O_RDWR | os.O_CREAT, path.stat().st_mode & 0o666)
        except OSError as error:
            hint = "Allow this user to write both file and folder."
            raise StoreDenied(name, f"no lock file can be made: {error.strerror}", hint) from error
        try:
            fcntl.flock(self._file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._file)
            other = "a migration changes its tables" if is_shared else "a mover or another migration works on it"
            raise StoreUnavailable(name, other, _AGAIN) from error

    def release(self) -> None:
        """Release the lock. A forked child that inherited it keeps nothing."""
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)


@contextmanager
def table_lock(path: Path, name: str, within_seconds: float = LOCK_WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock alone until the end of a block. `StoreUnavailable` if others hold it for too long."""
    deadline = time.monotonic() + within_seconds
    while True:
        try:
            lock = FileLock(path, name, is_shared=False)
            break
        except StoreUnavailable:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        lock.release()
