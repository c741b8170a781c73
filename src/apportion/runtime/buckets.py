"""Buckets: counts of durations by upper bounds, for histograms. Memory and time per duration are constant."""

from bisect import bisect_left
from dataclasses import dataclass, field

from apportion.errors.brief import brief

_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 3_600.0)


@brief
@dataclass(slots=True)
class Buckets:
    """Counts of durations, by upper bounds in seconds. The last count is of durations above all bounds.

    >>> buckets = Buckets()
    >>> buckets.add(0.05)
    >>> buckets.add(7200)
    >>> buckets.cumulative()[3:5], buckets.cumulative()[-1], buckets.seconds
    ([(0.05, 1), (0.1, 1)], (inf, 2), 7200.05)
    """

    bounds: tuple[float, ...] = _BOUNDS
    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one more duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """Return each bound with the number of durations up to it; the last bound is infinite."""
        total, pairs = 0, []
        for bound, count in zip((*self.bounds, float("inf")), tuple(self.counts), strict=True):
            total += count
            pairs.append((bound, total))
        return pairs
