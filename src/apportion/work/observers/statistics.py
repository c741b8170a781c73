"""Statistics: the counts and times of the attempts that the workers of a queue in this process have made; for metrics.

Promises: memory and time per event do not grow with the work.
"""

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
from apportion.runtime.buckets import Buckets
from apportion.work.lanes.lane_statistics import LaneStatistics
from apportion.work.observers.schedule_statistics import ScheduleStatistics


@brief
@dataclass(slots=True)
class TaskStatistics:
    """Counts of the attempts of one queue in this process.

    A `failed` attempt is repeated, a `dead` one is not. `refused` counts attempts that ended too late. `retaken` counts
    claims that were taken over from sessions that had ended. `start_latency` is the time from the ready task to the
    begin of its run. `lanes` are the counts of a queue with keys, `schedules` are the counts of slots.
    """

    done: int = 0
    failed: int = 0
    dead: int = 0
    refused: int = 0
    retaken: int = 0
    start_latency: Buckets = field(default_factory=Buckets)
    runs: Buckets = field(default_factory=Buckets)
    lanes: LaneStatistics = field(default_factory=LaneStatistics)
    schedules: ScheduleStatistics = field(default_factory=ScheduleStatistics)

    def observe(self, event: AttemptEvent) -> None:
        """Count an event."""
        match event:
            case AttemptClaimed(is_retaken=True):
                self.retaken += 1
            case AttemptStarted(waited_seconds=waited):
                self.count_start(waited)
            case AttemptDone(run_seconds=took):
                self.count_done(took)
                return
            case AttemptFailed():
                self.failed += 1
            case AttemptDead():
                self.dead += 1
            case AttemptRefused():
                self.refused += 1
        if isinstance(event, AttemptEnded) and event.run_seconds is not None:
            self.runs.add(event.run_seconds)

    def count_start(self, waited_seconds: float) -> None:
        """Count a run that has begun."""
        self.start_latency.add(waited_seconds)

    def count_done(self, run_seconds: float | None) -> None:
        """Count a run that is done."""
        self.done += 1
        if run_seconds is not None:
            self.runs.add(run_seconds)
