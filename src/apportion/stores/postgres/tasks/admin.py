"""The questions and commands of operators about the tasks in PostgreSQL, by the rules of `stores/task_admin.py`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from apportion.stores.damage import view
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, OwnerOfLane
from apportion.stores.lanes.values import AgreePartitions, MendLane, ResizePartitions
from apportion.stores.postgres.door import Transaction
from apportion.stores.postgres.driver import Parameter
from apportion.stores.postgres.tasks import keys
from apportion.stores.postgres.tasks import statements as sql
from apportion.stores.postgres.tasks.rules import end, is_name_free, reopen, wait
from apportion.stores.task_admin import unknown
from apportion.stores.task_control import (
    Answer,
    Cancel,
    Command,
    Hasten,
    Listing,
    Overview,
    Pause,
    Purge,
    Question,
    Redrive,
    SetLimit,
    StoreTime,
    Survey,
    TaskRow,
)
from apportion.stores.task_records import EndedTask, OpenTask
from apportion.stores.task_rows import ended_task, open_task
from apportion.stores.task_values import TaskState


async def answer(transaction: Transaction, question: Question[Answer], now: int) -> Answer:
    """See `TaskStore.query`, within a transaction that sees one state."""
    found: object
    match question:
        case Listing():
            found = await rows(transaction, question)
        case Survey():
            found = await overview(transaction, now)
        case StoreTime():
            found = now
        case BusiestKeys():
            found = await keys.busiest(transaction, question)
        case HeadOfKey():
            found = await keys.head(transaction, question)
        case OwnerOfLane():
            found = await keys.owner_of(transaction, question)
        case _:
            raise unknown(question)
    return cast("Answer", found)


async def rows(transaction: Transaction, listing: Listing) -> tuple[TaskRow, ...]:
    """Return the tasks of a listing, in a transaction that sees one state. O(open tasks after the position)."""
    if listing.tasks is not None:
        opened = await transaction.ask(sql.FIND_OPEN, [list(listing.tasks)])
        ended = await transaction.ask(sql.ENDED_BY_ID, [list(listing.tasks)])
        return (*view.rows(opened, sql.OPEN_COLUMNS), *view.rows(ended, sql.ENDED_COLUMNS))
    if listing.prefix is not None:
        begin: dict[str, Parameter] = {"prefix": listing.prefix, "most": listing.most}
        opened = await transaction.ask(sql.OPEN_BY_PREFIX, begin)
        ended = await transaction.ask(sql.ENDED_BY_PREFIX, begin)
        return (*view.rows(opened, sql.OPEN_COLUMNS), *view.rows(ended, sql.ENDED_COLUMNS))[: listing.most]
    asked: dict[str, Parameter] = {
        "after": listing.after,
        "queue": listing.queue,
        "name": listing.name,
        "session": listing.session,
        "states": list(listing.states),
        "most": listing.most,
    }
    is_ended = listing.after_ended is not None
    opened = [] if is_ended else await transaction.ask(sql.LIST_OPEN, asked)
    ended = []
    if listing.session is None:
        at, id_ = listing.after_ended or (0, "")
        rest = asked | {"most": listing.most - len(opened), "at": at, "id": id_}
        ended = await transaction.ask(sql.LIST_ENDED, rest)
    return (*view.rows(opened, sql.OPEN_COLUMNS), *view.rows(ended, sql.ENDED_COLUMNS))


async def overview(transaction: Transaction, now: int) -> Overview:
    """Return the answer to a `Survey`, within a transaction that sees one state. O(open tasks)."""
    opened = await transaction.ask(sql.COUNT_TASKS)
    ended = await transaction.ask(sql.COUNT_ENDED)
    controls = view.controls(await transaction.ask(sql.CONTROLS))
    return view.overview(opened, ended, controls, await transaction.ask(sql.LIVE_WORKERS), now)


async def control(transaction: Transaction, command: Command, now: int) -> int:
    """See `TaskStore.control`."""
    match command:
        case Cancel(tasks=tasks):
            return await _cancel(transaction, tasks, now)
        case Redrive(tasks=tasks):
            ended = [each for each in await _ended(transaction, tasks) if each.state != "done"]
            return sum([await _redriven(transaction, each, now) for each in ended])
        case Hasten(tasks=tasks):
            delayed = [task for task in await _opened(transaction, tasks) if task.state == "delayed"]
            await wait(transaction, [(task, 0) for task in delayed], now)
            return len(delayed)
        case Purge():
            return sum([await _purge(transaction, command, state) for state in dict.fromkeys(command.states)])
        case Pause(queue=queue, is_paused=is_paused):
            await transaction.ask(sql.PAUSE, [queue, int(is_paused)])
        case SetLimit(queue=queue, open_claims=open_claims, rate=rate, per_ms=per_ms):
            await transaction.ask(sql.LIMIT, [queue, open_claims, rate, per_ms, float(rate or 0), now])
        case AgreePartitions() | ResizePartitions():
            await keys.set_partitions(transaction, command)
        case MendLane():
            return await keys.mend_lane(transaction, command)
    return 1


async def _cancel(transaction: Transaction, tasks: Sequence[str], now: int) -> int:
    found = await _opened(transaction, tasks)
    blocking = {task.id for task in found if task.is_blocking}
    whole = {each.task.id: each.task for each in await _ended(transaction, sorted(blocking))} if blocking else {}
    for task_id in sorted(blocking):  # the row has lost its unique name; `end` writes the outcome anew
        await transaction.ask(sql.FORGET_OUTCOME, [task_id])
    waiting = [replace(whole.get(task.id, task), reason="cancelled") for task in found if task.session is None]
    await end(transaction, [(task, "cancelled", None) for task in waiting], now)
    await transaction.each(sql.CANCEL_CLAIMED, [[task.id] for task in found if task.session is not None])
    return len(found)


async def _redriven(transaction: Transaction, ended: EndedTask, now: int) -> bool:
    """Make a task ready again with a new budget; False if its unique name is taken."""
    task = replace(ended.task, failures=0, crashes=0, deaths_of=(), is_cancelling=False, is_replaced=False)
    if not await is_name_free(transaction, task):
        return False
    await reopen(transaction, task, now)
    return True


async def _purge(transaction: Transaction, purge: Purge, state: TaskState) -> int:
    waiting = {"ready": sql.PURGE_READY, "delayed": sql.PURGE_DELAYED}
    if state in waiting:
        return len(await transaction.ask(waiting[state], [purge.queue, purge.most]))
    ended = await transaction.ask(sql.PURGE_ENDED, [purge.queue, state, purge.most])
    if state == "dead":
        await transaction.ask(sql.FORGET_BLOCKING, [[str(task) for (task,) in ended]])
    return len(ended)


async def _opened(transaction: Transaction, tasks: Sequence[str]) -> list[OpenTask]:
    """Return these tasks, locked, in the order in which they are named."""
    places = {task: place for place, task in enumerate(reversed(tasks))}
    found = map(open_task, await transaction.ask(sql.BY_ID, [list(tasks)]))
    return sorted(found, key=lambda task: -places[task.id])


async def _ended(transaction: Transaction, tasks: Sequence[str]) -> list[EndedTask]:
    places = {task: place for place, task in enumerate(reversed(tasks))}
    found = map(ended_task, await transaction.ask(sql.ENDED_BY_ID, [list(tasks)]))
    return sorted(found, key=lambda each: -places[each.task.id])
