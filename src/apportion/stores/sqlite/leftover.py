"""A -wal left behind by an earlier file: SQLite would replay it over a copy that replaced that file.

Promises: nothing is written. A file that is not younger than its -wal is accepted. The times are equal if a checkpoint
and a commit follow each other within one tick of the clock (4 ms). A younger file is accepted if a checkpoint wrote it.
There are two such cases. In the first, the file contains every page of the -wal. In the second, the -shm shows that a
checkpoint began and did not end, as after kill -9. Then the file contains the pages that this checkpoint copied before
it was interrupted.
Does not notice: a copy that was written over the file with an old time (cp -p), unless `is_restored` is True; or a copy
that was written within the same tick as the last commit.
A process that has the file open must not call this: closing the reading connection would drop SQLite's locks on the
file.
Source: https://www.sqlite.org/fileformat2.html#walformat, https://www.sqlite.org/walformat.html (2.2),
https://www.sqlite.org/howtocorrupt.html (§1.4, §2.2)
"""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from apportion.stores.sqlite import statements as sql
from apportion.stores.sqlite.connection import number_of, open_to_read, value_of

COPYING = "stop all members, delete -wal and -shm, copy the file, and run: apportion store restored URL"
RESTORING = f'Restore it: sqlite3 work.db ".restore copy.db"; or {COPYING}'
NOTHING_RESTORED = 'If no copy replaced the file, apply the -wal: sqlite3 work.db "PRAGMA wal_checkpoint"'
_HEADER = struct.Struct(">IIII8sII")
_FRAME = struct.Struct(">II8sII")
_MAGIC = {0x377F0682, 0x377F0683}
_INDEX = struct.Struct("=32x8s56xI28xI4x")  # of a -shm: salt, frames that are in the file, frames that were begun


def side_file(path: Path, end: str) -> Path:
    """Return the path of a file that SQLite keeps beside a file: -wal or -shm."""
    return path.with_name(path.name + end)


def has_leftover(path: Path, *, is_restored: bool) -> bool:
    """Say whether the -wal beside a file belongs to an earlier file. `is_restored`: the file may have an old time."""
    return (
        _is_younger(path, is_restored=is_restored)
        and not _holds_all(path)
        and (is_restored or not _was_cut_short(path))
        and _is_younger(path, is_restored=is_restored)  # a process may have written to the -wal during these looks
    )


def _is_younger(path: Path, *, is_restored: bool) -> bool:
    """Say whether the file is younger than its -wal; False if one is absent."""
    try:
        file, wal = path.stat(), side_file(path, "-wal").stat()
    except FileNotFoundError:
        return False
    if file.st_mtime_ns > wal.st_mtime_ns:
        return True
    # A move keeps the time of the last write, and changes ctime. A change of permissions does the same. But only a
    # move brings a file with another inode.
    is_moved = file.st_ctime_ns >= wal.st_ctime_ns
    return is_moved and (is_restored or _remembered_inode(path) not in (0, file.st_ino))


def _remembered_inode(path: Path) -> int:
    """Return the inode in the file, read without the -wal: 0 if it has none yet, -1 if it is no store."""
    try:
        with closing(open_to_read(path, alone=True)) as connection:
            is_new = not value_of(connection, "SELECT count(*) FROM sqlite_master")
            return 0 if is_new else number_of(connection, sql.INODE)
    except sqlite3.Error:
        return -1


def _holds_all(path: Path) -> bool:
    """Say whether the file contains every page of the -wal with the same content."""
    with path.open("rb") as file, side_file(path, "-wal").open("rb") as wal:
        page_bytes, pages = _committed(wal)
        for number, place in pages.items():
            wal.seek(place)
            file.seek((number - 1) * page_bytes)
            if wal.read(page_bytes) != file.read(page_bytes):
                return False
    return True


def _was_cut_short(path: Path) -> bool:
    """Say whether a checkpoint of this -wal began and did not end. A checkpoint copies the pages in order."""
    try:
        index = side_file(path, "-shm").read_bytes()[: _INDEX.size]
    except FileNotFoundError:
        return False
    if len(index) < _INDEX.size:
        return False
    salt, done, begun = _INDEX.unpack(index)
    copied: list[bool] = []
    with path.open("rb") as file, side_file(path, "-wal").open("rb") as wal:
        page_bytes, pages = _committed(wal)
        wal.seek(0)
        if wal.read(_HEADER.size)[16:24] != salt:
            return False
        for number, place in sorted(pages.items()):
            wal.seek(place)
            file.seek((number - 1) * page_bytes)
            is_copied, frame = wal.read(page_bytes) == file.read(page_bytes), 1 + place // (page_bytes + _FRAME.size)
            if frame <= done and not is_copied:
                return False
            copied += [is_copied] if done < frame <= begun else []
    return copied[:1] == [True]


def _committed(wal: BinaryIO) -> tuple[int, dict[int, int]]:
    """Return the size of a page, and the position of the last committed content of each page."""
    header = wal.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return 0, {}
    magic, _, page_bytes, _, salt, _, _ = _HEADER.unpack(header)
    committed: dict[int, int] = {}
    pending: dict[int, int] = {}
    while magic in _MAGIC and len(frame := wal.read(_FRAME.size)) == _FRAME.size:
        number, size_after_commit, its_salt, _, _ = _FRAME.unpack(frame)
        if its_salt != salt:
            break
        pending[number] = wal.tell()
        wal.seek(page_bytes, 1)
        if size_after_commit:
            committed.update(pending)
            committed = {each: place for each, place in committed.items() if each <= size_after_commit}
            pending = {}
    return page_bytes, committed
