"""Polling: one task that looks for changes on behalf of all watches of a handle, fast only while something is going on.

What is pending shows as changes, seen or made: for a while after each the next look follows soon, then ever later.
Promises: no task while nobody watches; the longest pause bounds how late a change is seen.
"""

import asyncio
from collections.abc import Awaitable, Callable

from apportion.runtime.clock import Clock

SHORTEST_PAUSE_SECONDS = 0.001
LONGEST_PAUSE_SECONDS = 0.06
_PAUSE_PER_QUIET_SECOND = 0.1


def pause_seconds(quiet_seconds: float) -> float:
    """Return how long to wait before the next look, when the last change was so long ago.

    >>> [pause_seconds(quiet) for quiet in (0.0, 0.25, 60.0)]
    [0.001, 0.025, 0.06]
    """
    return min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, quiet_seconds * _PAUSE_PER_QUIET_SECOND))


class Polling:
    """Calls `look` again and again while somebody watches; `look` calls `noticed` when there is something new.

    `pause` says how long to wait when nothing has happened for so many seconds.
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
        """Stop looking, and wake who waits."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._wake()

    def noticed(self) -> None:
        """Wake who waits, and look often for a while."""
        self._changed_at = self._clock.elapsed()
        self._wake()

    def nudge(self) -> None:
        """Look once more at once: there is a hint of news."""
        self._is_nudged = True
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)

    def next_change(self) -> asyncio.Event:
        """Return what is set at the next change: to be taken before one reads, and then waited for."""
        if self._task is not None and self._task.done():
            self._task.result()  # raises what made the looking end
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
        """Wait so long, or until a nudge comes."""
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
