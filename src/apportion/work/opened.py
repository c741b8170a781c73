"""The connection of a queue to its store: it carries out the calls of both forms of a queue, on the I/O thread.

The first call that needs the connection opens it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TypeVar

from apportion.errors import ClaimLost, InvalidInput, StoreWentBack, TimedOut
from apportion.guards.transactions import Course
from apportion.runtime.endings import or_undo, outlasting
from apportion.runtime.io_thread import io_thread
from apportion.runtime.simulated import clock_here
from apportion.stores.catalog import connect_tasks
from apportion.stores.schedules.values import TaskSchedule
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Cancel, Hasten, Listing, StoreTime, TaskRow
from apportion.stores.task_values import NewTask, Receipt, Settlement, Worker, alike
from apportion.work.call import Call, new_ids
from apportion.work.cron.acts import kept, triggered
from apportion.work.effects.caller_transaction import completion, insertion
from apportion.work.joint_enqueues import Callers, JointEnqueues
from apportion.work.lanes.keys import QueueKeys

Answer = TypeVar("Answer")
_ENDED = ("done", "dead", "cancelled")
_LOOK_SECONDS = 0.1
_OPTIONS = attrgetter(*(each.name for each in fields(Call) if each.name != "arguments"))


class OpenedQueue:
    """The connection of a queue to its store, for the I/O thread. The first call that needs it opens it."""

    def __init__(self, url: str, keys: QueueKeys | None = None) -> None:
        self._url, self._keys = url, keys
        self._opening: asyncio.Future[TaskStore] | None = None
        self._is_agreed = False
        self.is_prompt: bool = False
        """Whether an enqueue of one caller ends, or sends its request, in the first step of its coroutine."""
        self._joint = JointEnqueues(self._add)
        self.callers: Callers = self._joint.callers

    async def store(self) -> TaskStore:
        """Return the open connection; the first call opens it."""
        opening = self._opening
        if opening is None or (opening.done() and opening.exception() is not None):
            self._opening = opening = asyncio.ensure_future(self._connected())
        return await outlasting(opening)

    async def _connected(self) -> TaskStore:
        store = await connect_tasks(self._url)
        if self._keys is not None:
            async with or_undo(store.close):
                await self._keys.agree(store)
        self._is_agreed, self.is_prompt = True, store.is_prompt
        return store

    async def enqueued(self, queue: str, calls: list[Call], trace: str) -> tuple[tuple[str, bool], ...]:
        """Add tasks, perhaps together with those of other callers. `trace` is the traceparent of the caller."""
        tasks = await self._tasks(queue, calls, trace)
        return await self._joint.add(tasks, is_prompt=self.is_prompt) if tasks else ()

    async def _add(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        return await self._asked(lambda store: store.enqueue(tasks))

    async def insertion(
        self, queue: str, calls: list[Call], trace: str, within: object
    ) -> Course[tuple[tuple[str, bool], ...]]:
        """Return the statements that add tasks in a transaction of the caller, as a `Course`."""
        tasks = await self._tasks(queue, calls, trace)
        return insertion(within, (await self.store()).transactions, tasks)

    async def _tasks(self, queue: str, calls: list[Call], trace: str) -> list[NewTask]:
        await self.store()  # refuses a store that keeps no tasks, even if there is nothing to add
        has_end = any(call.expires is not None for call in calls)
        now = await self._asked(lambda store: store.query(StoreTime())) if has_end else 0
        return _new_tasks(queue, calls, trace, self._keys, now=now)

    async def completion(self, receipt: Receipt, within: object) -> Course[None]:
        """Return the statements that complete a task in a transaction of the caller, as a `Course`."""
        return completion(within, (await self.store()).transactions, receipt)

    async def rows(self, listing: Listing) -> tuple[TaskRow, ...]:
        """Return the rows of a listing."""
        return await (await self.store()).query(listing)

    async def row(self, task: str) -> TaskRow:
        """Return the row of a task; its state is "missing" if the store does not have the task."""
        rows = await self.rows(Listing(tasks=(task,)))
        return rows[0] if rows else TaskRow(id=task, queue="", name="", state="missing")

    async def ended(self, task: str, timeout: timedelta) -> TaskRow:
        """Return the row of a task once it has ended.

        `InvalidInput` if the task keeps no result, `TimedOut` after the timeout.
        """
        clock = clock_here()
        deadline = clock.elapsed() + timeout.total_seconds()
        while (row := await self.row(task)).state not in _ENDED:
            if row.state == "missing":
                hint = "Write @queue.task(keep_result=True)."
                raise InvalidInput("result", task, "a task that keeps its result", hint)
            if clock.elapsed() >= deadline:
                raise TimedOut(f"the result of task {task}", timeout)
            await asyncio.sleep(_LOOK_SECONDS)
        return row

    async def settled(self, settlement: Settlement) -> None:
        """Settle one claim, or raise `ClaimLost`."""
        receipt = settlement.receipt
        worker = Worker(session=receipt.session, queues=())
        if (await self._asked(lambda store: store.turn(worker, [settlement]), again=False)).refused:
            raise ClaimLost(receipt.task, receipt.attempt)

    async def cancelled(self, task: str) -> int:
        """Cancel a task; return 1 if it was open, else 0."""
        return await self._asked(lambda store: store.control(Cancel(tasks=(task,))))

    async def hastened(self, queue: str, ahead_ms: int) -> None:
        """Make the delayed tasks of a queue ready if they are due within `ahead_ms`."""
        store = await self.store()
        if ahead_ms:
            rows = await store.query(Listing(queue=queue, states=("delayed",), most=10_000))
            until = await store.query(StoreTime()) + ahead_ms
            await store.control(Hasten(tasks=tuple(row.id for row in rows if (row.due or 0) <= until)))

    async def scheduled(self, schedule: TaskSchedule) -> bool:
        """Add or change a schedule; return whether it is new."""
        return await self._asked(lambda store: kept(store, schedule))

    async def unscheduled(self, queue: str, name: str) -> bool:
        """Remove a schedule; return whether there was one."""
        return bool(await self._asked(lambda store: store.schedules.remove(queue, [name])))

    async def triggered(self, queue: str, name: str, slot: datetime) -> str:
        """Enqueue the task of a slot; return its id."""
        return await self._asked(lambda store: triggered(store, queue, name, slot, by="trigger"))

    async def _asked(self, ask: Callable[[TaskStore], Awaitable[Answer]], *, again: bool = True) -> Answer:
        """Send a request to the store. If the store went back to an earlier state, the request has done nothing.

        With `again`, the request is then sent once more, to the new incarnation of the store. The earlier state may
        lack the number of partitions. So this process and the store agree on that number again.
        """
        store = await self.store()
        while True:
            try:
                if self._keys is not None and not self._is_agreed:
                    await self._keys.agree(store)
                self._is_agreed = True
                return await ask(store)
            except StoreWentBack:
                self._is_agreed = False
                await store.query(Listing(tasks=()))
                if not again:
                    raise
                again = False

    async def close(self) -> None:
        """Close the connection, if it is open."""
        opening, self._opening, self.is_prompt = self._opening, None, False
        if opening is not None:
            await asyncio.wait([opening])
            if not opening.cancelled() and opening.exception() is None:
                await opening.result().close()

    def let_go(self) -> None:
        """Close the connection after the last use of the queue object; a finalizer may call this."""
        if self._opening is not None:
            io_thread().send(self.close())


def _new_tasks(queue: str, calls: list[Call], trace: str, keys: QueueKeys | None, *, now: int) -> list[NewTask]:
    ids = new_ids(len(calls))
    if len(calls) > 1 and len(set(map(_OPTIONS, calls))) == 1:
        return alike(calls[0].task(ids[0], queue, now, trace, keys=keys), ids, [call.arguments for call in calls])
    return [call.task(each, queue, now, trace, keys=keys) for each, call in zip(ids, calls, strict=True)]
