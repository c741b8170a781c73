"""Stores as users open them, on any event loop. The I/O thread does the work.

A store has the eight calls of `CoordinationStore`, with the same meanings and errors.
The sync twin of this file is `sync/stores.py`.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from functools import partial

from apportion.runtime.resource import AsyncResource
from apportion.stores.api import Compare, CoordinationStore, Lease, Need, Outcome, Put, Scan, StoreChange, check_needs
from apportion.stores.catalog import check_url, connect
from apportion.stores.on_thread import PulledWatch, StoreOnThread


def open_store(url: str, *, needs: Collection[Need] = ()) -> "AsyncResource[CoordinationStore, AsyncStore]":
    """Open the store of a URL in an `async with` block, and close it at the end.

    - `url`: for example `sqlite:///work.db`, `postgresql://user@host/database`, `etcd://host:2379`,
      `redis://host:6379/0` or `memory://name`. The page "Stores" lists the options of each.
    - `needs`: the guarantees that the program relies on: "durable", "fencing", "gapless_watch", "linearizable" or
      "multi_host". Default: none.

        async with apportion.open_store("sqlite:///work.db", needs=["durable"]) as store:
            found = await store.scan("jobs/")

    The call raises `InvalidInput` or `UnknownOption` for an invalid URL, and `MissingExtra` when the client of the
    store is not installed. When the block begins, it raises `StoreUnavailable` if no server answers, and `StoreDenied`
    if the store refuses the user. It raises `NotPromised` if the store lacks a need.
    """
    check_url(url)
    opened = partial(connect, url, needs=check_needs(needs))
    return AsyncResource("apportion.open_store(url)", opened, lambda store: store.close(), AsyncStore)


class AsyncStore(StoreOnThread):
    """A store that lives on the I/O thread, for callers on any event loop."""

    async def scan(self, prefix: str) -> Scan:
        """See `CoordinationStore`."""
        return await self._thread.hop(self._store.scan(prefix))

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        """See `CoordinationStore`. A caller that is cancelled cannot know whether the commit happened."""
        return await self._thread.hop(self._store.commit(when=when, puts=puts, deletes=deletes))

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[StoreChange, None]:
        """See `CoordinationStore`. Each change takes one hop from the I/O thread."""
        changes = PulledWatch(self._store.watch(prefix, after=after))
        try:
            while (change := await self._thread.hop(changes.next())) is not None:
                yield change
        finally:
            await changes.finish(self._thread)

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> Lease:
        """See `CoordinationStore`. A caller that is cancelled leaves no lease."""
        return await self._thread.hop(self._granted(ttl_seconds, lease), undo=self._taken_back)

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
