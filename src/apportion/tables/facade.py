"""Tables as users publish and follow them, on any event loop; stores are used on the I/O thread.

    async with apportion.follow("sqlite:///work.db", "orders") as table:
        table.route("tenant-42")                    # from memory

    await apportion.publish("sqlite:///work.db", "orders", ring.table())

The sync twin of this file is `sync/tables.py`.
"""

from functools import partial

from apportion.placement.hashers import Hasher
from apportion.runtime.io_thread import io_thread
from apportion.runtime.resource import AsyncResource
from apportion.stores.catalog import check_url
from apportion.tables.deltas import Routing
from apportion.tables.followed import Followed, FollowedTable, closed, followed, published
from apportion.tables.layout import TableKeys, Version
from apportion.tables.publisher import Published
from apportion.tables.routes import Routes


async def publish(url: str, name: str, table: Routing) -> Published:
    """Publish a table or an assignment once. Raises the errors of `stores.connect` and `Publisher.publish`."""
    return await io_thread().hop(published(url, name, table))


def follow(
    url: str, name: str, *, within_seconds: float = 10.0, hasher: str | Hasher | None = None
) -> "AsyncResource[Followed, AsyncFollower]":
    """Follow a name until the end of an `async with` block, from its newest version on.

    Waits at most `within_seconds` for a first version, then raises `StoreUnavailable`. Pass `hasher` only if the table
    was made with a hasher that has a secret, or with one of your own. Other errors are those of `stores.connect` and
    `Follower.start`.
    """
    check_url(url)
    begin = partial(followed, url, TableKeys(name).name, within_seconds, hasher)
    return AsyncResource("apportion.follow(url, name)", begin, closed, AsyncFollower)


class AsyncFollower(FollowedTable):
    """A followed table, for callers on any event loop."""

    async def refresh(self, version: Version, *, within_seconds: float = 5.0) -> Routes:
        """Return routes newer than `version`, the version that misrouted a key; see `Follower.refresh`."""
        return await self._thread.hop(self._following.refresh(version, within_seconds=within_seconds))
