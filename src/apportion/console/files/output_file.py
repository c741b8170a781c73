"""Output file: the one way in which a command writes a file, so that no file is lost by mistake.

Promises: a file is replaced whole or not at all, also if the writer is killed or the disk is full. It is replaced only
by a file of its own kind, and never if `reads` names it. The replaced file keeps its mode, and a link stays.
Pipes, devices and `/dev/stdout` get the bytes directly.
Refuses: to compare the old content with the new one; see `snapshots`. With `force` it refuses no file.
"""

import errno
import fcntl
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from apportion.console.files.io import unusable
from apportion.errors import InvalidInput

_HEAD_BYTES = 256
_SNAPSHOT = re.compile(rb'\{"apportion":"([a-z]{1,16})",')
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


class FileKind(Enum):
    """The kind of a file, as its first bytes tell it. The value is the kind in words."""

    TABLE = "a table"
    ASSIGNMENT = "an assignment"
    PLAN = "a plan"
    GROUP_PLAN = "a plan of a group"
    SHARD_PLAN = "a plan of shards"
    TOPOLOGY = "a topology"
    RANGES = "ranges as CSV"
    PAGE = "a page of apportion"
    OTHER = "no file of apportion"


_BEGINNINGS = {b"start,end,owners": FileKind.RANGES, b"<!DOCTYPE html>": FileKind.PAGE}
_GENERATOR = b'<meta name="generator" content="apportion">'


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A file that a command writes: its path, the option that names it, its kind, and the files that it must not be."""

    path: Path
    kind: FileKind
    option: str = "--output"
    force: bool = False
    reads: tuple[Path | None, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether the bytes go to a pipe, a device or an open descriptor, so that no file is replaced."""
        try:
            return _descriptor_in(self.path) is not None or _is_stream(_mode_of(self.path))
        except OSError as error:
            raise unusable(self.option, self.path, error) from error

    def check(self) -> None:
        """Refuse a place that cannot be written, or a file that would be lost. Call it before any long work."""
        try:
            if not self.is_stream:
                self._check_place(_mode_of(self.path))
        except OSError as error:
            raise unusable(self.option, self.path, error) from error

    def write(self, data: bytes) -> None:
        """Write the file, durably and in one step."""
        self.check()
        try:
            if self.is_stream:
                _pour(self.path, data)
            else:
                replace_file(self.path, data)
        except OSError as error:
            raise unusable(self.option, self.path, error) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one process at a time read and change the file, so that no process overwrites the write of another.

        The lock is on the folder's own descriptor: it needs no extra file and ends with the process.
        """
        if self.is_stream:
            yield
            return
        try:
            folder = Path(os.path.realpath(self.path)).parent
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise unusable(self.option, self.path, error) from error
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise unusable(self.option, self.path, error) from error

    def _check_place(self, mode: int | None) -> None:
        if not self.path.parent.is_dir() or (mode is not None and not stat.S_ISREG(mode)):
            hint = "Check the path: it leads to a folder or a disk, or into a folder that is not there."
            raise InvalidInput(self.option, str(self.path), "a file in an existing folder", hint)
        if mode is None or self.force:
            return
        hint = "Choose another name, or pass --force to replace the file."
        if any(other is not None and _is_same(other, self.path) for other in self.reads):
            raise InvalidInput(self.option, str(self.path), "a file that the command does not read", hint)
        found = _kind_at(self.path)
        if found not in (None, self.kind):
            expected = f"{self.kind.value} or a free name, because the file there is {found.value}"
            raise InvalidInput(self.option, str(self.path), expected, hint)
        if not mode & 0o222:
            expected = "a file that may be written, because the file there is read-only"
            hint = "Make the file writable (chmod u+w), or choose another name."
            raise InvalidInput(self.option, str(self.path), expected, hint)


def page_file(html: Path | None, *, force: bool, reads: tuple[Path | None, ...]) -> OutputFile | None:
    """Return the file of `--html`, checked before the long work for the page."""
    if html is None:
        return None
    file = OutputFile(path=html, kind=FileKind.PAGE, option="--html", force=force, reads=reads)
    file.check()
    return file


def kind_of(head: bytes) -> FileKind:
    """Return the kind of a file from its first bytes.

    >>> kind_of(b'{"apportion":"table","format_version":2')
    <FileKind.TABLE: 'a table'>
    """
    if snapshot := _SNAPSHOT.match(head):
        return _OF_SNAPSHOTS.get(snapshot[1], FileKind.OTHER)
    found = next((kind for beginning, kind in _BEGINNINGS.items() if head.startswith(beginning)), FileKind.OTHER)
    return FileKind.OTHER if found is FileKind.PAGE and _GENERATOR not in head else found


_OF_SNAPSHOTS = {
    b"table": FileKind.TABLE,
    b"assignment": FileKind.ASSIGNMENT,
    b"plan": FileKind.PLAN,
    b"groupplan": FileKind.GROUP_PLAN,
    b"shardplan": FileKind.SHARD_PLAN,
    b"topology": FileKind.TOPOLOGY,
}


def _kind_at(path: Path) -> FileKind | None:
    """Return the kind of the file at a path, None if it is empty."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return kind_of(head) if head else None


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace the file at `path` (or the target of a link there) by `data`, durably, in one step.

    The file keeps its mode. A new file gets `mode`, or that of the process.
    """
    target = Path(os.path.realpath(path))
    old = _mode_of(target)
    if old is not None and not stat.S_ISREG(old):  # a rename over a device would take the device from the system
        raise FileExistsError(errno.EEXIST, "a folder or a device is there")
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, _new_mode() if old is mode is None else stat.S_IMODE(old or mode or 0))
            os.fsync(descriptor)
        Path(temporary).replace(target)
    finally:
        with suppress(OSError):  # after the rename the name is gone
            Path(temporary).unlink()
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable. Some file systems cannot do that for folders, and answer EINVAL."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            expected = f"one that can be made durable ({(error.strerror or '').lower()})"
            hint = "The new file is in place, but a power cut may bring the old one back. Check the disk."
            raise InvalidInput("folder", str(folder), expected, hint) from error


def _pour(path: Path, data: bytes) -> None:
    """Write to a pipe, a device or an open descriptor. If it is standard output, reports go to standard error."""
    number = _descriptor_in(path)
    sys.stdout.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if number is None else os.dup(number)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    if number == 1:
        sys.stdout = sys.stderr


def _descriptor_in(path: Path) -> int | None:
    """Return the number of the open descriptor that a path names."""
    found = _DESCRIPTOR.fullmatch(str(path))
    return int(found[1]) if found else _STANDARD.get(str(path))


def _is_same(other: Path, path: Path) -> bool:
    """Whether both paths lead to one file. A file that cannot be looked at is refused where it is read."""
    try:
        return other.samefile(path)
    except OSError:
        return False


def _is_stream(mode: int | None) -> bool:
    return mode is not None and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode))


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _new_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
