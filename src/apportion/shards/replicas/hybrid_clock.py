"""HybridClock: gives each write a version above all versions that its process has seen.

Promises: versions of one clock only grow, whatever the wall clock does. A version follows every version taken in.
Refuses: to read a clock. The caller passes milliseconds since 1970: the wall clock as read once at opening, plus the
elapsed time since. Refuses also to follow a version that is more than a day ahead: such a version is damage, and it
would push all later versions of all keys ahead.
Source: Kulkarni and others, Logical Physical Clocks, 2014.
"""

from apportion.shards.replicas.version import MOST_COUNTER, MOST_MILLISECONDS, EntryVersion

MOST_AHEAD_MS = 86_400_000
"""One day: a version further ahead of the own clock is damage."""


class HybridClock:
    """The versions of one writer.

    >>> clock = HybridClock(writer=7)
    >>> first = clock.next(now_ms=1_000)
    >>> clock.take_in(EntryVersion(milliseconds=1_500, counter=3, writer=9), now_ms=1_001)
    True
    >>> second = clock.next(now_ms=1_002)
    >>> first.milliseconds, (second.milliseconds, second.counter, second.writer)
    (1000, (1500, 4, 7))
    """

    def __init__(self, writer: int) -> None:
        self._writer = writer
        self._highest = (0, 0)

    def take_in(self, version: EntryVersion, now_ms: int) -> bool:
        """Take in a version that a node has answered; False for one that is more than a day ahead. O(1)."""
        if version.milliseconds > now_ms + MOST_AHEAD_MS:
            return False
        self._highest = max(self._highest, (version.milliseconds, version.counter))
        return True

    def next(self, now_ms: int) -> EntryVersion:
        """Return a version above all that were given or taken in. O(1)."""
        milliseconds, counter = self._highest
        if now_ms > milliseconds:
            milliseconds, counter = now_ms, 0
        elif counter < MOST_COUNTER:
            counter += 1
        else:
            milliseconds, counter = milliseconds + 1, 0
        self._highest = milliseconds, counter
        return EntryVersion(milliseconds=min(milliseconds, MOST_MILLISECONDS), counter=counter, writer=self._writer)
