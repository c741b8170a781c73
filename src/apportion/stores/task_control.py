"""The control of tasks: the questions and the commands of operators, and the answers, as values."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from apportion.errors.brief import brief
from apportion.stores.lanes.values import AgreePartitions, MendLane, ResizePartitions
from apportion.stores.task_values import TaskState, Worker

Answer = TypeVar("Answer")
MOST_PURGED = 5_000


class Question(Generic[Answer]):
    """A question for `TaskStore.query`; the type parameter is the type of the answer."""

    __slots__ = ()


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task as an operator sees it; `due` is None for a task that waits for nothing.

    `deaths_of` are the sessions that ended while they ran the task. `reason` is that of its last failure or its end.
    """

    id: str
    queue: str
    name: str
    state: TaskState
    lane: int = 2
    position: int = 0
    attempt: int = 0
    failures: int = 0
    deaths: int = 0
    deaths_of: tuple[int, ...] = ()
    crashes: int = 0
    due: int | None = None
    expires_at: int | None = None
    session: int | None = None
    is_cancelling: bool = False
    reason: str = ""
    progress: float = 0.0
    note: str = ""
    enqueued: int = 0
    unique: str | None = None
    key: str | None = None
    arguments: bytes = b""
    codec: str = ""
    ended_at: int | None = None
    result: bytes | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Question[tuple[TaskRow, ...]]):
    """The tasks to list: by their ids (`tasks`), by a `prefix` of the id, or by queue, states, name and session.

    None means any value. A listing by ids returns all tasks with these ids. Each other listing returns at most `most`
    tasks: first the open tasks by position, then the ended tasks by the time of their end. To continue a listing, pass
    the position of the last open task as `after`. After an ended task, pass the time of its end, and its id, as
    `after_ended`: then the listing has only later ended tasks.
    """

    tasks: tuple[str, ...] | None = None
    prefix: str | None = None
    queue: str | None = None
    states: tuple[TaskState, ...] = ("ready", "delayed", "claimed")
    name: str | None = None
    session: int | None = None
    after: int = 0
    after_ended: tuple[int, str] | None = None
    most: int = 100


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTime(Question[int]):
    """The time of the store, in milliseconds since 1970."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """The numbers of one queue. `oldest_ready_ms` is the time for which its oldest ready task has been ready.

    `starts_left` is the number of claims that the rate allows now; without a rate, it has no meaning. `partitions` is
    the number of partitions of the keys.
    """

    queue: str
    ready: int = 0
    delayed: int = 0
    claimed: int = 0
    dead: int = 0
    cancelled: int = 0
    workers: int = 0
    oldest_ready_ms: int = 0
    is_paused: bool = False
    open_claims: int | None = None
    rate: int | None = None
    per_ms: int = 60_000
    starts_left: float = 0.0
    partitions: int | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The numbers of all queues, sorted by name, and the workers with a live session, sorted by session."""

    queues: tuple[QueueStats, ...]
    workers: tuple[Worker, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Survey(Question[Overview]):
    """The numbers of all queues, and the workers."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Cancel these tasks. A waiting task is cancelled at once; the worker of a running task gets a request to stop."""

    tasks: tuple[str, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """Make these dead and cancelled tasks ready again, with fresh budgets."""

    tasks: tuple[str, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Hasten:
    """Make these delayed tasks ready now."""

    tasks: tuple[str, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """Forget tasks of a queue in some states, at most `most` of each state; a claimed task stays.

    The number is bounded, because a long transaction would keep other processes from renewing their leases.
    """

    queue: str
    states: tuple[TaskState, ...]
    most: int = MOST_PURGED


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Stop the claims of a queue, or allow them again. Running tasks go on."""

    queue: str
    is_paused: bool = True


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetLimit:
    """Limit a queue over all workers: the most open claims, and the most claims per `per_ms`; None: no limit."""

    queue: str
    open_claims: int | None = None
    rate: int | None = None
    per_ms: int = 60_000


Command = Cancel | Redrive | Hasten | Purge | Pause | SetLimit | AgreePartitions | ResizePartitions | MendLane
