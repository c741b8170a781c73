"""Rows of the tables of tasks in SQLite and PostgreSQL, as the records of `task_records`, and back."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from apportion.stores.task_once import MOST_ONCE_BYTES, OnceEntry, OnceStep
from apportion.stores.task_records import EndedTask, OpenTask, QueueControl
from apportion.stores.task_values import MOST_NUMBER, MOST_TIME, NewTask, Receipt, Worker

Value: TypeAlias = bytes | str | int | float | None

# The columns that a task and its outcome share, in the order of `shared_values`.
COLUMNS = (
    *("id", "queue", "lane", "name", "codec", "arguments", "uniq", "due", "expires", "attempt", "failures", "crashes"),
    *("deaths_of", "most_deaths", "cancelling", "replaced", "progress", "note", "reason", "trace", "schedule", "slot"),
    *("key", "on_dead", "enqueued", "ready_at", "deaths"),
)


def open_task(row: tuple[Any, ...]) -> OpenTask:
    """Return the task of a row of `task_statements.OPEN`."""
    position, session, is_blocking, *shared = row
    if is_blocking not in (0, 1):
        raise ValueError(f"blocking {is_blocking} of task {shared[0]}")
    return _task(position, session, shared, is_blocking=bool(is_blocking))


def ended_task(row: tuple[Any, ...]) -> EndedTask:
    """Return the outcome of a row of `task_statements.ENDED`."""
    return EndedTask(task=_task(0, None, row[3:]), state=row[0], at=row[1], result=row[2])


def shared_values(task: OpenTask) -> tuple[Value, ...]:
    """Return the values of the columns that a task and its outcome share."""
    new = task.new
    return (
        new.id,
        new.queue,
        new.lane,
        new.name,
        new.codec,
        new.arguments,
        new.unique,
        task.due,
        new.expires_at,
        task.attempt,
        task.failures,
        task.crashes,
        ",".join(map(str, task.deaths_of)),
        new.most_deaths,
        int(task.is_cancelling),
        int(task.is_replaced),
        task.progress,
        clean(task.note),
        clean(task.reason),
        new.trace,
        new.schedule,
        new.slot,
        new.key,
        new.on_dead,
        task.enqueued,
        task.ready_at,
        len(task.deaths_of),
    )


def clean(text: str) -> str:
    """Return a text that both engines can keep: without NUL and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def queue_control(row: tuple[Any, ...]) -> QueueControl:
    """Return the limits of a row of `task_statements.CONTROL`."""
    is_paused, open_claims, rate, per_ms, tokens, tokens_at, partitions = row
    return QueueControl(
        is_paused=bool(is_paused),
        open_claims=open_claims,
        rate=rate,
        per_ms=per_ms,
        tokens=tokens,
        tokens_at=tokens_at,
        partitions=partitions,
    )


def worker_values(worker: Worker) -> tuple[Value, ...]:
    """Return the values of the row of a worker. No name of a queue has a line break."""
    return worker.session, worker.name, worker.host, worker.pid, "\n".join(worker.queues), worker.concurrency


def worker(row: tuple[Any, ...]) -> Worker:
    """Return the worker of a row of `task_statements.LIVE_WORKERS`."""
    session, name, host, pid, queues, concurrency = row
    return Worker(
        session=session, name=name, host=host, pid=pid, queues=tuple(queues.split("\n")), concurrency=concurrency
    )


def receipt_values(receipt: Receipt) -> tuple[Value, ...]:
    """Return the values of a receipt, in the order of the statements."""
    return receipt.task, receipt.attempt, receipt.session


def receipt_texts(receipt: Receipt) -> dict[str, str]:
    """Return a receipt as the named values of a statement. All values are texts, which every library accepts."""
    return {"id": receipt.task, "attempt": str(receipt.attempt), "session": str(receipt.session)}


def once_entry(row: tuple[Any, ...]) -> OnceEntry:
    """Return the entry of a row of `ONCE`; `ValueError` or `TypeError` for values that no release writes."""
    task, attempt, session, at, value = row
    is_counted = 0 <= attempt <= MOST_NUMBER and session >= 0 and 0 <= at <= MOST_TIME
    if not is_counted or not isinstance(task, str) or not isinstance(value, bytes | None):
        raise ValueError(f"invalid claim or time of the effect of task {task}")
    if len(value or b"") > MOST_ONCE_BYTES:
        raise ValueError(f"{len(value or b'')} bytes of the effect of task {task}")
    return OnceEntry(receipt=Receipt(task=task, attempt=attempt, session=session), at=at, value=value)


def once_values(step: OnceStep, entry: OnceEntry) -> tuple[Value, ...]:
    """Return the values of the row of an entry."""
    return step.scope, step.key, *receipt_values(entry.receipt), entry.at, entry.value


def _task(position: int, session: int | None, row: Sequence[Any], *, is_blocking: bool = False) -> OpenTask:
    (id_, queue, lane, name, codec, arguments, unique, due, expires, attempt, failures, crashes, deaths_of) = row[:13]
    (most_deaths, cancelling, replaced, progress, note, reason, trace) = row[13:20]
    (schedule, slot, key, on_dead, enqueued, ready_at, _) = row[20:]
    if not all(0 <= count <= MOST_NUMBER for count in (attempt, failures, crashes)):  # another count is damage
        raise ValueError(f"attempt {attempt}, failures {failures} or crashes {crashes} of task {id_}")
    if not (isinstance(arguments, bytes) and all(isinstance(each, str) for each in (queue, name, codec, trace))):
        raise TypeError(f"wrong type of a column of task {id_}")
    new = NewTask(
        id=id_,
        queue=queue,
        name=name,
        arguments=arguments,
        codec=codec,
        lane=lane,
        expires_at=expires,
        unique=unique,
        most_deaths=most_deaths,
        trace=trace,
        schedule=schedule,
        slot=slot,
        key=key,
        on_dead=on_dead,
    )
    return OpenTask(
        new=new,
        position=position,
        enqueued=enqueued,
        ready_at=ready_at,
        due=None if is_blocking else due,
        attempt=attempt,
        session=session,
        failures=failures,
        crashes=crashes,
        deaths_of=tuple(map(int, deaths_of.split(","))) if deaths_of else (),
        is_cancelling=bool(cancelling),
        is_replaced=bool(replaced),
        is_blocking=is_blocking,
        reason=reason,
        progress=progress,
        note=note,
    )
