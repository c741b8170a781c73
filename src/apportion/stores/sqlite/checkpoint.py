"""Checkpoints that empty a -wal after it has grown large.

SQLite returns to the start of the -wal only at a moment without readers. With sixty processes that poll there may be no
such moment, and the -wal grows for as long as they run. So a writer that finds a large -wal runs a checkpoint that
truncates it. The checkpoint waits some milliseconds for present readers. Meanwhile, new readers read the file without
the -wal. A checkpoint costs as much as some commits. SQLite itself keeps a -wal of four megabytes, which is not large.
Promises: the -wal stays near eight megabytes, or twice the size of the file, if readers finish. An error of a
checkpoint is no error of the write before it: the next writer tries again.
Source: https://www.sqlite.org/wal.html (§6, avoiding excessively large WAL files)
"""

import sqlite3
from contextlib import suppress
from pathlib import Path

from apportion.runtime.clock import Clock
from apportion.stores.sqlite.connection import Connection
from apportion.stores.sqlite.leftover import side_file

_LARGE_BYTES = 8_000_000
_LARGE_PER_FILE = 2
_PAUSE_SECONDS = 0.1
_LOOK_SECONDS = 0.005
_READERS_MILLISECONDS, _LONGEST_MILLISECONDS = 20, 250


class Checkpoints:
    """Keeps the -wal of one file small."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._next_at = float("-inf")

    def make(self, connection: Connection) -> None:
        """Empty a large -wal, unless that was tried a moment ago. For a larger -wal, the wait for readers is longer."""
        now = self._clock.elapsed()
        if now < self._next_at:
            return
        self._next_at = now + _LOOK_SECONDS
        excess_ratio = self._excess_ratio()
        if excess_ratio < 1:
            return
        self._next_at = now + _PAUSE_SECONDS
        milliseconds = min(_LONGEST_MILLISECONDS, int(excess_ratio * _READERS_MILLISECONDS))
        with suppress(sqlite3.OperationalError):
            connection.execute(f"PRAGMA busy_timeout={milliseconds}")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.execute("PRAGMA busy_timeout=0")

    def _excess_ratio(self) -> float:
        try:
            size, wal_size = self._path.stat().st_size, side_file(self._path, "-wal").stat().st_size
        except OSError:
            return 0.0
        return wal_size / max(_LARGE_BYTES, _LARGE_PER_FILE * size)
