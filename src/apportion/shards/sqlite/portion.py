"""Portion: the number of rows that one transaction takes, so that it holds a lock about as long as it may."""

import sqlite3

LOCK_SECONDS = 0.01
"""The time that a transaction of a mover should hold a lock; writers wait for twice as long at most, as a rule."""

LONG_READ_SECONDS = 0.1
"""The time that a reader takes of a file with a write-ahead log, where it holds up nobody."""


def read_seconds(connection: sqlite3.Connection) -> float:
    """Return the time that one read of the source should take."""
    [(mode,)] = connection.execute("PRAGMA source.journal_mode").fetchall()
    return LONG_READ_SECONDS if mode == "wal" else LOCK_SECONDS


class Portion:
    """A number of rows that follows the measured time: it grows by half, and shrinks at once."""

    def __init__(self, rows: int, *, least: int = 20, most: int = 5_000, seconds: float = LOCK_SECONDS) -> None:
        self.rows: int = rows
        self.seconds: float = seconds
        self._least, self._most = least, most

    def took(self, rows: int, seconds: float) -> None:
        """Learn how long a number of rows took."""
        if rows < self.rows // 2:
            return  # the last rows of a table tell little
        fitting = int(rows * self.seconds / max(seconds, 1e-6))
        self.rows = max(self._least, min(fitting, self.rows * 3 // 2 + 1, self._most))
