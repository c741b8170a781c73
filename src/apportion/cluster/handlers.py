"""Handlers: calls of the user's own for each partition that is gained and lost, which may fail.

    await group.serve(on_gained=open_inbox, on_lost=close_inbox)

Promises: for one partition they never run at once, and `on_lost` comes after `on_gained` of the same token. A partition
goes to its next owner when `on_lost` has returned; it is not given away half closed. A handler that raises is called
again, later each time, and is on probation meanwhile: `failing` says which and why. `on_gained` is given up when the
partition is lost, `on_lost` when the drain's time is over.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

from apportion.cluster.holdings import GroupChange
from apportion.errors import NotOwner
from apportion.model.epoch import FencingToken

logger = logging.getLogger("apportion.group")
Handler = Callable[[int, FencingToken], Awaitable[None]]
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0


class Serves(Protocol):
    """What handlers need of a group."""

    def changes(self) -> AsyncGenerator[GroupChange, None]:
        """See `AsyncGroup`."""
        ...

    def hold(self, partition: int | str) -> AbstractAsyncContextManager[FencingToken]:
        """See `AsyncGroup`."""
        ...


class Handlers:
    """The handlers of one group, and a task for each partition that is ours."""

    def __init__(self, group: Serves, on_gained: Handler | None, on_lost: Handler | None) -> None:
        self._group, self._on_gained, self._on_lost = group, on_gained, on_lost
        self._losing: dict[int, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.failing: dict[int, str] = {}

    async def run(self) -> None:
        """Call the handlers for all that changes, until this member has left."""
        try:
            async for change in self._group.changes():
                for partition in change.lost:
                    if partition in self._losing:
                        self._losing[partition].set()
                for partition in change.gained:
                    self._begin(partition)
        finally:
            for losing in self._losing.values():
                losing.set()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _begin(self, partition: int) -> None:
        self._losing[partition] = asyncio.Event()
        task = asyncio.create_task(self._live(partition, self._losing[partition]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self, partition: int, losing: asyncio.Event) -> None:
        """Hold one partition from the first handler to the last."""
        try:
            async with self._group.hold(partition) as token:
                await self._until_done(partition, token, self._on_gained, give_up=losing)
                await losing.wait()
                await self._until_done(partition, token, self._on_lost, give_up=None)
        except NotOwner as error:
            logger.warning("%s", error.problem)
        finally:
            self.failing.pop(partition, None)

    async def _until_done(
        self, partition: int, token: FencingToken, handler: Handler | None, *, give_up: asyncio.Event | None
    ) -> None:
        pause = FIRST_PAUSE_SECONDS
        while handler is not None and (give_up is None or not give_up.is_set()):
            [error] = await asyncio.gather(handler(partition, token), return_exceptions=True)
            if not isinstance(error, BaseException):
                self.failing.pop(partition, None)
                return
            self.failing[partition] = f"{type(error).__name__}: {error}"
            logger.error("handler of %s failed; again in %.1f s", token.resource, pause, exc_info=error)
            await _pause(pause, unless=give_up)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def _pause(seconds: float, *, unless: asyncio.Event | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await (asyncio.Event() if unless is None else unless).wait()
