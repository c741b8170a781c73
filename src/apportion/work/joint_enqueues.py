"""Joint enqueues: while one request is under way, other callers wait, and their tasks form the next request.

So the store flushes once for many callers, and a caller that is alone does not wait. Callers that got their answers
together often enqueue again together. So the next request waits for a number of callers: as many as were in the last
request, plus those that waited when it ended. This wait takes at most half the time of the last request.
Promises: the tasks of one caller are added all or none. An error names the caller's own tasks. If the store refuses a
request of several callers, each caller sends a request alone. So a refused task fails only its own caller. The
cancellation of a caller does not cancel the request that it has joined.
Refuses: to join more than a thousand tasks, or more than 4 MiB of arguments; further callers join the next request.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeAlias

from apportion.errors import ApportionError, OutcomeUnknown, Unavailable
from apportion.runtime.endings import kept_from_cancellation, outlasting, uncancelled
from apportion.runtime.prompt_start import started
from apportion.stores.task_values import NewTask

Answers: TypeAlias = tuple[tuple[str, bool], ...]
MOST_TASKS, MOST_BYTES = 1_000, 4 * 2**20


class JointEnqueues:
    """The enqueues of one queue object. `send` is the request to the store, which adds all its tasks or none."""

    def __init__(self, send: Callable[[Sequence[NewTask]], Coroutine[Any, Any, Answers]]) -> None:
        self._send = send
        self.callers: Callers = Callers()
        self._next: _Joint | None = None
        self._last: asyncio.Future[Any] | None = None
        self._expected, self._seconds = 1, 0.0  # the callers to wait for; the duration of the last request

    async def add(self, tasks: Sequence[NewTask], *, is_prompt: bool = False) -> Answers:
        """Add tasks, perhaps together with those of other callers; return the answers for them.

        `is_prompt`: a request ends, or is on its way to the store, after the first step of its coroutine. Then a caller
        that is alone does not wait for others.
        """
        joint, last = self._next, self._last
        is_free = joint is None and self._expected <= 1 and (last is None or last.done())
        if is_prompt and is_free and self.callers.is_alone:
            return await self._at_once(tasks)
        size = sum([len(each.arguments) for each in tasks])
        if joint is None or not joint.has_room(len(tasks), size_bytes=size):
            joint = self._next = _Joint()
            self._last = uncancelled(self._sent(joint, last))
        try:
            return await joint.join(tasks, size_bytes=size)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(error.store, [each.id for each in tasks], error.reason) from error
        except Unavailable:
            raise
        except ApportionError:
            if joint.callers == 1:
                raise
            return await self._send(tasks)

    async def _at_once(self, tasks: Sequence[NewTask]) -> Answers:
        """Send the tasks of a caller that is alone. If the request has to wait, the caller cannot cancel it."""
        began = asyncio.get_running_loop().time()
        sent = started(self._send(tasks))
        if not sent.done():
            self._last = kept_from_cancellation(sent)
            return await outlasting(sent)
        self._seconds, self._expected = asyncio.get_running_loop().time() - began, len(self.callers)
        return sent.result()

    async def _sent(self, joint: "_Joint", before: "asyncio.Future[Any] | None") -> None:
        with joint:
            await self._come_to(joint, before)
            began = asyncio.get_running_loop().time()
            joint.answers = await self._send(joint.tasks)
        self._seconds = asyncio.get_running_loop().time() - began
        self._expected = joint.callers + (0 if self._next is None else self._next.callers)

    async def _come_to(self, joint: "_Joint", before: "asyncio.Future[Any] | None") -> None:
        """Wait for the end of the previous request, and for callers that may join. After that, no caller joins."""
        if before is not None and not before.done():
            await asyncio.wait([before])
        if joint.callers < self._expected:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds / 2):
                    await joint.joined_by(self._expected)
        if self._next is joint:
            self._next = None


class Callers:
    """The callers, in all threads of this process, that wait for an enqueue. A caller counts while it is in a block."""

    def __init__(self) -> None:
        self._inside: deque[None] = deque()  # append and pop are atomic; `number += 1` is not

    def __enter__(self) -> None:
        self._inside.append(None)

    def __exit__(self, *_: object) -> None:
        self._inside.pop()

    def __len__(self) -> int:
        return len(self._inside)

    @property
    def is_alone(self) -> bool:
        """Whether at most one caller waits."""
        return len(self._inside) <= 1


class _Joint:
    """The tasks of one request. At the end of the block of the request, each caller gets its answers, or the error."""

    def __init__(self) -> None:
        self.tasks: list[NewTask] = []
        self.answers: Answers = ()
        self.callers = self._bytes = 0
        self._heard: list[tuple[asyncio.Future[Answers], slice]] = []
        self._joined = asyncio.Event()

    def __enter__(self) -> None:
        """Begin the request."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        for heard, places in self._heard:
            if heard.done():
                continue
            if error is None:
                heard.set_result(self.answers[places])
            elif isinstance(error, asyncio.CancelledError):
                heard.cancel()
            else:
                heard.set_exception(error)
        return not isinstance(error, asyncio.CancelledError)

    def has_room(self, tasks: int, *, size_bytes: int) -> bool:
        """Whether this number of tasks, of this size, still fits into the request."""
        return len(self.tasks) + tasks <= MOST_TASKS and self._bytes + size_bytes <= MOST_BYTES

    def join(self, tasks: Sequence[NewTask], *, size_bytes: int) -> asyncio.Future[Answers]:
        """Add the tasks of a caller; return the future of its answers."""
        heard: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._heard.append((heard, slice(len(self.tasks), len(self.tasks) + len(tasks))))
        self.tasks += tasks
        self.callers += 1
        self._bytes += size_bytes
        self._joined.set()
        return heard

    async def joined_by(self, callers: int) -> None:
        """Return as soon as this number of callers has joined."""
        while self.callers < callers:
            self._joined.clear()
            await self._joined.wait()
