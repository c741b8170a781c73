"""Maps with several copies, as users create and open them, on any event loop. The I/O thread does the work.

The sync twin of this file is `sync/replicas.py`.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import partial

from apportion.errors import ApportionError
from apportion.model.topology import Topology
from apportion.runtime.io_thread import io_thread
from apportion.runtime.resource import AsyncResource
from apportion.shards.replicas.creation import MapCreation, created
from apportion.shards.replicas.entry import MapEntry
from apportion.shards.replicas.level import Level
from apportion.shards.replicas.map import ReplicaMap, get_all, get_one, put_all, put_one
from apportion.shards.replicas.map_options import MapOptions, ReadFrom, seconds_of
from apportion.shards.replicas.opening import OpenedMap, closed_map, opened_map
from apportion.shards.replicas.records import MapKeys
from apportion.shards.replicas.slot_lists import Copies
from apportion.shards.replicas.version import EntryVersion
from apportion.stores.catalog import check_url

_SECOND = timedelta(seconds=1)
_GC_GRACE = timedelta(days=10)


async def create(
    url: str,
    name: str,
    *,
    copies: Copies,
    topology: Topology,
    urls: Mapping[str, str],
    slots: int = 1_024,
    gc_grace: timedelta = _GC_GRACE,
) -> None:
    """Create a map: its table in the control store, and an empty copy on each node.

    - `url`: the URL of the control store, as in `open_store`. The store must issue fencing tokens, so Redis is refused.
    - `name`: the name of the map, without a slash, at most 200 bytes.
    - `copies`: the nodes for each key, for example 3; or a mapping of data centres to such counts.
    - `topology`: the nodes. The first level of a zone is the data centre. Copies of a key lie in distinct zones.
    - `urls`: the URL of each node: `sqlite:////srv/flags.db`, or `memory://name` within this process.
    - `slots`: the number of slots, a power of two. Choose several for each node that you will ever have. Default: 1024.
    - `gc_grace`: the longest time for which a node may be away and still come back. Default: ten days.

        nodes = Topology([Node("a", zone=("r1",)), Node("b", zone=("r2",)), Node("c", zone=("r3",))])
        await replicas.create("sqlite:///control.db", "flags", copies=3, topology=nodes, urls=urls)

    Run the same call again after a failure: it goes on. Raises the errors of `open_store`, and these. `InvalidInput`:
    an argument is wrong, a map of that name has other arguments, or a node belongs to another map. `NotEnoughNodes`:
    there are more copies than zones. `NotPromised`: the control store issues no fencing tokens.
    """
    check_url(url, needs=["fencing"])
    creation = MapCreation.of(name, copies=copies, slots=slots, topology=topology, urls=urls, gc_grace=gc_grace)
    await io_thread().hop(created(url, creation))


def open_map(
    url: str,
    name: str,
    *,
    consistency: Level = "quorum",
    datacenter: str | None = None,
    read_from: ReadFrom = "nearest",
    timeout: timedelta = _SECOND,
    read_repair: bool = True,
) -> "AsyncResource[OpenedMap, AsyncMap]":
    """Open a map until the end of an `async with` block.

    - `url`: the URL of the control store, as in `open_store`.
    - `name`: the name of the map.
    - `consistency`: the nodes that must answer: "one", "quorum", "local_quorum" or "all". Default: "quorum".
    - `datacenter`: the data centre of this process, which is asked first; "local_quorum" needs it. Default: None.
    - `read_from`: "nearest" asks the nodes that answer first, "random" spreads the gets of popular keys.
    - `timeout`: the longest time that a call takes. Default: one second.
    - `read_repair`: whether a get makes the newest version safe before it returns. Default: True.

        async with apportion.open_map("sqlite:///control.db", "flags") as flags:
            await flags.put("checkout", b"on")

    The call raises the errors of `open_store` for the URL, and `UnknownOption` or `InvalidInput` for an option. The
    begin of the block raises the errors of `open_store`, and the following. `InvalidInput`: there is no such map.
    `ClockAstray`: the clock of this process is more than a minute from those of the nodes.
    """
    check_url(url, needs=["fencing"])
    options = MapOptions(
        consistency=consistency,
        datacenter=datacenter,
        read_from=read_from,
        timeout_seconds=seconds_of("timeout", timeout),
        read_repair=read_repair,
    )
    begin = partial(opened_map, url, MapKeys(name), options)
    return AsyncResource("apportion.open_map(url, name)", begin, closed_map, AsyncMap)


class AsyncMap(ReplicaMap):
    """An opened map, for callers on any event loop.

    Each key is for itself, and the last writer wins, by version.
    """

    async def put(
        self, key: str, value: bytes, *, ttl: timedelta | None = None, consistency: Level | None = None
    ) -> EntryVersion:
        """Write a value; return its version. One round trip; one more each time that a later write is met.

        - `ttl`: the time after which the entry ends. Default: None, it never ends.
        - `consistency`: the level of this call. Default: that of the map.

        `QuorumNotReached`: too few nodes answered in time; the value may still come to be seen. Repeat the put.
        `ClockAstray`: the key has a version that is more than a day ahead. `InvalidInput`: the key or value is wrong.
        """
        return await self._thread.hop(put_one(self._map, key, value, ttl, consistency))

    async def get(self, key: str, *, consistency: Level | None = None) -> MapEntry | None:
        """Return the newest entry of a key; None if it was deleted, has expired, or never existed.

        One round trip, and a second one if the newest version is on too few nodes. `QuorumNotReached`: too few nodes
        answered in time.
        """
        return await self._thread.hop(get_one(self._map, key, consistency))

    async def delete(self, key: str, *, consistency: Level | None = None) -> EntryVersion:
        """Delete a key; return the version of the deletion. Costs and errors are those of `put`."""
        return await self._thread.hop(put_one(self._map, key, None, None, consistency))

    async def put_many(
        self, values: Mapping[str, bytes], *, ttl: timedelta | None = None, consistency: Level | None = None
    ) -> dict[str, EntryVersion | ApportionError]:
        """Write many keys, each for itself; return the version or the error of each. One message for each node.

        `InvalidInput` for a wrong key or value is raised before the first effect.
        """
        return await self._thread.hop(put_all(self._map, values, ttl, consistency))

    async def get_many(
        self, keys: Iterable[str], *, consistency: Level | None = None
    ) -> dict[str, MapEntry | ApportionError | None]:
        """Read many keys, each for itself; return the entry, None or the error of each. One message for each node."""
        return await self._thread.hop(get_all(self._map, keys, consistency))
