"""Task ledger: the rules of a task store as plain data, without I/O.

The memory store keeps a task ledger, and tests compare other stores with one. A task ledger takes checked values and
times from its caller. It answers at once. The code is deliberately simple: it is the specification for the statements
on real engines, one call at a time.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.errors import LeaseLost
from apportion.stores.keys.ledger import are_first, is_within, rank, shown
from apportion.stores.keys.partitions import check_counted, counted, placed
from apportion.stores.lanes.tokens import LaneRecord
from apportion.stores.task_once import OnceEntry, OnceState, OnceStep, once
from apportion.stores.task_records import (
    EndedTask,
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
from apportion.stores.task_values import (
    KEPT_MS,
    LANES,
    MOST_DUE,
    MOST_EXPIRED,
    BeatAnswer,
    NewTask,
    Note,
    Receipt,
    Settlement,
    TurnAnswer,
    Worker,
)

_SHARE_OF_THE_OLDEST = 8  # of this many claims in a turn, one takes the oldest head of all lanes
_MANY_DEATHS = 2  # a session with a suspect claims no task that has this many deaths


@dataclass(slots=True, kw_only=True)
class TaskLedger:
    """All tasks of one store. Callers pass the time `now`, and the live leases as `alive`.

    >>> ledger = TaskLedger()
    >>> ledger.enqueue([NewTask(id="t", queue="q", name="f", arguments=b"")], now=0)
    (('t', True),)
    >>> [claim] = ledger.turn(Worker(session=7, queues=("q",)), (), want=5, alive={7}, now=1).claims
    >>> claim.receipt
    Receipt(task='t', attempt=1, session=7)
    >>> done = Settlement(receipt=claim.receipt, fate="done")
    >>> ledger.turn(Worker(session=7, queues=("q",)), [done], alive={7}, now=2).refused
    ()
    >>> ledger.open
    {}
    """

    open: dict[str, OpenTask] = field(default_factory=dict)
    ended: dict[str, EndedTask] = field(default_factory=dict)
    workers: dict[int, Worker] = field(default_factory=dict)
    controls: dict[str, QueueControl] = field(default_factory=dict)
    lanes: dict[tuple[str, int], LaneRecord] = field(default_factory=dict)
    log: dict[tuple[str, str], OnceEntry] = field(default_factory=dict)
    last_position: int = 0

    def enqueue(self, tasks: Sequence[NewTask], *, now: int) -> tuple[tuple[str, bool], ...]:
        """See `TaskStore.enqueue`."""
        for queue, _ in counted(tasks):
            check_counted(tasks, queue, _partitions(self.controls, queue))
        return tuple(self._enqueued(each, now) for each in tasks)

    def turn(
        self, worker: Worker, settlements: Sequence[Settlement], *, want: int = 0, alive: Collection[int], now: int
    ) -> TurnAnswer:
        """See `TaskStore.turn`."""
        if want and worker.session not in alive:
            raise LeaseLost(worker.session)
        for lived in worker.former:
            self._outlived(lived, now)
        refused = tuple(each.receipt for each in settlements if not self._settled(each, now))
        if not want:
            return TurnAnswer(refused=refused)
        self.workers[worker.session] = replace(worker, former=(), lanes=())
        worker, fenced = shown(self.lanes, worker)
        self._become_due(worker.queues, now)
        taken = [*self._retaken(worker, (want + 1) // 2, alive, now)]
        retaken = len(taken)
        self._forget(alive, now)
        is_cut = _Claiming(self, self.controls, worker, now).claim(want - len(taken), taken)
        claims = (claim_of(self.open[each], now, is_retaken=place < retaken) for place, each in enumerate(taken))
        return TurnAnswer(refused=refused, claims=tuple(claims), fenced=fenced, is_cut=is_cut)

    def beat(self, session: int, notes: Sequence[Note]) -> BeatAnswer:
        """See `TaskStore.beat`."""
        refused = []
        for note in notes:
            task = self._held(note.receipt)
            if task is None:
                refused.append(note.receipt)
            else:
                self.open[task.id] = replace(task, progress=note.progress, note=note.text)
        held = [task for task in self.by_position() if task.session == session and task.is_cancelling]
        return BeatAnswer(refused=tuple(refused), cancels=tuple(map(receipt_of, held)))

    def once(self, step: OnceStep, *, alive: Collection[int], now: int) -> OnceState:
        """See `TaskStore.once`."""

        def _is_open(receipt: Receipt) -> bool:
            return receipt.session in alive and self._held(receipt) is not None

        for each in [each for each, entry in self.log.items() if entry.at + KEPT_MS <= now]:
            if self.log[each].receipt.task not in self.open:
                del self.log[each]
        place = step.scope, step.key
        state, entry = once(self.log.get(place), step, is_open=_is_open, now=now)
        if entry is not None:
            self.log[place] = entry
        return state

    def _enqueued(self, new: NewTask, now: int) -> tuple[str, bool]:
        if new.id in self.open or new.id in self.ended:
            return new.id, False
        named = next((task for task in self.open.values() if _shares_name(task, new)), None)
        if named is not None and new.on_duplicate == "keep":
            return named.id, False
        if named is not None and named.session is None:
            self.open[named.id] = self._placed(replace(new, id=named.id), now, attempt=named.attempt)
            return named.id, False
        if named is not None:
            self.open[named.id] = replace(named, is_replaced=True)
        self.open[new.id] = self._placed(new, now)
        return new.id, True

    def _placed(self, new: NewTask, now: int, *, attempt: int = 0) -> OpenTask:
        due = now + new.delay_ms if new.due_at is None else new.due_at
        return OpenTask(
            new=new,
            position=self._next_position(),
            enqueued=now,
            ready_at=max(due, now),
            due=due if due > now else None,
            attempt=attempt,
        )

    def _next_position(self) -> int:
        self.last_position += 1
        return self.last_position

    def _held(self, receipt: Receipt) -> OpenTask | None:
        """Return the task with an open claim under this receipt, None if there is none."""
        task = self.open.get(receipt.task)
        return task if task is not None and receipt_of(task) == receipt else None

    def _settled(self, settlement: Settlement, now: int) -> bool:
        task = self._held(settlement.receipt)
        if task is not None:
            self._free(settled(task, settlement), now, settlement.result)
        return task is not None

    def _free(self, freed: Freed, now: int, result: bytes | None = None) -> None:
        if freed.state is not None:
            self.end(freed.task, freed.state, now, result if freed.state == "done" else None)
        else:
            self.wait(freed.task, freed.delay_ms or 0, now)

    def wait(self, task: OpenTask, delay_ms: int, now: int) -> None:
        """Put an ended task, or one without a claim, at the end of its lane; with a delay, among the delayed tasks.

        A keyed task that is open, or blocks its key, keeps its place in the order of its key.
        """
        self.ended.pop(task.id, None)
        due, is_placed = now + delay_ms, task.new.key is not None and task.id in self.open
        task = task if task.id in self.open else placed(task, _partitions(self.controls, task.queue))
        position = task.position if is_placed else self._next_position()
        self.open[task.id] = replace(
            task, position=position, due=due if delay_ms > 0 else None, ready_at=due, is_blocking=False
        )

    def redriven(self, ended: EndedTask, now: int) -> bool:
        """Make a dead or cancelled task ready again with fresh budgets; False if its unique name is taken."""
        new = ended.task.new
        if any(_shares_name(task, new) for task in self.open.values()):
            return False
        task = replace(ended.task, failures=0, crashes=0, deaths_of=(), is_cancelling=False, is_replaced=False)
        self.wait(replace(task, session=None), 0, now)
        return True

    def end(self, task: OpenTask, state: EndState, now: int, result: bytes | None = None) -> None:
        """Close an open task; keep its outcome, unless it is done without a result.

        A dead task that blocks its key also stays among the open tasks.
        """
        task = replace(task, is_blocking=state == "dead" and task.new.on_dead == "block" and task.new.key is not None)
        del self.open[task.id]
        if state != "done" or result is not None:
            self.ended[task.id] = EndedTask(task=replace(task, is_blocking=False), state=state, at=now, result=result)
        if task.is_blocking:
            self.open[task.id] = replace(task, session=None)

    def _outlived(self, session: int, now: int) -> None:
        """Remove a session from the deaths of tasks, because its process is alive.

        A task that is dead because this session ended becomes ready again, unless another open task has its unique
        name.
        """
        for task in self.open.values():
            if session in task.deaths_of:
                self.open[task.id] = replace(task, deaths_of=without(task.deaths_of, session))
        ended_by_deaths = [each for each in self.ended.values() if each.state == "dead" and is_condemned(each.task)]
        condemned = [each for each in ended_by_deaths if session in each.task.deaths_of]
        for ended in sorted(condemned, key=lambda each: (each.at, each.task.id)):
            task = replace(ended.task, deaths_of=without(ended.task.deaths_of, session), reason="")
            if any(_shares_name(each, task.new) for each in self.open.values()):
                self.ended[task.id] = replace(ended, task=task)
            else:
                self.wait(task, 0, now)

    def _become_due(self, queues: Collection[str], now: int) -> None:
        waiting = [task for task in self.by_position() if task.state == "delayed" and task.new.queue in queues]
        due = sorted((task.due or 0, task.position, task.id) for task in waiting if (task.due or 0) <= now)
        for since, _, each in due[:MOST_DUE]:
            task = self.open[each]
            position = self._next_position() if task.new.key is None else task.position
            self.open[each] = replace(task, due=None, position=position, ready_at=since)

    def _retaken(self, worker: Worker, most: int, alive: Collection[int], now: int) -> Iterator[str]:
        """Take over tasks of ended sessions, oldest first. After its second and each further death, a task waits."""
        for task in [each for each in self.by_position() if each.session is not None and each.session not in alive]:
            if most <= 0 or not self.is_served(task, worker):
                continue
            most -= 1
            freed = orphaned(task)
            if freed.state is None and freed.delay_ms is None:
                self.open[task.id] = freed.task
                yield self.take(freed.task, worker.session)
            else:
                self._free(freed, now)

    def _forget(self, alive: Collection[int], now: int) -> None:
        """Forget ended workers without a claim, and old outcomes; a dead task stays until an operator acts."""
        for ended in [each for each in self.ended.values() if each.state != "dead" and each.at + KEPT_MS <= now]:
            del self.ended[ended.task.id]
        held = {task.session for task in self.open.values()}
        for session in [each for each in self.workers if each not in alive and each not in held]:
            del self.workers[session]

    def take(self, task: OpenTask, session: int) -> str:
        """Give a task to a session, as its next attempt; return its id."""
        self.open[task.id] = replace(task, session=session, attempt=task.attempt + 1, progress=0.0, note="")
        return task.id

    def is_served(self, task: OpenTask, worker: Worker) -> bool:
        """Whether a worker may claim from the queue and the lane of a task now."""
        queue = task.queue
        is_taken = queue in worker.queues and not self.controls.get(queue, QueueControl()).is_paused
        return is_taken and is_within(task, worker)

    def by_position(self) -> list[OpenTask]:
        """Return all open tasks, oldest first."""
        return sorted(self.open.values(), key=lambda task: task.position)


def _partitions(controls: Mapping[str, QueueControl], queue: str) -> int | None:
    return controls.get(queue, QueueControl()).partitions


def _shares_name(task: OpenTask, new: NewTask) -> bool:
    is_named = new.unique is not None and not (task.is_replaced or task.is_blocking)
    return is_named and (task.queue, task.new.unique) == (new.queue, new.unique)


@dataclass(frozen=True, slots=True)
class _Claiming:
    """The new claims of one turn, within the limits of the queues."""

    ledger: TaskLedger
    controls: Mapping[str, QueueControl]
    worker: Worker
    now: int

    def claim(self, most: int, taken: list[str]) -> bool:
        """Claim ready tasks of the worker's queues, lane by lane. Each eighth claim takes the oldest head of all.

        Return True if the claims end at an expired task.
        """
        expired = 0
        while most > 0 and (task := self._next(len(taken))) is not None:
            if task.new.expires_at is not None and task.new.expires_at <= self.now:
                if expired == MOST_EXPIRED:
                    return True
                expired += 1
                self.ledger.end(replace(task, reason="expired"), "cancelled", self.now)
                continue
            self._spend(task.queue)
            taken.append(self.ledger.take(task, self.worker.session))
            most -= 1
        return False

    def _next(self, place: int) -> OpenTask | None:
        opened = self.ledger.by_position()
        is_clear = not any(task.session == self.worker.session and task.is_suspect for task in opened)
        first = are_first(opened)
        ready = [
            task
            for task in opened
            if task.state == "ready"
            and task.id in first
            and self.ledger.is_served(task, self.worker)
            and self._is_allowed(task.queue)
            and (is_clear or len(task.deaths_of) < _MANY_DEATHS)
        ]
        heads = [next((task for task in ready if rank(task.new.lane) == lane), None) for lane in LANES]
        there = [task for task in heads if task is not None]
        if (place + 1) % _SHARE_OF_THE_OLDEST == 0:
            return min(there, key=lambda task: task.ready_at, default=None)
        return there[0] if there else None

    def _is_allowed(self, queue: str) -> bool:
        control = self.controls.get(queue)
        if control is None:
            return True
        if control.open_claims is not None:
            opened = self.ledger.by_position()
            if sum(task.queue == queue and task.session is not None for task in opened) >= control.open_claims:
                return False
        return control.rate is None or tokens(control, self.now) >= 1.0

    def _spend(self, queue: str) -> None:
        control = self.controls.get(queue)
        if control is not None and control.rate is not None:
            control.tokens, control.tokens_at = tokens(control, self.now) - 1.0, self.now
