"""Admin: the questions and acts of an operator of tasks, from any process, without being a worker."""

from apportion.work.admin.cause import Cause, Why
from apportion.work.admin.enqueue import written_call
from apportion.work.admin.facade import (
    cancel,
    cancel_all,
    enqueue,
    limit,
    pause,
    purge,
    redrive,
    redrive_all,
    resume,
    retry,
    retry_all,
    show,
    stats,
    tasks,
    why,
    workers,
)
from apportion.work.admin.questions import TaskPage

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
