"""Portion: the number of rows that one transaction takes, so that it holds a lock about as long as it may."""

LOCK_SECONDS = 0.01
"""The time that a transaction of a mover should hold a lock; writers wait for twice as long at most, as a rule."""


class Portion:
    """A number of rows that follows the measured time: it grows by half, and shrinks at once."""

    def __init__(self, rows: int, *, least: int = 20, most: int = 5_000, seconds: float = LOCK_SECONDS) -> None:
        self.rows: int = rows
        self._least, self._most, self._seconds = least, most, seconds

    def took(self, rows: int, seconds: float) -> None:
        """Learn how long a number of rows took."""
        if rows < self.rows // 2 and seconds < self._seconds:
            return  # the last rows of a table tell nothing
        fitting = int(rows * self._seconds / max(seconds, 1e-6))
        self.rows = max(self._least, min(fitting, self.rows * 3 // 2 + 1, self._most))
