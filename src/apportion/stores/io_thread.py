"""The I/O thread: one a process, whose event loop runs stores, renewals and whatever must go on in time.

The loop of a user may be blocked by user code, and a sync program has none. So both hand their calls to this thread and
wait; nothing is run inside the caller's thread. It is started when it is first needed and ends with the process.

Promises: a caller that is cancelled or interrupted cancels its call. A forked child gets a thread of its own, and never
touches, closes or frees what the loop of its parent holds.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

from apportion.errors import InvalidInput, StoreClosed
from apportion.stores.machine import Runner, simulated

Result = TypeVar("Result")
_LAST_SECONDS = 1.0  # for a call that is under way when the interpreter ends


class IoThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._ended = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="apportion-io", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    @property
    def runs(self) -> bool:
        """Whether it can be called: not at the end of the interpreter, nor in a child that was forked."""
        return self._process == os.getpid() and not self._ended

    async def hop(self, work: Coroutine[object, object, Result]) -> Result:
        """Run a coroutine on this thread, from any event loop. Costs two wake-ups of threads, about 0.1 ms."""
        return await asyncio.wrap_future(self._submit(work))

    def wait(self, work: Coroutine[object, object, Result]) -> Result:
        """Run a coroutine on this thread, from a thread without an event loop, and wait for it."""
        if threading.current_thread() is self._thread:
            work.close()
            hint = "Await the async call instead; a thread that waits for itself waits for ever."
            raise InvalidInput("thread of a sync call", "the I/O thread", "any other thread", hint)
        call = self._submit(work)
        try:
            return call.result()
        finally:
            call.cancel()  # Ctrl-C while waiting; a call that is over cannot be cancelled

    def _submit(self, work: Coroutine[object, object, Result]) -> "Future[Result]":
        if not self.runs:
            work.close()
            forked = "it belongs to the process that this one was forked from"
            raise StoreClosed("a store", "the interpreter ends" if self._process == os.getpid() else forked)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _stop(self) -> None:
        if self.runs:
            self._ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_LAST_SECONDS)


def io_thread() -> Runner:
    """Return the thread of this process, started if need be; what a simulated process has in its place."""
    if (machine := simulated()) is not None:
        return machine
    with _Current.lock:
        if _Current.thread is None:
            _Current.thread = IoThread()
        return _Current.thread


class _Current:
    """The thread of this process, and those of its ancestors, which are kept so that nothing of theirs is freed."""

    lock = threading.Lock()
    thread: IoThread | None = None
    inherited: "list[IoThread | None]" = []  # noqa: RUF012 - one a process, as the others


def _after_fork() -> None:
    _Current.lock = threading.Lock()
    _Current.inherited.append(_Current.thread)
    _Current.thread = None


os.register_at_fork(after_in_child=_after_fork)
