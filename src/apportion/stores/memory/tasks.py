"""The tasks of a memory store: a task ledger within this process, beside the ledger of its leases."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress

from apportion.errors import StoreClosed
from apportion.stores import task_admin as admin
from apportion.stores.memory.schedules import MemorySchedules
from apportion.stores.memory.store import Memory
from apportion.stores.memory.task_transactions import NoTransactions
from apportion.stores.requests import went_back
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Answer, Command, Listing, Question
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import BeatAnswer, NewTask, Note, Settlement, TurnAnswer, Worker


class MemoryTasks(TaskStore):
    """One handle of the tasks of a `Memory`."""

    def __init__(self, memory: Memory, name: str = "memory://") -> None:
        self._memory = memory.take()
        self._name = name
        self._incarnation = memory.incarnation
        self._pid = os.getpid()
        self._closed = False
        self.transactions: NoTransactions = NoTransactions(name)
        self.schedules: MemorySchedules = MemorySchedules(memory, allowed=self._same)

    async def enqueue(self, tasks: Sequence[NewTask]) -> tuple[tuple[str, bool], ...]:
        """See `TaskStore`. O(open tasks)."""
        answer = self._same().enqueue(tasks, now=self._memory.now_ms())
        self._memory.changed()
        return answer

    async def turn(self, worker: Worker, settlements: Sequence[Settlement] = (), *, want: int = 0) -> TurnAnswer:
        ledger, alive = self._same(), self._memory.now().leases
        turn = ledger.turn(worker, settlements, want=want, alive=alive, now=self._memory.now_ms())
        if settlements:
            self._memory.changed()
        return turn

    async def beat(self, session: int, notes: Sequence[Note] = ()) -> BeatAnswer:
        return self._same().beat(session, notes)

    async def once(self, step: OnceStep) -> OnceState:
        return self._same().once(step, alive=self._memory.now().leases, now=self._memory.now_ms())

    async def query(self, question: Question[Answer]) -> Answer:
        """See `TaskStore`. O(all tasks)."""
        self._open()
        if isinstance(question, Listing):
            self._incarnation = self._memory.incarnation
        return admin.answer(self._same(), question, alive=self._memory.now().leases, now=self._memory.now_ms())

    async def control(self, command: Command) -> int:
        count = admin.control(self._same(), command, now=self._memory.now_ms())
        self._memory.changed()
        return count

    async def wait(self, seconds: float) -> None:
        self._open()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._memory.wait()
        self._memory.now()  # a lease that is out of time ends now, and not only at the next turn

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._memory.let_go()

    def _open(self) -> None:
        if os.getpid() != self._pid:
            raise StoreClosed(self._name, "it belongs to the parent of this forked process")
        if self._closed:
            raise StoreClosed(self._name)

    def _same(self) -> TaskLedger:
        """Return the tasks if the store is in the life that this handle knows."""
        self._open()
        found = self._memory.incarnation
        if found != self._incarnation:
            raise went_back(self._name, seen=(self._incarnation, 0), found=(found, 0))
        return self._memory.tasks
