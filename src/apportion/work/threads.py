"""Threads: the threads in which a worker runs plain functions. The interpreter exits without waiting for them.

Promises: a free thread takes the next call; a new thread is made only if no thread is free. A cancelled call runs to
its end, and its outcome is dropped. `SystemExit` in a call ends the call and not the program.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Literal

from apportion.runtime.simulated import simulated

THREADS = "apportion-task"  # the prefix of the names of these threads


class Threads:
    """The threads of one worker. The methods are called on the event loop of the program."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._count = self._free = 0

    async def run(self, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - a call of any function
        """Call a function in a thread, and return its result. A simulated process makes the call without a thread."""
        if simulated() is not None:
            return function()
        if self._free:
            self._free -= 1
        else:
            self._count += 1
            threading.Thread(target=self._serve, name=f"{THREADS}-{self._count}", daemon=True).start()
        call = _Call(function, self._freed)
        self._calls.put(call)
        await call.ended.wait()
        if isinstance(call.error, SystemExit | KeyboardInterrupt):
            raise RuntimeError(f"the function raised {call.error!r}") from call.error  # noqa: TRY004
        if call.error is not None:
            raise call.error
        return call.result

    def close(self) -> None:
        """Let each thread end after its call."""
        for _ in range(self._count):
            self._calls.put(None)

    def _freed(self) -> None:
        self._free += 1

    def _serve(self) -> None:
        process = os.getpid()
        while (call := self._calls.get()) is not None:
            with call:
                call.result = call.function()
            if os.getpid() != process:  # the function has forked, and this is the forked process
                os._exit(0)


class _Call:
    """A call, and its outcome for the event loop that waits. As a context manager, it keeps the error of its block."""

    def __init__(self, function: Callable[[], Any], freed: Callable[[], None]) -> None:
        self.function, self._freed = function, freed
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> Literal[True]:
        self.error = error
        with suppress(RuntimeError):  # the program has closed its loop
            self._loop.call_soon_threadsafe(self._end)
        return True

    def _end(self) -> None:
        self._freed()
        self.ended.set()
