"""The task queue as users open it, on any event loop. The I/O thread does the work."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, KeysView
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4
from weakref import finalize

from apportion.errors import ClaimLost, InvalidInput, TaskDead, TimedOut
from apportion.errors.brief import brief
from apportion.runtime.attempt_events import AttemptDead, AttemptDone, AttemptEvent, AttemptFailed, AttemptObserver
from apportion.runtime.events import checked_observer
from apportion.runtime.handle import Handle
from apportion.runtime.io_thread import io_thread
from apportion.stores.catalog import check_url, connect_tasks, parsed_url
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Cancel, Hasten, Listing, StoreTime, TaskRow
from apportion.stores.task_values import Duplicate, Settlement, TaskState, Worker
from apportion.work.around import Wrapper, Wrappers
from apportion.work.budget import Budget, length, milliseconds
from apportion.work.call import Call
from apportion.work.current import parsed_receipt
from apportion.work.function import AnyTaskFunction, Params, Result, TaskFunction, TaskOptions
from apportion.work.statistics import TaskStatistics
from apportion.work.trace import traceparent
from apportion.work.worker import QueueWorker

Opened = TypeVar("Opened")
TTL = timedelta(seconds=10)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ENDED = ("done", "dead", "cancelled")
_LOOK_SECONDS = 0.1


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """How the runs of a `drain` ended: so many are done, have failed (and wait for a retry), or are dead."""

    done: int
    failed: int
    dead: int


class Queue(Handle):
    """A queue of tasks in a store. To make it does no I/O; every call opens the store when it needs it.

    - `url`: the store, for example `sqlite:///work.db` or `postgresql://user@host/database`.
    - `name`: the name of the queue: letters, digits, `.`, `_`, `-`.
    - `lease_ttl`: how long a killed worker keeps its tasks. Default: 10 seconds.

        queue = apportion.Queue("sqlite:///work.db", "mail")

        @queue.task()
        async def send(to: str) -> None: ...

        await queue.enqueue(send.call("ann"))
        async with queue.worker(concurrency=10):
            ...

    `InvalidInput`, `UnknownOption` for a wrong argument; `NotPromised` for a store that keeps no tasks, at first use.
    """

    def __init__(self, url: str, name: str, *, lease_ttl: timedelta = TTL) -> None:
        check_url(url)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            expected = "1 to 100 letters, digits, '.', '_' or '-', the first a letter or digit"
            raise InvalidInput("name of the queue", name, expected, 'Write Queue(url, "mail")')
        self.url = url
        self.name = name
        self._full_name = f"{parsed_url(url).namespace}/{name}"
        self._ttl_seconds = length("lease_ttl", lease_ttl).total_seconds()
        self._functions: dict[str, AnyTaskFunction] = {}
        self.task_names: KeysView[str] = self._functions.keys()
        self._statistics, self._wrappers = TaskStatistics(), Wrappers()
        self._opened = _Opened(url)
        finalize(self, _Opened.let_go, self._opened)

    def __repr__(self) -> str:
        return f"Queue({str(parsed_url(self.url))!r}, {self.name!r})"

    @property
    def statistics(self) -> TaskStatistics:
        """The counts of the attempts that workers of this object have made in this process. No I/O."""
        return self._statistics

    def task(
        self,
        *,
        name: str | None = None,
        failures: int = 25,
        deaths: int | None = 5,
        first_delay: timedelta = timedelta(seconds=1),
        longest_delay: timedelta = timedelta(hours=1),
        give_up_on: tuple[type[Exception], ...] = (),
        time_limit: timedelta | None = None,
        priority: int = 2,
        keep_result: bool = False,
    ) -> Callable[[Callable[Params, Result]], TaskFunction[Params, Result]]:
        """Make a function a task of this queue.

        - `name`: the name in the store. Default: the name of the function.
        - `failures`: so many failed runs end the task as dead. Default: 25.
        - `deaths`: so many sessions that ended under it, one after another, end it as dead. None: never. Default: 5.
        - `first_delay`, `longest_delay`: bounds of the random wait before a retry; it doubles from one to the other.
        - `give_up_on`: kinds of exceptions that end the task as dead at once.
        - `time_limit`: a run that takes longer is cancelled, and has failed. Default: None.
        - `priority`: 0 to 3; 0 is claimed first. Default: 2.
        - `keep_result`: keep the result for a week, for `handle.result()`. Default: False.
        """
        budget = Budget(
            failures=failures,
            deaths=deaths,
            first_delay=first_delay,
            longest_delay=longest_delay,
            give_up_on=give_up_on,
        )
        if time_limit is not None:
            length("time_limit", time_limit)

        def _made(function: Callable[Params, Result]) -> TaskFunction[Params, Result]:
            known = name if name is not None else getattr(function, "__name__", "")
            options = TaskOptions(
                name=known, budget=budget, priority=priority, time_limit=time_limit, keep_result=keep_result
            )
            made = TaskFunction(function, options, self._wrappers)
            if known in self._functions:
                hint = "Give one of the two functions another name: @queue.task(name=...)."
                raise InvalidInput("name of the task", known, "a name that this queue does not have yet", hint)
            self._functions[known] = made
            return made

        return _made

    def around(self, wrapper: Wrapper) -> Wrapper:
        """Wrap each run of this queue's tasks with a generator function: up to `yield`, then the task, then the rest.

            @queue.around
            async def timed():
                began = time.monotonic()
                yield
                print(current_task().name, time.monotonic() - began)

        It may be async or plain, and takes nothing: `current_task()` has the facts. An error of the run is raised at
        the `yield`, and an error of the wrapper is the failure of the run. A wrapper that catches the error makes the
        run done. The first wrapper is the outermost; async ones are around plain ones. A plain wrapper runs in the
        thread of a plain task function. `InvalidInput` for any other function.
        """
        self._wrappers.add(wrapper)
        return wrapper

    async def enqueue(
        self,
        call: Call,
        *,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        expires: timedelta | None = None,
        unique: str | None = None,
        on_duplicate: Duplicate | None = None,
    ) -> "TaskHandle":
        """Add a task, and return its handle; it is on the disk then. For the options see `Call.options`.

        `OutcomeUnknown` if no reply came, `StoreUnavailable` if nothing was added.
        """
        call = _checked_call(call).options(
            delay=delay, at=at, priority=priority, expires=expires, unique=unique, on_duplicate=on_duplicate
        )
        (handle,) = await self.enqueue_many([call])
        return handle

    async def enqueue_many(self, calls: Iterable[Call]) -> "list[TaskHandle]":
        """Add tasks, all or none, and return their handles in order."""
        checked = [_checked_call(each) for each in calls]
        added = await io_thread().hop(self._opened.enqueued(self._full_name, checked, traceparent()))
        return [TaskHandle(self, task, is_new) for task, is_new in added]

    def worker(self, *, concurrency: int = 10, observer: AttemptObserver | None = None) -> QueueWorker:
        """Run the tasks of this queue within an `async with` block, so many at a time.

        Async functions run on the event loop of the block, plain ones in threads. `observer` is a plain function that
        is called with each event of an attempt, on the I/O thread. It must not block.
        """
        observers = () if checked_observer(observer, "queue.worker(…") is None or observer is None else (observer,)
        return self._worker(concurrency, observers)

    def _worker(self, concurrency: int, observers: tuple[AttemptObserver, ...]) -> QueueWorker:
        return QueueWorker(
            self.url,
            self._full_name,
            self._functions,
            ttl_seconds=self._ttl_seconds,
            concurrency=concurrency,
            observers=(self._statistics.observe, *observers),
        )

    async def drain(self, ahead: timedelta = timedelta(0)) -> Drained:
        """Run all tasks that are due, or will be within `ahead`, here and now; return how they ended. For tests."""
        await io_thread().hop(self._opened.hastened(self._full_name, milliseconds(length("ahead", ahead))))
        ends = Counter[type[AttemptEvent]]()
        async with self._worker(10, (lambda event: ends.update([type(event)]),)) as worker:
            await worker.until_drained()
        return Drained(done=ends[AttemptDone], failed=ends[AttemptFailed], dead=ends[AttemptDead])

    async def pending(self, function: AnyTaskFunction) -> list[Call]:
        """Return the calls of a task function that wait or run, oldest first; at most 10 000."""
        name = function.task_options.name
        listing = Listing(queue=self._full_name, name=name, most=10_000)
        rows = await io_thread().hop(self._opened.rows(listing))
        return [Call(name=row.name, arguments=row.arguments, priority=row.lane, unique=row.unique) for row in rows]

    async def complete(self, receipt: str) -> None:
        """Complete a task from any process, by the text of its receipt. `ClaimLost` if another attempt is open."""
        await self._settle(Settlement(receipt=parsed_receipt(receipt), fate="done"))

    async def fail(self, receipt: str, why: str) -> None:
        """End a task as dead, by the text of its receipt. `ClaimLost` if another attempt is open."""
        await self._settle(Settlement(receipt=parsed_receipt(receipt), fate="dead", reason=str(why)))

    async def release(self, receipt: str) -> None:
        """Give a task back, by the text of its receipt; nothing counts. `ClaimLost` if another attempt is open."""
        await self._settle(Settlement(receipt=parsed_receipt(receipt), fate="released", reason="released"))

    async def close(self) -> None:
        """Close the connection of this process. Another call opens it again."""
        await io_thread().hop(self._opened.close())

    async def _settle(self, settlement: Settlement) -> None:
        await io_thread().hop(self._opened.settled(settlement))

    async def _row(self, task: str) -> TaskRow:
        rows = await io_thread().hop(self._opened.rows(Listing(tasks=(task,))))
        return rows[0] if rows else TaskRow(id=task, queue=self._full_name, name="", state="missing")


class TaskHandle(Handle):
    """A task that was enqueued. `created` is False when a task of its unique name was there already: it is that one."""

    def __init__(self, queue: Queue, task: str, created: bool) -> None:
        self.id = task
        self.created = created
        self._queue = queue

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r}, created={self.created})"

    async def state(self) -> TaskState:
        """Return the state of the task; a task that is done and kept no result is "missing"."""
        return (await self._queue._row(self.id)).state

    async def result(self, timeout: timedelta = timedelta(seconds=30)) -> Any:  # noqa: ANN401 - the task's
        """Wait for the result of a task that keeps its result, and return it.

        `TaskDead` if the task is dead or cancelled, `TimedOut` if it is still open then. `InvalidInput` if the task
        keeps no result.
        """
        deadline = asyncio.get_running_loop().time() + length("timeout", timeout).total_seconds()
        while True:
            row = await self._queue._row(self.id)
            if row.state in _ENDED:
                return self._result_of(row)
            if row.state == "missing":
                hint = "Write @queue.task(keep_result=True)."
                raise InvalidInput("result", self.id, "a task that keeps its result", hint)
            if asyncio.get_running_loop().time() >= deadline:
                raise TimedOut(f"the result of task {self.id}", length("timeout", timeout))
            await asyncio.sleep(_LOOK_SECONDS)

    async def cancel(self) -> bool:
        """Cancel the task: at once if it waits; a running one is asked to stop. Return False if it had ended."""
        opened = self._queue._opened
        return bool(await io_thread().hop(opened.cancelled(self.id)))

    def _result_of(self, row: TaskRow) -> Any:  # noqa: ANN401
        if row.state != "done":
            raise TaskDead(self.id, row.state, row.reason)
        functions = self._queue._functions
        function = functions.get(row.name)
        data = row.result or b"null"
        return function.signature.result(data) if function is not None else None


class _Opened:
    """The handle of a queue in the store, for the I/O thread; it is opened by the first call that needs it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opening: asyncio.Future[TaskStore] | None = None

    async def store(self) -> TaskStore:
        """Return the open handle."""
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.ensure_future(connect_tasks(self._url))
        return await asyncio.shield(self._opening)

    async def enqueued(self, queue: str, calls: list[Call], trace: str) -> tuple[tuple[str, bool], ...]:
        """Add tasks. `trace` is the traceparent of the caller."""
        store = await self.store()
        now = await store.query(StoreTime()) if any(call.expires is not None for call in calls) else 0
        return await store.enqueue([call.task(uuid4().hex, queue, now, trace) for call in calls])

    async def rows(self, listing: Listing) -> tuple[TaskRow, ...]:
        """Return tasks."""
        return await (await self.store()).query(listing)

    async def settled(self, settlement: Settlement) -> None:
        """Settle one claim, or raise `ClaimLost`."""
        receipt = settlement.receipt
        worker = Worker(session=receipt.session, queues=())
        if (await (await self.store()).turn(worker, [settlement])).refused:
            raise ClaimLost(receipt.task, receipt.attempt)

    async def cancelled(self, task: str) -> int:
        """Cancel a task, and return 1 if it was open."""
        return await (await self.store()).control(Cancel(tasks=(task,)))

    async def hastened(self, queue: str, ahead_ms: int) -> None:
        """Make the delayed tasks of a queue ready that are due within some time."""
        store = await self.store()
        if ahead_ms:
            rows = await store.query(Listing(queue=queue, states=("delayed",), most=10_000))
            until = await store.query(StoreTime()) + ahead_ms
            await store.control(Hasten(tasks=tuple(row.id for row in rows if (row.due or 0) <= until)))

    async def close(self) -> None:
        """Close the handle, if it is open."""
        opening, self._opening = self._opening, None
        if opening is not None:
            await asyncio.wait([opening])
            if not opening.cancelled() and opening.exception() is None:
                await opening.result().close()

    def let_go(self) -> None:
        """Close the handle once no program can use it; a finalizer may call this."""
        if self._opening is not None:
            io_thread().send(self.close())


def _checked_call(call: Call) -> Call:
    if not isinstance(call, Call):
        hint = "Write await queue.enqueue(send.call(...)); send(...) itself runs the function here."
        raise InvalidInput("call", call, "a call of a task function", hint)
    return call
