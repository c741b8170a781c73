"""Statistics: the counts and times of the attempts that the workers of a queue in this process have made; for metrics.

Promises: memory and time per event do not grow with the work.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from apportion.errors.brief import brief
from apportion.runtime.attempt_events import (
    AttemptClaimed,
    AttemptDead,
    AttemptDone,
    AttemptEnded,
    AttemptEvent,
    AttemptFailed,
    AttemptRefused,
    AttemptStarted,
)
from apportion.work.lanes.lane_statistics import LaneStatistics

_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 3_600.0)


@brief
@dataclass(slots=True)
class Buckets:
    """A number of durations, by upper bounds in seconds; the last count is of those above all bounds.

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


@brief
@dataclass(slots=True)
class TaskStatistics:
    """Counts of the attempts of one queue in this process.

    `failed` runs come again, `dead` ones do not. `refused` counts ends that came too late. `retaken` counts claims that
    were taken over from sessions that had ended. A start latency is the time from ready to the begin of the run.
    `lanes` are the counts of a queue with keys.
    """

    done: int = 0
    failed: int = 0
    dead: int = 0
    refused: int = 0
    retaken: int = 0
    start_latency: Buckets = field(default_factory=Buckets)
    runs: Buckets = field(default_factory=Buckets)
    lanes: LaneStatistics = field(default_factory=LaneStatistics)

    def observe(self, event: AttemptEvent) -> None:
        """Count an event."""
        match event:
            case AttemptClaimed(is_retaken=True):
                self.retaken += 1
            case AttemptStarted(waited_seconds=waited):
                self.start_latency.add(waited)
            case AttemptDone():
                self.done += 1
            case AttemptFailed():
                self.failed += 1
            case AttemptDead():
                self.dead += 1
            case AttemptRefused():
                self.refused += 1
        if isinstance(event, AttemptEnded) and event.run_seconds is not None:
            self.runs.add(event.run_seconds)
