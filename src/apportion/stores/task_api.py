"""TaskStore: the foundation of the task queue: open tasks, the claims of sessions on them, and the end of each task.

A task is open until it is done, dead or cancelled. A worker claims tasks under the lease of its process's session. A
receipt names one claim: the task, the attempt and the session. The conformance suite (`apportion.sim.conformance`)
holds every store to these promises:

- An acknowledged task stays until it is settled. Enqueueing it twice with one id makes one task.
- A task has at most one claim. Attempts of a task only grow, so no receipt comes twice.
- A settlement counts only under the receipt of the open claim. Every other receipt is refused, and changes nothing.
- Another session takes a claim over only after the lease of the claimant has ended; then old work goes before new.
- A session whose lease has ended claims nothing.
- A task is not claimed before it is due, nor while its queue is paused, nor beyond the limits of its queue.

All times are milliseconds since 1970 on the clock of the store.
Refuses: to know any task function; a budget stands in the row of its task. To wait: a caller polls, and wake-ups are
hints.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from apportion.errors.brief import brief

TaskState = Literal["ready", "delayed", "claimed", "done", "dead", "cancelled", "missing"]
Fate = Literal["done", "retry", "dead", "released", "crashed", "cancelled"]
Duplicate = Literal["keep", "replace"]

LANES = range(4)  # the priorities, 0 first
MOST_DUE = 100  # delayed tasks that become ready in one turn, at most
MOST_CRASHES = 2  # so many child processes in a row condemn a task
KEPT_MS = 7 * 24 * 3_600 * 1_000  # how long a cancelled task, and the result of one that is done, can be read
_LONGEST_DEATH_DELAY_SECONDS = 60


def death_delay_ms(deaths: int) -> int:
    """Return how long a task waits after its second and each further death.

    >>> [death_delay_ms(deaths) for deaths in (2, 3, 4, 20)]
    [1000, 2000, 4000, 60000]
    """
    return 1_000 * min(1 << min(deaths - 2, 10), _LONGEST_DEATH_DELAY_SECONDS)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to enqueue: its call, its place, and its budgets.

    `id` is a UUID in hexadecimal, made by the caller, so that a repeat of a lost request is recognised. `arguments`
    are bytes in a `codec` that the worker knows. The task is due after `delay_ms`, or at the time `due_at`. It is
    cancelled if it is claimed after `expires_at`. `unique` names the task among the open tasks of its queue.
    `most_deaths` ended sessions condemn it (None: none do). `trace` is the context of a trace, as text.
    """

    id: str
    queue: str
    name: str
    arguments: bytes
    codec: str = "json"
    lane: int = 2
    delay_ms: int = 0
    due_at: int | None = None
    expires_at: int | None = None
    unique: str | None = None
    on_duplicate: Duplicate = "keep"
    most_deaths: int | None = 5
    trace: str = ""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One claim of one task; every verb about a claim names it, and stores compare all three parts."""

    task: str
    attempt: int
    session: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claimed task, as its worker gets it.

    `failures` are runs that raised; `deaths` are sessions that ended under it, one after another; `crashes` are child
    processes that ended under it. A task with a death or a crash is a suspect: it may end the next process too.
    """

    receipt: Receipt
    queue: str
    lane: int
    name: str
    codec: str
    arguments: bytes
    failures: int
    deaths: int
    crashes: int
    enqueued: int
    trace: str

    @property
    def is_suspect(self) -> bool:
        """Whether a process has ended while it ran this task."""
        return bool(self.deaths or self.crashes)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of one claim.

    done        the task is done; with a `result`, its outcome is kept
    retry       the run failed: the task is due again after `delay_ms`
    dead        the run failed for the last time, for the `reason`
    released    the run did not happen, or not fully; nothing counts, and the task is due again after `delay_ms`
    crashed     the child process of the run ended; the second time in a row, the task is dead
    cancelled   the task was cancelled, and its run has ended
    """

    receipt: Receipt
    fate: Fate
    reason: str = ""
    delay_ms: int = 0
    result: bytes | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The worker that makes a turn: its session, the queues it serves, and a description of its process.

    `former` are sessions that this process had before and outlived: they killed nobody and are struck from the deaths
    of all tasks.
    """

    session: int
    queues: tuple[str, ...]
    name: str = ""
    host: str = ""
    pid: int = 0
    concurrency: int = 1
    former: tuple[int, ...] = ()


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAnswer:
    """The answer to a turn: receipts that were refused, and claims, oldest work first."""

    refused: tuple[Receipt, ...] = ()
    claims: tuple[Claim, ...] = ()


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sign of life of a run: a part between 0 and 1, and a text."""

    receipt: Receipt
    progress: float
    text: str = ""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class BeatAnswer:
    """The answer to a beat: receipts of notes that were refused, and claims of the session that are to be cancelled."""

    refused: tuple[Receipt, ...] = ()
    cancels: tuple[Receipt, ...] = ()


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task as an operator sees it; `due` is None for a task that waits for nothing."""

    id: str
    queue: str
    name: str
    state: TaskState
    lane: int = 2
    position: int = 0
    attempt: int = 0
    failures: int = 0
    deaths: int = 0
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
    arguments: bytes = b""
    codec: str = ""
    ended_at: int | None = None
    result: bytes | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The tasks to list: those with these ids, or of a queue, in some states, with a name, under a session.

    None stands for all. A page has at most `most` tasks after a position. Ended tasks have no position: they come
    in the order of their end, without pages.
    """

    tasks: tuple[str, ...] | None = None
    queue: str | None = None
    states: tuple[TaskState, ...] = ("ready", "delayed", "claimed")
    name: str | None = None
    session: int | None = None
    after: int = 0
    most: int = 100


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """The numbers of one queue. `oldest_ready_ms` is how long the oldest ready task has been ready."""

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


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The numbers of all queues, sorted by name, and the workers with a live session, sorted by session."""

    queues: tuple[QueueStats, ...]
    workers: tuple[Worker, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Cancel these tasks: waiting ones at once; the workers of running ones are asked to stop."""

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
    """Forget the tasks of a queue in some states; a claimed task stays."""

    queue: str
    states: tuple[TaskState, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Stop the claims of a queue, or allow them again. Running tasks go on."""

    queue: str
    is_paused: bool = True


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetLimit:
    """SetLimit a queue over all workers: the most open claims, and the most claims per `per_ms`; None: no limit."""

    queue: str
    open_claims: int | None = None
    rate: int | None = None
    per_ms: int = 60_000


Command = Cancel | Redrive | Hasten | Purge | Pause | SetLimit


class TaskStore(Protocol):
    """One handle of the tasks in a store, used by one event loop. Every call is bounded in time.

    Every call may raise the errors of `CoordinationStore`, and compares the life of the store as its calls do.
    """

    async def enqueue(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        """Add tasks, all or none; return for each the id of the open task, and whether this call made it.

        On the disk before the caller hears. `OutcomeUnknown` when no reply came and no task has these ids: they may
        still come, or have been done already.
        """

    async def turn(self, worker: Worker, settlements: Sequence[Settlement] = (), *, want: int = 0) -> TurnAnswer:
        """Settle claims, and claim up to `want` tasks, in one commit.

        Work of ended sessions comes before new work, in up to half of the places. `LeaseLost` when tasks are wanted
        and the lease of the session has ended: then nothing was done.
        """

    async def beat(self, session: int, notes: Sequence[Note] = ()) -> BeatAnswer:
        """Write notes of runs under way, and learn which of the session's tasks are to be cancelled."""

    async def rows(self, listing: Listing) -> tuple[TaskRow, ...]:
        """Return tasks, the open ones by position."""

    async def overview(self) -> Overview:
        """Return the numbers of the queues, and the workers."""

    async def control(self, command: Command) -> int:
        """Do the command of an operator; return how many tasks (for `Pause` and `SetLimit`: queues) it changed."""

    async def now_ms(self) -> int:
        """Return the time of the store."""

    async def wait(self, seconds: float) -> None:
        """Return when there may be new work, or after some seconds. A hint: it may come without work, or not at all.

        While a call waits, this process takes part in ending the leases of dead sessions.
        """

    def begin(self) -> AbstractContextManager[Any]:
        """Open a connection of the database's own library for a handler, in a transaction that the block ends.

        The block commits, or rolls back if it raises. From any thread. `NotPromised` for a store without a database.
        """

    async def close(self) -> None:
        """Give the connections back. May be called twice."""
