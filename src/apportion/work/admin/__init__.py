"""Admin: the questions and acts of an operator of tasks, from any process. The process need not be a worker."""

from apportion.work.admin.cause import Cause, Why
from apportion.work.admin.enqueue import written_call
from apportion.work.admin.facade import (
    busiest,
    cancel,
    cancel_all,
    enqueue,
    limit,
    owner,
    pause,
    purge,
    redrive,
    redrive_all,
    resize,
    resume,
    retry,
    retry_all,
    show,
    stats,
    tasks,
    why,
    workers,
)
from apportion.work.admin.keys import KeyOwner
from apportion.work.admin.questions import TaskPage

__all__ = [
    "Cause",
    "KeyOwner",
    "TaskPage",
    "Why",
    "busiest",
    "cancel",
    "cancel_all",
    "enqueue",
    "limit",
    "owner",
    "pause",
    "purge",
    "redrive",
    "redrive_all",
    "resize",
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
