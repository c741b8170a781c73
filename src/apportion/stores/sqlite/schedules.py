"""The schedules in an SQLite file: the rules of `schedules/ledger.py` in SQL, and one transaction per call.

Promises: one commit, which survives a power cut, writes the tasks of a firing and the last slot. A look that finds no
due schedule takes no write lock.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from apportion.stores.schedules.api import Decide, ScheduleStore
from apportion.stores.schedules.rows import (
    CHANGED,
    COLUMNS,
    LATEST,
    MARK_ANEW,
    MARK_COLUMNS,
    changed_values,
    mark_of,
    mark_values,
    schedule_of,
    schedule_values,
)
from apportion.stores.schedules.values import (
    KEPT_MARKS,
    MOST_DUE_SCHEDULES,
    DueSchedule,
    FireAnswer,
    Firing,
    SlotMark,
    TaskSchedule,
)
from apportion.stores.sqlite import task_admin
from apportion.stores.sqlite import task_ledger as tasks_in
from apportion.stores.sqlite.connection import Connection, Value, value_of
from apportion.stores.task_control import Cancel

# ruff: noqa: S608 - every statement is ours

Result = TypeVar("Result")
SCHEDULE_TABLES = (
    "CREATE TABLE IF NOT EXISTS schedule (queue TEXT NOT NULL, name TEXT NOT NULL, rule TEXT NOT NULL,"
    " zone TEXT NOT NULL, gap TEXT NOT NULL, fold TEXT NOT NULL, missed TEXT NOT NULL, overlap TEXT NOT NULL,"
    " jitter_ms INTEGER NOT NULL, task TEXT NOT NULL, arguments BLOB NOT NULL, codec TEXT NOT NULL,"
    " lane INTEGER NOT NULL, most_deaths INTEGER, version INTEGER NOT NULL, next_slot INTEGER NOT NULL,"
    " tzdata TEXT NOT NULL, last_slot INTEGER NOT NULL, paused INTEGER NOT NULL,"
    " declared INTEGER NOT NULL, PRIMARY KEY (queue, name)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS schedule_due ON schedule (next_slot) WHERE paused = 0",
    "CREATE TABLE IF NOT EXISTS slot_mark (queue TEXT NOT NULL, name TEXT NOT NULL, slot INTEGER NOT NULL,"
    " at INTEGER NOT NULL, by TEXT NOT NULL, mark TEXT NOT NULL, task TEXT NOT NULL,"
    " PRIMARY KEY (queue, name, slot)) WITHOUT ROWID",
)
_MARKS = ", ".join("?" * (COLUMNS.count(",") + 1))
_REGISTER = f"INSERT INTO schedule ({COLUMNS}) VALUES ({_MARKS}) ON CONFLICT DO NOTHING RETURNING name"
_CHANGE = (
    f"UPDATE schedule SET ({CHANGED}) = ({', '.join('?' * (CHANGED.count(',') + 1))})"
    " WHERE queue = ? AND name = ? AND version = ? AND last_slot < ? RETURNING name"
)
_REMOVE = "DELETE FROM schedule WHERE queue = ? AND name = ? AND version = coalesce(?, version) RETURNING name"
_FORGET = "DELETE FROM slot_mark WHERE queue = ? AND name = ?"
_PAUSE = "UPDATE schedule SET paused = 1 WHERE queue = ? AND name = ? AND paused = 0 RETURNING name"
_LEFT_OUT = "SELECT value ->> 0, value ->> 1 FROM json_each(?)"
_SERVED = (
    "paused = 0 AND typeof(name) = 'text' AND queue IN (SELECT value FROM json_each(?))"
    f" AND (queue, name) NOT IN ({_LEFT_OUT})"
)
_NEXT = f"SELECT min(next_slot) FROM schedule WHERE {_SERVED}"
_DUE = (
    f"SELECT {COLUMNS} FROM schedule WHERE {_SERVED} AND (next_slot <= ? OR next_slot >= '')"  # text: damaged
    " ORDER BY next_slot, queue, name LIMIT ?"
)
_OPEN = "SELECT id, session IS NOT NULL FROM task WHERE queue = ? AND schedule = ? ORDER BY pos"
_FIRE = (
    "UPDATE schedule SET last_slot = ?1, next_slot = ?2, tzdata = ?3, paused = paused AND NOT ?4"
    " WHERE queue = ?5 AND name = ?6 AND version = ?7 AND last_slot = ?8 AND ?1 > last_slot RETURNING name"
)
_MARK = f"INSERT INTO slot_mark ({MARK_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) {MARK_ANEW}"
_FORGET_MARKS = (
    "DELETE FROM slot_mark WHERE queue = ?1 AND name = ?2 AND slot <= (SELECT slot FROM slot_mark"
    f" WHERE queue = ?1 AND name = ?2 ORDER BY slot DESC LIMIT 1 OFFSET {KEPT_MARKS})"
)
_LISTED = f"SELECT {COLUMNS}, {LATEST.format(marks='slot_mark')} FROM schedule"
_OF_QUEUE = f"{_LISTED} WHERE queue = coalesce(?, queue) ORDER BY queue, name"
_NAMED = f"{_LISTED} WHERE queue = ? AND name = ?"
_HISTORY = "SELECT slot, at, by, mark, task FROM slot_mark WHERE queue = ? AND name = ? ORDER BY slot"


class TasksInFile(Protocol):
    """The two calls of the handle of the tasks that its schedules need."""

    async def read(self, work: Callable[[Connection, int], Result]) -> Result:
        """Run work that reads, at the time of the file, in the incarnation that the handle knows."""

    async def write(self, work: Callable[[Connection, int], Result]) -> Result:
        """Run work that writes, as `read` does, in a transaction that is flushed."""


class SqliteSchedules(ScheduleStore):
    """The schedules of one handle of the tasks in a file."""

    def __init__(self, handle: TasksInFile) -> None:
        self._handle = handle

    async def register(self, schedules: Sequence[TaskSchedule]) -> tuple[str, ...]:
        return await self._handle.write(lambda at, _: _counted(at, _REGISTER, map(schedule_values, schedules)))

    async def change(self, schedule: TaskSchedule, *, version: int) -> bool:
        return await self._handle.write(lambda at, _: _change(at, schedule, version))

    async def remove(self, queue: str, names: Sequence[str], *, version: int | None = None) -> int:
        return await self._handle.write(lambda at, _: _remove(at, queue, names, version))

    async def pause(self, queue: str, names: Sequence[str]) -> int:
        return await self._handle.write(lambda at, _: len(_counted(at, _PAUSE, ((queue, each) for each in names))))

    async def fire(
        self,
        queues: Collection[str],
        decide: Decide,
        *,
        by: str,
        without: Collection[tuple[str, str]] = (),
        most: int = MOST_DUE_SCHEDULES,
    ) -> FireAnswer:
        now, due = await self._handle.read(lambda at, now: (now, _next(at, queues, without)))
        if due is None or (isinstance(due, int) and due > now):
            return FireAnswer(now=now, next_slot=due)
        return await self._handle.write(
            lambda at, now: _fired(at, queues, decide, by=by, without=without, most=most, now=now)
        )

    async def trigger(self, firing: Firing, *, by: str) -> bool:
        return await self._handle.write(lambda at, now: _trigger(at, firing, by=by, now=now))

    async def listed(self, queue: str | None = None, name: str | None = None) -> tuple[TaskSchedule, ...]:
        statement, values = (_OF_QUEUE, (queue,)) if name is None else (_NAMED, (queue, name))
        return await self._handle.read(lambda at, _: tuple(map(schedule_of, _rows(at, statement, values))))

    async def history(self, queue: str, name: str) -> tuple[SlotMark, ...]:
        return await self._handle.read(lambda at, _: tuple(map(mark_of, _rows(at, _HISTORY, (queue, name)))))


def _rows(connection: Connection, statement: str, values: Sequence[Value]) -> list[Any]:
    """Return the rows of a statement. A text that is no UTF-8 is damage, and comes as its bytes."""
    usual, connection.text_factory = connection.text_factory, _text
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.text_factory = usual


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _counted(connection: Connection, statement: str, values: Iterable[Sequence[Value]]) -> tuple[str, ...]:
    """Run a statement with each of these values; return the names that it returns."""
    found = [connection.execute(statement, each).fetchall() for each in values]
    return tuple(name for rows in found for (name,) in rows)


def _change(connection: Connection, schedule: TaskSchedule, version: int) -> bool:
    changed = changed_values(replace(schedule, version=version + 1))
    return bool(_counted(connection, _CHANGE, [(*changed, schedule.queue, schedule.name, version, schedule.next_slot)]))


def _remove(connection: Connection, queue: str, names: Sequence[str], version: int | None) -> int:
    gone = _counted(connection, _REMOVE, [(queue, each, version) for each in names])
    _counted(connection, _FORGET, [(queue, each) for each in gone])
    return len(gone)


def _next(connection: Connection, queues: Collection[str], without: Collection[tuple[str, str]]) -> int | None:
    """Return the next slot of the schedules that may fire."""
    found: int | None = value_of(connection, _NEXT, _served(queues, without))
    return found


def _served(queues: Collection[str], without: Collection[tuple[str, str]]) -> tuple[str, str]:
    return json.dumps(list(queues)), json.dumps(list(without))


def _fired(
    connection: Connection,
    queues: Collection[str],
    decide: Decide,
    *,
    by: str,
    without: Collection[tuple[str, str]],
    most: int,
    now: int,
) -> FireAnswer:
    firings, unable = [], []
    for row in _rows(connection, _DUE, (*_served(queues, without), now, most)):
        schedule = schedule_of(row)
        firing = decide(_due(connection, schedule), now)
        if firing is not None and _trigger(connection, firing, by=by, now=now):
            firings.append(firing)
        else:
            unable.append((schedule.queue, f"{schedule.name}"))  # a damaged name is no text
    left = _next(connection, queues, {*without, *unable})
    return FireAnswer(now=now, firings=tuple(firings), unable=tuple(unable), next_slot=left)


def _due(connection: Connection, schedule: TaskSchedule) -> DueSchedule:
    opened = _rows(connection, _OPEN, (schedule.queue, schedule.name))
    waiting, running = (tuple(task for task, runs in opened if bool(runs) is is_run) for is_run in (False, True))
    return DueSchedule(schedule=schedule, waiting=waiting, running=running)


def _trigger(connection: Connection, firing: Firing, *, by: str, now: int) -> bool:
    place = firing.queue, firing.name
    moved = firing.slot, firing.next_slot, firing.tzdata, int(firing.resumes)
    if not _counted(connection, _FIRE, [(*moved, *place, firing.version, firing.last_slot)]):
        return False
    for mark in mark_values(firing, at=now, by=by):
        connection.execute(_MARK, mark)
    connection.execute(_FORGET_MARKS, place)
    task_admin.control(connection, Cancel(tasks=firing.cancels), now)
    tasks_in.enqueue(connection, firing.tasks, now)
    return True
