"""The schedules in a PostgreSQL database: the rules of `schedules/ledger.py` in SQL, and one transaction per call.

Promises: one flushed commit holds the tasks of a firing and its last slot. Nodes that fire at the same time take
different schedules, because each skips the rows that another node has locked. A look that finds nothing due is one
statement. It leaves out the rows that another node has begun.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from apportion.stores.postgres.door import Transaction
from apportion.stores.postgres.driver import Parameter, Parameters, Row
from apportion.stores.postgres.tasks import admin as task_admin
from apportion.stores.postgres.tasks import statements as task_sql
from apportion.stores.schedules.api import Decide, ScheduleStore
from apportion.stores.schedules.rows import (
    CHANGED,
    COLUMNS,
    LATEST,
    MARK_ANEW,
    MARK_COLUMNS,
    changed_values,
    enqueued_task,
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
from apportion.stores.task_control import Cancel
from apportion.stores.task_rows import Value, shared_values

# ruff: noqa: S608 - every statement is ours

Result = TypeVar("Result")
_PUNCTUAL_MS = 10_000


def _marks(columns: str) -> str:
    return ", ".join(["%s"] * (columns.count(",") + 1))


_REGISTER = (
    f"INSERT INTO {{schema}}.schedule ({COLUMNS}) VALUES ({_marks(COLUMNS)}) ON CONFLICT DO NOTHING RETURNING name"
)
_CHANGE = (
    f"UPDATE {{schema}}.schedule SET ({CHANGED}) = ROW ({_marks(CHANGED)})"
    " WHERE queue = %s AND name = %s AND version = %s AND last_slot < %s RETURNING name"
)
_REMOVE = (
    "DELETE FROM {schema}.schedule WHERE queue = %s AND name = ANY (%s::text[])"
    " AND version = coalesce(%s::bigint, version) RETURNING name"
)
_FORGET = "DELETE FROM {schema}.slot_mark WHERE queue = %s AND name = ANY (%s::text[])"
_PAUSE = (
    "UPDATE {schema}.schedule SET paused = 1 WHERE queue = %s AND name = ANY (%s::text[]) AND paused = 0 RETURNING name"
)
_SERVED = (
    "paused = 0 AND queue = ANY (%s::text[])"
    " AND (queue, name) NOT IN (SELECT * FROM unnest(%s::text[], %s::text[]) AS without (queue, name))"
)
# A row that a transaction has locked or changed carries the number of that transaction, in 32 bits with wrap-around.
# The transaction still runs if the snapshot lists its number, or if the number comes after the snapshot. This is only a
# hint. So a slot that is late by `_PUNCTUAL_MS` is never left out.
_ROUND, _BY, _SNAPSHOT = 1 << 32, "xmax::text::bigint", "txid_current_snapshot()"
_RUNNING = f"SELECT mod(listed, {_ROUND}) FROM txid_snapshot_xip({_SNAPSHOT}) AS listed"
_IS_AFTER = f"mod({_BY} - mod(txid_snapshot_xmax({_SNAPSHOT}), {_ROUND}) + {_ROUND}, {_ROUND}) < {_ROUND // 2}"
_OURS = f"coalesce(mod(txid_current_if_assigned(), {_ROUND}), 0)"
_IS_BEGUN = f"{_BY} NOT IN (0, {_OURS}) AND ({_BY} IN ({_RUNNING}) OR {_IS_AFTER})"
_NEXT = (
    "SELECT incarnation, now.at_ms, (SELECT min(next_slot) FROM {schema}.schedule"
    f" WHERE {_SERVED} AND (next_slot <= now.at_ms - {_PUNCTUAL_MS} OR NOT ({_IS_BEGUN})))"
    " FROM {schema}.meta, {schema}.now_ms() AS now (at_ms)"
)
_DUE = (
    f"SELECT {COLUMNS} FROM {{schema}}.schedule WHERE {_SERVED} AND next_slot <= %s"
    " ORDER BY next_slot, queue, name LIMIT %s FOR UPDATE SKIP LOCKED"
)
_OPEN = (
    "SELECT task.queue, task.schedule, task.id, task.session IS NOT NULL FROM {schema}.task"
    " JOIN unnest(%s::text[], %s::text[]) AS due (queue, name) ON task.queue = due.queue AND task.schedule = due.name"
    " WHERE task.schedule IS NOT NULL ORDER BY task.pos"
)
_FIRE = (
    "UPDATE {schema}.schedule AS s SET last_slot = f.slot, next_slot = f.next_slot, tzdata = f.tzdata,"
    " paused = CASE WHEN f.resumes THEN 0 ELSE s.paused END"
    " FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[],"
    " %s::boolean[]) AS f (queue, name, version, last_slot, slot, next_slot, tzdata, resumes)"
    " WHERE s.queue = f.queue AND s.name = f.name AND s.version = f.version AND s.last_slot = f.last_slot"
    " AND f.slot > s.last_slot RETURNING s.queue, s.name"
)
_MARK = (
    f"INSERT INTO {{schema}}.slot_mark ({MARK_COLUMNS}) SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[],"
    f" %s::bigint[], %s::text[], %s::text[], %s::text[]) {MARK_ANEW}"
)
_FORGET_MARKS = (
    "DELETE FROM {schema}.slot_mark AS m USING unnest(%s::text[], %s::text[]) AS of (queue, name), LATERAL"
    " (SELECT slot FROM {schema}.slot_mark AS kept WHERE kept.queue = of.queue AND kept.name = of.name"
    f" ORDER BY slot DESC OFFSET {KEPT_MARKS} LIMIT 1) AS old"
    " WHERE m.queue = of.queue AND m.name = of.name AND m.slot <= old.slot"
)
_LISTED = f"SELECT {COLUMNS}, {LATEST.format(marks='{schema}.slot_mark')} FROM {{schema}}.schedule"
_OF_QUEUE = f"{_LISTED} WHERE queue = coalesce(%s::text, queue) ORDER BY queue, name"
_NAMED = f"{_LISTED} WHERE queue = %s AND name = %s"
_HISTORY = "SELECT slot, at, by, mark, task FROM {schema}.slot_mark WHERE queue = %s AND name = %s ORDER BY slot"


class TasksInDatabase(Protocol):
    """The calls of a handle of tasks that its schedules need."""

    async def read(self, work: Callable[[Transaction], Awaitable[Result]]) -> Result:
        """Run work that reads in one transaction; `StoreWentBack` if the store has another incarnation."""

    async def look(self, statement: str, values: Parameters) -> Row:
        """Return the row of a statement that reads; `StoreWentBack` as in `read`. The row begins with `STATE`."""

    async def write(self, work: Callable[[Transaction, int], Awaitable[Result]]) -> Result:
        """Run work in one flushed transaction, with the time of the store; `StoreWentBack` as in `read`.

        Then send a hint of new tasks.
        """


class PostgresSchedules(ScheduleStore):
    """The schedules of one handle of the tasks in a database."""

    def __init__(self, handle: TasksInDatabase) -> None:
        self._handle = handle

    async def register(self, schedules: Sequence[TaskSchedule]) -> tuple[str, ...]:
        async def _register(transaction: Transaction, _: int) -> tuple[str, ...]:
            rows = [await transaction.ask(_REGISTER, schedule_values(each)) for each in schedules]
            return tuple(str(name) for found in rows for (name,) in found)

        return await self._handle.write(_register)

    async def change(self, schedule: TaskSchedule, *, version: int) -> bool:
        async def _change(transaction: Transaction, _: int) -> bool:
            known = schedule.queue, schedule.name, version, schedule.next_slot
            values = changed_values(replace(schedule, version=version + 1))
            return bool(await transaction.ask(_CHANGE, [*values, *known]))

        return await self._handle.write(_change)

    async def remove(self, queue: str, names: Sequence[str], *, version: int | None = None) -> int:
        async def _remove(transaction: Transaction, _: int) -> int:
            rows = await transaction.ask(_REMOVE, [queue, list(names), version])
            await transaction.ask(_FORGET, [queue, [str(name) for (name,) in rows]])
            return len(rows)

        return await self._handle.write(_remove)

    async def pause(self, queue: str, names: Sequence[str]) -> int:
        async def _pause(transaction: Transaction, _: int) -> int:
            return len(await transaction.ask(_PAUSE, [queue, list(names)]))

        return await self._handle.write(_pause)

    async def fire(
        self,
        queues: Collection[str],
        decide: Decide,
        *,
        by: str,
        without: Collection[tuple[str, str]] = (),
        most: int = MOST_DUE_SCHEDULES,
    ) -> FireAnswer:
        async def _fire(transaction: Transaction, now: int) -> FireAnswer:
            return await _fired(transaction, queues, decide, by=by, without=without, most=most, now=now)

        found: Sequence[Any] = await self._handle.look(_NEXT, _served(queues, without))
        _, now, due = found
        if due is None or due > now:
            return FireAnswer(now=now, next_slot=due)
        return await self._handle.write(_fire)

    async def trigger(self, firing: Firing, *, by: str) -> bool:
        async def _trigger(transaction: Transaction, now: int) -> bool:
            return bool(await _made(transaction, [firing], by=by, now=now))

        return await self._handle.write(_trigger)

    async def listed(self, queue: str | None = None, name: str | None = None) -> tuple[TaskSchedule, ...]:
        statement, values = (_OF_QUEUE, [queue]) if name is None else (_NAMED, [queue, name])
        rows: list[Any] = await self._handle.read(lambda transaction: transaction.ask(statement, values))
        return tuple(map(schedule_of, rows))

    async def history(self, queue: str, name: str) -> tuple[SlotMark, ...]:
        rows: list[Any] = await self._handle.read(lambda transaction: transaction.ask(_HISTORY, [queue, name]))
        return tuple(map(mark_of, rows))


def _served(queues: Collection[str], without: Collection[tuple[str, str]]) -> list[Parameter]:
    return [list(queues), [queue for queue, _ in without], [name for _, name in without]]


async def _fired(
    transaction: Transaction,
    queues: Collection[str],
    decide: Decide,
    *,
    by: str,
    without: Collection[tuple[str, str]],
    most: int,
    now: int,
) -> FireAnswer:
    rows: list[Any] = await transaction.ask(_DUE, [*_served(queues, without), now, most])
    if not rows:  # other nodes have begun the due schedules
        return FireAnswer(now=now, next_slot=now)
    schedules = list(map(schedule_of, rows))
    decided = [decide(due, now) for due in await _with_open_tasks(transaction, schedules)]
    unable = [(each.queue, each.name) for each, firing in zip(schedules, decided, strict=True) if firing is None]
    made = await _made(transaction, [each for each in decided if each is not None], by=by, now=now)
    left: list[Any] = await transaction.ask(_NEXT, _served(queues, {*without, *unable}))
    return FireAnswer(now=now, firings=tuple(made), unable=tuple(unable), next_slot=left[0][2])


async def _with_open_tasks(transaction: Transaction, schedules: Sequence[TaskSchedule]) -> list[DueSchedule]:
    places = [(each.queue, each.name) for each in schedules]
    rows: list[Any] = await transaction.ask(_OPEN, [[queue for queue, _ in places], [name for _, name in places]])
    tasks: dict[tuple[tuple[str, str], bool], list[str]] = {}
    for queue, name, task, is_run in rows:
        tasks.setdefault(((queue, name), is_run), []).append(task)
    return [
        DueSchedule(
            schedule=each, waiting=tuple(tasks.get((place, False), ())), running=tuple(tasks.get((place, True), ()))
        )
        for each, place in zip(schedules, places, strict=True)
    ]


async def _made(transaction: Transaction, firings: Sequence[Firing], *, by: str, now: int) -> list[Firing]:
    """Make firings; return the ones that counted."""
    rows: list[Any] = await transaction.ask(
        _FIRE,
        [
            [each.queue for each in firings],
            [each.name for each in firings],
            [each.version for each in firings],
            [each.last_slot for each in firings],
            [each.slot for each in firings],
            [each.next_slot for each in firings],
            [each.tzdata for each in firings],
            [each.resumes for each in firings],
        ],
    )
    counted = {(queue, name) for queue, name in rows}
    made = [each for each in firings if (each.queue, each.name) in counted]
    await _ask_lists(transaction, _MARK, [mark for each in made for mark in mark_values(each, at=now, by=by)])
    await _ask_lists(transaction, _FORGET_MARKS, [(each.queue, each.name) for each in made])
    await task_admin.control(transaction, Cancel(tasks=tuple(task for each in made for task in each.cancels)), now)
    tasks = [enqueued_task(task, now) for each in made for task in each.tasks]
    await _ask_lists(transaction, task_sql.OPEN_ALL, [shared_values(task) for task in tasks])
    return made


async def _ask_lists(transaction: Transaction, statement: str, rows: Sequence[Sequence[Value]]) -> None:
    """Run a statement once for all rows. The statement takes one list for each column."""
    if rows:
        await transaction.ask(statement, [list(column) for column in zip(*rows, strict=True)])
