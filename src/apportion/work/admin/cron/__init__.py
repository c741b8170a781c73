"""Admin of schedules: questions and acts of an operator, from any process. The process need not be a worker."""

from apportion.work.admin.cron.facade import (
    apply,
    forecast,
    history,
    pause,
    plan,
    remove,
    resume,
    run_now,
    schedules,
)
from apportion.work.cron.clock_changes import ClockChange, TouchedTime
from apportion.work.cron.deployment import ScheduleChange
from apportion.work.cron.forecast import Forecast
from apportion.work.cron.inspection import InspectedSchedule, Trouble

__all__ = [
    "ClockChange",
    "Forecast",
    "InspectedSchedule",
    "ScheduleChange",
    "TouchedTime",
    "Trouble",
    "apply",
    "forecast",
    "history",
    "pause",
    "plan",
    "remove",
    "resume",
    "run_now",
    "schedules",
]
