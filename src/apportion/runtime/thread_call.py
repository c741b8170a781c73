"""Call: a coroutine that runs on the loop of another thread, and a caller that may go away before it has the result.

Promises: the loop that runs a call makes all decisions about it, in the order of the requests. A caller may go away at
any time. If the call still runs then, it is cancelled. If it has a result that the caller has not, `undo` gets that
result. So no result is lost between the threads. Neither `begin` nor `abandon` waits or takes a lock.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from apportion.runtime.endings import begun
from apportion.runtime.prompt_start import started
from apportion.runtime.simulated import Undo

Result = TypeVar("Result")


class ThreadCall(Generic[Result]):
    """One call. A prompt call runs its first step without a task; see `prompt_start`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[object, object, Result],
        undo: Undo[Result] | None,
        *,
        is_prompt: bool = False,
    ) -> None:
        self._loop, self._work, self._undo, self._is_prompt = loop, work, undo, is_prompt
        self._task: asyncio.Future[Result] | None = None
        self._hear: Callable[[asyncio.Future[Result]], None] | None = None
        self._is_abandoned = self._is_told = False

    async def heard(self) -> Result:
        """Begin the call, and wait for the result on any event loop."""
        here, has_result = asyncio.get_running_loop(), False
        outcome: asyncio.Future[Result] = here.create_future()

        def _hear(task: "asyncio.Future[Result]") -> None:
            with suppress(RuntimeError):  # the caller has closed its loop
                here.call_soon_threadsafe(_end, outcome, task)

        self._hear = _hear
        try:
            self.begin()
            result = await outcome
            has_result = True
            return result
        finally:
            if not has_result:
                self.abandon()

    def waited(self) -> Result:
        """Begin the call, and wait for the result in a thread without an event loop."""
        outcome, has_result = self.outcome(), False
        try:
            self.begin()
            result = outcome.result()
            has_result = True
            return result
        finally:
            if not has_result:  # Ctrl-C while waiting
                self.abandon()

    def outcome(self) -> "Future[Result]":
        """Return the outcome for a thread that waits. Ask for it before the call begins."""
        outcome: Future[Result] = Future()
        outcome.set_running_or_notify_cancel()  # so that only the loop can end the outcome, and no caller can cancel it
        self._hear = partial(_end, outcome)
        return outcome

    def begin(self) -> None:
        """Start the call, once; a second request does nothing."""
        self._loop.call_soon_threadsafe(self._begin)

    def abandon(self) -> None:
        """Note that no caller takes the result any more. If the call raises, there is nothing to undo."""
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(self._abandon)

    def _begin(self) -> None:
        if self._task is not None:
            return
        self._task = started(self._work) if self._is_prompt else self._loop.create_task(self._work)
        if self._task.done():
            self._tell(self._task)
        else:
            self._task.add_done_callback(self._tell)

    def _tell(self, task: "asyncio.Future[Result]") -> None:
        self._is_told = True
        if not task.cancelled():
            task.exception()  # retrieves the error, because asyncio logs errors that no code retrieves
        if self._is_abandoned:
            self._take_back(task)
        elif self._hear is not None:
            self._hear(task)

    def _abandon(self) -> None:
        self._is_abandoned = True
        if self._task is None:
            self._work.close()
        elif self._is_told:
            self._take_back(self._task)
        elif not self._task.done():  # if it is done, `_tell` runs next, and undoes the result
            self._task.cancel()
            begun(_ended(self._task))

    def _take_back(self, task: "asyncio.Future[Result]") -> None:
        if not task.cancelled() and task.exception() is None and self._undo is not None:
            begun(self._undo(task.result()))


def _end(outcome: "Future[Result] | asyncio.Future[Result]", task: "asyncio.Future[Result]") -> None:
    """End the wait of a caller, unless the caller has gone away."""
    if outcome.done():
        return
    if task.cancelled():
        outcome.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


async def _ended(task: "asyncio.Future[Result]") -> None:
    await asyncio.wait([task])
