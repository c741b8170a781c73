"""Bounded reads: each read of a file has a cap.

Promises: a read stops at the cap, whatever size the file claims. A read never hangs on a pipe without a writer.
"""

import errno
import os
import stat
import sys
from pathlib import Path

from apportion.errors import InvalidInput

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
        hint = "Check the path; - means standard input." if what == "--keys" else "Check the path: it names no file."
        raise InvalidInput(what, str(path), f"a file, not a {kind}", hint)
    os.set_blocking(descriptor, True)
    return descriptor


def unusable(what: str, path: Path, error: OSError) -> InvalidInput:
    """Return the error for a file that the system refuses to read or write."""
    reason = error.strerror or type(error).__name__
    hint = "Free space there. The file is unchanged." if error.errno in _FULL else "Check the path and its permissions."
    return InvalidInput(what, str(path), f"a usable file ({reason.lower()})", hint)
