"""Stores as users open them: from any event loop, or from none; the work is done on the I/O thread.

    async with apportion.open_store("sqlite:///work.db") as store:
        await store.scan("")

    with apportion.sync.open_store("sqlite:///work.db") as store:
        store.scan("")

Both have the eight calls of `CoordinationStore`, with the same meanings and errors.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from apportion.stores.api import Capabilities, Change, Compare, CoordinationStore, Lease, Need, Outcome, Put, Scan
from apportion.stores.catalog import connect
from apportion.stores.handle import Handle
from apportion.stores.io_thread import io_thread
from apportion.stores.machine import Runner


@asynccontextmanager
async def open_store(url: str, *, needs: Collection[Need] = ()) -> AsyncIterator["AsyncStore"]:
    """Open the store of a URL and close it at the end of the block. Errors as those of `stores.connect`."""
    thread = io_thread()
    store = AsyncStore(await thread.hop(connect(url, needs=needs)), thread)
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def open_store_sync(url: str, *, needs: Collection[Need] = ()) -> Iterator["SyncStore"]:
    """Open the store of a URL and close it at the end of the block; `apportion.sync.open_store`."""
    thread = io_thread()
    store = SyncStore(thread.wait(connect(url, needs=needs)), thread)
    try:
        yield store
    finally:
        store.close()


class AsyncStore(Handle):
    """A store that lives on the I/O thread, for callers on any event loop."""

    def __init__(self, store: CoordinationStore, thread: Runner) -> None:
        self._store, self._thread = store, thread

    async def scan(self, prefix: str) -> Scan:
        """See `CoordinationStore`."""
        return await self._thread.hop(self._store.scan(prefix))

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        """See `CoordinationStore`. A caller that is cancelled cannot know whether it happened."""
        return await self._thread.hop(self._store.commit(when=when, puts=puts, deletes=deletes))

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[Change, None]:
        """See `CoordinationStore`. One hop a change."""
        changes = _Pulled(self._store.watch(prefix, after=after))
        try:
            while (change := await self._thread.hop(changes.next())) is not None:
                yield change
        finally:
            if self._thread.runs:
                await self._thread.hop(changes.end())

    async def grant(self, *, ttl_seconds: float) -> Lease:
        """See `CoordinationStore`."""
        return await self._thread.hop(self._store.grant(ttl_seconds=ttl_seconds))

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`."""
        return await self._thread.hop(self._store.renew(leases))

    async def revoke(self, lease: int) -> None:
        """See `CoordinationStore`."""
        await self._thread.hop(self._store.revoke(lease))

    def capabilities(self) -> Capabilities:
        """See `CoordinationStore`."""
        return self._store.capabilities()

    async def close(self) -> None:
        """See `CoordinationStore`."""
        if self._thread.runs:
            await self._thread.hop(self._store.close())


class SyncStore(Handle):
    """A store that lives on the I/O thread, for callers without an event loop. Not to be called from one."""

    def __init__(self, store: CoordinationStore, thread: Runner) -> None:
        self._store, self._thread = store, thread

    def scan(self, prefix: str) -> Scan:
        """See `CoordinationStore`."""
        return self._thread.wait(self._store.scan(prefix))

    def commit(self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()) -> Outcome:
        """See `CoordinationStore`. A caller that is interrupted cannot know whether it happened."""
        return self._thread.wait(self._store.commit(when=when, puts=puts, deletes=deletes))

    def watch(self, prefix: str, *, after: int) -> Iterator[Change]:
        """See `CoordinationStore`. Waits for each change without end; Ctrl-C interrupts it."""
        changes = _Pulled(self._store.watch(prefix, after=after))
        try:
            while (change := self._thread.wait(changes.next())) is not None:
                yield change
        finally:
            if self._thread.runs:
                self._thread.wait(changes.end())

    def grant(self, *, ttl_seconds: float) -> Lease:
        """See `CoordinationStore`."""
        return self._thread.wait(self._store.grant(ttl_seconds=ttl_seconds))

    def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`."""
        return self._thread.wait(self._store.renew(leases))

    def revoke(self, lease: int) -> None:
        """See `CoordinationStore`."""
        self._thread.wait(self._store.revoke(lease))

    def capabilities(self) -> Capabilities:
        """See `CoordinationStore`."""
        return self._store.capabilities()

    def close(self) -> None:
        """See `CoordinationStore`."""
        if self._thread.runs:
            self._thread.wait(self._store.close())


class _Pulled:
    """A watch on the I/O thread, pulled change by change; a pull that was cancelled may still run when it is ended."""

    def __init__(self, changes: AsyncGenerator[Change, None]) -> None:
        self._changes = changes
        self._turn = asyncio.Lock()

    async def next(self) -> Change | None:
        """Return the next change, None after the last."""
        async with self._turn:
            return await anext(self._changes, None)

    async def end(self) -> None:
        """End the watch, once no pull is under way."""
        async with self._turn:
            await self._changes.aclose()
