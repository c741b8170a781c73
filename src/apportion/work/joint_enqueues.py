"""Joint enqueues: while one enqueue is under way, those of all other callers wait, and go to the store as the next one.

So a store flushes once for many callers, and a single caller waits for nobody. Callers that were answered together
often come back together: after an enqueue of several callers, the next one waits for as many, for half as long as the
last one took.
Promises: the tasks of one caller are added all or none. An error names the caller's own tasks. Where the store refuses
an enqueue of several callers, each caller asks alone, so that one refused task costs its caller alone.
Refuses: requests without a bound. Tasks beyond a thousand, or beyond some megabytes, wait for the enqueue after.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from apportion.errors import ApportionError, OutcomeUnknown, Unavailable
from apportion.stores.task_values import NewTask

Answers: TypeAlias = tuple[tuple[str, bool], ...]
MOST_TASKS, MOST_BYTES = 1_000, 4 * 2**20


class JointEnqueues:
    """The enqueues of one queue object; `send` adds tasks, all or none."""

    def __init__(self, send: Callable[[Sequence[NewTask]], Awaitable[Answers]]) -> None:
        self._send = send
        self._next: _Joint | None = None
        self._last: asyncio.Task[Answers] | None = None
        self._callers, self._seconds = 1, 0.0  # of the last enqueue

    async def add(self, tasks: Sequence[NewTask]) -> Answers:
        """Add tasks, perhaps together with those of other callers; return the answers about them."""
        joint = self._next
        if joint is None or not joint.has_room(tasks):
            joint = self._next = _Joint()
            before = self._last
            self._last = joint.sending = asyncio.get_running_loop().create_task(self._sent(joint, before))
        place = joint.join(tasks)
        try:
            answers = await asyncio.shield(joint.sending)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(error.store, [each.id for each in tasks], error.reason) from error
        except Unavailable:
            raise
        except ApportionError:
            if joint.callers == 1:
                raise
            answers, place = await self._send(tasks), 0
        return answers[place : place + len(tasks)]

    async def _sent(self, joint: "_Joint", before: "asyncio.Task[Answers] | None") -> Answers:
        if before is not None and not before.done():
            await asyncio.wait([before])
        if joint.callers < self._callers:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds / 2):
                    await joint.joined_by(self._callers)
        if self._next is joint:
            self._next = None
        loop = asyncio.get_running_loop()
        began, self._callers = loop.time(), joint.callers
        try:
            return await self._send(joint.tasks)
        finally:
            self._seconds = loop.time() - began


class _Joint:
    """The tasks that go to the store together."""

    sending: "asyncio.Task[Answers]"

    def __init__(self) -> None:
        self.tasks: list[NewTask] = []
        self.callers = self._bytes = 0
        self._joined = asyncio.Event()

    def has_room(self, tasks: Sequence[NewTask]) -> bool:
        """Whether these tasks fit beside those that wait."""
        size = sum(len(each.arguments) for each in tasks)
        return len(self.tasks) + len(tasks) <= MOST_TASKS and self._bytes + size <= MOST_BYTES

    def join(self, tasks: Sequence[NewTask]) -> int:
        """Take the tasks of a caller; return the place of the first one."""
        place = len(self.tasks)
        self.tasks += tasks
        self.callers += 1
        self._bytes += sum(len(each.arguments) for each in tasks)
        self._joined.set()
        return place

    async def joined_by(self, callers: int) -> None:
        """Return once so many callers have joined."""
        while self.callers < callers:
            self._joined.clear()
            await self._joined.wait()
