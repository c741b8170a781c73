# Generated from work/facade.py by `python -m generate`; change that file, and generate anew.
"""The task queue for programs without an event loop. Requests to the store run on the I/O thread.

The async twin of this file is `work/facade.py`.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from apportion.errors import InvalidInput, TaskDead
from apportion.guards.transactions import follow
from apportion.runtime.attempt_events import AttemptDead, AttemptDone, AttemptEvent, AttemptFailed, AttemptObserver
from apportion.runtime.handle import Handle
from apportion.runtime.io_thread import io_thread
from apportion.stores.schedules.values import Fold, Gap, Missed, Overlap
from apportion.stores.task_control import Listing, TaskRow
from apportion.stores.task_values import Duplicate, OnDead, Settlement, TaskState
from apportion.work.call import Call, checked_call, checked_calls, priority_of
from apportion.work.cron.declaration import Policies, checked_schedule_name, one_schedule
from apportion.work.function import AnyTaskFunction, TaskFunction
from apportion.work.json_values import of_json
from apportion.work.lanes.lane_member import LaneMember
from apportion.work.observers.trace import traceparent
from apportion.work.queue import Drained, TaskQueue
from apportion.work.retry_budget import length, milliseconds
from apportion.work.running_task import parsed_receipt
from apportion.work.thread_worker import ThreadWorker


class SyncQueue(TaskQueue):
    """A queue of tasks in a store. The constructor does no I/O: the first call that needs the store connects to it.

    - `url`: the store, for example `sqlite:///work.db` or `postgresql://user@host/database`.
    - `name`: the name of the queue: letters, digits, `.`, `_`, `-`.
    - `lease_ttl`: the time for which a killed worker keeps its tasks. Default: 10 seconds.
    - `partitions`: the number of lanes, 1 to 262 144, for tasks with `key=`. Choose several times the greatest number
      of workers that you expect. All programs of the queue pass the same number. Default: None, no keys.
    - `group_url`: the store in which the workers agree on the owner of each lane, such as etcd. Default: the store of
      the queue.

        queue = apportion.sync.Queue("sqlite:///work.db", "mail")

        @queue.task()
        def send(to: str) -> None: ...

        queue.enqueue(send.call("ann"))
        with queue.worker(concurrency=10):
            ...

    `InvalidInput`, `UnknownOption` for a wrong argument; `NotPromised` for a store that keeps no tasks, at first use.
    """

    @classmethod
    def of(cls, queue: TaskQueue) -> "SyncQueue":
        """Return a queue, async or sync, in this form, with the same functions, wrappers, statistics and connection."""
        if not isinstance(queue, TaskQueue):
            raise InvalidInput("queue", queue, "a queue", 'Write apportion.sync.Queue(url, "mail").')
        return queue._shown_as(cls)

    def enqueue(
        self,
        call: Call,
        *,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        expires: timedelta | None = None,
        unique: str | None = None,
        on_duplicate: Duplicate | None = None,
        key: str | None = None,
        on_dead: OnDead | None = None,
        within: object = None,
    ) -> "SyncTaskHandle":
        """Add a task, and return its handle. For the options see `Call.options`.

        Without `within`, the task is on the disk when the call returns. `within` is a connection with an open
        transaction of yours, to the database of the queue. The task is added if that transaction commits. The
        connection is one of sqlite3, psycopg, SQLAlchemy (or a session of its ORM) or Django.
        `OutcomeUnknown` if no reply came, `StoreUnavailable` if nothing was added.
        """
        call = checked_call(call).options(
            delay=delay,
            at=at,
            priority=priority,
            expires=expires,
            unique=unique,
            on_duplicate=on_duplicate,
            key=key,
            on_dead=on_dead,
        )
        (handle,) = self.enqueue_many([call], within=within)
        return handle

    def enqueue_many(self, calls: Iterable[Call], *, within: object = None) -> "list[SyncTaskHandle]":
        """Add tasks, all or none, and return their handles in order. For `within` see `enqueue`."""
        checked, opened = checked_calls(calls), self._opened
        if within is None:
            with opened.callers:
                work = opened.enqueued(self._full_name, checked, traceparent())
                added = io_thread().wait(work, is_prompt=opened.is_prompt)
        else:
            course = io_thread().wait(opened.insertion(self._full_name, checked, traceparent(), within))
            added = follow(within, course)
        return [SyncTaskHandle(self, task, is_new) for task, is_new in added]

    def worker(
        self,
        *,
        concurrency: int | None = None,
        processes: int = 0,
        observer: AttemptObserver | None = None,
        member: LaneMember | None = None,
    ) -> ThreadWorker:
        """Run the tasks of this queue within a `with` block. SIGTERM ends the worker; see `until_left`.

        - `concurrency`: the number of tasks that run at a time. Default: 10; with `processes`, the number of processes.
        - `processes`: the number of child processes that run plain functions, for work that needs the processor.
          Default: 0, which runs plain functions in threads. Async functions run on an event loop of the worker.
        - `observer`: a plain function that is called with each event of an attempt, on the I/O thread. It must not
          block.
        - `member`: on a queue with `partitions`, the id, the weight and the other options of this worker in the group
          that shares the lanes. Default: a member of weight 1 with a new id.

        On a queue with `partitions`, the block may raise the errors of `open_group` when it begins.
        """
        return self._thread_worker_of(concurrency, processes, observer, member)

    def drain(self, ahead: timedelta = timedelta(0)) -> Drained:
        """Run all tasks that are due now or within `ahead`, in this process; return how the runs ended. For tests."""
        io_thread().wait(self._opened.hastened(self._full_name, milliseconds(length("ahead", ahead))))
        ends = Counter[type[AttemptEvent]]()
        with self._thread_worker_of(None, 0, lambda event: ends.update([type(event)]), fires=False) as worker:
            worker.until_drained()
        return Drained(done=ends[AttemptDone], failed=ends[AttemptFailed], dead=ends[AttemptDead])

    def pending(self, function: AnyTaskFunction) -> list[Call]:
        """Return the waiting calls of a task function, in the order of the queue; at most 10 000."""
        if not isinstance(function, TaskFunction):
            raise InvalidInput("function", function, "a task function", "Write queue.pending(send)")
        name = function.task_options.name
        listing = Listing(queue=self._full_name, name=name, states=("ready", "delayed"), most=10_000)
        rows = io_thread().wait(self._opened.rows(listing))
        return [
            Call(name=row.name, arguments=row.arguments, priority=priority_of(row.lane), unique=row.unique, key=row.key)
            for row in rows
        ]

    def complete(self, receipt: str, *, within: object = None) -> None:
        """Complete a task from any process, by the text of its receipt. `ClaimLost` if the claim is no longer open.

        `within` is a connection with an open transaction of yours, as for `enqueue`. A commit ends the task as done.
        """
        if within is None:
            self._settle(Settlement(receipt=parsed_receipt(receipt), fate="done"))
        else:
            course = io_thread().wait(self._opened.completion(parsed_receipt(receipt), within))
            follow(within, course)

    def fail(self, receipt: str, why: str) -> None:
        """End a task as dead, by the text of its receipt. `ClaimLost` if the claim is no longer open."""
        self._settle(Settlement(receipt=parsed_receipt(receipt), fate="dead", reason=str(why)))

    def release(self, receipt: str) -> None:
        """Give a task back, by the text of its receipt, without a failure. `ClaimLost` if the claim is not open."""
        self._settle(Settlement(receipt=parsed_receipt(receipt), fate="released", reason="released"))

    def schedule(
        self,
        name: str,
        call: Call,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        zone: str = "UTC",
        missed: Missed = "last",
        overlap: Overlap = "skip",
        gap: Gap = "run-after",
        fold: Fold = "first",
        jitter: timedelta = timedelta(0),
    ) -> bool:
        """Add a schedule from data, such as one per tenant, or change the one of this name; return whether it is new.

        Give `cron` or `every`. The other options are those of `queue.cron`. A new rule fires no slot of the past.
        """
        policies: Policies = {"zone": zone, "missed": missed, "overlap": overlap, "gap": gap, "fold": fold}
        policies["jitter"] = jitter
        schedule = one_schedule(self._full_name, name, checked_call(call), policies, cron=cron, every=every)
        return io_thread().wait(self._opened.scheduled(schedule))

    def unschedule(self, name: str) -> bool:
        """Remove a schedule; its enqueued tasks stay. Return False if the queue has no schedule of this name."""
        return io_thread().wait(self._opened.unscheduled(self._full_name, checked_schedule_name(name)))

    def trigger(self, name: str, slot: datetime) -> "SyncTaskHandle":
        """Enqueue the task of one slot of a schedule, and return its handle. Afterwards only later slots fire.

        `AlreadyTriggered` if the schedule has passed the slot: the slot or a later one was fired or skipped.
        """
        task = io_thread().wait(self._opened.triggered(self._full_name, name, slot))
        return SyncTaskHandle(self, task, True)

    def close(self) -> None:
        """Close the connection of this process. The next call that needs the store connects again."""
        io_thread().wait(self._opened.close())

    def _settle(self, settlement: Settlement) -> None:
        io_thread().wait(self._opened.settled(settlement))


class SyncTaskHandle(Handle):
    """The handle of a task. `created` is False if the handle is of an older open task with the same unique name."""

    def __init__(self, queue: SyncQueue, task: str, created: bool) -> None:
        self.id = task
        self.created = created
        self._queue = queue

    def __repr__(self) -> str:
        return f"SyncTaskHandle({self.id!r}, created={self.created})"

    def state(self) -> TaskState:
        """Return the state of the task; it is "missing" for a task that is done and keeps no result."""
        opened = self._queue._opened
        return (io_thread().wait(opened.row(self.id))).state

    def result(self, timeout: timedelta = timedelta(seconds=30)) -> Any:  # noqa: ANN401 - the task's
        """Wait for the result of a task that keeps its result, and return it.

        The annotation of the function gives the type of the result; a queue without the function returns JSON types.
        `TaskDead` if the task is dead or cancelled, `TimedOut` if it is still open after `timeout`. `InvalidInput` if
        the task keeps no result, or a result of another type.
        """
        opened = self._queue._opened
        return self._result_of(io_thread().wait(opened.ended(self.id, length("timeout", timeout))))

    def cancel(self) -> bool:
        """Cancel the task: at once if it waits, else by the worker that runs it. Return False if it had ended."""
        opened = self._queue._opened
        return bool(io_thread().wait(opened.cancelled(self.id)))

    def _result_of(self, row: TaskRow) -> Any:  # noqa: ANN401
        if row.state != "done":
            raise TaskDead(self.id, row.state, row.reason)
        functions = self._queue._functions
        function, data = functions.get(row.name), row.result or b"null"
        try:
            return of_json(data) if function is None else function.signature.result(data)
        except (TypeError, ValueError) as error:
            hint = "Annotate the function with the type that it returns. If it changed, keep the old type readable."
            raise InvalidInput(f"result of task {self.id}", data, f"JSON of the type of {row.name}", hint) from error


TaskQueue.sync_form = SyncQueue
