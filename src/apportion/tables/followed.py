"""A followed table: it answers from memory, and is opened and closed on the I/O thread."""

from apportion.errors import StoreClosed
from apportion.model.assignment import PreferenceList
from apportion.model.epoch import Epoch
from apportion.model.plan import Key
from apportion.placement.hashers import Hasher
from apportion.runtime.endings import or_undo
from apportion.runtime.handle import Handle
from apportion.runtime.simulated import Runner
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import connect, opened
from apportion.tables.deltas import Routing
from apportion.tables.follower import Follower
from apportion.tables.layout import TableKeys, Version, routed
from apportion.tables.publisher import Published, Publisher
from apportion.tables.routes import Routes


class FollowedTable(Handle):
    """The answers of a follower from memory: without I/O, from any thread, also after the end of its block."""

    def __init__(self, followed: "Followed", thread: Runner) -> None:
        (_, self._following), self._thread = followed, thread

    @property
    def routes(self) -> Routes:
        """The version in use now, as a value that never changes."""
        return self._following.routes

    @property
    def version(self) -> Version:
        """The version in use now."""
        return self.routes.version

    @property
    def epoch(self) -> Epoch:
        """The epoch of the version in use now."""
        return self.routes.epoch

    @property
    def heard(self) -> Version:
        """The newest version that the follower knows of."""
        return self._following.heard

    @property
    def drift_versions(self) -> int:
        """The number of published versions that the follower is behind, as far as it knows."""
        return self._following.drift_versions

    @property
    def age_seconds(self) -> float:
        """The seconds since the store last confirmed that the version in use is the newest."""
        return self._following.age_seconds

    @property
    def trouble(self) -> BaseException | None:
        """The reason why the version in use may not be the newest, None while all is well."""
        if not self._thread.runs:
            return StoreClosed("a store", "it belongs to the parent of this forked process")
        return self._following.trouble

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        return self.routes.route(key)

    def preference(self, key: Key, count: int) -> tuple[str, ...]:
        """Return the first `count` owners of a key's range, the leader first."""
        return self.routes.preference(key, count)

    def owner(self, partition: str | int) -> str | None:
        """Return the id of the node that owns a partition; None when the partition has no owner now."""
        return self.routes.owner(partition)

    def owners(self, partition: str | int) -> PreferenceList:
        """Return all owners of a partition, the leader first."""
        return self.routes.owners(partition)


async def published(url: str, name: str, table: Routing) -> Published:
    """Open the store of a URL, publish once, and close the store."""
    TableKeys(name)  # refuses a bad name before the store is opened, as `routed` refuses a bad value
    routed(table)
    store = await connect(url)
    try:
        return await Publisher(store, name).publish(table)
    finally:
        await store.close()


async def repaired(url: str, name: str) -> Published:
    """Open the store of a URL, publish the newest version of a table once more, and close the store."""
    async with opened(url) as store:
        return await Publisher(store, name).renew()


async def followed(url: str, name: str, within_seconds: float, hasher: str | Hasher | None) -> "Followed":
    """Open the store of a URL, and follow a name in it."""
    store = await connect(url)
    async with or_undo(store.close):
        following = Follower(store, name, hasher=hasher)
        await following.start(within_seconds=within_seconds)
    return store, following


async def closed(followed: "Followed") -> None:
    """Stop following, and close the store."""
    store, following = followed
    try:
        await following.close()
    finally:
        await store.close()


Followed = tuple[CoordinationStore, Follower]
