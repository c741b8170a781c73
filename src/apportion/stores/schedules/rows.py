"""Rows of schedules and of their histories in SQLite and PostgreSQL, as values, and back."""

from typing import Any

from apportion.stores.schedules.values import Firing, SlotMark, TaskSchedule, marks_of
from apportion.stores.task_records import OpenTask
from apportion.stores.task_rows import Value
from apportion.stores.task_values import NewTask

# The columns of a schedule, in the order of `schedule_values`; a change of the schedule writes those in the middle.
CHANGED = (
    "rule, zone, gap, fold, missed, overlap, jitter_ms, task, arguments, codec, lane, most_deaths, version, next_slot,"
    " tzdata"
)
COLUMNS = f"queue, name, {CHANGED}, last_slot, paused, declared"
LATEST = "(SELECT max(slot) FROM {marks} AS m WHERE m.queue = schedule.queue AND m.name = schedule.name)"
MARK_COLUMNS = "queue, name, slot, at, by, mark, task"
# If damage or an operator set a row back, the schedule may fire a slot that its history has. Then the new mark replaces
# the old one, so the commit does not fail for the other schedules.
MARK_ANEW = (
    "ON CONFLICT (queue, name, slot)"
    " DO UPDATE SET at = excluded.at, by = excluded.by, mark = excluded.mark, task = excluded.task"
)


def schedule_values(schedule: TaskSchedule) -> tuple[Value, ...]:
    """Return the values of `COLUMNS`."""
    place = schedule.queue, schedule.name
    fixed = schedule.last_slot, int(schedule.is_paused), int(schedule.is_declared)
    return (*place, *changed_values(schedule), *fixed)


def changed_values(schedule: TaskSchedule) -> tuple[Value, ...]:
    """Return the values of `CHANGED`."""
    policies = schedule.zone, schedule.gap, schedule.fold, schedule.missed, schedule.overlap, schedule.jitter_ms
    call = schedule.task, schedule.arguments, schedule.codec, schedule.lane, schedule.most_deaths
    return (schedule.rule, *policies, *call, schedule.version, schedule.next_slot, schedule.tzdata)


def schedule_of(row: tuple[Any, ...]) -> TaskSchedule:
    """Return the schedule of a row of `COLUMNS`, perhaps with the newest slot of its history."""
    queue, name, rule, zone, gap, fold, missed, overlap, jitter_ms = row[:9]
    (
        task,
        arguments,
        codec,
        lane,
        most_deaths,
        version,
        next_slot,
        tzdata,
        last_slot,
        is_paused,
        is_declared,
        *latest,
    ) = row[9:]
    return TaskSchedule(
        queue=queue,
        name=name,
        rule=rule,
        task=task,
        arguments=arguments,
        zone=zone,
        gap=gap,
        fold=fold,
        missed=missed,
        overlap=overlap,
        jitter_ms=jitter_ms,
        codec=codec,
        lane=lane,
        most_deaths=most_deaths,
        version=version,
        last_slot=last_slot,
        next_slot=next_slot,
        is_paused=bool(is_paused),
        is_declared=bool(is_declared),
        tzdata=tzdata,
        latest=latest[0] if latest else None,
    )


def mark_values(firing: Firing, *, at: int, by: str) -> list[tuple[Value, ...]]:
    """Return the rows of `MARK_COLUMNS` for a firing."""
    marks = marks_of(firing, at=at, by=by)
    return [(firing.queue, firing.name, each.slot, each.at, each.by, each.mark, each.task) for each in marks]


def mark_of(row: tuple[Any, ...]) -> SlotMark:
    """Return the mark of a row of `MARK_COLUMNS`, without its queue and name."""
    slot, at, by, mark, task = row
    return SlotMark(slot=slot, at=at, by=by, mark=mark, task=task)


def enqueued_task(new: NewTask, now: int) -> OpenTask:
    """Return a task of a firing, as it is enqueued now."""
    due = now if new.due_at is None else new.due_at
    return OpenTask(new=new, position=0, enqueued=now, ready_at=max(due, now), due=due if due > now else None)
