"""Task administration: the questions and commands of operators on a task ledger, as plain data without I/O.

The rules of enqueueing and claiming are in `task_ledger`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from apportion.errors import InvariantBroken
from apportion.stores.keys import questions as keys
from apportion.stores.keys.partitions import agreed
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, OwnerOfLane
from apportion.stores.lanes.tokens import LaneRecord, accepts, check_resizable
from apportion.stores.lanes.values import KEYED_LANES, AgreePartitions, MendLane, ResizePartitions
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
    QueueStats,
    Redrive,
    SetLimit,
    StoreTime,
    Survey,
    TaskRow,
)
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_records import EndedTask, OpenTask, QueueControl, tokens
from apportion.stores.task_values import TaskState, Worker


def answer(ledger: TaskLedger, question: Question[Answer], *, alive: Collection[int], now: int) -> Answer:
    """See `TaskStore.query`."""
    found: object
    match question:
        case Listing():
            found = rows(ledger, question)
        case Survey():
            found = overview(ledger, alive=alive, now=now)
        case StoreTime():
            found = now
        case BusiestKeys():
            found = keys.busiest(ledger.open.values(), question)
        case HeadOfKey():
            found = keys.head(ledger.open.values(), question)
        case OwnerOfLane(queue=queue, partition=partition):
            found = keys.owner(ledger.lanes.get((queue, KEYED_LANES + partition)), question, alive)
        case _:
            raise unknown(question)
    return cast("Answer", found)


def unknown(question: object) -> InvariantBroken:
    """Return the error of a store that has no answer to a question."""
    return InvariantBroken(f"this store has no answer to {question!r}")


def rows(ledger: TaskLedger, listing: Listing) -> tuple[TaskRow, ...]:
    """Return the tasks of a listing. Ended tasks come after the open ones."""
    opened = [task for task in ledger.by_position() if not task.is_blocking]
    after = listing.after_ended
    found = [task_row(task, task.state) for task in opened if after is None and task.position > listing.after]
    ended = sorted(ledger.ended.values(), key=lambda each: (each.at, each.task.id))
    found += [
        task_row(each.task, each.state, each) for each in ended if after is None or after < (each.at, each.task.id)
    ]
    most = len(found) if listing.tasks is not None else listing.most
    return tuple(row for row in found if _is_asked_for(row, listing))[:most]


def overview(ledger: TaskLedger, *, alive: Collection[int], now: int) -> Overview:
    """Return the answer to a `Survey`."""
    live = [worker for session, worker in sorted(ledger.workers.items()) if session in alive]
    counts = Counter((task.queue, task.state) for task in ledger.open.values() if not task.is_blocking)
    counts.update((ended.task.queue, ended.state) for ended in ledger.ended.values())
    oldest: dict[str, int] = {}
    for task in ledger.open.values():
        if task.state == "ready":
            oldest[task.queue] = min(task.ready_at, oldest.get(task.queue, task.ready_at))
    return overview_of(counts, oldest, ledger.controls, live, now)


def overview_of(
    counts: Mapping[tuple[str, TaskState], int],
    oldest: Mapping[str, int],
    controls: Mapping[str, QueueControl],
    workers: Sequence[Worker],
    now: int,
) -> Overview:
    """Return the numbers of all queues.

    `counts` counts tasks by queue and state. `oldest` has, by queue, the time when its oldest ready task became ready.
    """
    names = {name for name, _ in counts} | {*controls} | {queue for worker in workers for queue in worker.queues}
    queues = (
        QueueStats(
            queue=name,
            ready=counts.get((name, "ready"), 0),
            delayed=counts.get((name, "delayed"), 0),
            claimed=counts.get((name, "claimed"), 0),
            dead=counts.get((name, "dead"), 0),
            cancelled=counts.get((name, "cancelled"), 0),
            workers=sum(name in worker.queues for worker in workers),
            oldest_ready_ms=max(0, now - oldest.get(name, now)),
            is_paused=control.is_paused,
            open_claims=control.open_claims,
            rate=control.rate,
            per_ms=control.per_ms,
            starts_left=tokens(control, now),
            partitions=control.partitions,
        )
        for name in sorted(names)
        for control in [controls.get(name, QueueControl())]
    )
    return Overview(queues=tuple(queues), workers=tuple(workers))


def control(ledger: TaskLedger, command: Command, *, now: int) -> int:
    """See `TaskStore.control`."""
    match command:
        case Cancel(tasks=tasks):
            return _cancel(ledger, tasks, now)
        case Redrive(tasks=tasks):
            found = [ledger.ended[each] for each in dict.fromkeys(tasks) if each in ledger.ended]
            return sum(ledger.redriven(each, now) for each in found if each.state != "done")
        case Hasten(tasks=tasks):
            waiting = [ledger.open[each] for each in dict.fromkeys(tasks) if each in ledger.open]
            delayed = [task for task in waiting if task.state == "delayed"]
            for task in delayed:
                ledger.wait(task, 0, now)
            return len(delayed)
        case Purge():
            return sum(_purge(ledger, command.queue, state, command.most) for state in dict.fromkeys(command.states))
        case Pause(queue=queue, is_paused=is_paused):
            ledger.controls.setdefault(queue, QueueControl()).is_paused = is_paused
        case SetLimit(queue=queue):
            kept = ledger.controls.setdefault(queue, QueueControl())
            kept.open_claims, kept.rate, kept.per_ms = command.open_claims, command.rate, command.per_ms
            kept.tokens, kept.tokens_at = float(command.rate or 0), now
        case AgreePartitions(queue=queue, partitions=partitions):
            kept = ledger.controls.setdefault(queue, QueueControl())
            kept.partitions = agreed(queue, kept.partitions, partitions)
        case ResizePartitions(queue=queue, partitions=partitions):
            keyed = (task.queue == queue and task.new.key is not None for task in ledger.open.values())
            check_resizable(queue, sum(keyed))
            ledger.controls.setdefault(queue, QueueControl()).partitions = partitions
        case MendLane(owned=owned, session=session):
            seen = ledger.lanes.get((owned.queue, owned.lane))
            if seen is None or accepts(seen.token, owned.token):
                return 0
            ledger.lanes[owned.queue, owned.lane] = LaneRecord(token=owned.token, session=session)
    return 1


def _cancel(ledger: TaskLedger, tasks: Iterable[str], now: int) -> int:
    found = [ledger.open[each] for each in dict.fromkeys(tasks) if each in ledger.open]
    for task in found:
        if task.session is None:
            ledger.end(replace(task, reason="cancelled"), "cancelled", now)
        else:
            ledger.open[task.id] = replace(task, is_cancelling=True)
    return len(found)


def _purge(ledger: TaskLedger, queue: str, state: TaskState, most: int) -> int:
    if state in ("ready", "delayed"):
        waiting = [each for each, task in ledger.open.items() if task.queue == queue and task.state == state]
        for each in waiting[:most]:
            del ledger.open[each]
        return len(waiting[:most])
    ended = [each for each, end in ledger.ended.items() if end.task.queue == queue and end.state == state]
    for each in ended[:most]:
        del ledger.ended[each]
        ledger.open.pop(each, None)  # a dead task that blocks its key
    return len(ended[:most])


def _is_asked_for(row: TaskRow, listing: Listing) -> bool:
    if listing.tasks is not None:
        return row.id in listing.tasks
    if listing.prefix is not None:
        return row.id.startswith(listing.prefix)
    return (
        listing.queue in (None, row.queue)
        and row.state in listing.states
        and listing.name in (None, row.name)
        and listing.session in (None, row.session)
    )


def task_row(task: OpenTask, state: TaskState, ended: EndedTask | None = None) -> TaskRow:
    """Return a task as an operator sees it."""
    return TaskRow(
        id=task.id,
        queue=task.queue,
        name=task.new.name,
        state=state,
        lane=task.new.lane,
        position=task.position if ended is None else 0,
        attempt=task.attempt,
        failures=task.failures,
        deaths=len(task.deaths_of),
        deaths_of=task.deaths_of,
        crashes=task.crashes,
        due=task.due,
        expires_at=task.new.expires_at,
        session=task.session,
        is_cancelling=task.is_cancelling,
        reason=task.reason,
        progress=task.progress,
        note=task.note,
        enqueued=task.enqueued,
        unique=task.new.unique,
        key=task.new.key,
        arguments=task.new.arguments,
        codec=task.new.codec,
        ended_at=None if ended is None else ended.at,
        result=None if ended is None else ended.result,
    )
