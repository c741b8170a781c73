"""View of damage: rows of the tables of tasks as operators see them, whatever the rows hold.

Promises: a damaged row hides no other row. A task or an outcome of which the id can be read is shown as "damaged", and
its reason names the column. The row of a worker is left out. A queue with damaged limits is shown as paused. The
next turn of a worker (`TaskStore.turn`) will pause it. Nothing is changed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from apportion.errors.shown import shown
from apportion.stores.damage.rows import ENDS, OPTIONAL_TIMES, TIMES, UNREADABLE
from apportion.stores.lanes.values import MOST_PARTITIONS
from apportion.stores.task_admin import overview_of, task_row
from apportion.stores.task_control import Overview, TaskRow
from apportion.stores.task_records import QueueControl
from apportion.stores.task_rows import ended_task, open_task, queue_control, worker
from apportion.stores.task_values import MOST_NUMBER, MOST_TIME, TaskState, Worker

Row = Sequence[Any]
_TEXTS = ("id", "queue", "name", "codec", "deaths_of", "note", "reason", "trace", "uniq", "schedule", "key", "on_dead")
_OPTIONAL = {*OPTIONAL_TIMES, "uniq", "schedule", "key", "session", "result"}


def rows(found: Iterable[Row], columns: Sequence[str]) -> tuple[TaskRow, ...]:
    """Return the tasks in rows with these columns, as operators see them. The rows are open tasks or outcomes."""
    shown_rows = (_row(row, dict(zip(columns, row, strict=True))) for row in found)
    return tuple(row for row in shown_rows if row is not None)


def controls(found: Iterable[Row]) -> dict[str, QueueControl]:
    """Return the limits of queues by name."""
    return {row[0]: _control(row[1:]) for row in found if is_text(row[0])}


def workers(found: Iterable[Row]) -> list[Worker]:
    """Return the workers of sound rows."""
    sound = (row for row in found if all(map(is_text, (row[1], row[2], row[4]))) and _are_numbers(row[3], row[5]))
    return [worker(tuple(row)) for row in sound]


def overview(
    opened: Iterable[Row], ended: Iterable[Row], limits: Mapping[str, QueueControl], found: Iterable[Row], now: int
) -> Overview:
    """Return the numbers of queues from counts of tasks by queue and state, and the workers of sound rows."""
    counts: dict[tuple[str, TaskState], int] = {}
    oldest: dict[str, int] = {}
    for queue, state, count, *since in (*opened, *ended):
        if is_text(queue):
            counts[queue, state] = count
        if is_text(queue) and state == "ready" and is_time(since[0]):
            oldest[queue] = since[0]
    return overview_of(counts, oldest, limits, workers(found), now)


def is_text(value: object) -> bool:
    """Whether a value is a text that can be written again."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def is_time(value: object) -> bool:
    """Whether a value is a time in milliseconds since 1970."""
    return isinstance(value, int) and 0 <= value <= MOST_TIME


def _row(row: Row, values: Mapping[str, Any]) -> TaskRow | None:
    fault = next((column for column, value in values.items() if not _is_sound(column, value)), "")
    is_ended = "state" in values
    try:
        if not fault and is_ended:
            ended = ended_task(tuple(row))
            return task_row(ended.task, ended.state, ended)
        if not fault:
            task = open_task(tuple(row))
            return task_row(task, task.state)
    except UNREADABLE:
        fault = "deaths_of"
    if not is_text(values["id"]):
        return None
    return TaskRow(
        id=values["id"],
        queue=_text(values["queue"]),
        name=_text(values["name"]),
        state="damaged",
        position=0 if is_ended else values["pos"],
        reason=f"in its row, {fault} is {shown(values[fault])}",
        arguments=values["arguments"] if isinstance(values["arguments"], bytes) else b"",
        ended_at=values["at"] if is_ended and is_time(values["at"]) else None,
    )


def _is_sound(column: str, value: object) -> bool:
    return column in _OPTIONAL if value is None else _CHECKS.get(column, _is_number)(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST_NUMBER


def _control(row: Row) -> QueueControl:
    """Return the limits of a row without its queue."""
    paused, open_claims, rate, per_ms, left, counted_at, partitions = row
    counts = (paused, per_ms, *(each for each in (open_claims, rate) if each is not None))
    if all(map(_is_number, counts)) and 0 < per_ms <= MOST_TIME and is_time(counted_at) and _is_finite(left):
        is_counted = isinstance(partitions, int) and 1 <= partitions <= MOST_PARTITIONS
        return queue_control((*row[:-1], partitions if is_counted else None))
    return QueueControl(is_paused=True)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= MOST_NUMBER


def _are_numbers(*values: object) -> bool:
    return all(isinstance(each, int | float) for each in values)


def _text(value: object) -> str:
    return value if is_text(value) and isinstance(value, str) else ""


_CHECKS: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(_TEXTS, is_text),
    **dict.fromkeys(("at", *TIMES, *OPTIONAL_TIMES), is_time),
    "arguments": lambda value: isinstance(value, bytes),
    "result": lambda value: isinstance(value, bytes),
    "progress": lambda value: isinstance(value, int | float) and 0 <= value <= 1,
    "session": lambda value: isinstance(value, int) and value >= 0,
    "state": lambda value: value in ENDS,
}
