"""Tasks: two workers at a few tasks, while leases end, processes end, and requests come late or lose their reply.

The store is the shipped `TaskLedger`. A worker claims, works, and settles; its settlement may land long after the claim
was retaken. A lost reply leaves a claim that no worker knows; the worker reads its claims back.
A state leaves out times and the distances of positions: a delayed task may become due at any moment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from apportion.errors import LeaseLost
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_records import OpenTask, receipt_of
from apportion.stores.task_values import Fate, NewTask, Receipt, Settlement, Worker
from models.step import Step

_WORKERS = 2


class TaskBounds(NamedTuple):
    """How many tasks there are, leases end, replies are lost, runs fail, and how often the store is restored."""

    tasks: int
    ends: int
    losses: int
    failures: int
    restores: int = 0


class At(NamedTuple):
    """A worker: its session as far as it knows, and the claims that it works on."""

    session: int
    claims: tuple[Receipt, ...] = ()


class State(NamedTuple):
    """The open tasks, the leases, the rows of workers, the workers, settlements on their way, and the done tasks."""

    tasks: tuple[OpenTask, ...]
    alive: tuple[int, ...]
    rows: tuple[int, ...]
    workers: tuple[At, ...]
    late: tuple[tuple[Receipt, Fate], ...]
    done: tuple[str, ...]
    left: tuple[int, ...]
    next_session: int

    def ledger(self) -> TaskLedger:
        """Return the ledger."""
        rows = {session: Worker(session=session, queues=("q",)) for session in self.rows}
        return TaskLedger(open={task.id: task for task in self.tasks}, workers=rows, last_position=len(self.tasks))


class Tasks:
    """Two workers and a few tasks, within bounds."""

    def __init__(self, bounds: TaskBounds) -> None:
        ledger = TaskLedger()
        ledger.enqueue(
            [
                NewTask(id=str(each), queue="q", name="f", arguments=b"", most_deaths=None)
                for each in range(bounds.tasks)
            ],
            now=0,
        )
        sessions = tuple(range(1, _WORKERS + 1))
        workers = tuple(At(session) for session in sessions)
        first = State((), sessions, (), workers, (), (), bounds[1:], _WORKERS + 1)
        self.initial = _after(first, ledger)

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Yield all that may happen next."""
        ends, losses, failures, restores = state.left
        for slot, worker in enumerate(state.workers):
            yield from _claims(state, slot, worker, is_lost=False)
            if losses:
                yield from _claims(
                    state._replace(left=(ends, losses - 1, failures, restores)), slot, worker, is_lost=True
                )
            for receipt in worker.claims:
                yield _sends(state, slot, receipt, "done")
                if failures:
                    yield _sends(state._replace(left=(ends, losses, failures - 1, restores)), slot, receipt, "retry")
            yield from _reads_back(state, slot, worker)
            if worker.session not in state.alive:
                yield _joins(state, slot)
            elif ends:
                alive = tuple(each for each in state.alive if each != worker.session)
                after = state._replace(alive=alive, left=(ends - 1, losses, failures, restores))
                yield Step(f"lease {worker.session} ends", slot, after, is_fault=True)
        for receipt, fate in state.late:
            yield _lands(state, receipt, fate)
            if losses:  # it lands, the worker hears nothing, and sends it again
                again = _lands(state._replace(left=(ends, losses - 1, failures, restores)), receipt, fate)
                yield again._replace(state=again.state._replace(late=state.late), is_fault=True)
        if restores:
            left = (ends, losses, failures, restores - 1)
            old = state._replace(tasks=self.initial.tasks, rows=(), done=(), left=left)
            yield Step("the store is restored", -1, old, is_fault=True)

    def is_goal(self, state: State) -> bool:
        """Whether every task is done."""
        return not state.tasks

    def highest(self, states: Sequence[State]) -> int:
        """Return the highest attempt of any task."""
        return max(task.attempt for state in states for task in state.tasks)


def _claims(state: State, slot: int, worker: At, *, is_lost: bool) -> Iterator[Step[State]]:
    """It asks for a claim, and gets the reply unless that is lost."""
    ledger = state.ledger()
    try:
        claims = ledger.turn(Worker(session=worker.session, queues=("q",)), (), want=1, alive=state.alive, now=0).claims
    except LeaseLost:
        return
    before = {task.id: task for task in state.tasks}
    robbed = [each for each in claims if before[each.task].session in state.alive]
    given = [each for each in claims if each.attempt <= before[each.task].attempt]
    broken = "RetakenOnlyAfterTheEnd: a claim of a live session is taken" if robbed else ""
    broken = broken or ("AttemptsGrow: a receipt comes a second time" if given else "")
    if claims and worker.session not in state.alive:
        broken = "NoOrphanClaim: a claim begins under an ended session"
    known = worker.claims if is_lost else (*worker.claims, *(each.receipt for each in claims))
    after = _with(_after(state, ledger), slot, worker._replace(claims=known))
    if after != state:
        said = f"worker {slot} claims {[each.task for each in claims]}{', and hears nothing' if is_lost else ''}"
        yield Step(said, slot, after, is_fault=is_lost, broken=broken)


def _sends(state: State, slot: int, receipt: Receipt, fate: Fate) -> Step[State]:
    """It ends its work, and the settlement is on its way."""
    worker = state.workers[slot]
    claims = tuple(each for each in worker.claims if each != receipt)
    after = _with(state, slot, worker._replace(claims=claims))
    late = tuple(sorted({*state.late, (receipt, fate)}, key=repr))
    return Step(
        f"worker {slot} sends {fate} of {receipt.task}", slot, after._replace(late=late), is_fault=fate == "retry"
    )


def _lands(state: State, receipt: Receipt, fate: Fate) -> Step[State]:
    """A settlement lands; it counts only under the receipt of the open claim."""
    ledger = state.ledger()
    settlement = Settlement(receipt=receipt, fate=fate)
    refused = ledger.turn(
        Worker(session=receipt.session, queues=("q",)), [settlement], alive=state.alive, now=0
    ).refused
    task = next((each for each in state.tasks if each.id == receipt.task), None)
    is_open = task is not None and task.session is not None and receipt_of(task) == receipt
    broken = "" if is_open is not bool(refused) else "SettledByReceipt: a receipt counts though its claim is not open"
    late = tuple(each for each in state.late if each != (receipt, fate))
    done = state.done
    if not refused and fate == "done":
        broken = broken or ("CompletedOnce: a task is done twice" if receipt.task in done else "")
        done = tuple(sorted({*done, receipt.task}))
    return Step(
        f"{fate} of {receipt.task} lands", -1, _after(state, ledger)._replace(late=late, done=done), broken=broken
    )


def _reads_back(state: State, slot: int, worker: At) -> Iterator[Step[State]]:
    """It gives back the claims of its session that it does not know, and that it has not settled."""
    settled = {receipt for receipt, _ in state.late}
    mine = [receipt_of(task) for task in state.tasks if task.session == worker.session]
    unknown = [each for each in mine if each not in worker.claims and each not in settled]
    if unknown:
        ledger = state.ledger()
        released = [Settlement(receipt=each, fate="released") for each in unknown]
        ledger.turn(Worker(session=worker.session, queues=("q",)), released, alive=state.alive, now=0)
        yield Step(f"worker {slot} gives back {[each.task for each in unknown]}", slot, _after(state, ledger))


def _joins(state: State, slot: int) -> Step[State]:
    """It learns that its session is over, ends its work, and begins another session."""
    session = state.next_session
    after = _with(state, slot, At(session))
    alive = (*state.alive, session)
    return Step(f"worker {slot} joins as {session}", slot, after._replace(alive=alive, next_session=session + 1))


def _with(state: State, slot: int, worker: At) -> State:
    workers = tuple(worker if each == slot else old for each, old in enumerate(state.workers))
    return state._replace(workers=workers)


def _after(state: State, ledger: TaskLedger) -> State:
    tasks = tuple(
        replace(task, position=place + 1, due=None, ready_at=0) for place, task in enumerate(ledger.by_position())
    )
    return state._replace(tasks=tasks, rows=tuple(sorted(ledger.workers)))
