"""Call: a coroutine that runs on the loop of another thread, and a caller that may go away before it has the result.

Promises: the loop that runs a call makes all decisions about it, in the order of the requests. A caller may go away.
Then it has had the result, or the call is cancelled, or `undo` gets the result. So nothing is lost between the
threads. Neither `begin` nor `abandon` waits or takes a lock.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, TypeVar

from apportion.runtime.endings import begun
from apportion.runtime.simulated import Undo

Result = TypeVar("Result")


class ThreadCall(Generic[Result]):
    """One call; `outcome` is for the thread that waits."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, Result], undo: Undo[Result] | None
    ) -> None:
        self.outcome: Future[Result] = Future()
        self.outcome.set_running_or_notify_cancel()  # only the loop ends it
        self._loop, self._work, self._undo = loop, work, undo
        self._task: asyncio.Task[Result] | None = None
        self._is_abandoned = self._is_told = False

    async def heard(self) -> Result:
        """Begin the call, and wait for the result on any event loop."""
        has_result = False
        try:
            self.begin()
            result = await asyncio.wrap_future(self.outcome)
            has_result = True
            return result
        finally:
            if not has_result:
                self.abandon()

    def waited(self) -> Result:
        """Begin the call, and wait for the result in a thread without an event loop."""
        has_result = False
        try:
            self.begin()
            result = self.outcome.result()
            has_result = True
            return result
        finally:
            if not has_result:  # Ctrl-C while waiting
                self.abandon()

    def begin(self) -> None:
        """Start the call, once; a second request does nothing."""
        self._loop.call_soon_threadsafe(self._begin)

    def abandon(self) -> None:
        """Note that no caller takes the result any more; a call that has raised leaves nothing to undo."""
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(self._abandon)

    def _begin(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._work)
            self._task.add_done_callback(self._tell)

    def _tell(self, task: "asyncio.Task[Result]") -> None:
        self._is_told = True
        if self._is_abandoned:
            self._take_back(task)
        elif task.cancelled():
            self.outcome.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())

    def _abandon(self) -> None:
        self._is_abandoned = True
        if self._task is None:
            self._work.close()
        elif self._is_told:
            self._take_back(self._task)
        elif not self._task.done():  # otherwise `_tell` comes next, and takes it back
            self._task.cancel()
            begun(_ended(self._task))

    def _take_back(self, task: "asyncio.Task[Result]") -> None:
        if not task.cancelled() and task.exception() is None and self._undo is not None:
            begun(self._undo(task.result()))


async def _ended(task: "asyncio.Task[Result]") -> None:
    await asyncio.wait([task])
