"""The I/O thread: one per process; its event loop runs stores, renewals and all other work that must go on in time.

User code may block the user's event loop, and a sync program has no loop. So all programs hand their calls to this
thread and wait; nothing runs inside the caller's thread. The thread is started when it is first needed and ends with
the process.

Promises: a caller that is cancelled or interrupted cancels its call. If the call has opened something, the opening is
undone, whenever the cancellation came. No lock is taken, because a finalizer may call, and a finalizer can interrupt
any code. A forked child gets a thread of its own. The child never touches, closes or frees objects of its parent's
loop.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

from apportion.errors import InvalidInput, StoreClosed
from apportion.runtime.endings import begun, to_its_end, under_way
from apportion.runtime.simulated import Runner, Undo, simulated
from apportion.runtime.thread_call import ThreadCall

Result = TypeVar("Result")
_SILENT_SECONDS = 1.0  # at its end, the interpreter waits this long for work under way before it logs a line
_ENDINGS_SECONDS = 5.0
_log = logging.getLogger("apportion.stores")


class IoThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._ended = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="apportion-io", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    @property
    def runs(self) -> bool:
        """Whether the thread takes calls: it takes none at the end of the interpreter or in a forked child."""
        return self._process == os.getpid() and not self._ended

    async def hop(
        self, work: Coroutine[object, object, Result], *, undo: Undo[Result] | None = None, is_prompt: bool = False
    ) -> Result:
        """Run a coroutine on this thread, from any event loop. Costs two wake-ups of threads, about 0.1 ms.

        `undo` gets the result, on this thread, when the caller was cancelled before it received the result. The first
        step of prompt work is made without a task; see `prompt_start`.
        """
        return await self._call(work, undo, is_prompt=is_prompt).heard()

    def wait(
        self, work: Coroutine[object, object, Result], *, undo: Undo[Result] | None = None, is_prompt: bool = False
    ) -> Result:
        """Run a coroutine on this thread, from a thread without an event loop, and wait for it; for the rest see `hop`.

        `InvalidInput` on this thread itself.
        """
        if threading.current_thread() is self._thread:
            work.close()
            hint = "Await the async call instead; a thread that waits for itself waits for ever."
            raise InvalidInput("thread of a sync call", "the I/O thread", "any other thread", hint)
        return self._call(work, undo, is_prompt=is_prompt).waited()

    async def finish(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine on this thread to its end, and wait for it; a caller that is cancelled stops waiting."""
        call = self._call(to_its_end(work), None)
        outcome = call.outcome()
        call.begin()
        await asyncio.wrap_future(outcome)

    def wait_finished(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine on this thread to its end, from a thread without a loop; Ctrl-C ends only the wait."""
        call = self._call(to_its_end(work), None)
        outcome = call.outcome()
        try:
            call.begin()
            outcome.result()
        finally:
            call.begin()  # Ctrl-C may have come before the first `begin`

    def send(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine on this thread to its end, without waiting for it. Threads and finalizers may call this."""
        if self.runs:
            self._loop.call_soon_threadsafe(begun, work)
        else:
            work.close()

    def stop(self) -> None:
        """End the thread, once the work under way has ended or has taken too long."""
        if self.runs:
            self._ended = True
            self._loop.call_soon_threadsafe(lambda: begun(self._last()))
            self._thread.join(_SILENT_SECONDS)
            if self._thread.is_alive():
                _log.warning("the process ends after its groups have left, in at most %g s", _ENDINGS_SECONDS)
                self._thread.join(_ENDINGS_SECONDS)

    def _call(
        self, work: Coroutine[object, object, Result], undo: Undo[Result] | None, *, is_prompt: bool = False
    ) -> ThreadCall[Result]:
        if not self.runs:
            work.close()
            forked = "it belongs to the parent of this forked process"
            raise StoreClosed("a store", "the interpreter ends" if self._process == os.getpid() else forked)
        return ThreadCall(self._loop, work, undo, is_prompt=is_prompt)

    async def _last(self) -> None:
        endings = [each for each in under_way(self._loop) if each is not asyncio.current_task()]
        if endings:
            await asyncio.wait(endings, timeout=_SILENT_SECONDS + _ENDINGS_SECONDS)
        self._loop.stop()


def io_thread() -> Runner:
    """Return the thread of this process, started if need be; in a simulated process, return its machine."""
    if (machine := simulated()) is not None:
        return machine
    thread = _threads.get(_THIS)
    if thread is None:
        made = IoThread()
        thread = _threads.setdefault(_THIS, made)
        if thread is not made:  # another thread, or a finalizer in this thread, was faster
            made.stop()
    return thread


_THIS = "process"
_threads: dict[str, IoThread] = {}
_inherited: list[IoThread] = []  # the threads of ancestors, kept so that none of their objects is freed


def _after_fork() -> None:
    with suppress(KeyError):
        _inherited.append(_threads.pop(_THIS))


os.register_at_fork(after_in_child=_after_fork)
