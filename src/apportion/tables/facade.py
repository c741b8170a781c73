"""Tables as users publish and follow them: from any event loop, or from none; stores are used on the I/O thread.

async with apportion.follow("sqlite:///work.db", "orders") as table:
    table.route("tenant-42")                    # from memory; the same with apportion.sync.follow and `with`

await apportion.publish("sqlite:///work.db", "orders", ring.table())
"""

from contextlib import AsyncExitStack
from functools import partial

from apportion.errors import StoreClosed
from apportion.model.assignment import PreferenceList
from apportion.model.epoch import Epoch
from apportion.model.plan import Key
from apportion.placement.hashers import Hasher
from apportion.runtime.handle import Handle
from apportion.runtime.io_thread import io_thread
from apportion.runtime.resource import AsyncResource, SyncResource
from apportion.runtime.simulated import Runner
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import check_url, connect
from apportion.tables.deltas import Routing
from apportion.tables.follower import Follower
from apportion.tables.layout import TableKeys, Version, routed
from apportion.tables.publisher import Published, Publisher
from apportion.tables.routes import Routes


async def publish(url: str, name: str, table: Routing) -> Published:
    """Publish a table or an assignment once; errors as those of `stores.connect` and `Publisher.publish`."""
    return await io_thread().hop(_publish(url, name, table))


def publish_sync(url: str, name: str, table: Routing) -> Published:
    """Publish a table or an assignment once; `apportion.sync.publish`."""
    return io_thread().wait(_publish(url, name, table))


def follow(
    url: str, name: str, *, within_seconds: float = 10.0, hasher: str | Hasher | None = None
) -> "AsyncResource[Followed, AsyncFollower]":
    """Follow a name until the end of an `async with` block, from its newest version on.

    Waits so long for a first version, then raises `StoreUnavailable`. `hasher` is needed only for a table of one with
    a secret, or of your own. Errors as those of `stores.connect` and `Follower.start`.
    """
    check_url(url)
    begin = partial(_follow, url, TableKeys(name).name, within_seconds, hasher)
    return AsyncResource("apportion.follow(url, name)", begin, _close, AsyncFollower)


def follow_sync(
    url: str, name: str, *, within_seconds: float = 10.0, hasher: str | Hasher | None = None
) -> "SyncResource[Followed, SyncFollower]":
    """Follow a name until the end of a `with` block, from its newest version on; `apportion.sync.follow`."""
    check_url(url)
    begin = partial(_follow, url, TableKeys(name).name, within_seconds, hasher)
    return SyncResource("apportion.sync.follow(url, name)", begin, _close, SyncFollower)


class _Follower(Handle):
    """What a follower answers from memory: without I/O, from any thread, also after the end of its block."""

    def __init__(self, followed: "Followed", thread: Runner) -> None:
        (_, self._following), self._thread = followed, thread

    @property
    def routes(self) -> Routes:
        """The version that is shown now, as a value that stays as it is."""
        return self._following.routes

    @property
    def version(self) -> Version:
        """Which version is shown now."""
        return self._following.routes.version

    @property
    def epoch(self) -> Epoch:
        """The epoch of what is shown now."""
        return self._following.routes.epoch

    @property
    def heard(self) -> Version:
        """The newest version that was heard of."""
        return self._following.heard

    @property
    def drift_versions(self) -> int:
        """How many published versions we are behind, as far as we heard."""
        return self._following.drift_versions

    @property
    def age_seconds(self) -> float:
        """How long ago the store last confirmed that what is shown is the newest version."""
        return self._following.age_seconds

    @property
    def trouble(self) -> BaseException | None:
        """Why it may not be the newest version, None while all is well."""
        if not self._thread.runs:
            return StoreClosed("a store", "it belongs to the process that this one was forked from")
        return self._following.trouble

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        return self._following.routes.route(key)

    def preference(self, key: Key, count: int) -> tuple[str, ...]:
        """Return the first `count` owners of a key's range, the leader first."""
        return self._following.routes.preference(key, count)

    def owner(self, partition: str | int) -> str | None:
        """Return the id of the node that owns a partition; None when it has no owner now."""
        return self._following.routes.owner(partition)

    def owners(self, partition: str | int) -> PreferenceList:
        """Return all owners of a partition, the leader first."""
        return self._following.routes.owners(partition)


class AsyncFollower(_Follower):
    """A followed table, for callers on any event loop."""

    async def refresh(self, version: Version, *, within_seconds: float = 5.0) -> Routes:
        """Return routes newer than `version`, by which a key was misrouted; see `Follower.refresh`."""
        return await self._thread.hop(self._following.refresh(version, within_seconds=within_seconds))


class SyncFollower(_Follower):
    """A followed table, for callers without an event loop. `refresh` is not to be called from one."""

    def refresh(self, version: Version, *, within_seconds: float = 5.0) -> Routes:
        """Return routes newer than `version`, by which a key was misrouted; see `Follower.refresh`."""
        return self._thread.wait(self._following.refresh(version, within_seconds=within_seconds))


async def _publish(url: str, name: str, table: Routing) -> Published:
    TableKeys(name)  # refuses a bad name or value before a store is opened
    routed(table)
    store = await connect(url)
    try:
        return await Publisher(store, name).publish(table)
    finally:
        await store.close()


async def _follow(url: str, name: str, within_seconds: float, hasher: str | Hasher | None) -> "Followed":
    store = await connect(url)
    async with AsyncExitStack() as otherwise:
        otherwise.push_async_callback(store.close)
        following = Follower(store, name, hasher=hasher)
        await following.start(within_seconds=within_seconds)
        otherwise.pop_all()
    return store, following


async def _close(followed: "Followed") -> None:
    store, following = followed
    try:
        await following.close()
    finally:
        await store.close()


Followed = tuple[CoordinationStore, Follower]
