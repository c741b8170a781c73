"""Hints of new tasks: they wake a waiting worker at once. If hints do not come through, the worker polls."""

import asyncio
from contextlib import suppress

from apportion.errors import ApportionError, StoreDenied, StoreUnavailable
from apportion.runtime.clock import Clock
from apportion.stores.postgres.links import Links
from apportion.stores.postgres.tasks import statements as sql

_AWAIT_SECONDS = 5.0
_HINT_SECONDS = 0.01  # between two hints of a process, since each hint locks the whole server
_AWAIT_MS = int(_AWAIT_SECONDS * 1_000)


class Hints:
    """The hints of new tasks: to the workers of this process, and to other processes if a worker waits there."""

    def __init__(self, links: Links, clock: Clock) -> None:
        self._lookout, self._committing, self._clock = links.lookout, links.committing, clock
        self._asked_until = float("inf" if links.door.is_polled else "-inf")
        self._telling: asyncio.Task[None] | None = None
        self._is_untold = False

    def changed(self, *, is_awaited: bool) -> None:
        """After a commit, wake the waiting workers of this process; if `is_awaited`, also those of other processes."""
        self._lookout.tasks_changed()
        self._is_untold |= is_awaited
        if self._is_untold and (self._telling is None or self._telling.done()):
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def ask(self) -> None:
        """Ask other processes to send hints for some seconds. Without hints, a worker polls."""
        if self._clock.elapsed() >= self._asked_until:
            self._asked_until = self._clock.elapsed() + _AWAIT_SECONDS
            with suppress(StoreUnavailable, StoreDenied):
                await self._committing.ask(sql.AWAIT, [4 * _AWAIT_MS, 2 * _AWAIT_MS])

    def close(self) -> None:
        """Send no more hints."""
        if self._telling is not None:
            self._telling.cancel()

    async def _tell(self) -> None:
        while self._is_untold:
            self._is_untold = False
            with suppress(ApportionError):
                await self._committing.ask(sql.HINT)
            await asyncio.sleep(_HINT_SECONDS)
