"""Schedule log: one line of the logger `apportion.work` for each event of a schedule."""

import logging

from apportion.runtime.log_report import report
from apportion.runtime.schedule_events import (
    ScheduleDisagreed,
    ScheduleEvent,
    ScheduleUnable,
    SlotFired,
    SlotSkipped,
    SlotsMissed,
)

logger: logging.Logger = logging.getLogger("apportion.work")


def log_schedule(event: ScheduleEvent) -> None:
    """Log an event of a schedule."""
    level, words = _said(event)
    report(logger, level, "%s: schedule %s %s", event.queue, event.schedule, words)


def _said(event: ScheduleEvent) -> tuple[int, str]:
    match event:
        case SlotFired():
            return logging.INFO, f"has fired slot {event.slot}, {event.late_seconds:.3f} s late: task {event.task}"
        case SlotSkipped():
            return logging.INFO, f"has skipped slot {event.slot}: a task of the schedule is open"
        case SlotsMissed():
            return logging.WARNING, f"has missed slots: {event.count}, up to {event.slot}"
        case ScheduleDisagreed():
            words = f"had the stored slot {event.slot}, by zone data {event.stored_tzdata}; with {event.tzdata} here,"
            return logging.WARNING, f"{words} the rule has no such slot (schedule_disagrees)"
        case ScheduleUnable():
            return logging.WARNING, f"is left to other workers: {event.problem}"
        case _:
            return logging.INFO, f"{event}"
