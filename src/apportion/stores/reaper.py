"""The reaper: decides that a lease has ended, where the store itself keeps no time that can be trusted.

A holder renews by raising the counter of its lease. A reaper reads all counters now and then; a lease whose counter did
not move between the END of one read and the START of a later one, at least a time to live apart on the reaper's own
clock, has ended. Nobody's wall clock is compared with anybody else's, so a clock that steps, or a standby's clock,
ends nothing. Whoever then deletes the lease compares the counter again, so that several reapers do no harm.

Promises: a lease that is renewed within its time to live is never called ended, whatever delays the reads.
"""

from collections.abc import Collection
from dataclasses import dataclass

_READS_PER_TTL = 20
_LEASES_PER_READER = 50  # beyond, the readers (each holder is one) share the work: each reads more seldom
_SLOWEST_RATIO = 0.25
_LONGEST_PAUSE_SECONDS = 0.5  # a lease granted meanwhile may be a short one


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """What one read showed of a lease."""

    lease: int
    renewals: int
    ttl_seconds: float


class Reaper:
    """What one reader has seen of the counters of all leases.

    >>> reaper = Reaper()
    >>> seen = Counter(lease=7, renewals=3, ttl_seconds=2.0)
    >>> reaper.ended([seen], started=10.0, finished=10.1), reaper.ended([seen], started=12.0, finished=12.1)
    ((), ())
    >>> [each.lease for each in reaper.ended([seen], started=12.1, finished=12.2)]
    [7]
    """

    def __init__(self) -> None:
        self._still_since: dict[int, tuple[int, float]] = {}

    def ended(self, counters: Collection[Counter], *, started: float, finished: float) -> tuple[Counter, ...]:
        """Take one read of all counters, with when it was started and finished; return the leases that have ended."""
        still_since = {each.lease: self._since(each, finished) for each in counters}
        self._still_since = still_since
        return tuple(each for each in counters if started - still_since[each.lease][1] >= each.ttl_seconds)

    def _since(self, counter: Counter, finished: float) -> tuple[int, float]:
        known = self._still_since.get(counter.lease)
        return known if known is not None and known[0] == counter.renewals else (counter.renewals, finished)


def pause_seconds(counters: Collection[Counter]) -> float:
    """Return how long a reader may wait before its next read: a part of the shortest time to live, longer in a crowd.

    >>> two = [Counter(lease=1, renewals=0, ttl_seconds=2.0), Counter(lease=2, renewals=0, ttl_seconds=30.0)]
    >>> pause_seconds(two), pause_seconds([])
    (0.1, 0.5)
    """
    times = [each.ttl_seconds for each in counters]
    if not times:
        return _LONGEST_PAUSE_SECONDS
    crowd = max(1.0, len(times) / _LEASES_PER_READER)
    return min(_LONGEST_PAUSE_SECONDS, min(times) * min(_SLOWEST_RATIO, crowd / _READS_PER_TTL))
