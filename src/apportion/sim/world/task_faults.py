"""Faults of tasks: the tasks of any store, seen through a network and on a machine that fails.

Tasks have their own way through the network. A process can lose its tasks and keep its leases, or lose its leases and
keep its tasks. Databases repeat no request, so no request comes twice. Wake-ups are hints, and a fault may hold them
back. A transaction of a handler has faults at its end alone: the commit does not happen, or its reply does not come.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from apportion.errors import OutcomeUnknown, StoreUnavailable
from apportion.sim.facts import TaskCall, TaskServed
from apportion.sim.world.losses import Way
from apportion.sim.world.schedule_faults import FaultySchedules
from apportion.sim.world.troubles import Troubles
from apportion.sim.world.wire import NAME, FaultyWire, NoReply
from apportion.stores.schedules.api import ScheduleStore
from apportion.stores.task_api import Insertion, TaskStatement, TaskStore, TaskTransactions
from apportion.stores.task_control import Answer, Command, Listing, Question
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import BeatAnswer, NewTask, Note, Receipt, Settlement, TurnAnswer, Worker

Result = TypeVar("Result")


class FaultyTasks(TaskStore):
    """A handle of one process on tasks that may fail; made by `World.tasks`. `look` records the changes of tasks."""

    def __init__(
        self, process: str, inner: TaskStore, troubles: Troubles, *, look: Callable[[], None], now: Callable[[], float]
    ) -> None:
        self._process, self._inner, self._troubles, self._look, self._now = process, inner, troubles, look, now
        self._wire = FaultyWire(process, troubles, now=now())
        self._is_closed = False
        self.transactions: TaskTransactions = FaultyTransactions(process, inner.transactions, troubles)
        self.schedules: ScheduleStore = FaultySchedules(inner.schedules, self._certain)
        troubles.open_handles[process] += 1

    async def enqueue(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        try:
            return await self._sent("enqueue", lambda: self._inner.enqueue(tasks), tasks=tuple(tasks))
        except NoReply as error:
            raise OutcomeUnknown(NAME, [each.id for each in tasks], str(error)) from None

    async def turn(self, worker: Worker, settlements: Sequence[Settlement] = (), *, want: int = 0) -> TurnAnswer:
        perform = partial(self._inner.turn, worker, settlements, want=want)
        return await self._certain("turn", perform, worker=worker, settlements=tuple(settlements), want=want)

    async def beat(self, session: int, notes: Sequence[Note] = ()) -> BeatAnswer:
        return await self._certain("beat", lambda: self._inner.beat(session, notes))

    async def once(self, step: OnceStep) -> OnceState:
        return await self._certain("once", lambda: self._inner.once(step), once=step)

    async def query(self, question: Question[Answer]) -> Answer:
        """See `TaskStore`. A caller knows another life of the store once it has the answer to a listing."""
        accepts = isinstance(question, Listing)

        async def _perform() -> tuple[int, Answer]:
            life = self._troubles.life
            found = await self._inner.query(question)
            if accepts:
                self._wire.accepted_life = life
            return life, found

        what = "listing" if accepts else "query"
        life, found = await self._wire.certain(what, _perform, changes=False, accepts=accepts)
        if accepts:
            self._wire.heard_life = life
        return found

    async def control(self, command: Command) -> int:
        return await self._certain("control", lambda: self._inner.control(command), command=command)

    async def wait(self, seconds: float) -> None:
        troubles = self._troubles
        is_cut = troubles.network.is_cut(troubles.place, self._process)
        silence = troubles.silence_of(self._process, self._wire.connected_at)
        if is_cut or silence or troubles.happens(troubles.odds.watch_silent, "hint kept", self._process):
            await asyncio.sleep(seconds)
        else:
            await self._inner.wait(seconds)

    async def close(self) -> None:
        self._troubles.open_handles[self._process] -= not self._is_closed
        self._is_closed = True
        await self._inner.close()

    async def _certain(self, what: str, perform: Callable[[], Awaitable[Result]], **request: Any) -> Result:  # noqa: ANN401
        try:
            return await self._sent(what, perform, **request)
        except NoReply as error:
            raise StoreUnavailable(NAME, str(error), "Try again.") from None

    async def _sent(self, what: str, perform: Callable[[], Awaitable[Result]], **request: Any) -> Result:  # noqa: ANN401
        """Send a request that may change tasks, and may be lost; `request` has the fields of its `TaskCall`."""

        async def _perform() -> Result:
            call, answer = self._troubles.number(), None
            self._troubles.record(TaskCall(at=self._now(), call=call, process=self._process, **request))
            try:
                answer = await perform()
                return answer
            finally:
                self._look()
                self._troubles.record(TaskServed(at=self._now(), call=call, answer=answer))

        losses = self._troubles.losses
        lost = losses.of(self._process)
        if lost is Way.ERROR:
            raise StoreUnavailable(NAME, "the connection broke before it was sent")
        return await self._wire.ask(what, _perform, lost=lost)


class FaultyTransactions(TaskTransactions):
    """The transactions of the handlers of one process, with ends that may be lost."""

    def __init__(self, process: str, inner: TaskTransactions, troubles: Troubles) -> None:
        self._process, self._inner, self._troubles = process, inner, troubles
        self.dialect: str = inner.dialect

    @contextmanager
    def begin(self) -> Iterator[Any]:
        """See `TaskTransactions`. `StoreUnavailable` if the end is lost, whether the commit happened or not."""
        odds = self._troubles.odds
        with self._inner.begin() as connection:
            yield connection
            if self._troubles.happens(odds.transaction, "transaction lost: its commit", self._process):
                raise StoreUnavailable(NAME, "the connection broke before the commit")
        if self._troubles.happens(odds.transaction, "transaction lost: its reply", self._process):
            hint = "The transaction may have been committed: look for its rows before you repeat it."
            raise StoreUnavailable(NAME, "the connection broke after the commit", hint)

    def completion(self, receipt: Receipt) -> TaskStatement:
        return self._inner.completion(receipt)

    def outcome(self, receipt: Receipt, result: bytes) -> TaskStatement:
        return self._inner.outcome(receipt, result)

    def place(self) -> TaskStatement:
        return self._inner.place()

    def require_here(self, rows: Sequence[Any]) -> None:
        self._inner.require_here(rows)

    def insertion(self, tasks: Sequence[NewTask]) -> Insertion:
        return self._inner.insertion(tasks)
