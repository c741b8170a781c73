"""Routes of a map: the nodes of a key, in the order in which one process asks them, and the needs of its level."""

import random
from collections.abc import Mapping, Sequence

from apportion.shards.replicas.calls.call import CallRoute
from apportion.shards.replicas.lane import NodeLane
from apportion.shards.replicas.level import Level, needs_of
from apportion.shards.replicas.map_options import MapOptions
from apportion.shards.replicas.records import ReplicaTable


def call_route(
    table: ReplicaTable, slot: int, level: Level, options: MapOptions, lanes: Mapping[str, NodeLane]
) -> CallRoute:
    """Return the route of one call to a slot. O(copies log copies)."""
    owners, datacenters = table.owners(slot), table.datacenters
    needs = needs_of(level, owners, datacenters, options.datacenter)
    return CallRoute(nodes=_ordered(owners, datacenters, options, lanes), writes=needs, reads=needs)


def _ordered(
    owners: Sequence[str], datacenters: Mapping[str, str], options: MapOptions, lanes: Mapping[str, NodeLane]
) -> tuple[str, ...]:
    """Return nodes of the own data centre first, then those that answer, then the quickest or in a random order."""
    is_random = options.read_from == "random"

    def _rank(node: str) -> tuple[bool, bool, float]:
        reach = lanes[node].reach
        is_far = options.datacenter is not None and datacenters.get(node) != options.datacenter
        return is_far, reach.is_cut, random.random() if is_random else reach.seconds  # noqa: S311 - no secret

    return tuple(sorted(owners, key=_rank))
