"""Polling: one task looks for changes for all watches of a handle, and looks often only after recent changes.

A change that was seen or made suggests that more changes follow. After each change the next look follows soon; then
the pauses grow.
Promises: no task runs without a watch; the longest pause bounds how late a change is seen.
"""

import asyncio
from collections.abc import Awaitable, Callable

from apportion.runtime.clock import Clock

SHORTEST_PAUSE_SECONDS = 0.001
LONGEST_PAUSE_SECONDS = 0.06
_PAUSE_PER_QUIET_SECOND = 0.1


def pause_seconds(quiet_seconds: float) -> float:
    """Return the pause before the next look, given the seconds since the last change.

    >>> [pause_seconds(quiet) for quiet in (0.0, 0.25, 60.0)]
    [0.001, 0.025, 0.06]
    """
    return min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, quiet_seconds * _PAUSE_PER_QUIET_SECOND))


class Polling:
    """Calls `look` again and again while there is a watch; `look` calls `noticed` when it finds a change.

    `pause` returns the seconds to wait, given the seconds since the last change.
    """

    def __init__(
        self,
        look: Callable[[], Awaitable[None]],
        clock: Clock,
        *,
        pause: Callable[[float], float] = pause_seconds,
    ) -> None:
        self._look = look
        self._clock = clock
        self._pause = pause
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._is_nudged = False
        self._resting: asyncio.Future[None] | None = None
        self._changed_at = clock.elapsed()

    def join(self) -> None:
        """Count one more watcher; the first starts the task."""
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def leave(self) -> None:
        """Count one watcher less; the last stops the task."""
        self._watchers -= 1
        if self._watchers == 0:
            self.stop()

    def stop(self) -> None:
        """Stop looking, and wake the waiting watches."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._wake()

    def noticed(self) -> None:
        """Wake the waiting watches, and look often for a while."""
        self._changed_at = self._clock.elapsed()
        self._wake()

    def nudge(self) -> None:
        """Look once more at once: a hint says that there are changes."""
        self._is_nudged = True
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)

    def next_change(self) -> asyncio.Event:
        """Return the event of the next change. Take it before you read, and then wait for it."""
        if self._task is not None and self._task.done():
            self._task.result()  # raises the error that ended the task
        return self._changed

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _run(self) -> None:
        try:
            while True:
                self._is_nudged = False
                await self._look()
                await self._rest(self._pause(self._clock.elapsed() - self._changed_at))
        finally:
            self._wake()

    async def _rest(self, seconds: float) -> None:
        if seconds <= 0 or self._is_nudged:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        resting = self._resting = loop.create_future()
        timer = loop.call_later(seconds, self.nudge)
        try:
            await resting
        finally:
            timer.cancel()
            self._resting = None
