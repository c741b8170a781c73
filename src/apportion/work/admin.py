"""Administration of tasks: the questions and acts of an operator, from any process, without being a worker.

Every function opens the store of a URL, does one thing, and closes it. Queues are named as in `Queue`.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, TypeVar

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.runtime.io_thread import io_thread
from apportion.stores.catalog import connect_tasks, parsed_url
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import (
    Cancel,
    Hasten,
    Listing,
    Overview,
    Pause,
    Purge,
    QueueStats,
    Redrive,
    SetLimit,
    TaskRow,
)
from apportion.stores.task_values import TaskState
from apportion.work.budget import length, milliseconds

Answer = TypeVar("Answer")
Cause = Literal[
    "claimed", "dead", "cancelled", "done", "missing", "paused", "limited", "due", "no_worker", "unknown_name", "ready"
]
_NEXT_STEPS: dict[Cause, str] = {
    "claimed": "A worker runs it now.",
    "dead": "Mend the cause, then redrive it.",
    "cancelled": "Redrive it, if it is to run after all.",
    "done": "It is done, and its result is kept.",
    "missing": "It is done and kept no result, or it was never enqueued, or it was purged.",
    "paused": "Resume the queue.",
    "limited": "Wait, or raise the limit of the queue.",
    "due": "Wait until it is due, or hasten it.",
    "no_worker": "Start a worker of this queue.",
    "unknown_name": "Start a worker with a program that has this task function.",
    "ready": "A worker takes it with its next turn.",
}


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a task is not done: the cause, and the next step of an operator."""

    task: TaskRow
    cause: Cause
    next_step: str


async def stats(url: str) -> tuple[QueueStats, ...]:
    """Return the numbers of each queue, sorted by name."""
    prefix = f"{parsed_url(url).namespace}/"
    found = await _asked(url, lambda store: store.overview())
    return tuple(
        replace(each, queue=each.queue.removeprefix(prefix)) for each in found.queues if each.queue.startswith(prefix)
    )


async def tasks(
    url: str,
    queue: str,
    *,
    states: tuple[TaskState, ...] = ("ready", "delayed", "claimed"),
    name: str | None = None,
    after: int = 0,
    most: int = 100,
) -> tuple[TaskRow, ...]:
    """Return a page of the tasks of a queue: those after a position, at most `most`."""
    listing = Listing(queue=_full(url, queue), states=states, name=name, after=after, most=most)
    return await _asked(url, lambda store: store.rows(listing))


async def why(url: str, task: str) -> Why:
    """Say why a task is not done yet, and the next step."""

    async def _read(store: TaskStore) -> tuple[tuple[TaskRow, ...], Overview]:
        return await store.rows(Listing(tasks=(task,))), await store.overview()

    rows, overview = await _asked(url, _read)
    row = rows[0] if rows else TaskRow(id=task, queue="", name="", state="missing")
    cause = cause_of(row, overview)
    return Why(task=row, cause=cause, next_step=_NEXT_STEPS[cause])


def cause_of(row: TaskRow, overview: Overview) -> Cause:
    """Return why a task is in its state. Pure.

    >>> cause_of(TaskRow(id="t", queue="q", name="f", state="ready"), Overview(queues=(), workers=()))
    'no_worker'
    """
    if row.state == "delayed":
        return "unknown_name" if "has no task function" in row.reason else "due"
    if row.state != "ready":
        return row.state
    queue = next((each for each in overview.queues if each.queue == row.queue), QueueStats(queue=row.queue))
    if queue.is_paused:
        return "paused"
    if not queue.workers:
        return "no_worker"
    is_full = queue.open_claims is not None and queue.claimed >= queue.open_claims
    return "limited" if is_full or queue.rate is not None else "ready"


async def cancel(url: str, *ids: str) -> int:
    """Cancel tasks: waiting ones at once; workers stop running ones. Return how many were open."""
    return await _asked(url, lambda store: store.control(Cancel(tasks=ids)))


async def hasten(url: str, *ids: str) -> int:
    """Make delayed tasks ready now; return how many."""
    return await _asked(url, lambda store: store.control(Hasten(tasks=ids)))


async def redrive(url: str, *ids: str) -> int:
    """Make dead and cancelled tasks ready again, with fresh budgets; return how many."""
    return await _asked(url, lambda store: store.control(Redrive(tasks=ids)))


async def purge(url: str, queue: str, *states: TaskState) -> int:
    """Forget the tasks of a queue in some states; a claimed task stays. Return how many."""
    return await _asked(url, lambda store: store.control(Purge(queue=_full(url, queue), states=states)))


async def pause(url: str, queue: str) -> None:
    """Stop new claims of a queue, over all workers. Running tasks go on."""
    await _asked(url, lambda store: store.control(Pause(queue=_full(url, queue))))


async def resume(url: str, queue: str) -> None:
    """Allow the claims of a queue again."""
    await _asked(url, lambda store: store.control(Pause(queue=_full(url, queue), is_paused=False)))


async def limit(
    url: str, queue: str, *, running: int | None = None, rate: int | None = None, per: timedelta = timedelta(minutes=1)
) -> None:
    """Limit a queue over all workers: the most tasks that run, and the most starts per time; None: no limit."""
    for field, value in (("running", running), ("rate", rate)):
        if value is not None and (type(value) is not int or value < 1):
            raise InvalidInput(field, value, "an int of at least 1, or None", "To stop a queue, pause it.")
    if milliseconds(length("per", per)) < 1:
        raise InvalidInput("per", per, "a timedelta above 0", "Write per=timedelta(minutes=1)")
    command = SetLimit(queue=_full(url, queue), open_claims=running, rate=rate, per_ms=milliseconds(per))
    await _asked(url, lambda store: store.control(command))


def _full(url: str, queue: str) -> str:
    if not isinstance(queue, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", queue):
        raise InvalidInput("queue", queue, "the name of a queue", "Write the name that Queue(url, name) has.")
    return f"{parsed_url(url).namespace}/{queue}"


async def _asked(url: str, ask: Callable[[TaskStore], Awaitable[Answer]]) -> Answer:
    async def _ask() -> Answer:
        store = await connect_tasks(url)
        try:
            return await ask(store)
        finally:
            await store.close()

    return await io_thread().hop(_ask())
