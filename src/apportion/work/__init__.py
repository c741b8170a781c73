"""Work: queues of tasks. A live worker completes each task once, even if other workers die."""

from apportion.runtime.attempt_events import (
    AttemptCancelled,
    AttemptClaimed,
    AttemptCrashed,
    AttemptDead,
    AttemptDone,
    AttemptEnded,
    AttemptEvent,
    AttemptFailed,
    AttemptLost,
    AttemptObserver,
    AttemptRefused,
    AttemptReleased,
    AttemptStarted,
)
from apportion.runtime.schedule_events import (
    ScheduleDisagreed,
    ScheduleEvent,
    ScheduleObserver,
    ScheduleUnable,
    SlotFired,
    SlotSkipped,
    SlotsMissed,
)
from apportion.work.call import Call
from apportion.work.current import AsyncRunningTask, current_task
from apportion.work.retry_budget import GiveUp, Snooze
from apportion.work.running_task import RunningTask

__all__ = [
    "AsyncRunningTask",
    "AttemptCancelled",
    "AttemptClaimed",
    "AttemptCrashed",
    "AttemptDead",
    "AttemptDone",
    "AttemptEnded",
    "AttemptEvent",
    "AttemptFailed",
    "AttemptLost",
    "AttemptObserver",
    "AttemptRefused",
    "AttemptReleased",
    "AttemptStarted",
    "Call",
    "GiveUp",
    "RunningTask",
    "ScheduleDisagreed",
    "ScheduleEvent",
    "ScheduleObserver",
    "ScheduleUnable",
    "SlotFired",
    "SlotSkipped",
    "SlotsMissed",
    "Snooze",
    "current_task",
]
