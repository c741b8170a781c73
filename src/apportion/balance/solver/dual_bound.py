"""Dual bound: the least that a partition can pay for its replicas at given node prices. A proof uses it as lower bound.

A node that held the partition costs its price; any other node costs 1 more. From each zone a partition must take a
fixed number of nodes, and may take one more. A high price in one zone does not affect other zones. So most of the sum
is the same for all partitions, and only the zones of the partition's own earlier nodes are computed anew.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import islice


class CheapestLists:
    """The least cost of a list, for given prices of nodes, and a given least and most number of nodes per zone.

    Built in O(nodes log nodes); one partition costs O(its earlier nodes · length of a list).
    """

    def __init__(
        self,
        prices: Mapping[str, int],
        zones: Mapping[Hashable, Sequence[str]],
        *,
        must: Mapping[Hashable, int],
        may: Mapping[Hashable, int],
        replicas: int,
    ) -> None:
        self._prices, self._must, self._may = prices, must, may
        self._zone_of = {node_id: zone for zone, members in zones.items() for node_id in members}
        self._by_price = {zone: sorted(members, key=prices.__getitem__) for zone, members in zones.items()}
        self._optional_count = replicas - sum(must.values())
        costs = {zone: self._costs(zone, ()) for zone in zones}
        self._owed = {zone: sum(own[: must[zone]]) for zone, own in costs.items()}
        self._all_owed = sum(self._owed.values())
        self._optional = sorted((cost, place) for place, zone in enumerate(zones) for cost in costs[zone][must[zone] :])
        self._zones = list(zones)

    def least(self, before: Collection[str]) -> int:
        """Return the least that a partition pays if these nodes held it before."""
        touched = {self._zone_of[node_id] for node_id in before if node_id in self._zone_of}
        owed, optional = self._all_owed, list[int]()
        for zone in touched:
            costs = self._costs(zone, before)
            owed += sum(costs[: self._must[zone]]) - self._owed[zone]
            optional += costs[self._must[zone] :]
        others = (cost for cost, place in self._optional if self._zones[place] not in touched)
        optional += islice(others, self._optional_count)
        return owed + sum(sorted(optional)[: self._optional_count])

    def _costs(self, zone: Hashable, before: Collection[str]) -> list[int]:
        """Return the costs of the nodes that a list may have from a zone, cheapest first."""
        new = (node_id for node_id in self._by_price[zone] if node_id not in before)
        costs = [self._prices[node_id] + 1 for node_id in islice(new, self._may[zone])]
        costs += [self._prices[node_id] for node_id in before if self._zone_of.get(node_id) == zone]
        return sorted(costs)[: self._may[zone]]
