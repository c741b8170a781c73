"""Admin: the questions and acts of an operator of tasks, from any process, without being a worker."""

from apportion.work.admin.acts import (
    cancel,
    cancel_all,
    limit,
    pause,
    purge,
    redrive,
    redrive_all,
    resume,
    retry,
    retry_all,
)
from apportion.work.admin.cause import Cause, Why
from apportion.work.admin.enqueue import enqueue, written_call
from apportion.work.admin.questions import TaskPage, show, stats, tasks, why, workers

__all__ = [
    "Cause",
    "TaskPage",
    "Why",
    "cancel",
    "cancel_all",
    "enqueue",
    "limit",
    "pause",
    "purge",
    "redrive",
    "redrive_all",
    "resume",
    "retry",
    "retry_all",
    "show",
    "stats",
    "tasks",
    "why",
    "workers",
    "written_call",
]
