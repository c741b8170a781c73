"""Lookout: one task per process and store that looks for changes and for leases that have ended.

The task serves the watches of all handles. Each look finds the changed keys and wakes the watches of these keys, which
then read. More changes often follow a change. So the pauses between looks are short after a change, and then grow.
Promises: no task runs without a watch; a watch sees a change no later than after the longest pause.
Refuses: to judge whether the store went back; each handle does that itself.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection

from apportion.runtime.clock import Clock
from apportion.stores.reaper import Reaper
from apportion.stores.watchers import Watcher, Watchers

SHORTEST_PAUSE_SECONDS = 0.001
LONGEST_PAUSE_SECONDS = 0.06
_PAUSE_PER_QUIET_SECOND = 0.1


def pause_seconds(quiet_seconds: float) -> float:
    """Return the pause before the next look, given the seconds since the last change.

    >>> [pause_seconds(quiet) for quiet in (0.0, 0.25, 60.0)]
    [0.001, 0.025, 0.06]
    """
    return min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, quiet_seconds * _PAUSE_PER_QUIET_SECOND))


class Lookout(ABC):
    """Looks at the store repeatedly while there is a watch. `own` always holds the present leases of this process."""

    def __init__(self, clock: Clock, own: Collection[int]) -> None:
        self._clock = clock
        self._watchers = Watchers()
        self._reaper = Reaper(own=own)
        self._reap_at = self._changed_at = clock.elapsed()
        self._task: asyncio.Task[None] | None = None
        self._resting: asyncio.Future[None] | None = None
        self._is_nudged = False

    @abstractmethod
    async def _look(self) -> None:
        """Look once, and call `_noticed` for a change."""

    @abstractmethod
    def _pause_seconds(self, quiet_seconds: float) -> float:
        """Return the pause before the next look, given the seconds since the last change."""

    def join(self, start: bytes, end: bytes) -> Watcher:
        """Return a watch of the keys in [start, end); the first watch starts the task."""
        if self._task is None:
            self._reaper.forget()  # nothing is known of the time without a watch
            self._task = asyncio.get_running_loop().create_task(self._run())
        return self._watchers.join(start, end)

    def leave(self, watcher: Watcher) -> None:
        """Forget a watch; the last one stops the task."""
        self._watchers.leave(watcher)
        if self._watchers.is_empty and self._task is not None:
            self._task.cancel()
            self._task = None

    def require_running(self) -> None:
        """Raise the error that ended the task, if there is one."""
        if self._task is not None and self._task.done():
            self._task.result()

    def _noticed(self) -> None:
        """Look often for a while: there was a change."""
        self._changed_at = self._clock.elapsed()

    def _nudge(self) -> None:
        """Look once more at once."""
        self._is_nudged = True
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)

    async def _run(self) -> None:
        while True:
            self._is_nudged = False
            await self._look()
            await self._rest(self._pause_seconds(self._clock.elapsed() - self._changed_at))

    async def _rest(self, seconds: float) -> None:
        if seconds <= 0 or self._is_nudged:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        resting = self._resting = loop.create_future()
        timer = loop.call_later(seconds, self._nudge)
        try:
            await resting
        finally:
            timer.cancel()
            self._resting = None
