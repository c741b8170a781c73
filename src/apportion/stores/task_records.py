"""Task records: the rows of tasks, outcomes and queues as plain data, and the change of a row at the end of a claim."""

from dataclasses import dataclass, replace
from typing import Literal

from apportion.stores.task_values import MOST_CRASHES, Claim, NewTask, Receipt, Settlement, TaskState, death_delay_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """The row of an open task. `position` orders the ready tasks of a lane. The task is ready from `ready_at` on.

    `deaths_of` are sessions that ended while they had a claim on the task. An `is_replaced` task has lost its unique
    name to a newer task, so it ends at its next failure or death. An `is_blocking` task is dead, and blocks the tasks
    of its key.
    """

    new: NewTask
    position: int
    enqueued: int
    ready_at: int
    due: int | None
    attempt: int = 0
    session: int | None = None
    failures: int = 0
    crashes: int = 0
    deaths_of: tuple[int, ...] = ()
    is_cancelling: bool = False
    is_replaced: bool = False
    is_blocking: bool = False
    reason: str = ""
    progress: float = 0.0
    note: str = ""

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.new.id

    @property
    def queue(self) -> str:
        """The queue of the task."""
        return self.new.queue

    @property
    def state(self) -> TaskState:
        """The state of an open task."""
        if self.is_blocking:
            return "dead"
        if self.session is not None:
            return "claimed"
        return "ready" if self.due is None else "delayed"

    @property
    def is_suspect(self) -> bool:
        """Whether a process has ended while it ran this task."""
        return bool(self.deaths_of or self.crashes)


EndState = Literal["done", "dead", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """A task after the end of its claim. It ended in `state`, or waits for `delay_ms`, or is retaken (both None)."""

    task: OpenTask
    state: EndState | None = None
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTask:
    """The outcome of a task: its last row, its final state, the time of its end, and its result."""

    task: OpenTask
    state: EndState
    at: int
    result: bytes | None = None


@dataclass(slots=True, kw_only=True)
class QueueControl:
    """The limits of a queue. `tokens` are the claims that its rate allows now, counted at `tokens_at`."""

    is_paused: bool = False
    open_claims: int | None = None
    rate: int | None = None
    per_ms: int = 60_000
    tokens: float = 0.0
    tokens_at: int = 0
    partitions: int | None = None


def receipt_of(task: OpenTask) -> Receipt:
    """Return the receipt of the claim on a task; without a claim, it names session 0, which does not exist."""
    return Receipt(task=task.id, attempt=task.attempt, session=task.session or 0)


def claim_of(task: OpenTask, now: int, *, is_retaken: bool = False) -> Claim:
    """Return the claim that a worker gets for a task that it claimed `now`."""
    return Claim(
        receipt=receipt_of(task),
        queue=task.queue,
        lane=task.new.lane,
        name=task.new.name,
        codec=task.new.codec,
        arguments=task.new.arguments,
        failures=task.failures,
        deaths=len(task.deaths_of),
        crashes=task.crashes,
        enqueued=task.enqueued,
        trace=task.new.trace,
        slot=task.new.slot,
        key=task.new.key,
        waited_ms=max(0, now - task.ready_at),
        is_retaken=is_retaken,
    )


def settled(task: OpenTask, settlement: Settlement) -> Freed:
    """Return a claimed task after a settlement of its claim."""
    fate, free = settlement.fate, replace(task, session=None, reason=settlement.reason)
    if fate == "done":
        return Freed(task=free, state="done")
    if fate == "dead":
        return Freed(task=replace(free, failures=free.failures + 1), state="dead")
    if fate == "cancelled" or free.is_cancelling or (free.is_replaced and (fate != "released" or settlement.has_run)):
        return Freed(task=free, state="cancelled")
    if fate == "retry" or settlement.has_run:
        free = replace(free, failures=free.failures + int(fate == "retry"), crashes=0, deaths_of=())
    elif fate == "crashed":
        free = replace(free, crashes=free.crashes + 1)
        if free.crashes >= MOST_CRASHES:
            return Freed(task=free, state="dead")
    return Freed(task=free, delay_ms=settlement.delay_ms)


def orphaned(task: OpenTask) -> Freed:
    """Return a claimed task after the end of its session. After a first death, it is retaken at once; else it waits."""
    deaths_of = (*task.deaths_of, task.session or 0)
    free = replace(task, session=None, deaths_of=deaths_of)
    if task.is_cancelling or task.is_replaced:
        return Freed(task=free, state="cancelled")
    if task.new.most_deaths is not None and len(deaths_of) >= task.new.most_deaths:
        return Freed(task=replace(free, reason=f"{len(deaths_of)} sessions ended while they ran it"), state="dead")
    return Freed(task=free, delay_ms=death_delay_ms(len(deaths_of)) if task.deaths_of else None)


def is_condemned(task: OpenTask) -> bool:
    """Whether a dead task has reached its limit of deaths. A task that a failure or a crash ended has fewer deaths."""
    return task.new.most_deaths is not None and len(task.deaths_of) >= task.new.most_deaths


def without(sessions: tuple[int, ...], lived: int) -> tuple[int, ...]:
    """Return sessions without one of them."""
    return tuple(each for each in sessions if each != lived)


def tokens(control: QueueControl, now: int) -> float:
    """Return the number of claims that the rate of a queue allows now, at most that of one period.

    After the clock was set back by more than a period, the count begins again.
    """
    rate = control.rate or 0
    if control.tokens_at - now > control.per_ms:
        return float(rate)
    return min(float(rate), control.tokens + rate * max(0, now - control.tokens_at) / control.per_ms)
