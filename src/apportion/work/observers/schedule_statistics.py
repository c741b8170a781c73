"""Schedule statistics: the slots that the workers of a queue in this process have fired or left out; for metrics.

Promises: memory and time per event do not grow with the work.
"""

from dataclasses import dataclass, field

from apportion.errors.brief import brief
from apportion.runtime.buckets import Buckets
from apportion.runtime.schedule_events import (
    ScheduleDisagreed,
    ScheduleEvent,
    ScheduleUnable,
    SlotFired,
    SlotSkipped,
    SlotsMissed,
)


@brief
@dataclass(slots=True)
class ScheduleStatistics:
    """Counts of the slots of one queue that workers of this process have fired or left out.

    - `skipped`: slots without a task, because a task of the schedule was open.
    - `missed`: slots without a task, because the policy for missed slots left them out.
    - `disagreed`: schedules whose stored slot is not a slot of the rule in this process.
    - `unable`: events of schedules that this process cannot evaluate.
    - `lateness`: the time from a slot to its firing.
    """

    skipped: int = 0
    missed: int = 0
    disagreed: int = 0
    unable: int = 0
    lateness: Buckets = field(default_factory=Buckets)

    def observe(self, event: ScheduleEvent) -> None:
        """Count an event."""
        match event:
            case SlotFired(late_seconds=late):
                self.lateness.add(late)
            case SlotSkipped():
                self.skipped += 1
            case SlotsMissed(count=count):
                self.missed += count
            case ScheduleDisagreed():
                self.disagreed += 1
            case ScheduleUnable():
                self.unable += 1
