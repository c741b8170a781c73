"""The reaper: decides when a lease has ended, for a store without a clock that can be trusted.

A holder renews by raising the counter of its lease. A reaper reads the counters from time to time. It compares the
END of one read with the START of a later one, on its own clock. A lease has ended when its counter did not move
between two reads that are at least a time to live apart. The reaper compares no wall clock with another. So no lease
ends because a clock steps, or because a standby with another clock takes over. The process that then deletes the lease
compares the counter again, so several reapers do no harm.

A process needs one reaper per store. With up to 20 leases, each reaper reads all of them. With more, only the holders
of the three leases with the lowest ids read all leases. The other reapers read only those three, and less often, to
notice the death of a reader. While none of the three counters grows, every reaper reads all. Each reaper also reads all
from time to time, because one of the three leases may belong to a holder that does not watch.
Promises: a lease that is renewed within its time to live never counts as ended, even if reads are late. The number of
reads in a fleet grows with the number of leases, not with its square.
"""

from collections.abc import Collection
from dataclasses import dataclass

MOST_WITHOUT_READERS = 20
READERS = 3
_READS_PER_TTL = 20
_LEASES_PER_READER = 50  # with more leases, a reader without `own` reads less often
_SLOWEST_RATIO = 0.25
_STILL_RATIO = 0.75  # a reader that has not renewed for this part of its time to live may be dead
_LONGEST_PAUSE_SECONDS = 0.5  # a lease granted in the meantime may be a short one


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """The state of one lease in one read."""

    lease: int
    renewals: int
    ttl_seconds: float


class Reaper:
    """The counters that one reader has seen.

    `own` always holds the present leases of this process. With None, the reader always reads all leases.

    >>> reaper = Reaper()
    >>> seen = Counter(lease=7, renewals=3, ttl_seconds=2.0)
    >>> reaper.ended([seen], started=10.0, finished=10.1), reaper.ended([seen], started=12.0, finished=12.1)
    ((), ())
    >>> [each.lease for each in reaper.ended([seen], started=12.1, finished=12.2)]
    [7]
    """

    def __init__(self, own: Collection[int] | None = None) -> None:
        self._own = own
        self.forget()

    def forget(self) -> None:
        """Give every lease its whole time to live again: while the store is unavailable, no holder can renew."""
        self._still_since: dict[int, tuple[int, float]] = {}
        self._crowd = 0  # leases at the last read of all
        self._shortest_seconds = float("inf")
        self._lowest: tuple[Counter, ...] = ()
        self._moved_at: dict[int, float] = {}
        self._whole_at = self._read_at = float("-inf")

    def most(self, now: float) -> int | None:
        """Return the number of leases, from the lowest id on, that the next read must show; None for all.

        >>> reaper = Reaper(own={40})
        >>> fleet = [Counter(lease=number, renewals=0, ttl_seconds=2.0) for number in range(1, 61)]
        >>> reaper.ended(fleet, started=0.0, finished=0.0), reaper.most(0.4)
        ((), None)
        >>> fleet[0] = Counter(lease=1, renewals=1, ttl_seconds=2.0)
        >>> reaper.ended(fleet, started=0.5, finished=0.5), reaper.most(0.9), reaper.most(31.0)
        ((), 3, None)
        """
        if self._reads_all(now) or now >= self._whole_at + self._crowd * _SLOWEST_RATIO * self._shortest_seconds:
            return None
        return READERS

    def ended(
        self, counters: Collection[Counter], *, started: float, finished: float, most: int | None = None
    ) -> tuple[Counter, ...]:
        """Evaluate one read, with the times of its start and its end; return the leases that have ended.

        The read showed all counters, or the `most` lowest ones.
        """
        still_since = {each.lease: self._since(each, finished) for each in counters}
        times = [each.ttl_seconds for each in counters]
        self._lowest = tuple(sorted(counters, key=lambda each: each.lease)[:READERS])
        self._moved_at = {each.lease: self._moved(each, finished) for each in self._lowest}
        self._read_at = finished
        if most is None:
            self._still_since = still_since
            self._crowd, self._shortest_seconds = len(times), min(times, default=float("inf"))
            self._whole_at = finished
        else:
            self._still_since |= still_since
            self._shortest_seconds = min([self._shortest_seconds, *times])
        return tuple(each for each in counters if started - still_since[each.lease][1] >= each.ttl_seconds)

    def pause_seconds(self) -> float:
        """Return the pause before the next read: a part of the shortest time to live."""
        if not self._crowd:
            return _LONGEST_PAUSE_SECONDS
        if self._own is not None and not self._reads_all(self._read_at):
            return _SLOWEST_RATIO * self._shortest_seconds
        crowd = max(1.0, self._crowd / _LEASES_PER_READER) if self._own is None else 1.0
        ratio = min(_SLOWEST_RATIO, crowd / _READS_PER_TTL)
        return min(_LONGEST_PAUSE_SECONDS, self._shortest_seconds * ratio)

    def _reads_all(self, now: float) -> bool:
        if self._own is None or self._crowd <= MOST_WITHOUT_READERS:
            return True
        readers = [each for each in self._lowest if now - self._moved_at[each.lease] < _STILL_RATIO * each.ttl_seconds]
        return not readers or any(each.lease in self._own for each in self._lowest)

    def _moved(self, counter: Counter, finished: float) -> float:
        """Return the time of the last observed move of the counter. The first read of a counter proves no move."""
        known = self._still_since.get(counter.lease)
        if known is not None and known[0] != counter.renewals:
            return finished
        return self._moved_at.get(counter.lease, float("-inf"))

    def _since(self, counter: Counter, finished: float) -> tuple[int, float]:
        known = self._still_since.get(counter.lease)
        return known if known is not None and known[0] == counter.renewals else (counter.renewals, finished)
