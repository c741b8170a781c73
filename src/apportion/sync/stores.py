# Generated from stores/facade.py by `python -m generate`; change that file, and generate anew.
"""Stores as users open them, without an event loop. The I/O thread does the work.

A store has the eight calls of `CoordinationStore`, with the same meanings and errors.
The async twin of this file is `stores/facade.py`.
"""

from collections.abc import Collection, Generator, Sequence
from functools import partial

from apportion.runtime.resource import SyncResource
from apportion.stores.api import Compare, CoordinationStore, Lease, Need, Outcome, Put, Scan, StoreChange, check_needs
from apportion.stores.catalog import check_url, connect
from apportion.stores.on_thread import PulledWatch, StoreOnThread


def open_store(url: str, *, needs: Collection[Need] = ()) -> "SyncResource[CoordinationStore, SyncStore]":
    """Open the store of a URL in a `with` block, and close it at the end.

    - `url`: for example `sqlite:///work.db`, `postgresql://user@host/database`, `etcd://host:2379`,
      `redis://host:6379/0` or `memory://name`. The page "Stores" lists the options of each.
    - `needs`: the guarantees that the program relies on: "durable", "fencing", "gapless_watch", "linearizable" or
      "multi_host". Default: none.

        with apportion.sync.open_store("sqlite:///work.db", needs=["durable"]) as store:
            found = store.scan("jobs/")

    The call raises `InvalidInput` or `UnknownOption` for an invalid URL, and `MissingExtra` when the client of the
    store is not installed. When the block begins, it raises `StoreUnavailable` if no server answers, and `StoreDenied`
    if the store refuses the user. It raises `NotPromised` if the store lacks a need.
    """
    check_url(url)
    opened = partial(connect, url, needs=check_needs(needs))
    return SyncResource("apportion.sync.open_store(url)", opened, lambda store: store.close(), SyncStore)


class SyncStore(StoreOnThread):
    """A store that lives on the I/O thread, for callers without an event loop; it is not to be called from one."""

    def scan(self, prefix: str) -> Scan:
        """See `CoordinationStore`."""
        return self._thread.wait(self._store.scan(prefix))

    def commit(self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()) -> Outcome:
        """See `CoordinationStore`. A caller that is interrupted cannot know whether the commit happened."""
        return self._thread.wait(self._store.commit(when=when, puts=puts, deletes=deletes))

    def watch(self, prefix: str, *, after: int) -> Generator[StoreChange, None, None]:
        """See `CoordinationStore`. Each change takes one hop from the I/O thread."""
        changes = PulledWatch(self._store.watch(prefix, after=after))
        try:
            while (change := self._thread.wait(changes.next())) is not None:
                yield change
        finally:
            changes.send_end(self._thread)

    def grant(self, *, ttl_seconds: float, lease: int | None = None) -> Lease:
        """See `CoordinationStore`. A caller that is interrupted leaves no lease."""
        return self._thread.wait(self._granted(ttl_seconds, lease), undo=self._taken_back)

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
