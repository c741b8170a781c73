"""Stores as users open them: from any event loop or from none. The I/O thread does the work.

    async with apportion.open_store("sqlite:///work.db") as store:
        await store.scan("")

    with apportion.sync.open_store("sqlite:///work.db") as store:
        store.scan("")

Both have the eight calls of `CoordinationStore`, with the same meanings and errors.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from functools import partial

from apportion.runtime.endings import whole
from apportion.runtime.handle import Handle
from apportion.runtime.resource import AsyncResource, SyncResource
from apportion.runtime.simulated import Runner
from apportion.stores.api import Capabilities, Compare, CoordinationStore, Lease, Need, Outcome, Put, Scan, StoreChange
from apportion.stores.catalog import check_url, connect


def open_store(url: str, *, needs: Collection[Need] = ()) -> "AsyncResource[CoordinationStore, AsyncStore]":
    """Open the store of a URL in an `async with` block and close it at the end.

    A URL that no store can have is refused at once. Errors are those of `stores.connect`.
    """
    check_url(url)
    opened = partial(connect, url, needs=needs)
    return AsyncResource("apportion.open_store(url)", opened, _closed, AsyncStore)


def open_store_sync(url: str, *, needs: Collection[Need] = ()) -> "SyncResource[CoordinationStore, SyncStore]":
    """Open the store of a URL in a `with` block and close it at the end; `apportion.sync.open_store`."""
    check_url(url)
    opened = partial(connect, url, needs=needs)
    return SyncResource("apportion.sync.open_store(url)", opened, _closed, SyncStore)


async def _closed(store: CoordinationStore) -> None:
    await store.close()


class _Store(Handle):
    """A store that lives on the I/O thread."""

    def __init__(self, store: CoordinationStore, thread: Runner) -> None:
        self._store, self._thread = store, thread

    def capabilities(self) -> Capabilities:
        """See `CoordinationStore`."""
        return self._store.capabilities()

    async def _granted(self, ttl_seconds: float) -> Lease:
        """Grant a lease on the I/O thread, and give it back when no caller waits for it any more."""
        return await whole(self._store.grant(ttl_seconds=ttl_seconds), self._taken_back)

    async def _taken_back(self, lease: Lease) -> None:
        await self._store.revoke(lease.id)


class AsyncStore(_Store):
    """A store that lives on the I/O thread, for callers on any event loop."""

    async def scan(self, prefix: str) -> Scan:
        """See `CoordinationStore`."""
        return await self._thread.hop(self._store.scan(prefix))

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        """See `CoordinationStore`. A cancelled caller cannot know whether the commit happened."""
        return await self._thread.hop(self._store.commit(when=when, puts=puts, deletes=deletes))

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[StoreChange, None]:
        """See `CoordinationStore`. One hop per change."""
        changes = _Pulled(self._store.watch(prefix, after=after))
        try:
            while (change := await self._thread.hop(changes.next())) is not None:
                yield change
        finally:
            if self._thread.runs:
                await self._thread.finish(changes.end())

    async def grant(self, *, ttl_seconds: float) -> Lease:
        """See `CoordinationStore`. A cancelled caller leaves no lease."""
        return await self._thread.hop(self._granted(ttl_seconds), undo=self._taken_back)

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`."""
        return await self._thread.hop(self._store.renew(leases))

    async def revoke(self, lease: int) -> None:
        """See `CoordinationStore`."""
        await self._thread.hop(self._store.revoke(lease))

    async def close(self) -> None:
        """See `CoordinationStore`."""
        if self._thread.runs:
            await self._thread.finish(self._store.close())


class SyncStore(_Store):
    """A store that lives on the I/O thread, for callers without an event loop. Do not call it from an event loop."""

    def scan(self, prefix: str) -> Scan:
        """See `CoordinationStore`."""
        return self._thread.wait(self._store.scan(prefix))

    def commit(self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()) -> Outcome:
        """See `CoordinationStore`. An interrupted caller cannot know whether the commit happened."""
        return self._thread.wait(self._store.commit(when=when, puts=puts, deletes=deletes))

    def watch(self, prefix: str, *, after: int) -> Iterator[StoreChange]:
        """See `CoordinationStore`. Waits for each change without a time limit; Ctrl-C interrupts it."""
        changes = _Pulled(self._store.watch(prefix, after=after))
        try:
            while (change := self._thread.wait(changes.next())) is not None:
                yield change
        finally:
            self._thread.send(changes.end())  # a finalizer may run this, and a finalizer must not wait

    def grant(self, *, ttl_seconds: float) -> Lease:
        """See `CoordinationStore`. An interrupted caller leaves no lease."""
        return self._thread.wait(self._granted(ttl_seconds), undo=self._taken_back)

    def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`."""
        return self._thread.wait(self._store.renew(leases))

    def revoke(self, lease: int) -> None:
        """See `CoordinationStore`."""
        self._thread.wait(self._store.revoke(lease))

    def close(self) -> None:
        """See `CoordinationStore`."""
        if self._thread.runs:
            self._thread.wait_finished(self._store.close())


class _Pulled:
    """A watch on the I/O thread, pulled change by change. A cancelled pull may still run when the watch is ended."""

    def __init__(self, changes: AsyncGenerator[StoreChange, None]) -> None:
        self._changes = changes
        self._turn = asyncio.Lock()

    async def next(self) -> StoreChange | None:
        """Return the next change, None after the last."""
        async with self._turn:
            return await anext(self._changes, None)

    async def end(self) -> None:
        """End the watch, once no pull is running."""
        async with self._turn:
            await self._changes.aclose()
