"""File access with bounds: a read has a cap, and a write is whole or absent.

Promises: a read stops at the cap, whatever size the file claims. A read never hangs on a pipe without a writer. A
reader of a written file sees the old content or the new, even if the writer is killed in between.
"""

import fcntl
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apportion.errors import InvalidInput


def read_bounded(path: Path, limit_bytes: int, *, what: str) -> bytes:
    """Return the content of a file or pipe of at most `limit_bytes`; raise `InvalidInput` that names `what`."""
    try:
        return _read(open_for_reading(path, what=what), path, limit_bytes, what=what)
    except OSError as error:
        raise unusable(what, path, error) from error


def read_standard_input(limit_bytes: int, *, what: str) -> bytes:
    """Return the content of standard input, with the bounds of `read_bounded`."""
    path = Path("-")
    try:
        return _read(os.dup(sys.stdin.fileno()), path, limit_bytes, what=what)
    except OSError as error:
        raise unusable(what, path, error) from error


def _read(descriptor: int, path: Path, limit_bytes: int, *, what: str) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        data = file.read(limit_bytes + 1) if size <= limit_bytes else b""
    if size > limit_bytes or len(data) > limit_bytes:
        raise InvalidInput(what, str(path), f"at most {limit_bytes} bytes", "Check that it is the right file.")
    if not data:
        hint = "Check the path, or that the pipe has a writer."
        raise InvalidInput(what, str(path), "a file that is not empty", hint)
    return data


def as_text(data: bytes, name: str, *, what: str) -> str:
    """Return the content of a file as text; the error for bytes that are not UTF-8 names their line."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        expected = f"UTF-8 (byte {error.start}, in line {line}, is not)"
        raise InvalidInput(what, name, expected, "Save it as UTF-8.") from error


def open_for_reading(path: Path, *, what: str) -> int:
    """Return a descriptor of a file or a pipe; refuse directories and devices. Opening a pipe does not wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        os.close(descriptor)
        kind = "directory" if stat.S_ISDIR(mode) else "device or socket"
        raise InvalidInput(what, str(path), f"a file, not a {kind}", "Check the path; - means standard input for keys.")
    os.set_blocking(descriptor, True)
    return descriptor


def check_target(path: Path, *, what: str) -> None:
    """Refuse a place where no file can be written, before any work for the file."""
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(what, str(path), "a file in a folder that is there", "Check the path.")


def write_whole(path: Path, data: bytes, *, what: str) -> None:
    """Replace the file at `path` (or the target of a link there) by `data`, durably, in one step."""
    temporary = None
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            hint = "It is a folder or a device; pick another."
            raise InvalidInput(what, str(path), "a file, or a name that is free", hint)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, _mode_of(target))
            os.fsync(descriptor)
        Path(temporary).replace(target)
        temporary = None
        _sync_directory(target.parent)
    except OSError as error:
        raise unusable(what, path, error) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def alone_with(path: Path, *, what: str) -> Iterator[None]:
    """Let one process at a time change the file at `path`, so that no process overwrites the write of another.

    The lock is on the folder's own descriptor: it needs no extra file and ends with the process.
    """
    try:
        descriptor = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unusable(what, path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def unusable(what: str, path: Path, error: OSError) -> InvalidInput:
    """Return the error for a file that the system refuses to read or write."""
    reason = error.strerror or type(error).__name__
    return InvalidInput(what, str(path), f"a usable file ({reason.lower()})", "Check the path and its permissions.")


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode_of(target: Path) -> int:
    """Return the mode of a file, or the mode of a new file."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
