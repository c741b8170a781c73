# Generated from tables/facade.py by `python -m generate`; change that file, and generate anew.
"""Tables as users publish and follow them, without an event loop. The I/O thread does the work.

The async twin of this file is `tables/facade.py`.
"""

from functools import partial

from apportion.placement.hashers import Hasher, resolve
from apportion.runtime.io_thread import io_thread
from apportion.runtime.resource import SyncResource
from apportion.stores.catalog import check_url
from apportion.tables.deltas import Routing
from apportion.tables.followed import Followed, FollowedTable, closed, followed, published
from apportion.tables.follower import check_seconds
from apportion.tables.layout import TableKeys, Version
from apportion.tables.publisher import Published
from apportion.tables.routes import Routes


def publish(url: str, name: str, table: Routing) -> Published:
    """Publish a table or an assignment as the next version of a name. Return that version, its epoch and its size.

    - `url`: the URL of the store, as in `open_store`.
    - `name`: the name that followers pass, without a slash, at most 200 bytes.
    - `table`: a `Table`, such as `ring.table()`, or an `Assignment`; at most 16 MiB when encoded. A value that is
      already the newest version is not published again.

        apportion.sync.publish("sqlite:///work.db", "orders", ring.table())

    Raises the errors of `open_store`, and these. `InvalidInput`: the name or the value is wrong, or the name has
    versions of the other kind. `BadSnapshot`: the value is too large. `StaleEpoch`: another publisher was first, and
    nothing was published. `StoreUnavailable`: the store gave no answer; the message says whether the value may have
    been published nevertheless.
    """
    return io_thread().wait(published(url, name, table))


def follow(
    url: str, name: str, *, within_seconds: float = 10.0, hasher: str | Hasher | None = None
) -> "SyncResource[Followed, SyncFollower]":
    """Follow a name until the end of a `with` block, from its newest version on.

    - `url`: the URL of the store, as in `open_store`.
    - `name`: the name under which the table or assignment is published.
    - `within_seconds`: the longest wait for a first version, in seconds. Default: 10.
    - `hasher`: the hasher that made the table, by name or as an object. Pass it only for a hasher with a secret, or for
      one of your own. Default: the hasher that the table names.

        with apportion.sync.follow("sqlite:///work.db", "orders") as table:
            node = table.route("tenant-42")  # from memory, without I/O

    The call raises the errors of `open_store` for the URL, and `InvalidInput` for the name. The begin of the block
    raises the errors of `open_store`, and the following. `StoreUnavailable`: no version was published in time.
    `BadSnapshot`: the table is damaged, and no publish repaired it in time. `InvalidInput`: the table needs another
    hasher.
    """
    check_url(url)
    check_seconds(within_seconds)
    if hasher is not None:
        resolve(hasher)
    begin = partial(followed, url, TableKeys(name).name, within_seconds, hasher)
    return SyncResource("apportion.sync.follow(url, name)", begin, closed, SyncFollower)


class SyncFollower(FollowedTable):
    """A followed table, for callers without an event loop; it is not to be called from one."""

    def refresh(self, version: Version, *, within_seconds: float = 5.0) -> Routes:
        """Return routes newer than `version`, after a node refused a key (`StaleRoute`); see `Follower.refresh`."""
        return self._thread.wait(self._following.refresh(version, within_seconds=within_seconds))
