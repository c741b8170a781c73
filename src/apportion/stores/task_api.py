"""TaskStore: the foundation of the task queue: open tasks, the claims of sessions on them, and the end of each task.

A task is open until it is done, dead or cancelled. A worker claims tasks under the lease of its process's session. A
receipt names one claim: the task, the attempt and the session. The conformance suite (`apportion.sim.conformance`)
holds every store to these promises:

- An acknowledged task stays until it is settled. Enqueueing it twice with one id makes one task.
- A task has at most one claim. Attempts of a task only grow, so no receipt comes twice.
- A settlement counts only under the receipt of the open claim. Every other receipt is refused, and changes nothing.
- Another session takes a claim over only after the lease of the claimant has ended; then old work goes before new.
- A session claims nothing once its lease has ended.
- An effect under a name is begun by one open claim at a time, and is not begun again once it is done.
- A task is not claimed before it is due, nor while its queue is paused, nor beyond the limits of its queue.

All times are milliseconds since 1970 on the clock of the store.
Refuses: to know any task function; a budget stands in the row of its task. To wait: a caller polls, and wake-ups are
hints.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from apportion.errors.brief import brief
from apportion.stores.schedules.api import ScheduleStore
from apportion.stores.task_control import Answer, Command, Question
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import BeatAnswer, NewTask, Note, Receipt, Settlement, TurnAnswer, Worker

SqlValue: TypeAlias = bytes | str | int | float | None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatement:
    """A statement with values named as in `:name`. It returns rows, even if they are of no interest."""

    sql: str
    values: Mapping[str, SqlValue]


Insertion: TypeAlias = Generator[TaskStatement, list[Any], tuple[tuple[str, bool], ...]]
"""A generator that yields statements, is sent the rows of each, and returns the answers of `TaskStore.enqueue`."""


class TaskTransactions(Protocol):
    """The tasks of one database, for statements on connections of its own libraries.

    The statements are pure, and count under the same rules as the calls of `TaskStore`, when the caller commits. Each
    call is good from any thread. `NotPromised` for a store without a database.
    """

    dialect: str

    def begin(self) -> AbstractContextManager[Any]:
        """Open a connection of the database's own library for a handler, in a transaction that the block ends.

        The block commits, or rolls back if it raises.
        """

    def completion(self, receipt: Receipt) -> TaskStatement:
        """Return the statement that completes a claim. It returns a row if the receipt is that of the open claim."""

    def outcome(self, receipt: Receipt, result: bytes) -> TaskStatement:
        """Return the statement that keeps the result of a claim, in the transaction that completes it afterwards."""

    def place(self) -> TaskStatement:
        """Return the statement that tells the database of a connection."""

    def require_here(self, rows: Sequence[Any]) -> None:
        """Raise `InvalidInput` unless the rows of `place` are those of the database of the tasks."""

    def insertion(self, tasks: Sequence[NewTask]) -> Insertion:
        """Return the statements that enqueue tasks, by the rules of `TaskStore.enqueue`."""


class TaskStore(Protocol):
    """One handle of the tasks in a store, used by one event loop. Every call is bounded in time.

    Every call may raise the errors of `CoordinationStore`, and compares the life of the store as its calls do.
    `transactions` are the tasks as statements for a transaction of the caller, and `schedules` enqueue tasks in time.
    """

    transactions: TaskTransactions
    schedules: ScheduleStore
    is_prompt: bool = False
    """Whether `enqueue` needs no task of the event loop in its first step: it ends there, or has sent its request."""

    async def enqueue(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        """Add tasks, all or none; return for each the id of the open task, and whether this call made it.

        The tasks are on the disk before the call returns. `OutcomeUnknown` when no reply came and no task has these
        ids: the tasks may still arrive, or may be done already.
        """

    async def turn(self, worker: Worker, settlements: Sequence[Settlement] = (), *, want: int = 0) -> TurnAnswer:
        """Settle claims, and claim up to `want` tasks, in one commit.

        Work of ended sessions comes before new work, in up to half of the places. `LeaseLost` when tasks are wanted
        and the lease of the session has ended: then nothing was done.
        """

    async def beat(self, session: int, notes: Sequence[Note] = ()) -> BeatAnswer:
        """Write notes of runs under way, and learn which of the session's tasks are to be cancelled."""

    async def once(self, step: OnceStep) -> OnceState:
        """Make a step at an entry of the idempotency log. It is on the disk before the call returns.

        A step may be sent again after its reply was lost. An entry is kept for 7 days, and as long as its task is open.
        """

    async def query(self, question: Question[Answer]) -> Answer:
        """Answer a question of `task_control`; one state of the store answers it.

        A `Listing` also takes note of the life of the store, so that a caller can go on after `StoreWentBack`.
        """

    async def control(self, command: Command) -> int:
        """Do the command of an operator; return how many tasks (for `Pause` and `SetLimit`: queues) it changed."""

    async def wait(self, seconds: float) -> None:
        """Return when there may be new work, or after some seconds. A hint: it may come without work, or not at all.

        From the first claim or wait of a handle to its close, this process takes part in ending the leases of dead
        sessions. So a worker that is never idle, and never waits, does so too.
        """

    async def close(self) -> None:
        """Give the connections back. May be called twice."""
