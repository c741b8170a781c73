"""The rare rules of a turn in PostgreSQL. The functions of the schema (`task_functions`) do the common case.

Each call is part of one transaction. A rule reads rows and locks them, changes them by the rules of `task_records`,
and writes them back. A claim skips rows that another transaction has locked, so it waits for no lock.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from apportion.stores.keys.ledger import rank
from apportion.stores.keys.partitions import placed
from apportion.stores.postgres.door import Transaction
from apportion.stores.postgres.driver import Parameter
from apportion.stores.postgres.tasks import lanes as keyed
from apportion.stores.postgres.tasks import statements as sql
from apportion.stores.postgres.tasks.floors import Places
from apportion.stores.task_records import (
    EndState,
    Freed,
    OpenTask,
    QueueControl,
    claim_of,
    is_condemned,
    orphaned,
    receipt_of,
    settled,
    tokens,
    without,
)
from apportion.stores.task_rows import clean, ended_task, open_task, queue_control, shared_values, worker_values
from apportion.stores.task_values import (
    KEPT_MS,
    LANES,
    MOST_DUE,
    MOST_EXPIRED,
    MOST_FORGOTTEN,
    BeatAnswer,
    Note,
    Receipt,
    Settlement,
    TurnAnswer,
    Worker,
)

_SHARE_OF_THE_OLDEST = 8
_MANY_DEATHS = 2
_ANY_DEATHS = 1 << 40


class Settling:
    """The settlements of a turn. Each receipt counts once. All plain completions are settled in one statement."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self._all = settlements
        self.first: dict[Receipt, Settlement] = {}
        for each in settlements:
            self.first.setdefault(each.receipt, each)
        self.done: list[Receipt] = [each.receipt for each in self.first.values() if _is_plain(each)]
        self.rare: list[Settlement] = [each for each in self.first.values() if not _is_plain(each)]
        self.counted: set[Receipt] = set()

    def done_values(self) -> list[Parameter]:
        """Return the receipts of plain completions as columns."""
        done = self.done
        return [[each.task for each in done], [each.attempt for each in done], [each.session for each in done]]

    def plain(self, places: Iterable[int]) -> set[Receipt]:
        """Return the receipts of the plain completions at these places. The first place is 1."""
        return {self.done[place - 1] for place in places}

    def refused(self) -> tuple[Receipt, ...]:
        """Return the receipts that did not count, in order. Of equal receipts, only the first counts."""
        left, refused = set(self.counted), list[Receipt]()
        for each in self._all:
            if each.receipt in left:
                left.remove(each.receipt)
            else:
                refused.append(each.receipt)
        return tuple(refused)


def _is_plain(settlement: Settlement) -> bool:
    return settlement.fate == "done" and settlement.result is None


async def settle(transaction: Transaction, settlements: Sequence[Settlement], now: int) -> set[Receipt]:
    """End claims in ways other than a plain `done`; return the receipts that counted."""
    if not settlements:
        return set()
    by_receipt = {each.receipt: each for each in settlements}
    rows = await transaction.ask(sql.BY_ID, [[receipt.task for receipt in by_receipt]])
    held = {receipt_of(task): task for task in map(open_task, rows) if task.session is not None}
    counted = [receipt for receipt in by_receipt if receipt in held]
    freed = [settled(held[receipt], by_receipt[receipt]) for receipt in counted]
    await _free(transaction, freed, now, results=[by_receipt[receipt].result for receipt in counted])
    return set(counted)


async def outlive(transaction: Transaction, session: int, now: int) -> None:
    """Remove a session from the deaths of tasks: its lease ended, but its process lives.

    A task that is dead because this session ended becomes ready again, unless another open task has its unique name.
    """
    for task in map(open_task, await transaction.ask(sql.OF_DEATHS)):
        if session in task.deaths_of:
            await transaction.ask(sql.STRIKE, _deaths(without(task.deaths_of, session), task.id))
    for ended in map(ended_task, await transaction.ask(sql.CONDEMNED)):
        if session in ended.task.deaths_of and is_condemned(ended.task):
            task = replace(ended.task, deaths_of=without(ended.task.deaths_of, session), reason="")
            if await is_name_free(transaction, task):
                await reopen(transaction, task, now)
            else:
                await transaction.ask(sql.KEEP_STRUCK, _deaths(task.deaths_of, task.id))


async def claim(transaction: Transaction, worker: Worker, places: Places, want: int, now: int) -> TurnAnswer:
    """Take over tasks of ended sessions, then claim new tasks. `places` are queues, lanes, and low positions.

    `worker` names only the lanes that it may claim from.
    """
    await transaction.ask(sql.ADD_WORKER, worker_values(worker))
    await transaction.ask(sql.BECOME_DUE, [now, list(worker.queues), MOST_DUE])
    paused = {str(queue) for (queue,) in await transaction.ask(sql.PAUSED, [list(worker.queues)])}
    served = [queue for queue in worker.queues if queue not in paused]
    claiming = _Claiming(transaction, worker, served, now)
    taken = await _retake(transaction, worker, served, (want + 1) // 2, now)
    await transaction.ask(sql.FORGET_OLD, [now, MOST_FORGOTTEN])
    await transaction.ask(sql.FORGET_WORKERS)
    retaken = len(taken)
    await claiming.claim(want, places, taken)
    claims = tuple(claim_of(task, now, is_retaken=place < retaken) for place, task in enumerate(taken))
    return TurnAnswer(claims=claims, is_cut=claiming.is_cut)


async def beat(transaction: Transaction, session: int, notes: Iterable[Note]) -> BeatAnswer:
    """See `TaskStore.beat`."""
    refused = [
        note.receipt
        for note in notes
        if not await transaction.ask(sql.NOTE, [note.progress, clean(note.text), *receipt_values(note.receipt)])
    ]
    rows: list[Any] = await transaction.ask(sql.CANCELS, [session])
    cancels = tuple(Receipt(task=task, attempt=attempt, session=held_by) for task, attempt, held_by in rows)
    return BeatAnswer(refused=tuple(refused), cancels=cancels)


async def wait(transaction: Transaction, tasks: Iterable[tuple[OpenTask, int]], now: int) -> None:
    """End the claims of open tasks, each with a delay in milliseconds; 0 makes the task ready.

    A task goes to the end of its lane, but a keyed task keeps its position.
    """
    await transaction.each(sql.WAIT, [_wait_values(task, delay_ms, now) for task, delay_ms in tasks])


def _wait_values(task: OpenTask, delay_ms: int, now: int) -> list[Parameter]:
    due = now + delay_ms
    deaths_of, deaths, task_id = _deaths(task.deaths_of, task.id)
    flags: list[Parameter] = [int(task.is_cancelling), int(task.is_replaced), clean(task.reason)]
    counts: list[Parameter] = [task.failures, deaths, task.crashes, deaths_of]
    return [due if delay_ms > 0 else None, *counts, *flags, due, task_id]


async def reopen(transaction: Transaction, task: OpenTask, now: int) -> None:
    """Make an ended task ready again. A task that blocks its key is then the first of its key."""
    await transaction.ask(sql.FORGET_OUTCOME, [task.id])
    if await transaction.ask(sql.UNBLOCK, [task.new.unique, task.id]):
        await wait(transaction, [(task, 0)], now)
        return
    if task.new.key is not None:
        [(found,)] = await transaction.ask(sql.KEPT_PARTITIONS, [task.queue]) or [(None,)]
        task = placed(task, None if found is None else int(str(found)))
    await transaction.ask(sql.REOPEN, shared_values(replace(task, due=None, ready_at=now)))


async def end(transaction: Transaction, ends: Iterable[tuple[OpenTask, EndState, bytes | None]], now: int) -> None:
    """End open tasks, each with a state and a result; keep their outcomes. Dead tasks may block their keys."""
    ends = list(ends)
    await transaction.each(sql.END, [_end_values(*each, now) for each in ends if not _is_blocking(*each[:2])])
    await transaction.each(sql.END_AND_BLOCK, [_end_values(*each, now) for each in ends if _is_blocking(*each[:2])])


def _is_blocking(task: OpenTask, state: EndState) -> bool:
    return state == "dead" and task.new.on_dead == "block" and task.new.key is not None


def _end_values(task: OpenTask, state: EndState, result: bytes | None, now: int) -> list[Parameter]:
    keep_until = None if state == "dead" else now + KEPT_MS
    return [task.id, state, now, keep_until, result, *shared_values(task)]


async def is_name_free(transaction: Transaction, task: OpenTask) -> bool:
    """Whether no open task has the unique name of a task that is to be opened again."""
    return task.new.unique is None or not await transaction.ask(sql.NAME_TAKEN, [task.queue, task.new.unique])


def receipt_values(receipt: Receipt) -> list[Parameter]:
    """Return the values of a receipt, in the order of the statements."""
    return [receipt.task, receipt.attempt, receipt.session]


async def _free(
    transaction: Transaction, freed: Sequence[Freed], now: int, *, results: Sequence[bytes | None] = ()
) -> None:
    """Write tasks back after the end of their claims. `results` has a result for each task, in the same order."""
    kept = results or [None] * len(freed)
    ends = [
        (each.task, each.state, result if each.state == "done" else None)
        for each, result in zip(freed, kept, strict=True)
        if each.state is not None
    ]
    await end(transaction, ends, now)
    await wait(transaction, [(each.task, each.delay_ms or 0) for each in freed if each.state is None], now)


async def _retake(
    transaction: Transaction, worker: Worker, queues: Collection[str], most: int, now: int
) -> list[OpenTask]:
    """Take over tasks of ended sessions, oldest first. A task with a second death must first wait."""
    lanes: list[Parameter] = [[each.queue for each in worker.lanes], [each.lane for each in worker.lanes]]
    found = list(map(open_task, await transaction.ask(sql.ORPHANS, [list(queues), *lanes, most])))
    orphans = await keyed.held(transaction, worker, found)
    freed = list(map(orphaned, orphans))
    is_next = [each.state is None and each.delay_ms is None for each in freed]
    retaken = [
        [worker.session, *_deaths(each.task.deaths_of, orphan.id)[:2], *receipt_values(receipt_of(orphan))]
        for orphan, each, is_ours in zip(orphans, freed, is_next, strict=True)
        if is_ours
    ]
    await transaction.each(sql.RETAKE, retaken)
    await _free(transaction, [each for each, is_ours in zip(freed, is_next, strict=True) if not is_ours], now)
    return [_taken(each.task, worker) for each, is_ours in zip(freed, is_next, strict=True) if is_ours]


def _taken(task: OpenTask, worker: Worker) -> OpenTask:
    return replace(task, session=worker.session, attempt=task.attempt + 1)


def _deaths(deaths_of: tuple[int, ...], task_id: str) -> tuple[str, int, str]:
    return ",".join(map(str, deaths_of)), len(deaths_of), task_id


class _Claiming:
    """The new claims of one turn, within the limits of its queues."""

    def __init__(self, transaction: Transaction, worker: Worker, served: Sequence[str], now: int) -> None:
        self._transaction, self._worker, self._now = transaction, worker, now
        self._served = served
        self._controls: dict[str, QueueControl] = {}
        self._left: dict[str, float] = {}
        self._is_clear = True
        self._expired = 0
        self.is_cut: bool = False

    async def claim(self, want: int, places: Places, taken: list[OpenTask]) -> None:
        """Add ready tasks to `taken`, first lane first. Each eighth place goes to the oldest head of all lanes."""
        await self._prepare()
        before, is_more = len(taken), True
        while is_more and len(taken) < want:
            is_more = await self._claim(want, places, taken)
        await self._spend(taken[before:])

    async def _claim(self, want: int, places: Places, taken: list[OpenTask]) -> bool:
        """Claim ready tasks. Return True after an expired task of a key: the next task of that key may be ready."""
        before, expired, is_more = len(taken), list[OpenTask](), False
        lanes = await self._heads(want, places)
        while not is_more and len(taken) < want and (task := self._next(lanes, len(taken))) is not None:
            if task.new.expires_at is not None and task.new.expires_at <= self._now:
                if self._expired == MOST_EXPIRED:
                    self.is_cut = True
                    break
                self._expired += 1
                expired.append(replace(task, reason="expired"))
                is_more = task.new.key is not None
                continue
            self._left[task.queue] -= 1
            self._is_clear = self._is_clear and not task.is_suspect
            taken.append(_taken(task, self._worker))
        await self._transaction.ask(sql.TAKE, [self._worker.session, [task.id for task in taken[before:]]])
        await end(self._transaction, [(task, "cancelled", None) for task in expired], self._now)
        return is_more

    async def _prepare(self) -> None:
        """Lock the limits of the queues: no other turn may count claims before this turn has made its own."""
        rows: list[Any] = await self._transaction.ask(sql.LOCKED_CONTROLS, [list(self._served)])
        self._controls = {row[0]: queue_control(row[1:]) for row in rows}
        self._left = {queue: await self._allowed(queue) for queue in self._served}
        self._is_clear = not await self._transaction.ask(sql.HAS_SUSPECT, [self._worker.session])

    async def _heads(self, want: int, places: Places) -> list[list[OpenTask]]:
        """Return the oldest ready tasks of each lane, the oldest one last; more than enough of them."""
        most = want + MOST_EXPIRED
        rows: list[Any] = await self._transaction.ask(sql.READY, [*places, _ANY_DEATHS, most])
        found = {task.id: task for task in [*map(open_task, rows), *await self._first(_ANY_DEATHS, want)]}
        if any(len(task.deaths_of) >= _MANY_DEATHS for task in found.values()):
            more: list[Any] = await self._transaction.ask(sql.READY, [*places, _MANY_DEATHS, most])
            found |= {task.id: task for task in [*map(open_task, more), *await self._first(_MANY_DEATHS, want)]}
        ready = sorted(found.values(), key=lambda task: task.position, reverse=True)
        return [[task for task in ready if rank(task.new.lane) == lane] for lane in LANES]

    async def _first(self, deaths: int, most: int) -> list[OpenTask]:
        """Return the next keyed tasks in the lanes of the worker."""
        worker, queues = self._worker, [queue for queue in self._served if self._left[queue] >= 1]
        return await keyed.first_tasks(self._transaction, sql.FIRST, worker, queues, deaths=deaths, most=most)

    def _next(self, lanes: list[list[OpenTask]], place: int) -> OpenTask | None:
        heads = []
        for lane in lanes:
            head = next((task for task in reversed(lane) if self._may_take(task)), None)
            if head is not None:
                heads.append((lane, head))
        if not heads:
            return None
        is_turn_of_the_oldest = (place + 1) % _SHARE_OF_THE_OLDEST == 0
        lane, head = min(heads, key=lambda each: each[1].ready_at) if is_turn_of_the_oldest else heads[0]
        if lane[-1] is head:  # the usual case, in constant time
            lane.pop()
        else:
            lane.remove(head)
        return head

    def _may_take(self, task: OpenTask) -> bool:
        is_allowed = self._left.get(task.queue, 0) >= 1
        return is_allowed and (self._is_clear or len(task.deaths_of) < _MANY_DEATHS)

    async def _allowed(self, queue: str) -> float:
        control, allowed = self._controls.get(queue, QueueControl()), float("inf")
        if control.open_claims is not None:
            [(count,)] = await self._transaction.ask(sql.COUNT_OPEN, [queue])
            allowed = control.open_claims - int(str(count))
        return allowed if control.rate is None else min(allowed, tokens(control, self._now))

    async def _spend(self, taken: list[OpenTask]) -> None:
        for queue, control in self._controls.items():
            spent = sum(task.queue == queue for task in taken)
            if control.rate is not None and spent:
                left = tokens(control, self._now) - spent
                await self._transaction.ask(sql.SPEND, [left, self._now, queue])
