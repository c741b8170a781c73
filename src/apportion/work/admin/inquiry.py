"""Inquiry: the questions and commands of an operator about the tasks of one namespace in a store.

Promises: each call of `asked` opens the store, and closes it. No answer shows a task or a queue of another namespace.
The answers name queues as in `Queue(url, name)`.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.runtime.io_thread import io_thread
from apportion.stores.catalog import connect_tasks, parsed_url, require_made
from apportion.stores.schedules.values import SlotMark, TaskSchedule
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Command, Listing, Overview, QueueStats, StoreTime, Survey, TaskRow
from apportion.stores.task_values import Worker

Answer = TypeVar("Answer")
_BEGIN = re.compile("[0-9a-f]{4,31}")
_MOST_ALIKE, _MOST_NAMED = 1_000, 3


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """The tasks of a namespace in an open store."""

    store: TaskStore
    prefix: str

    async def rows(self, listing: Listing) -> tuple[TaskRow, ...]:
        """Return the tasks of a listing. The listing has the full name of a queue, the tasks have the short name."""
        found = await self.store.query(listing)
        return tuple(replace(each, queue=self._name(each.queue)) for each in found if self._is_here(each.queue))

    async def ids(self, begins: Iterable[str]) -> tuple[str, ...]:
        """Return the ids that begin with these texts, in the same order. A text that begins no id stays as it is.

        `InvalidInput` for a text that begins two ids.
        """
        return tuple([await self._id(each) if _BEGIN.fullmatch(each) else each for each in begins])

    async def _id(self, begin: str) -> str:
        found = [row.id for row in await self.rows(Listing(prefix=begin, most=_MOST_ALIKE))]
        if len(found) > 1 and begin not in found:
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            expected = f"the beginning of one id; {', '.join(found[:_MOST_NAMED])}{more} begin with it"
            raise InvalidInput("id of a task", begin, expected, "Write more digits of the id. Nothing was changed.")
        return found[0] if len(found) == 1 else begin

    async def overview(self) -> Overview:
        """Return the numbers of the queues, and the workers."""
        found = await self.store.query(Survey())
        queues = [replace(each, queue=self._name(each.queue)) for each in found.queues if self._is_here(each.queue)]
        workers = [self._worker(each) for each in found.workers if any(map(self._is_here, each.queues))]
        return Overview(queues=tuple(queues), workers=tuple(workers))

    async def queue(self, name: str) -> QueueStats:
        """Return the numbers of a queue. They are 0 for a queue that was never used."""
        queues = (await self.overview()).queues
        return next((each for each in queues if each.queue == name), QueueStats(queue=name))

    async def schedules(self, queue: str | None) -> tuple[TaskSchedule, ...]:
        """Return the schedules of a queue, or of all queues of the namespace."""
        schedules = self.store.schedules
        found = await schedules.listed(None if queue is None else self.full(queue))
        here = [each for each in found if isinstance(each.queue, str) and self._is_here(each.queue)]
        return tuple(replace(each, queue=self._name(each.queue)) for each in here)

    async def marks(self, schedule: TaskSchedule) -> tuple[SlotMark, ...]:
        """Return the history of a schedule. `schedule.queue` is the full name of its queue."""
        schedules = self.store.schedules
        return await schedules.history(schedule.queue, schedule.name)

    async def control(self, command: Command) -> int:
        """Carry out a command with full names of queues; return the number of tasks or queues that it changed."""
        return await self.store.control(command)

    async def now_ms(self) -> int:
        """Return the time of the store, in milliseconds since 1970."""
        return await self.store.query(StoreTime())

    def full(self, queue: str) -> str:
        """Return the name of a queue in the store."""
        return self.prefix + queue

    def _is_here(self, queue: str) -> bool:
        return queue.startswith(self.prefix)

    def _name(self, queue: str) -> str:
        return queue.removeprefix(self.prefix)

    def _worker(self, worker: Worker) -> Worker:
        return replace(worker, queues=tuple(self._name(each) for each in worker.queues if self._is_here(each)))


async def asked(url: str, ask: Callable[[Inquiry], Awaitable[Answer]], *, makes: bool = False) -> Answer:
    """Call `ask` with the store of a URL, and return its answer.

    Raises the errors of `connect_tasks`. `InvalidInput` if no store was made yet; with `makes`, the call makes it.
    """
    prefix = f"{parsed_url(url).namespace}/"

    async def _ask() -> Answer:
        if not makes:
            await require_made(url)
        store = await connect_tasks(url)
        try:
            return await ask(Inquiry(store=store, prefix=prefix))
        finally:
            await store.close()

    return await io_thread().hop(_ask())
