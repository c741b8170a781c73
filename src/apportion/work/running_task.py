"""The base of both forms of the running task: its attempt, its tokens, and its completion in a transaction.

Promises: a completion counts only under the receipt of this attempt. In `transaction()`, one commit contains the effect
of the task function and the completion of the task. A worker that has lost its claim cannot complete the task.
"""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol, TypeVar, cast

from apportion.errors import InvalidInput, LeaseLost
from apportion.guards.transactions import Course, follow, follow_async, is_async
from apportion.model.epoch import FencingToken
from apportion.runtime.blocks import Raised
from apportion.stores.task_api import TaskTransactions
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import Claim, Note, Receipt, Settlement
from apportion.work.attempts import Attempts
from apportion.work.effects.caller_transaction import completion
from apportion.work.json_values import as_json
from apportion.work.retry_budget import length
from apportion.work.time_limit import RunLimit

Form = TypeVar("Form")
Kind = TypeVar("Kind", bound="RunningTask")


class Desk(Protocol):
    """The part of a worker that its runs call."""

    @property
    def attempts(self) -> Attempts:
        """The attempts under way, for the events of the worker."""

    def started(self, receipt: Receipt) -> None:
        """Note that a run begins."""

    def settle(self, settlement: Settlement) -> None:
        """Take the end of a run."""

    async def note(self, note: Note) -> None:
        """Write a note of a run, from any event loop; `ClaimLost` when its claim is no longer open."""

    async def once(self, step: OnceStep) -> OnceState:
        """Write a step to the idempotency log, from any event loop; see `stepped` in `work.effects.once`."""

    @property
    def transactions(self) -> TaskTransactions:
        """The statements that complete tasks of the queue in a transaction."""

    def seconds_left(self, session: int) -> float:
        """Return the least number of seconds that a session still lasts."""


@dataclass(frozen=True, slots=True)
class RunningTask:
    """One attempt of a task: the base of `AsyncRunningTask` and `SyncRunningTask`."""

    async_form: "ClassVar[type[RunningTask] | None]" = None
    sync_form: "ClassVar[type[RunningTask] | None]" = None

    claim: Claim
    incarnation: int
    desk: Desk
    limit: RunLimit | None = None

    @property
    def id(self) -> str:
        """The id of the task, the same for all its attempts."""
        return self.claim.task

    @property
    def name(self) -> str:
        """The name of the task function."""
        return self.claim.name

    @property
    def slot(self) -> datetime | None:
        """The slot of the schedule for which this task was enqueued, in UTC; None for a task without a schedule."""
        slot = self.claim.slot
        return None if slot is None else datetime.fromtimestamp(slot / 1_000, UTC)

    @property
    def attempt(self) -> int:
        """The number of this attempt; it grows with every claim of the task."""
        return self.claim.attempt

    @property
    def receipt(self) -> str:
        """The receipt of this claim as text. Another process may pass it to `Queue.complete`."""
        receipt = self.claim.receipt
        return f"{receipt.task}.{receipt.attempt}.{receipt.session}"

    @property
    def token(self) -> FencingToken:
        """A fencing token that grows with every attempt, for guards of other resources."""
        receipt = self.claim.receipt
        resource, holder = f"task/{receipt.task}", str(receipt.session)
        return FencingToken(resource=resource, holder=holder, incarnation=self.incarnation, epoch=receipt.attempt)

    @property
    def key(self) -> str | None:
        """The key of this task; None for a task without a key."""
        return self.claim.key

    @property
    def key_token(self) -> FencingToken | None:
        """The fencing token of the lane of the key. It grows with every owner of the lane. None without a key."""
        return self.claim.lane_token

    @property
    def seconds_left(self) -> float:
        """The least time that the session of this worker lasts without another renewal; 0 after its end."""
        return max(0.0, self.desk.seconds_left(self.claim.session))

    def extend(self, by: timedelta) -> None:
        """Move the time limit of this run: the run may take this much time from now on.

        The claim does not need this call: the worker renews it. `InvalidInput` for a task without a time limit,
        `LeaseLost` if the session of the worker has no time left.
        """
        self.require_time()
        moved = length("extend", by)
        if self.limit is None:
            hint = "Leave the call out: the worker renews the claim by itself."
            raise InvalidInput("time_limit", None, "a limit that can be moved", hint)
        self.limit.move(moved)

    def require_time(self) -> None:
        """Raise `LeaseLost` if the session of this worker has no time left. No I/O."""
        if self.seconds_left <= 0:
            raise LeaseLost(self.claim.session)

    def transaction(self) -> "CompletingTransaction":
        """Return a transaction as a block: its value is a connection of sqlite3 or psycopg to the queue's database.

        The transaction first completes this task. It commits at the end of the block, or rolls back on an error.
        `ClaimLost` or `LeaseLost` at the beginning if this worker has lost the claim. Use `async with` or `with`.
        """
        return CompletingTransaction(self)

    def complete(self, connection: object, result: object = None) -> Awaitable[None]:
        """Complete this task in the caller's transaction. Make this call before your own statements.

        The connection is one of sqlite3, psycopg, SQLAlchemy (or a session of its ORM) or Django, to the database of
        the queue. Await the call if the statements of the connection are awaited. A `result` is kept for
        `handle.result()`. `ClaimLost` or `LeaseLost` if this worker has lost the claim: then roll back.
        """
        self.require_time()
        course = self._completion(connection, None if result is None else as_json(result))
        if is_async(connection):
            return follow_async(connection, course)
        follow(connection, course)
        return _Done()

    def _completion(self, connection: object, result: bytes | None) -> Course[None]:
        desk, receipt = self.desk, self.claim.receipt
        yield from completion(connection, desk.transactions, receipt, result)
        desk.attempts.complete(receipt)


class _Done:
    """The outcome of a completion on a sync connection. The completion is over already, and an `await` does nothing."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class CompletingTransaction:
    """A transaction with the completion of a task and the effect of its run; see `RunningTask.transaction`."""

    def __init__(self, task: RunningTask) -> None:
        self._task, self._stack = task, ExitStack()

    def __enter__(self) -> Any:  # noqa: ANN401 - a library's type
        with ExitStack() as stack:
            task = self._task
            task.require_time()
            connection = stack.enter_context(task.desk.transactions.begin())
            self._task.complete(connection)
            self._stack = stack.pop_all()
        return connection

    def __exit__(self, *raised: *Raised) -> None:
        self._stack.__exit__(*raised)

    async def __aenter__(self) -> Any:  # noqa: ANN401 - a library's type
        return self.__enter__()

    async def __aexit__(self, *raised: *Raised) -> None:
        self.__exit__(*raised)


def parsed_receipt(text: str) -> Receipt:
    """Return the receipt of a text from `RunningTask.receipt`; `InvalidInput` for any other text."""
    parts = text.split(".") if isinstance(text, str) else []
    numbers = [int(each) for each in parts[1:] if each.isascii() and each.isdigit() and len(each) < 20]
    if len(parts) != 3 or len(numbers) != 2 or max(numbers) >= 1 << 63 or not parts[0].isascii() or "\0" in parts[0]:
        raise InvalidInput("receipt", text, "the text of current_task().receipt", "Pass it on unchanged.")
    return Receipt(task=parts[0], attempt=numbers[0], session=numbers[1])


CURRENT: ContextVar[RunningTask | None] = ContextVar("current_task", default=None)
IS_PLAIN: ContextVar[bool] = ContextVar("is_plain", default=False)  # whether this code runs as a plain task function


def current(form: "type[Kind]") -> "Kind":
    """Return the running task in a form. The code of a plain task function always gets the sync form.

    `InvalidInput` outside of a task, and for the sync form in a thread with a running event loop.
    """
    task = CURRENT.get()
    if task is None:
        hint = (
            "Call current_task() in the code of a task, in asyncio tasks that this code starts, or in threads that get"
            " a copy of its context."
        )
        raise InvalidInput("current task", None, "code that a worker runs as a task", hint)
    if IS_PLAIN.get():
        sync: Any = required_form(RunningTask.sync_form)
        return cast("Kind", sync(task.claim, task.incarnation, task.desk, task.limit))
    if form is RunningTask.sync_form and _has_loop():
        hint = "Await the calls of apportion.current_task(); those of apportion.sync would block the event loop."
        raise InvalidInput("current task", "the sync form, on an event loop", "a thread without one", hint)
    return form(task.claim, task.incarnation, task.desk, task.limit)


def required_form(form: type[Form] | None) -> type[Form]:
    """Return a form; `InvalidInput` if it is not registered yet."""
    if form is None:
        raise InvalidInput(
            "apportion.sync", "not imported", "imported before its forms are used", "import apportion.sync"
        )
    return form


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
