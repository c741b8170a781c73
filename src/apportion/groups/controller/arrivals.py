"""Arrivals: the time when a controller may move partitions to newcomers, so that a staggered start is one change.

Promises: a member that joins gets its share at once if the group had no change for 10 s. While members keep coming,
the controller waits until no member has come for the settling time, and at most 30 s after the first.
Refuses: to wait and to read clocks. Only moves between live members are delayed; see `Controller` for all other moves.
"""

from collections.abc import Collection

STILL_SECONDS = 10.0
LONGEST_SECONDS = 30.0


class Arrivals:
    """The members as one process has seen them come and go.

    >>> arrivals = Arrivals(settle_seconds=2.0)
    >>> for now, members in ((0.0, "a"), (20.0, "ab"), (20.5, "abc"), (21.0, "abcd")):
    ...     arrivals.look(members, now)
    ...     print(arrivals.levels_at)
    2.0
    20.0
    22.5
    23.0
    """

    levels_at: float

    def __init__(self, settle_seconds: float) -> None:
        self.levels_at = float("-inf")
        self._settle_seconds = settle_seconds
        self._known: frozenset[str] = frozenset()
        self._changed_at = float("-inf")
        self._first_at: float | None = None  # when the first newcomer of the present series came

    def look(self, members: Collection[str], now: float) -> None:
        """Take the present live members. O(members)."""
        there = frozenset(members)
        if there == self._known:
            return
        if there - self._known:
            self._came(now)
        self._known, self._changed_at = there, now

    def _came(self, now: float) -> None:
        """After one more arrival, set the time from which partitions move to newcomers."""
        is_still = bool(self._known) and now - self._changed_at >= STILL_SECONDS
        if self._first_at is None or now >= self.levels_at:
            is_late = self._first_at is not None and now >= self._first_at + LONGEST_SECONDS
            self._first_at = None if is_still or is_late else now
        waits_until = now if self._first_at is None else self._first_at + LONGEST_SECONDS
        self.levels_at = min(now + self._settle_seconds, waits_until)
