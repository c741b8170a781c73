"""Portion: the number of rows for one transaction.

It follows the measured time, so that a lock is held for about the planned time.
"""

import sqlite3

LOCK_SECONDS = 0.01
"""The time for which a transaction of a mover should hold a lock. As a rule, writers wait at most twice as long."""

LONG_READ_SECONDS = 0.1
"""The time for one read of a file with a write-ahead log. Such a read delays no writer."""


def read_seconds(connection: sqlite3.Connection) -> float:
    """Return the time for one read of the source."""
    [(mode,)] = connection.execute("PRAGMA source.journal_mode").fetchall()
    return LONG_READ_SECONDS if mode == "wal" else LOCK_SECONDS


class Portion:
    """A number of rows that follows the measured time: it grows by half at most, and shrinks at once."""

    def __init__(self, rows: int, *, least: int = 20, most: int = 5_000, seconds: float = LOCK_SECONDS) -> None:
        self.rows: int = rows
        self.seconds: float = seconds
        self._least, self._most = least, most

    def took(self, rows: int, seconds: float) -> None:
        """Adapt the number of rows to the seconds that `rows` rows took."""
        if rows < self.rows // 2:
            return  # The few rows at the end of a table tell little.
        fitting = int(rows * self.seconds / max(seconds, 1e-6))
        self.rows = max(self._least, min(fitting, self.rows * 3 // 2 + 1, self._most))
