"""Cause: the reason why a task is not done, and the next step of an operator; without I/O.

Promises: the cause is the first obstacle that a worker would meet. `limited` is exact: a claim now would exceed the
limit of the open claims, or the rate. `key_busy`: an earlier task of the same key is open. `suspect`: two or more
workers have died while they ran the task, so no worker runs it together with another suspect.
"""

from dataclasses import dataclass
from typing import Literal

from apportion.errors.brief import brief
from apportion.stores.keys.questions import KeyHead
from apportion.stores.task_control import QueueStats, TaskRow
from apportion.work.lanes.keys import group_of

Cause = Literal[
    "cancelled",
    "claimed",
    "damaged",
    "dead",
    "done",
    "due",
    "expired",
    "fenced",
    "key_blocked",
    "key_busy",
    "limited",
    "missing",
    "no_owner",
    "no_worker",
    "paused",
    "ready",
    "suspect",
    "unknown_name",
]
_NEXT_STEPS: dict[Cause, str] = {
    "cancelled": "To run it after all, redrive it.",
    "claimed": "A worker runs it now. To stop it, cancel it.",
    "damaged": "A worker that reads the damaged row ends the task as dead. Look at the task, then redrive it.",
    "dead": "Mend the cause, then redrive the task.",
    "done": "It is done, and its result is kept.",
    "due": "Wait {seconds} s until it is due, or retry it now.",
    "expired": "It was not started in time, so it will not run. If you still need it, enqueue it again.",
    "fenced": "The row of its lane is damaged. The owner of the lane mends the row after one lease_ttl.",
    "key_blocked": "The dead task {head} blocks its key. Redrive or cancel that task.",
    "key_busy": "Task {head} comes first in its key. Wait until that task ends, or see why it waits.",
    "limited": "Wait for a free place, or raise the limit of the queue.",
    "missing": "It is done and kept no result, or it was purged, or it was never enqueued here.",
    "no_owner": "No worker owns the lane of its key now. Look at the group: apportion group show URL {group}",
    "no_worker": "Start a worker of this queue.",
    "paused": "Resume the queue.",
    "ready": "A worker will claim it soon.",
    "suspect": "Wait, or find out why the task ends its workers. It will run in a child process of a worker.",
    "unknown_name": "Start a worker with a program that has this task function, or cancel the task.",
}
MANY_DEATHS = 2


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The reason why a task is not done: the cause, and the next step of an operator."""

    task: TaskRow
    cause: Cause
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The facts outside of a task's row that may keep it from running.

    - `is_barred`: every worker runs a suspect now.
    - `head`: the earlier task of the same key that must end first, None if there is none.
    - `is_owned`: the lane of its key has a living owner.
    - `is_fenced`: the task store has noted a later token for the lane than the token of its owner.
    """

    is_barred: bool = False
    head: KeyHead | None = None
    is_owned: bool = True
    is_fenced: bool = False


_NOTHING = Around()


def why_of(row: TaskRow, queue: QueueStats, *, now: int, around: Around = _NOTHING) -> Why:
    """Return the reason why a task is in its state. Pure.

    >>> row = TaskRow(id="t", queue="q", name="f", state="delayed", due=5_000)
    >>> why_of(row, QueueStats(queue="q", workers=1), now=2_000).next_step
    'Wait 3 s until it is due, or retry it now.'
    """
    cause = cause_of(row, queue, now=now, around=around)
    seconds = -(-max(0, (row.due or 0) - now) // 1_000)
    head = "" if around.head is None else around.head.task
    step = _NEXT_STEPS[cause].format(seconds=seconds, head=head, group=group_of(row.queue))
    return Why(task=row, cause=cause, next_step=step)


def cause_of(row: TaskRow, queue: QueueStats, *, now: int, around: Around = _NOTHING) -> Cause:
    """Return the first obstacle of a task.

    >>> cause_of(TaskRow(id="t", queue="q", name="f", state="ready"), QueueStats(queue="q"), now=0)
    'no_worker'
    """
    match row.state:
        case "ready" | "delayed":
            return _obstacle(row, queue, now, around)
        case "cancelled" if row.reason == "expired":
            return "expired"
        case "claimed" if not queue.workers:  # its worker has ended, and no worker can take it over
            return "no_worker"
        case state:
            return state


def _obstacle(row: TaskRow, queue: QueueStats, now: int, around: Around) -> Cause:
    head = around.head
    is_suspect, is_waiting = row.deaths >= MANY_DEATHS, row.due is not None and row.due > now
    is_unknown = "has no task function" in row.reason
    obstacles: tuple[tuple[bool, Cause], ...] = (
        (row.expires_at is not None and row.expires_at <= now, "expired"),
        (queue.is_paused, "paused"),
        (head is not None and head.state == "dead", "key_blocked"),
        (head is not None, "key_busy"),
        (is_waiting and is_unknown, "unknown_name"),
        (is_waiting and is_suspect, "suspect"),
        (is_waiting, "due"),
        (not queue.workers, "no_worker"),
        (not around.is_owned, "no_owner"),
        (around.is_fenced, "fenced"),
        (_is_limited(queue), "limited"),
        (around.is_barred and is_suspect, "suspect"),
        (is_unknown, "unknown_name"),
    )
    return next((cause for is_so, cause in obstacles if is_so), "ready")


def _is_limited(queue: QueueStats) -> bool:
    is_full = queue.open_claims is not None and queue.claimed >= queue.open_claims
    return is_full or (queue.rate is not None and queue.starts_left < 1)
