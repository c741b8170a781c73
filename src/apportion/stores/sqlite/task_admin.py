"""The questions and commands of operators on the tasks in an SQLite file, by the rules of `stores/task_admin.py`."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from apportion.stores.damage import view
from apportion.stores.damage.sqlite import any_text
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, OwnerOfLane
from apportion.stores.lanes.values import AgreePartitions, MendLane, ResizePartitions
from apportion.stores.sqlite import task_statements as sql
from apportion.stores.sqlite.connection import Connection
from apportion.stores.sqlite.keys import questions as keys
from apportion.stores.sqlite.task_ledger import end, is_name_free, wait
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


def answer(connection: Connection, question: Question[Answer], now: int) -> Answer:
    """See `TaskStore.query`."""
    found: object
    match question:
        case Listing():
            with any_text(connection):
                found = rows(connection, question)
        case Survey():
            with any_text(connection):
                found = overview(connection, now)
        case StoreTime():
            found = now
        case BusiestKeys():
            found = keys.busiest(connection, question)
        case HeadOfKey():
            found = keys.head(connection, question)
        case OwnerOfLane():
            found = keys.owner_of(connection, question)
        case _:
            raise unknown(question)
    return cast("Answer", found)


def rows(connection: Connection, listing: Listing) -> tuple[TaskRow, ...]:
    """Return the tasks of a listing. O(open tasks after the position) at most."""
    if listing.tasks is not None:
        ids = dict.fromkeys(listing.tasks)
        opened = [row for each in ids for row in connection.execute(sql.SHOWN_BY_ID, (each,)).fetchall()]
        ended = [row for each in ids for row in connection.execute(sql.ENDED_BY_ID, (each,)).fetchall()]
        return (*view.rows(opened, sql.OPEN_COLUMNS), *view.rows(ended, sql.ENDED_COLUMNS))
    if listing.prefix is not None:
        asked = listing.prefix, listing.most
        opened = connection.execute(sql.OPEN_BY_PREFIX, asked).fetchall()
        ended = connection.execute(sql.ENDED_BY_PREFIX, asked).fetchall()
        return (*view.rows(opened, sql.OPEN_COLUMNS), *view.rows(ended, sql.ENDED_COLUMNS))[: listing.most]
    states = " ".join(listing.states)
    values = (listing.after, listing.queue, listing.name, listing.session, states, listing.most)
    is_ended = listing.after_ended is not None
    opened = [] if is_ended else connection.execute(sql.LIST_OPEN, values).fetchall()
    ended = []
    if listing.session is None:
        rest = (listing.queue, listing.name, states, *(listing.after_ended or (0, "")), listing.most - len(opened))
        ended = connection.execute(sql.LIST_ENDED, rest).fetchall()
    return (*view.rows(opened, sql.OPEN_COLUMNS), *view.rows(ended, sql.ENDED_COLUMNS))


def overview(connection: Connection, now: int) -> Overview:
    """Return the answer to a `Survey`. O(open tasks)."""
    opened = connection.execute(sql.COUNT_TASKS).fetchall()
    ended = connection.execute(sql.COUNT_ENDED).fetchall()
    controls = view.controls(connection.execute(sql.CONTROLS).fetchall())
    return view.overview(opened, ended, controls, connection.execute(sql.LIVE_WORKERS).fetchall(), now)


def control(connection: Connection, command: Command, now: int) -> int:
    """See `TaskStore.control`."""
    match command:
        case Cancel(tasks=tasks):
            return _cancel(connection, tasks, now)
        case Redrive(tasks=tasks):
            ended = [each for each in _ended(connection, tasks) if each.state != "done"]
            return sum(_redriven(connection, each, now) for each in ended)
        case Hasten(tasks=tasks):
            delayed = [task for task in _opened(connection, tasks) if task.state == "delayed"]
            for task in delayed:
                wait(connection, task, 0, now)
            return len(delayed)
        case Purge():
            return sum(_purge(connection, command, state) for state in dict.fromkeys(command.states))
        case Pause(queue=queue, is_paused=is_paused):
            connection.execute(sql.PAUSE, (queue, int(is_paused)))
        case SetLimit(queue=queue, open_claims=open_claims, rate=rate, per_ms=per_ms):
            connection.execute(sql.LIMIT, (queue, open_claims, rate, per_ms, float(rate or 0), now))
        case AgreePartitions() | ResizePartitions():
            keys.set_partitions(connection, command)
        case MendLane():
            return keys.mend_lane(connection, command)
    return 1


def _cancel(connection: Connection, tasks: Iterable[str], now: int) -> int:
    found = _opened(connection, tasks)
    for task in found:
        if task.session is None:
            whole = _ended(connection, (task.id,))[0].task if task.is_blocking else task  # its open row lost the name
            end(connection, replace(whole, reason="cancelled"), "cancelled", now)
        else:
            connection.execute(sql.CANCEL_CLAIMED, (task.id,))
    return len(found)


def _redriven(connection: Connection, ended: EndedTask, now: int) -> bool:
    """Make a task ready again with fresh budgets; False if its unique name is taken."""
    task = replace(ended.task, failures=0, crashes=0, deaths_of=(), is_cancelling=False, is_replaced=False)
    if not is_name_free(connection, task):
        return False
    connection.execute(sql.FORGET_OUTCOME, (task.id,))
    wait(connection, task, 0, now)
    return True


def _purge(connection: Connection, purge: Purge, state: TaskState) -> int:
    waiting = {"ready": sql.PURGE_READY, "delayed": sql.PURGE_DELAYED}
    if state in waiting:
        return len(connection.execute(waiting[state], (purge.queue, purge.most)).fetchall())
    ended = [task for (task,) in connection.execute(sql.PURGE_ENDED, (purge.queue, state, purge.most)).fetchall()]
    if state == "dead":
        connection.execute(sql.FORGET_BLOCKING, (json.dumps(ended),))
    return len(ended)


def _opened(connection: Connection, tasks: Iterable[str]) -> list[OpenTask]:
    found = [connection.execute(sql.BY_ID, (each,)).fetchall() for each in dict.fromkeys(tasks)]
    return [open_task(row) for rows_ in found for row in rows_]


def _ended(connection: Connection, tasks: Iterable[str]) -> list[EndedTask]:
    found = [connection.execute(sql.ENDED_BY_ID, (each,)).fetchall() for each in dict.fromkeys(tasks)]
    return [ended_task(row) for rows_ in found for row in rows_]
