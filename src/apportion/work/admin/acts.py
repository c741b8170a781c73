"""Acts of an operator on tasks and queues.

An act is one commit. `cancel_all`, `retry_all` and `redrive_all` make one commit per 500 tasks, `purge` one per 5 000.
A long commit would end the leases of workers that share an SQLite file, or outlast the wait for a reply. If the store
fails in between, the error tells the number of tasks that were changed before.
Promises: an act on tasks returns the number of tasks that it changed. All other tasks stay as they were. An act on all
tasks of a queue takes each task once. It leaves out tasks that were added or ended after the act had begun. `purge` may
take tasks that come meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from apportion.errors import InvalidInput, Unavailable
from apportion.stores.task_control import Cancel, Hasten, Listing, Pause, Purge, Redrive, SetLimit
from apportion.stores.task_values import MOST_NUMBER, TaskState
from apportion.work.admin.arguments import STATES, check_ids, check_states, checked_queue
from apportion.work.admin.inquiry import Inquiry, asked
from apportion.work.retry_budget import length, milliseconds

_PAGE = 500
_NOT_CLAIMED: tuple[TaskState, ...] = tuple(each for each in STATES if each != "claimed")
_OfTasks = type[Cancel] | type[Hasten] | type[Redrive]


async def cancel(url: str, *ids: str) -> int:
    """See `facade.cancel`."""
    return await _done(url, ids, Cancel)


async def retry(url: str, *ids: str) -> int:
    """See `facade.retry`."""
    return await _done(url, ids, Hasten)


async def redrive(url: str, *ids: str) -> int:
    """See `facade.redrive`."""
    return await _done(url, ids, Redrive)


async def cancel_all(
    url: str, queue: str, *, states: tuple[TaskState, ...] = ("ready", "delayed"), name: str | None = None
) -> int:
    """See `facade.cancel_all`."""
    check_states(states, ("ready", "delayed", "claimed"), "A task that has ended stays as it is.")
    return await _done_to_all(url, queue, states, name, Cancel)


async def retry_all(url: str, queue: str, *, name: str | None = None) -> int:
    """See `facade.retry_all`."""
    return await _done_to_all(url, queue, ("delayed",), name, Hasten)


async def redrive_all(
    url: str, queue: str, *, states: tuple[TaskState, ...] = ("dead",), name: str | None = None
) -> int:
    """See `facade.redrive_all`."""
    check_states(states, ("dead", "cancelled"), "Only a dead or cancelled task can run again.")
    return await _done_to_all(url, queue, states, name, Redrive)


async def purge(url: str, queue: str, *states: TaskState) -> int:
    """See `facade.purge`."""
    checked_queue(queue)
    check_states(states, _NOT_CLAIMED, "A claimed task cannot be purged. Cancel it first.")

    async def _purge(inquiry: Inquiry) -> int:
        command, count = Purge(queue=inquiry.full(queue), states=states), 0
        with _told(lambda: count):
            while (purged := await inquiry.control(command)) >= command.most:
                count += purged
        return count + purged

    return await asked(url, _purge)


async def pause(url: str, queue: str) -> None:
    """See `facade.pause`."""
    checked_queue(queue)
    await asked(url, lambda inquiry: inquiry.control(Pause(queue=inquiry.full(queue))))


async def resume(url: str, queue: str) -> None:
    """See `facade.resume`."""
    checked_queue(queue)
    await asked(url, lambda inquiry: inquiry.control(Pause(queue=inquiry.full(queue), is_paused=False)))


async def limit(
    url: str, queue: str, *, running: int | None = None, rate: int | None = None, per: timedelta = timedelta(minutes=1)
) -> None:
    """See `facade.limit`."""
    checked_queue(queue)
    for field, value in (("running", running), ("rate", rate)):
        if value is not None and (type(value) is not int or not 1 <= value <= MOST_NUMBER):
            raise InvalidInput(field, value, f"an int in 1 .. {MOST_NUMBER}, or None", "To stop a queue, pause it.")
    per_ms = milliseconds(length("per", per))
    if per_ms < 1:
        raise InvalidInput("per", per, "a timedelta above 0", "Write per=timedelta(minutes=1)")

    def _limit(inquiry: Inquiry) -> SetLimit:
        return SetLimit(queue=inquiry.full(queue), open_claims=running, rate=rate, per_ms=per_ms)

    await asked(url, lambda inquiry: inquiry.control(_limit(inquiry)))


async def _done(url: str, ids: tuple[str, ...], command: _OfTasks) -> int:
    check_ids(ids)

    async def _do(inquiry: Inquiry) -> int:
        here = await inquiry.rows(Listing(tasks=await inquiry.ids(ids)))  # without tasks of other namespaces
        return await inquiry.control(command(tasks=tuple(row.id for row in here)))

    return await asked(url, _do)


async def _done_to_all(
    url: str,
    queue: str,
    states: tuple[TaskState, ...],
    name: str | None,
    command: _OfTasks,
) -> int:
    checked_queue(queue)

    async def _do(inquiry: Inquiry) -> int:
        count, seen, until = 0, set[str](), await inquiry.now_ms()
        first = page = Listing(queue=inquiry.full(queue), states=states, name=name, most=_PAGE)
        with _told(lambda: count):
            while rows := await inquiry.rows(page):
                ids = tuple(row.id for row in rows if row.id not in seen and (row.ended_at or row.enqueued) <= until)
                if not ids:
                    break
                seen.update(ids)
                count += await inquiry.control(command(tasks=ids))
                end = rows[-1].ended_at
                page = replace(first, after=rows[-1].position, after_ended=None if end is None else (end, rows[-1].id))
        return count

    return await asked(url, _do)


@contextmanager
def _told(count: Callable[[], int]) -> Iterator[None]:
    """Within the block, an error of the store also tells how many tasks the earlier commits have changed."""
    try:
        yield
    except Unavailable as error:
        if count():
            error.hint = f"At least {count()} tasks were changed before. To go on with the others, run it again."
        raise
