"""Turns: the order in which writers take the one lock of an SQLite file.

SQLite's lock has no queue: after a release, the first writer that tries gets the lock. So within a process, one writer
tries at a time, in the order of the calls. Renewals go before all other writers. While other processes write too, a
process that has just written waits some milliseconds before its next write.
Promises: no renewal waits for the turn of another writer in its process. No writer waits for ever, even if others never
pause. Refuses: to slow a process that is the only writer.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager

from apportion.runtime.clock import Clock

_PAUSE_SECONDS = 0.004
_RENEWAL_PAUSE_SECONDS = 0.001
_COMPANY_SECONDS = 0.25


class Turns:
    """The writers of one file in this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ordinary: asyncio.Lock = asyncio.Lock()
        """The turn of a writer, which rests before it writes."""
        self._renewals = 0
        self._version: int | None = None  # before the first write
        self._company_until = self._rests_until = float("-inf")

    async def rest(self) -> None:
        """Rest after the last write of this process, if other processes write too. The caller must have the turn."""
        rest = self._rests_until - self._clock.elapsed()
        if rest > 0:
            await asyncio.sleep(rest)

    @contextmanager
    def first(self) -> Iterator[None]:
        """Within the block, a renewal waits for the lock, and all other writers wait for the renewal."""
        self._renewals += 1
        try:
            yield
        finally:
            self._renewals -= 1

    async def before_trying(self) -> None:
        """Wait while a renewal waits."""
        while self._renewals:
            await asyncio.sleep(_RENEWAL_PAUSE_SECONDS)

    def pause_seconds(self) -> float:
        """Return the pause before the next try for a lock that another process holds."""
        return _jittered(_RENEWAL_PAUSE_SECONDS if self._renewals else _PAUSE_SECONDS)

    def wrote(self, version: int) -> None:
        """Note a write. `version` is the file's version before it, which differs if another process has written."""
        now = self._clock.elapsed()
        if version != self._version:
            if self._version is not None:
                self._company_until = now + _COMPANY_SECONDS
            self._version = version
        if now < self._company_until:
            self._rests_until = now + _jittered(_PAUSE_SECONDS)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
