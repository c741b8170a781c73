"""A store on the I/O thread: the code that the async and the sync façade share."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

from apportion.runtime.endings import whole
from apportion.runtime.handle import Handle
from apportion.runtime.simulated import Runner
from apportion.stores.api import Capabilities, CoordinationStore, Lease

Seen = TypeVar("Seen")


class StoreOnThread(Handle):
    """A store that lives on the I/O thread."""

    def __init__(self, store: CoordinationStore, thread: Runner) -> None:
        self._store, self._thread = store, thread

    def capabilities(self) -> Capabilities:
        """See `CoordinationStore`."""
        return self._store.capabilities()

    async def _granted(self, ttl_seconds: float, lease: int | None) -> Lease:
        return await whole(self._store.grant(ttl_seconds=ttl_seconds, lease=lease), self._taken_back)

    async def _taken_back(self, lease: Lease) -> None:
        await self._store.revoke(lease.id)


class PulledWatch(Generic[Seen]):
    """A watch on the I/O thread. Its consumer pulls one change at a time.

    A cancelled pull may still run when the consumer ends the watch.
    """

    def __init__(self, changes: AsyncGenerator[Seen, None]) -> None:
        self._changes = changes
        self._turn = asyncio.Lock()

    async def next(self) -> Seen | None:
        """Return the next change, None after the last."""
        async with self._turn:
            return await anext(self._changes, None)

    async def end(self) -> None:
        """End the watch as soon as no pull is running."""
        async with self._turn:
            await self._changes.aclose()

    async def finish(self, thread: Runner) -> None:
        """End the watch from another loop, and wait for its end."""
        if thread.runs:
            await thread.finish(self.end())

    def send_end(self, thread: Runner) -> None:
        """End the watch from another thread without waiting: a finalizer may call this."""
        thread.send(self.end())
