"""The lanes of a worker in an SQLite file: the tokens that it shows, and the keyed tasks that it may claim there."""

# ruff: noqa: S608 - every statement is ours

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from apportion.model.epoch import FencingToken
from apportion.stores.lanes.tokens import LaneRecord, is_cut, parted, some_of_each
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.sqlite.claims.ready_task import ReadyTask
from apportion.stores.sqlite.connection import Connection, value_of
from apportion.stores.sqlite.task_statements import HEAD_COLUMNS, MANY_DEATHS, OPEN
from apportion.stores.task_values import MOST_NUMBER, Worker

SHOWN = "SELECT lane, incarnation, epoch, holder, session FROM lane WHERE queue = ?"
SHOW = "REPLACE INTO lane (queue, lane, incarnation, epoch, holder, session) VALUES (?, ?, ?, ?, ?, ?)"
_FIRST = "{task}.key IS NOT NULL AND {task}.behind = 0 AND {task}.session IS NULL AND {task}.due IS NULL"
_OF_LANE = f"FROM task INDEXED BY task_first WHERE queue = ?1 AND lane = of.value AND {_FIRST.format(task='task')}"
_LANES = "json_each(?2) AS of"
# The lanes with the oldest tasks at their heads.
HEADS = (
    f"SELECT of.value AS value, (SELECT min(pos) {_OF_LANE}) AS head FROM {_LANES}"
    " WHERE head IS NOT NULL ORDER BY head LIMIT ?3"
)
# The first ?4 tasks of each lane are candidates; the oldest ?3 candidates are taken. The index alone finds them.
_LAST_OF_SOME = f"ifnull((SELECT pos {_OF_LANE} ORDER BY pos LIMIT 1 OFFSET ?4 - 1), {MOST_NUMBER})"
_OLDEST = (
    f"SELECT {HEAD_COLUMNS} FROM task WHERE pos IN (SELECT first.pos FROM {{lanes}} CROSS JOIN task AS first"
    f" INDEXED BY task_first WHERE first.queue = ?1 AND first.lane = of.value AND {_FIRST.format(task='first')}"
    f" AND first.pos <= {_LAST_OF_SOME} ORDER BY first.pos LIMIT ?3)"
)
FIRST, FIRST_OF_HEADS = _OLDEST.format(lanes=_LANES), _OLDEST.format(lanes=f"({HEADS}) AS of")
# The same, but only for tasks with few deaths, which may be claimed together with others. The index lacks the
# deaths, so the rows are read one by one.
_FEW_DEATHS = f"deaths < {MANY_DEATHS}"
FIRST_OF_FEW_DEATHS = FIRST_OF_HEADS.replace("due IS NULL", f"due IS NULL AND {_FEW_DEATHS}")
OF_SESSION_KEYED = (
    f"{OPEN} WHERE session = ? AND queue = ? AND lane IN (SELECT value FROM json_each(?)) ORDER BY pos LIMIT ?"
)


def shown(connection: Connection, worker: Worker) -> tuple[Worker, tuple[OwnedLane, ...]]:
    """Note the tokens that a worker shows; return the worker with its accepted lanes, and its fenced lanes."""
    rows = _rows(connection, worker)
    if _are_as(rows, worker):
        return worker, ()
    records = {(queue, lane): record_of(rest) for queue, lane, *rest in rows}
    seen = [(each, records.get((each.queue, each.lane))) for each in worker.lanes]
    accepted, fenced = parted((lane, None if record is None else record.token) for lane, record in seen)
    for lane in accepted:
        connection.execute(SHOW, _values(lane, worker.session))
    return replace(worker, lanes=tuple(accepted)), tuple(fenced)


def has_news(connection: Connection, worker: Worker) -> bool:
    """Whether a turn would claim a keyed task, or write or refuse a token; reads only."""
    if not worker.lanes:
        return False
    return not _are_as(_rows(connection, worker), worker) or any(
        value_of(connection, HEADS, (queue, numbers_of(worker, queue), 1)) is not None for queue in worker.queues
    )


def first_tasks(connection: Connection, worker: Worker, queue: str, most: int) -> dict[int, ReadyTask]:
    """Return the next keyed tasks of a queue that a worker may claim, by position; more than enough of them."""
    is_each_in = len(worker.lanes) <= most  # else only the lanes with the oldest heads are read
    found = _first_tasks(connection, worker, queue, FIRST if is_each_in else FIRST_OF_HEADS, most)
    if any(task.deaths >= MANY_DEATHS for task in found.values()):
        found |= _first_tasks(connection, worker, queue, FIRST_OF_FEW_DEATHS, most)
    return found


def _first_tasks(connection: Connection, worker: Worker, queue: str, statement: str, most: int) -> dict[int, ReadyTask]:
    numbers = numbers_of(worker, queue)
    few = some_of_each(most, len(worker.lanes))
    rows = connection.execute(statement, (queue, numbers, most, few)).fetchall()
    found = {row[0]: ReadyTask._make(row) for row in rows}
    if is_cut([task.lane for task in found.values()], few, most):
        rows = connection.execute(statement, (queue, numbers, most, most)).fetchall()
        found = {row[0]: ReadyTask._make(row) for row in rows}
    return found


def of_session(connection: Connection, worker: Worker, session: int, queue: str, most: int) -> list[Any]:
    """Return the rows of the open claims of a session in the lanes of a worker, oldest first."""
    if not worker.lanes:
        return []
    return connection.execute(OF_SESSION_KEYED, (session, queue, numbers_of(worker, queue), most)).fetchall()


def numbers_of(worker: Worker, queue: str) -> str:
    """Return the numbers of a worker's lanes of a queue, as JSON."""
    return json.dumps([each.lane for each in worker.lanes if each.queue == queue])


def record_of(row: Sequence[object]) -> LaneRecord:
    """Return the record of a row of `SHOWN`, without its lane."""
    incarnation, epoch, holder, session = row
    token = FencingToken(resource="", holder=str(holder), incarnation=int(str(incarnation)), epoch=int(str(epoch)))
    return LaneRecord(token=token, session=int(str(session)))


def _rows(connection: Connection, worker: Worker) -> list[tuple[Any, ...]]:
    queues = dict.fromkeys(each.queue for each in worker.lanes)
    return [(queue, *row) for queue in queues for row in connection.execute(SHOWN, (queue,)).fetchall()]


def _are_as(rows: list[tuple[Any, ...]], worker: Worker) -> bool:
    """Whether each lane of a worker has its token and its session."""
    return {_values(each, worker.session) for each in worker.lanes} <= set(rows)


def _values(lane: OwnedLane, session: int) -> tuple[str, int, int, int, str, int]:
    token = lane.token
    return lane.queue, lane.lane, token.incarnation, token.epoch, token.holder, session
