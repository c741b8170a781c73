"""The rules of `task_ledger.py` in SQL: the effect of each call on an SQLite file, in the caller's transaction.

`now` is the clock of the file, read once per transaction. Frequent changes are single statements. Rare changes read the
row, change it by the rules of `task_records`, and write it back. An SQLite file has one writer at a time, so no other
writer can come between.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from apportion.errors import InvariantBroken, LeaseLost
from apportion.stores.keys.partitions import check_counted, counted, placed
from apportion.stores.sqlite import statements as lease_sql
from apportion.stores.sqlite import task_statements as sql
from apportion.stores.sqlite.claims import lanes as keyed
from apportion.stores.sqlite.claims.new_claims import NewClaims, take
from apportion.stores.sqlite.connection import Connection, Value, value_of
from apportion.stores.sqlite.enqueues.plain_tasks import are_added
from apportion.stores.task_records import (
    EndState,
    Freed,
    OpenTask,
    QueueControl,
    claim_of,
    is_condemned,
    orphaned,
    settled,
    without,
)
from apportion.stores.task_rows import clean, ended_task, open_task, queue_control, shared_values, worker_values
from apportion.stores.task_values import (
    KEPT_MS,
    MOST_DUE,
    MOST_FORGOTTEN,
    BeatAnswer,
    NewTask,
    Note,
    Receipt,
    Settlement,
    TurnAnswer,
    Worker,
)


class NotAllDone(Exception):
    """At least one completion is refused: roll back, and settle the claims one by one in a new transaction.

    A savepoint would save each page that it changes, which takes as long as the completions themselves.
    """


def now_ms(connection: Connection) -> int:
    """Return the time of the file."""
    return int(value_of(connection, sql.NOW))


def time_and_life(connection: Connection) -> tuple[int, int]:
    """Return the time of the file, and the incarnation of the store in it."""
    [(now, incarnation)] = connection.execute(sql.TIME_AND_LIFE).fetchall()
    return int(now), int(incarnation)


def enqueue(connection: Connection, tasks: Sequence[NewTask], now: int) -> tuple[tuple[str, bool], ...]:
    """See `TaskStore.enqueue`. New tasks without unique names and keys take few statements, as `plain_tasks` says."""
    for queue, _ in counted(tasks):
        check_counted(tasks, queue, control_of(connection, queue).partitions)
    if all(each.unique is None and each.key is None for each in tasks) and are_added(connection, tasks, now):
        return tuple((each.id, True) for each in tasks)
    return tuple(_enqueued(connection, each, now) for each in tasks)


def turn(
    connection: Connection,
    worker: Worker,
    settlements: Sequence[Settlement],
    *,
    want: int,
    now: int,
    is_one_by_one: bool = False,
) -> TurnAnswer:
    """See `TaskStore.turn`. `NotAllDone` where a completion is refused, unless claims are settled one by one."""
    if want and value_of(connection, lease_sql.LEASE, (worker.session,)) is None:
        raise LeaseLost(worker.session)
    for lived in worker.former:
        _outlive(connection, lived, now)
    refused = _settled(connection, settlements, now, is_one_by_one=is_one_by_one)
    if not want:
        return TurnAnswer(refused=refused)
    connection.execute(sql.ADD_WORKER, worker_values(worker))
    worker, fenced = keyed.shown(connection, worker) if worker.lanes else (worker, ())
    _become_due(connection, worker.queues, now)
    controls = {queue: control_of(connection, queue) for queue in worker.queues}
    served = [queue for queue in worker.queues if not controls[queue].is_paused]
    retaken = _retake(connection, worker, served, (want + 1) // 2, now)
    connection.execute(sql.FORGET_OLD, (now, MOST_FORGOTTEN))
    connection.execute(sql.FORGET_WORKERS)
    served_controls = {queue: controls[queue] for queue in served}
    claims = NewClaims(connection, worker, served_controls, now, partial(_expire, connection, now=now))
    taken = claims.claimed(want - len(retaken), len(retaken))
    old = [claim_of(task, now, is_retaken=True) for task in retaken]
    return TurnAnswer(refused=refused, claims=(*old, *taken), fenced=fenced, is_cut=claims.is_cut)


def has_all(connection: Connection, ids: Iterable[str]) -> bool:
    """Whether each of these tasks is open or has an outcome.

    A write comes first, so the flush of the transaction also covers the tasks that are found.
    """
    connection.execute(sql.TOUCH)
    looks = (sql.BY_ID, sql.ENDED_BY_ID)
    return all(any(value_of(connection, each, (task,)) is not None for each in looks) for task in ids)


def has_work(connection: Connection, worker: Worker, now: int) -> bool:
    """Whether a turn might claim something; reads only. Paused and limited queues count as work."""
    return (
        any(value_of(connection, sql.IS_READY, (queue,)) is not None for queue in worker.queues)
        or any(value_of(connection, sql.IS_DUE, (queue, now)) is not None for queue in worker.queues)
        or keyed.has_news(connection, worker)
        or value_of(connection, sql.ENDED_SESSIONS) is not None
        or value_of(connection, lease_sql.LEASE, (worker.session,)) is None
        or value_of(connection, sql.IS_WORKER, (worker.session,)) is None
    )


def beat(connection: Connection, session: int, notes: Iterable[Note]) -> BeatAnswer:
    """See `TaskStore.beat`."""
    refused = [
        note.receipt
        for note in notes
        if value_of(connection, sql.NOTE, (note.progress, clean(note.text), *_values(note.receipt))) is None
    ]
    rows = connection.execute(sql.CANCELS, (session,)).fetchall()
    cancels = tuple(Receipt(task=task, attempt=attempt, session=held_by) for task, attempt, held_by in rows)
    return BeatAnswer(refused=tuple(refused), cancels=cancels)


def control_of(connection: Connection, queue: str) -> QueueControl:
    """Return the limits of a queue."""
    rows = connection.execute(sql.CONTROL, (queue,)).fetchall()
    return queue_control(rows[0]) if rows else QueueControl()


def wait(connection: Connection, task: OpenTask, delay_ms: int, now: int) -> None:
    """Put a task without a claim at the end of its lane; with a delay, put it among the delayed tasks.

    A keyed task that is open, or blocks its key, keeps its place in the order of its key.
    """
    due = now + delay_ms
    task = replace(task, due=due if delay_ms > 0 else None, ready_at=due)
    if task.new.key is not None and value_of(connection, sql.KEEP_PLACE, shared_values(task)) is not None:
        return
    connection.execute(sql.REMOVE, (task.id,))
    if not _add(
        connection, task if task.new.key is None else placed(task, control_of(connection, task.queue).partitions)
    ):
        raise InvariantBroken(f"task {task.id} cannot be opened again: its id or its unique name is taken")


def end(connection: Connection, task: OpenTask, state: EndState, now: int, result: bytes | None = None) -> None:
    """Close an open task; keep its outcome, unless it is done without a result. A dead task may block its key."""
    is_blocking = state == "dead" and task.new.on_dead == "block" and task.new.key is not None
    connection.execute(sql.BLOCK if is_blocking else sql.REMOVE, (task.id,))
    if state != "done" or result is not None:
        keep_until = None if state == "dead" else now + KEPT_MS
        connection.execute(sql.END, (state, now, keep_until, result, *shared_values(task)))


def _enqueued(connection: Connection, new: NewTask, now: int) -> tuple[str, bool]:
    due = now + new.delay_ms if new.due_at is None else new.due_at
    task = OpenTask(new=new, position=0, enqueued=now, ready_at=max(due, now), due=due if due > now else None)
    if _add(connection, task):
        return new.id, True
    is_known = any(value_of(connection, each, (new.id,)) is not None for each in (sql.BY_ID, sql.ENDED_BY_ID))
    rows = [] if is_known else connection.execute(sql.BY_UNIQUE, (new.queue, new.unique)).fetchall()
    if not rows:
        return new.id, False
    named = open_task(rows[0])
    if new.on_duplicate == "keep":
        return named.id, False
    if named.session is not None:
        connection.execute(sql.GIVE_UP_NAME, (named.position,))
        return new.id, _add(connection, task)
    connection.execute(sql.REMOVE, (named.id,))
    _add(connection, replace(task, new=replace(new, id=named.id), attempt=named.attempt))
    return named.id, False


def _add(connection: Connection, task: OpenTask) -> bool:
    """Add a task at the last position; False when its id or its unique name is taken."""
    return value_of(connection, sql.ADD, shared_values(task)) is not None


def _expire(connection: Connection, task: str, *, now: int) -> None:
    [row] = connection.execute(sql.BY_ID, (task,)).fetchall()
    end(connection, replace(open_task(row), reason="expired"), "cancelled", now)


def _settled(
    connection: Connection, settlements: Sequence[Settlement], now: int, *, is_one_by_one: bool
) -> tuple[Receipt, ...]:
    """Settle claims; return the refused receipts. If none is refused, one statement does all plain completions.

    If two settlements name one task, only the first counts, so all settlements are done one by one. Repeats are always
    done one by one, because most of them are refused.
    """
    done = [each.receipt for each in settlements if _is_plain(each) and not each.is_repeat]
    is_each_once = len({each.receipt.task for each in settlements}) == len(settlements)
    if done and is_each_once and not is_one_by_one:
        if not _are_done(connection, done):
            raise NotAllDone
        settlements = [each for each in settlements if each.is_repeat or not _is_plain(each)]
    return tuple(each.receipt for each in settlements if not _settle(connection, each, now))


def _is_plain(settlement: Settlement) -> bool:
    return settlement.fate == "done" and settlement.result is None


def _are_done(connection: Connection, receipts: Sequence[Receipt]) -> bool:
    """Complete tasks; return whether all of these receipts were valid."""
    attempts: dict[int, dict[str, int]] = {}
    for each in receipts:
        attempts.setdefault(each.session, {})[each.task] = each.attempt
    asked = [(json.dumps(of_session), session) for session, of_session in attempts.items()]
    return sum(connection.execute(sql.ALL_DONE, each).rowcount for each in asked) == len(receipts)


def _settle(connection: Connection, settlement: Settlement, now: int) -> bool:
    values = _values(settlement.receipt)
    if _is_plain(settlement):
        return value_of(connection, sql.DONE, values) is not None
    rows = connection.execute(sql.HELD, values).fetchall()
    for row in rows:
        _free(connection, settled(open_task(row), settlement), now, settlement.result)
    return bool(rows)


def _free(connection: Connection, freed: Freed, now: int, result: bytes | None = None) -> None:
    if freed.state is not None:
        end(connection, freed.task, freed.state, now, result if freed.state == "done" else None)
    else:
        wait(connection, freed.task, freed.delay_ms or 0, now)


def _outlive(connection: Connection, session: int, now: int) -> None:
    """Remove a session from the deaths of tasks, because its process is alive.

    A task that is dead because this session ended becomes ready again, unless another open task has its unique name.
    """
    for task in map(open_task, connection.execute(sql.OF_DEATHS).fetchall()):
        if session in task.deaths_of:
            _rewrite(connection, replace(task, deaths_of=without(task.deaths_of, session)))
    for ended in map(ended_task, connection.execute(sql.CONDEMNED).fetchall()):
        if session in ended.task.deaths_of and is_condemned(ended.task):
            task = replace(ended.task, deaths_of=without(ended.task.deaths_of, session), reason="")
            if is_name_free(connection, task):
                connection.execute(sql.FORGET_OUTCOME, (task.id,))
                wait(connection, task, 0, now)
            else:
                keep = (ended.state, ended.at, None, None, *shared_values(task))
                connection.execute(sql.END, keep)


def is_name_free(connection: Connection, task: OpenTask) -> bool:
    """Whether no open task has the unique name of a task that is to be opened again."""
    unique = (task.queue, task.new.unique)
    return task.new.unique is None or value_of(connection, sql.BY_UNIQUE, unique) is None


def _rewrite(connection: Connection, task: OpenTask) -> None:
    deaths_of = ",".join(map(str, task.deaths_of))
    connection.execute(sql.STRIKE, (deaths_of, len(task.deaths_of), task.position))


def _become_due(connection: Connection, queues: Collection[str], now: int) -> None:
    rows = [row for queue in queues for row in connection.execute(sql.DUE, (queue, now, MOST_DUE)).fetchall()]
    due = sorted(map(open_task, rows), key=lambda task: (task.due or 0, task.position))
    for task in due[:MOST_DUE]:
        wait(connection, task, 0, task.due or now)


def _retake(connection: Connection, worker: Worker, queues: Collection[str], most: int, now: int) -> list[OpenTask]:
    """Take over tasks of ended sessions, oldest first. After its second and each further death, a task waits."""
    sessions = [session for (session,) in connection.execute(sql.ENDED_SESSIONS).fetchall()]
    rows = [
        row
        for session in sessions
        for queue in queues
        for row in (
            *connection.execute(sql.OF_SESSION, (session, queue, most)).fetchall(),
            *keyed.of_session(connection, worker, session, queue, most),
        )
    ]
    taken = []
    for task in map(open_task, sorted(rows)[:most]):
        freed = orphaned(task)
        if freed.state is None and freed.delay_ms is None:
            _rewrite(connection, freed.task)
            taken.append(replace(freed.task, session=worker.session, attempt=task.attempt + 1))
        else:
            _free(connection, freed, now)
    take(connection, [task.position for task in taken], worker.session)
    return taken


def _values(receipt: Receipt) -> tuple[Value, ...]:
    return receipt.task, receipt.attempt, receipt.session
