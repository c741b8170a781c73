"""Checkpoints that empty a -wal which has grown large.

SQLite begins the -wal anew only at a moment at which nobody reads from it. With sixty processes that poll there may be
no such moment, and the -wal grows for as long as they run. So the writer that finds it large asks for a checkpoint that
truncates: it waits some milliseconds for those that read just now, while new readers read the file alone.
Promises: the -wal is at most 2 MB or twice the file, but for what is written while readers do not end; no error of a
checkpoint is an error of the write before it, for the next writer tries again.
Source: https://www.sqlite.org/wal.html (§6, avoiding excessively large WAL files)
"""

import sqlite3
from contextlib import suppress
from pathlib import Path

from apportion.model.clock import Clock
from apportion.stores.sqlite.connection import Connection
from apportion.stores.sqlite.leftover import side_file

_LARGE_BYTES = 2_000_000
_LARGE_PER_FILE = 2
_PAUSE_SECONDS = 0.1
_READERS_MILLISECONDS = 20


class Checkpoints:
    """Keeps the -wal of one file small."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._next_at = float("-inf")

    def make(self, connection: Connection) -> None:
        """Empty the -wal if it is large, unless that was tried a moment ago."""
        now = self._clock.elapsed()
        if now < self._next_at or not self._is_large():
            return
        self._next_at = now + _PAUSE_SECONDS
        with suppress(sqlite3.OperationalError):
            connection.execute(f"PRAGMA busy_timeout={_READERS_MILLISECONDS}")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.execute("PRAGMA busy_timeout=0")

    def _is_large(self) -> bool:
        try:
            size, wal_size = self._path.stat().st_size, side_file(self._path, "-wal").stat().st_size
        except OSError:
            return False
        return wal_size > max(_LARGE_BYTES, _LARGE_PER_FILE * size)
