"""Task records: the rows of tasks, of their outcomes and of their queues, as plain data; without any rule of change."""

from dataclasses import dataclass
from typing import Literal

from apportion.stores.task_api import Claim, NewTask, Receipt, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """The row of an open task. `position` orders the ready tasks of a lane; `ready_at` is when it became ready.

    `deaths_of` are sessions that ended while they had a claim on it. A `is_replaced` task has given its unique name
    to a newer call, so its failure is its end.
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
    reason: str = ""
    progress: float = 0.0
    note: str = ""

    @property
    def state(self) -> TaskState:
        """The state of an open task."""
        if self.session is not None:
            return "claimed"
        return "ready" if self.due is None else "delayed"

    @property
    def is_suspect(self) -> bool:
        """Whether a process has ended while it ran this task."""
        return bool(self.deaths_of or self.crashes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The outcome of a task that is no longer open: its last row, its end, and when it is forgotten."""

    task: OpenTask
    state: Literal["done", "dead", "cancelled"]
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


def receipt_of(task: OpenTask) -> Receipt:
    """Return the receipt of the claim on a task; that of a task without a claim is nobody's."""
    return Receipt(task=task.new.id, attempt=task.attempt, session=task.session or 0)


def claim_of(task: OpenTask) -> Claim:
    """Return a claimed task as its worker gets it."""
    return Claim(
        receipt=receipt_of(task),
        queue=task.new.queue,
        lane=task.new.lane,
        name=task.new.name,
        codec=task.new.codec,
        arguments=task.new.arguments,
        failures=task.failures,
        deaths=len(task.deaths_of),
        crashes=task.crashes,
        enqueued=task.enqueued,
        trace=task.new.trace,
    )
