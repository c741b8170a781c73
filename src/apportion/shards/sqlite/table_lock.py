"""Table lock of a file: a migration holds it alone, and movers share it while they have the file open for writes.

SQLite itself has no lock that lasts longer than a transaction. So the lock is that of a file beside the database, with
the name of the database and `-apportion`. This file is empty. It stays until its shard leaves the set.

Promises: the lock ends with its process, also after a kill. A forked child has no part in it. All links to a database
have one lock. Its file has the owner and the rights of the database, so each user of the database can take it.
Source: https://man7.org/linux/man-pages/man2/flock.2.html
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, ELOOP, EPERM, EROFS
from pathlib import Path

from apportion.errors import StoreDenied, StoreUnavailable
from apportion.stores.sqlite.place import identity

LOCK_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_AGAIN = "Nothing was changed. Run the same call again after its end."
_DENIALS = {EACCES, ELOOP, EPERM, EROFS}
_RIGHTS = 0o666
_held: set["FileLock"] = set()


class FileLock:
    """A lock that this process holds, until `release`."""

    def __init__(self, path: Path, name: str, *, is_shared: bool) -> None:
        """Take the lock, or raise `StoreUnavailable` at once. `name` is the shard, for messages."""
        real = path.resolve()
        self.place: Path = real.with_name(f"{real.name}-apportion")
        with _told(name, self.place, is_shared=is_shared):
            self._file = _opened(self.place, real)
            try:
                fcntl.flock(self._file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except OSError:
                os.close(self._file)
                raise
        _held.add(self)
        if not self.is_in_place:  # Another process has deleted the file since it was opened here.
            self.release()
            raise StoreUnavailable(name, f"another file is at {self.place}", _AGAIN)

    @property
    def is_in_place(self) -> bool:
        """Whether the locked file is still the one that others lock."""
        status = os.fstat(self._file)
        return identity(self.place) == (status.st_dev, status.st_ino)

    def release(self) -> None:
        """Release the lock. In a forked child, the lock of the parent stays."""
        if self in _held:
            _held.discard(self)
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)

    def forget(self) -> None:
        """Close the inherited file in a forked child. The lock ends when parent and child have closed it."""
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


def remove_lock(path: Path, name: str) -> None:
    """Delete the lock file of a database that is no shard any more. It stays if another process holds the lock."""
    with suppress(StoreUnavailable, StoreDenied):
        lock = FileLock(path, name, is_shared=False)
        try:
            lock.place.unlink(missing_ok=True)
        except OSError:  # An empty file does no harm.
            pass
        finally:
            lock.release()


def _opened(place: Path, database: Path) -> int:
    """Open the file. If there is none, make it with the owner and the rights of the database, as SQLite does."""
    flags = os.O_RDONLY | os.O_NOFOLLOW
    while True:
        with suppress(FileNotFoundError):
            return os.open(place, flags)
        owner = database.stat()
        rights = owner.st_mode & _RIGHTS
        with suppress(FileExistsError):
            made = os.open(place, flags | os.O_CREAT | os.O_EXCL, rights)
            with suppress(OSError):  # Some file systems have neither owners nor rights.
                os.fchmod(made, rights)  # The mask of the process has taken rights away.
                if os.geteuid() == 0:
                    os.fchown(made, owner.st_uid, owner.st_gid)
            return made


@contextmanager
def _told(name: str, place: Path, *, is_shared: bool) -> Iterator[None]:
    """Raise the error of this package for an error of the operating system."""
    try:
        yield
    except BlockingIOError as error:
        other = "a migration changes its tables" if is_shared else "a mover or another migration works on it"
        raise StoreUnavailable(name, other, _AGAIN) from error
    except OSError as error:
        said = "it is a link, and not a file" if error.errno == ELOOP else error.strerror
        problem = f"{error.filename or place}: {said}"
        if error.errno in _DENIALS:
            raise StoreDenied(name, problem, "Allow this user to read this file, and to write its folder.") from error
        raise StoreUnavailable(
            name, problem, "Nothing was changed. Mend that, then run the same call again."
        ) from error


def _after_fork() -> None:
    """Close the locks of the parent. A child that kept them open would hold them after the parent's death."""
    while _held:
        _held.pop().forget()


os.register_at_fork(after_in_child=_after_fork)
