"""Questions of an operator about tasks. None of them changes anything."""

from dataclasses import dataclass

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.stores.task_control import Listing, QueueStats, TaskRow
from apportion.stores.task_values import TaskState, Worker
from apportion.work.admin.arguments import check_ids, check_states, checked_queue
from apportion.work.admin.cause import MANY_DEATHS, Around, Why, why_of
from apportion.work.admin.inquiry import Inquiry, asked
from apportion.work.admin.keys import head_of, lane_of

MOST = 10_000
OPEN: tuple[TaskState, ...] = ("ready", "delayed", "claimed")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """A page of tasks: open tasks by position, then ended tasks by their end. `after` is None on the last page."""

    tasks: tuple[TaskRow, ...]
    after: str | None


async def stats(url: str) -> tuple[QueueStats, ...]:
    """See `facade.stats`."""
    return (await asked(url, Inquiry.overview)).queues


async def workers(url: str) -> tuple[Worker, ...]:
    """See `facade.workers`."""
    return (await asked(url, Inquiry.overview)).workers


async def tasks(
    url: str,
    queue: str,
    *,
    states: tuple[TaskState, ...] = OPEN,
    name: str | None = None,
    after: str | None = None,
    most: int = 100,
) -> TaskPage:
    """See `facade.tasks`."""
    if type(most) is not int or not 1 <= most <= MOST:
        raise InvalidInput("most", most, f"an int in 1 .. {MOST}", "Ask for the next page instead.")
    checked_queue(queue)
    check_states(states)
    position, end = _parsed(after)

    async def _page(inquiry: Inquiry) -> TaskPage:
        listing = Listing(
            queue=inquiry.full(queue), states=states, name=name, after=position, after_ended=end, most=most + 1
        )
        rows = await inquiry.rows(listing)
        return TaskPage(tasks=rows[:most], after=_cursor(rows[most - 1]) if len(rows) > most else None)

    return await asked(url, _page)


async def show(url: str, *ids: str) -> tuple[TaskRow, ...]:
    """See `facade.show`."""
    check_ids(ids)

    async def _rows(inquiry: Inquiry) -> tuple[TaskRow, ...]:
        whole = await inquiry.ids(ids)
        found = {row.id: row for row in await inquiry.rows(Listing(tasks=whole))}
        return tuple(found.get(each) or TaskRow(id=each, queue="", name="", state="missing") for each in whole)

    return await asked(url, _rows)


async def why(url: str, task: str, *, group_url: str | None = None) -> Why:
    """See `facade.why`."""
    check_ids((task,))

    async def _why(inquiry: Inquiry) -> Why:
        rows = await inquiry.rows(Listing(tasks=await inquiry.ids([task])))
        row = rows[0] if rows else TaskRow(id=task, queue="", name="", state="missing")
        queue, now = await inquiry.queue(row.queue), await inquiry.now_ms()
        lane = await lane_of(inquiry, row, url if group_url is None else group_url)
        around = Around(
            is_barred=row.deaths >= MANY_DEATHS and await _is_barred(inquiry, row),
            head=await head_of(inquiry, row),
            is_owned=lane is None or lane.owner is not None,
            is_fenced=lane is not None and lane.is_fenced,
        )
        return why_of(row, queue, now=now, around=around)

    return await asked(url, _why)


async def _is_barred(inquiry: Inquiry, row: TaskRow) -> bool:
    """Whether the queue of a task has workers, and each of them runs a suspect now."""
    there = [each for each in (await inquiry.overview()).workers if row.queue in each.queues]
    for worker in there:
        held = await inquiry.rows(Listing(session=worker.session, states=("claimed",), most=MOST))
        if not any(each.deaths or each.crashes for each in held):
            return False
    return bool(there)


def _cursor(row: TaskRow) -> str:
    """Return the value of `after` for the tasks after this one: its position, or its end and its id."""
    return str(row.position) if row.ended_at is None else f"{row.ended_at}.{row.id}"


def _parsed(after: str | None) -> tuple[int, tuple[int, str] | None]:
    number, mark, task = ("0" if after is None else after if isinstance(after, str) else "").partition(".")
    if not (number.isascii() and number.isdecimal() and len(number) < 19 and bool(mark) == bool(task)):
        raise InvalidInput("after", after, "the `after` of a page", "Leave it out for the first page.")
    return (0, (int(number), task)) if mark else (int(number), None)
