"""TaskStore: the foundation of the task queue: open tasks, the claims of sessions on them, and the end of each task.

A task is open until it is done, dead or cancelled. A worker claims tasks under the lease of its process's session. A
receipt names one claim: the task, the attempt and the session. The conformance suite (`apportion.sim.conformance`)
checks that every store keeps these promises:

- An acknowledged task stays until it is settled. Enqueueing it twice with one id makes one task.
- A task has at most one claim. Each claim raises the number of the attempt, so no two claims have the same receipt.
- A settlement counts only under the receipt of the open claim. Every other receipt is refused, and changes nothing.
- Another session takes over a claim only after the lease of the claimant has ended. A turn takes over claims before it
  claims waiting tasks.
- A session claims nothing once its lease has ended.
- Of all open claims, only one at a time may do the effect of an entry in the idempotency log. A done effect is not
  begun again.
- No session claims a task before it is due, while its queue is paused, or beyond the limits of its queue.

All times are milliseconds since 1970 on the clock of the store.
Refuses: to know any task function. So the row of each task contains the budget of the task. Does not promise to report
new work: a caller polls, and `wait` gives hints.
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
    """A statement with values named as in `:name`. It always returns rows, even if the caller needs none."""

    sql: str
    values: Mapping[str, SqlValue]


Insertion: TypeAlias = Generator[TaskStatement, list[Any], tuple[tuple[str, bool], ...]]
"""A generator that yields statements, is sent the rows of each, and returns the answers of `TaskStore.enqueue`."""


class TaskTransactions(Protocol):
    """The tasks of one database, as statements for a connection of the caller.

    The statements follow the rules of `TaskStore`, and take effect when the caller commits. Each method may be called
    from any thread. `NotPromised` for a store without a database.
    """

    dialect: str

    def begin(self) -> AbstractContextManager[Any]:
        """Open a connection of the database's own library, and begin a transaction.

        The block commits the transaction at its end, or rolls it back if it raises.
        """

    def completion(self, receipt: Receipt) -> TaskStatement:
        """Return the statement that completes a claim. It returns a row if the receipt is that of the open claim."""

    def outcome(self, receipt: Receipt, result: bytes) -> TaskStatement:
        """Return the statement that keeps the result of a claim. Run it before `completion`, in one transaction."""

    def place(self) -> TaskStatement:
        """Return the statement that identifies the database of a connection."""

    def require_here(self, rows: Sequence[Any]) -> None:
        """Raise `InvalidInput` unless the rows of `place` identify the database of the tasks."""

    def insertion(self, tasks: Sequence[NewTask]) -> Insertion:
        """Return the statements that enqueue tasks, by the rules of `TaskStore.enqueue`."""


class TaskStore(Protocol):
    """One handle of the tasks in a store, used by one event loop. Every call is bounded in time.

    Every call may raise the errors of `CoordinationStore`, and checks the incarnation of the store as those calls do.
    `transactions` gives statements for a transaction of the caller. `schedules` keeps the schedules of the queues.
    """

    transactions: TaskTransactions
    schedules: ScheduleStore
    is_prompt: bool = False
    """Whether `enqueue` ends, or sends its request, before it first waits.

    If so, a caller can run this first step without an `asyncio.Task`.
    """

    async def enqueue(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        """Add all tasks or none. Return for each task the id of the open task, and whether this call made it.

        The tasks are on the disk before the call returns. `OutcomeUnknown` when no reply came and no task has these
        ids: the tasks may still arrive, or may be done already.
        """

    async def turn(self, worker: Worker, settlements: Sequence[Settlement] = (), *, want: int = 0) -> TurnAnswer:
        """Settle claims, and claim up to `want` tasks, in one commit.

        Up to half of the claims are first taken over from ended sessions. `LeaseLost` when `want` is above 0 and the
        lease of the session has ended: then nothing was done.
        """

    async def beat(self, session: int, notes: Sequence[Note] = ()) -> BeatAnswer:
        """Write the notes of running tasks; return the refused notes, and the claims to cancel in this session."""

    async def once(self, step: OnceStep) -> OnceState:
        """Begin or end an entry of the idempotency log. The change is on the disk before the call returns.

        After a lost reply, a caller may repeat the step. An entry is kept for 7 days, and as long as its task is open.
        """

    async def query(self, question: Question[Answer]) -> Answer:
        """Answer a question of `task_control` from one state of the store.

        A `Listing` also accepts a new incarnation of the store. So a caller can continue after `StoreWentBack`.
        """

    async def control(self, command: Command) -> int:
        """Do the command of an operator; return the number of changed tasks (for `Pause` and `SetLimit`: of queues)."""

    async def wait(self, seconds: float) -> None:
        """Return when there may be new work, or after `seconds`.

        The return is a hint: it may come without new work, and new work may come without it. From the first claim or
        wait of a handle to its close, this process helps to end the leases of dead sessions. So a worker that is never
        idle, and never waits, helps too.
        """

    async def close(self) -> None:
        """Release the connections. May be called twice."""
