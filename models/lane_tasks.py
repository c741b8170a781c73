"""Lane tasks: the acts of one worker at the tasks of its lane, by the shipped `TaskLedger`, and their broken promises.

A turn may land late, its reply may be lost, and a settlement may land after the claim was retaken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from apportion.errors import LeaseLost
from apportion.model.epoch import FencingToken
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.task_records import OpenTask, receipt_of
from apportion.stores.task_values import Fate, NewTask, Receipt, Settlement, Worker
from models.lane_parts import (
    LANE,
    QUEUE,
    LaneWorker,
    LateSettlement,
    Run,
    Shown,
    TaskContent,
    Turn,
    claim_under,
    key_of,
    noted,
)
from models.lane_worker import Desk, released
from models.parts import IDS, PARTITION

Late: TypeAlias = Turn | LateSettlement


class TaskMove(NamedTuple):
    """One outcome: the worker and the task store after it, messages that nobody waits for, and the fault it costs."""

    kind: str
    worker: LaneWorker
    store: TaskContent
    sent: tuple[Late, ...] = ()
    cost: str = ""
    broken: str = ""


def first_content(keys: int) -> TaskContent:
    """Return the store at the beginning: two tasks of a key, the first of them not committed yet."""
    names = ("k1", "k2", "m1")[: 1 + keys]
    empty = TaskContent((), (), tuple(range(1, len(IDS) + 1)))
    ledger = empty.ledger()
    new = [NewTask(id=each, queue=QUEUE, name="f", arguments=b"", key=key_of(each), lane=LANE) for each in names]
    ledger.enqueue([replace(each, most_deaths=None) for each in new], now=0)
    tasks = tuple(ledger.by_position())
    return empty._replace(tasks=tasks[1:], hidden=tasks[:1])


def task_moves(slot: int, worker: LaneWorker, store: TaskContent) -> Iterator[TaskMove]:
    """Yield all that a worker may do at the tasks, and all that time does to it there."""
    is_there = worker.life in store.alive
    if worker.turn is None:
        yield from _asks(slot, worker, store)
        yield from _reads_back(worker, store)
    elif worker.turn.claims is None:
        yield _is_answered(slot, worker, worker.turn, store)
        yield _forgets(worker, store, (worker.turn,))
    else:
        yield _takes(slot, worker, worker.turn.claims, store)
        yield _forgets(worker, store, ())
    for run in worker.runs:
        if run.fate is None:
            yield _ends(worker, run._replace(fate="done"), store)
            yield _ends(worker, run._replace(fate="retry"), store)._replace(cost="failures")
        else:
            yield from _settles(slot, worker, run, store)
    if not is_there:
        life = len(IDS) - store.sessions[slot]
        after = _lost(slot, worker, store)
        joined = after.worker._replace(life=life, is_late=False)
        yield after._replace(kind=f"joins the tasks as {life}", worker=joined, store=store.with_session(slot, life))
    elif worker.is_late:
        if worker.runs or worker.turn:
            yield _lost(slot, worker, store)
        yield TaskMove("is confirmed by the task store again", worker._replace(is_late=False), store)
        yield TaskMove("loses its lease at the tasks", worker, store.with_session(slot, -worker.life))
    else:
        late = worker._replace(is_late=True)
        yield TaskMove("is not confirmed by the task store in time", late, store, cost="task_cuts")


def lands(message: Late, store: TaskContent) -> tuple[TaskContent, str]:
    """Return the store after a message, and the broken promise."""
    if isinstance(message, Turn):
        after, _, broken = _turned(message, store)
        return after, broken
    return _settled(message.receipt, message.fate, store)


def commits(store: TaskContent) -> TaskContent:
    """Return the store after the commit of the transactions that had not committed."""
    return store._replace(tasks=tuple(sorted((*store.hidden, *store.tasks), key=lambda task: task.position)), hidden=())


def _asks(slot: int, worker: LaneWorker, store: TaskContent) -> Iterator[TaskMove]:
    lanes = Desk(slot, worker).lanes.owned()
    if lanes and not worker.is_late:
        turn = Turn(worker.life, _seen(lanes[0].token))
        yield TaskMove("asks for a task", worker._replace(turn=turn), store)


def _seen(token: FencingToken) -> Shown:
    return Shown(token.epoch, token.holder)


def _is_answered(slot: int, worker: LaneWorker, turn: Turn, store: TaskContent) -> TaskMove:
    after, claims, broken = _turned(turn, store)
    is_fenced = claims is not None and after.lane is not None and after.lane[0] != turn.shown
    if is_fenced and any(_seen(each.token) == turn.shown for each in Desk(slot, worker).lanes.owned()):
        broken = "OwnerIsServed: the store refuses a lane that is ours"
    answered = None if claims is None or not claims else turn._replace(claims=claims)
    names = [each.task for each in claims or ()]
    said = "has its turn refused" if claims is None else f"claims {names}" if names else "claims nothing"
    return TaskMove(said, worker._replace(turn=answered), after, broken=broken)


def _forgets(worker: LaneWorker, store: TaskContent, sent: tuple[Late, ...]) -> TaskMove:
    return TaskMove("gets no reply to its turn", worker._replace(turn=None), store, sent, cost="losses")


def _takes(slot: int, worker: LaneWorker, claims: Sequence[Receipt], store: TaskContent) -> TaskMove:
    """It holds the lane for its claims, and runs them; the others go back."""
    desk = Desk(slot, worker)
    held, moved = desk.lanes.held([claim_under(each) for each in claims])
    runs = [Run(each.receipt) for each in held] + [Run(each.receipt, each.fate, is_excused=True) for each in moved]
    after = desk.left(worker._replace(turn=None, runs=tuple(sorted((*worker.runs, *runs), key=repr))))
    said = f"runs {[each.receipt.task for each in held]}" + (", the lane has moved" if moved else "")
    return TaskMove(said, after, store)


def _reads_back(worker: LaneWorker, store: TaskContent) -> Iterator[TaskMove]:
    """It gives back the claims of its session that it does not know."""
    known = {run.receipt for run in worker.runs}
    mine = [receipt_of(task) for task in store.tasks if task.session == worker.life]
    unknown = [each for each in mine if each not in known]
    if unknown and worker.life in store.alive and not worker.is_late:
        ledger = store.ledger()
        back = [Settlement(receipt=each, fate="released") for each in unknown]
        ledger.turn(Worker(session=worker.life, queues=(QUEUE,)), back, alive=store.alive, now=0)
        yield TaskMove(f"gives back {[each.task for each in unknown]}", worker, _after(store, ledger.by_position()))


def _ends(worker: LaneWorker, run: Run, store: TaskContent) -> TaskMove:
    runs = tuple(run if each.receipt == run.receipt else each for each in worker.runs)
    return TaskMove(f"ends {run.receipt.task}: {run.fate}", worker._replace(runs=runs), store)


def _settles(slot: int, worker: LaneWorker, run: Run, store: TaskContent) -> Iterator[TaskMove]:
    """Its settlement lands, and it hears so; or it does not, and tells it again."""
    assert run.fate is not None
    after, broken = _settled(run.receipt, run.fate, store)
    runs = tuple(each for each in worker.runs if each.receipt != run.receipt)
    said = f"settles {run.receipt.task}: {run.fate}"
    heard = released(slot, worker, [run.receipt])._replace(runs=runs)
    yield TaskMove(said, heard, after, broken=broken)
    yield TaskMove(f"{said}, and hears nothing", worker, after, cost="losses", broken=broken)


def _lost(slot: int, worker: LaneWorker, store: TaskContent) -> TaskMove:
    """It cancels its runs, for their session is over or was not renewed in time; settlements may land yet."""
    sent: list[Late] = [LateSettlement(run.receipt, run.fate) for run in worker.runs if run.fate is not None]
    if worker.turn is not None and worker.turn.claims is None and worker.turn.session in store.alive:
        sent.append(worker.turn)
    after = released(slot, worker, [run.receipt for run in worker.runs])
    return TaskMove("cancels its runs", after._replace(runs=(), turn=None), store, tuple(sent))


def _turned(turn: Turn, store: TaskContent) -> tuple[TaskContent, tuple[Receipt, ...] | None, str]:
    """Return the store after a turn, the claims (None: the session is over), and the broken promise."""
    ledger = store.ledger()
    lane = OwnedLane(queue=QUEUE, partition=PARTITION, token=turn.shown.token)
    asked = Worker(session=turn.session, queues=(QUEUE,), lanes=(lane,))
    try:
        claims = ledger.turn(asked, (), want=1, alive=store.alive, now=0).claims
    except LeaseLost:
        return store, None, ""
    after = _after(store, ledger.by_position())._replace(
        lane=noted(ledger.lanes[QUEUE, LANE]), rows=tuple(sorted(ledger.workers))
    )
    return after, tuple(each.receipt for each in claims), _breach(store, after, [each.receipt for each in claims])


def _settled(receipt: Receipt, fate: Fate, store: TaskContent) -> tuple[TaskContent, str]:
    ledger = store.ledger()
    settlement = Settlement(receipt=receipt, fate=fate)
    refused = ledger.turn(Worker(session=receipt.session, queues=(QUEUE,)), [settlement], alive=store.alive, now=0)
    after = _after(store, ledger.by_position())
    if refused.refused:
        return after, ""
    held = [task for task in store.tasks if receipt_of(task) == receipt and task.session is not None]
    broken = "" if held else "SettledByReceipt: a receipt counts though its claim is not open"
    if fate == "done":
        broken = broken or ("CompletedOnce: a task is done twice" if receipt.task in store.done else "")
        after = after._replace(done=tuple(sorted({*store.done, receipt.task})))
    return after, broken


def _breach(before: TaskContent, after: TaskContent, claims: Sequence[Receipt]) -> str:
    """Return which promise the claims of a turn break."""
    old = {task.id: task for task in before.tasks}
    if before.lane is not None and (after.lane is None or after.lane[0].epoch < before.lane[0].epoch):
        return "LaneTokensGrow: a lane takes an older token"
    for receipt in claims:
        of_key = [task for task in after.tasks if task.new.key == key_of(receipt.task)]
        if sum(task.session is not None for task in of_key) > 1:
            return "OneOfAKey: two tasks of a key are claimed at once"
        if of_key[0].id != receipt.task and old[receipt.task].session is None:  # a retaken task had begun before
            return "KeyInOrder: a task is claimed before an earlier one of its key"
        if old[receipt.task].session in before.alive:
            return "RetakenOnlyAfterTheEnd: a claim of a live session is taken"
        if old[receipt.task].attempt >= receipt.attempt:
            return "AttemptsGrow: a receipt comes a second time"
    return ""


def _after(store: TaskContent, tasks: Sequence[OpenTask]) -> TaskContent:
    """Return the store with other open tasks; a delayed task may become due at any moment."""
    return store._replace(tasks=tuple(replace(task, due=None, ready_at=0) for task in tasks))
