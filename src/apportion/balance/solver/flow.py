"""The minimum-movement flow: the fewest replicas moved to loads that are as even as zones allow.

Promises: no two replicas of a partition are on one node. No zone has more replicas of a partition than the demand
allows. Loads are within the bounds. No other assignment with these properties moves fewer replicas, and the returned
prices prove it (see `verify`).
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush

from apportion import native
from apportion.balance.solver.augment import NOTHING, Augmenting, Open
from apportion.balance.solver.equal_costs import even_out
from apportion.balance.solver.quotas import Demand, LoadBounds
from apportion.errors import InvariantBroken
from apportion.model.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNetwork:
    """The input of the flow: the demand, the even loads, and the owners of each partition before.

    `before[p]` lists the node indexes of partition p. If p cannot keep all of these nodes, it should keep the first
    ones. Nodes that cannot hold anything now are left out. `elsewhere` is how much each node holds of other resources.
    Among the assignments with the fewest moves, one that evens out the sum is taken.
    """

    demand: Demand
    bounds: LoadBounds
    before: Rows
    elsewhere: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The nodes of each partition, earlier owners first, and the price of a place on each node."""

    rows: Rows
    prices: tuple[int, ...]


def solve(network: FlowNetwork) -> Flow:
    """Return an assignment with the fewest moves, and the prices that prove it. See `Augmenting` for the cost."""
    if not native.IN_USE:
        return reference_solve(network)
    rows, prices = native.extension.solve_flow(network)
    return Flow(rows=Rows(array("I", rows), width=network.demand.replicas), prices=tuple(prices))


def reference_solve(network: FlowNetwork) -> Flow:
    """Return the result of `solve`, computed in Python."""
    solver = _Replicas(network)
    solver.finish()
    if network.elsewhere is not None:
        even_out(solver, network.elsewhere)
    rows = [_ordered(row, before) for row, before in zip(solver.rows, solver.before, strict=True)]
    return Flow(rows=Rows.of(rows), prices=tuple(solver.price[: solver.nodes]))


def _ordered(row: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    kept = [node for node in before if node in row]
    return *kept, *sorted(set(row).difference(kept))


class _Replicas(Augmenting):
    """Replicas of partitions on nodes: an item is a partition with a replica on the node."""

    def __init__(self, network: FlowNetwork) -> None:
        self.demand, self.before = network.demand, tuple(network.before)
        self.zone_least, self.zone_most = network.demand.zone_least, network.demand.zone_most
        self.rows = list(_kept(network))
        _fill(network, self.rows)
        led: list[list[int]] = [[] for _ in network.demand.weights]
        followed: list[list[int]] = [[] for _ in network.demand.weights]
        for partition, (row, before) in enumerate(zip(self.rows, self.before, strict=True)):
            for node in row:
                (led if node in before[:1] else followed)[node].append(partition)
        held = [
            _in_turns(*parts, followers=max(1, network.demand.replicas - 1))
            for parts in zip(led, followed, strict=True)
        ]
        super().__init__(network.bounds, network.demand.zones, held)

    def swap(self, item: int, giver: int, taker: int) -> None:
        """Note that a replica of a partition now sits on another node."""
        row = self.rows[item]
        row[row.index(giver)] = taker

    def target(self, node: int, item: int, among: Open) -> int:
        """Return an open node to which a replica can go at the same cost; nodes that held it before come first."""
        row, before, zones = self.rows[item], self.before[item], self.zones
        in_zone = [zones[holder] for holder in row]
        own = zones[node]
        leaves_zone = in_zone.count(own) > self.zone_least[own]
        value = self.price[node] + (node not in before)

        def has_room(zone: int) -> bool:
            """Whether the partition may go to a zone."""
            return zone == own or (leaves_zone and in_zone.count(zone) < self.zone_most[zone])

        for other in before:
            if self.price[other] == value and other in among and other not in row and has_room(zones[other]):
                return other
        for zone, nodes in among.zones_at(value - 1):
            if has_room(zone):
                for other in nodes:
                    if other not in row and other not in before:
                        return other
        return NOTHING


def _in_turns(led: list[int], followed: list[int], *, followers: int) -> list[int]:
    """Return a node's items in the reverse order of giving: the node gives the last one first.

    After each item that the node leads come `followers` items that it follows. So the number that a node leads
    shrinks with the number that it holds. No leader has to change because its node gave too much or too little.
    """
    given = []
    while led or followed:
        given += [followed.pop() for _ in range(min(followers, len(followed)))]
        given += [led.pop() for _ in range(min(1, len(led)))]
    return given[::-1]


def _kept(network: FlowNetwork) -> Iterator[list[int]]:
    """Yield the nodes that each partition keeps while nodes cost nothing: all that its zones and the count allow."""
    demand = network.demand
    optional = demand.replicas - sum(demand.zone_least)
    for before in network.before:
        counts: dict[int, int] = {}
        kept, surplus, left = [], [], optional
        for node in before:
            zone = demand.zones[node]
            counts[zone] = counts.get(zone, 0) + 1
            if counts[zone] <= demand.zone_least[zone]:
                kept.append(node)
            elif counts[zone] <= demand.zone_most[zone]:
                surplus.append(node)
        yield kept + surplus[:left]


def _fill(network: FlowNetwork, rows: Sequence[list[int]]) -> None:
    """Complete every partition, each time on the node with most room among the eligible nodes."""
    demand, most = network.demand, network.bounds.most
    room = list(most)
    for row in rows:
        for node in row:
            room[node] -= 1
    roomiest = [(-free, node) for node, free in enumerate(room) if demand.weights[node]]
    heapify(roomiest)
    for row in rows:
        while len(row) < demand.replicas:
            node = _roomiest(roomiest, room, partial(_may_join, demand, row))
            row.append(node)
            room[node] -= 1
            heappush(roomiest, (-room[node], node))


def _may_join(demand: Demand, row: Sequence[int], node: int) -> bool:
    """Whether a node may take the next replica of a partition, so that every zone still gets its required number."""
    counts = dict.fromkeys((zone for zone, least in enumerate(demand.zone_least) if least), 0)
    for holder in row:
        counts[demand.zones[holder]] = counts.get(demand.zones[holder], 0) + 1
    zone = demand.zones[node]
    held = counts.get(zone, 0)
    if node in row or held >= demand.zone_most[zone]:
        return False
    owed = sum(max(0, demand.zone_least[zone] - count) for zone, count in counts.items())
    return held < demand.zone_least[zone] or demand.replicas - len(row) > owed


def _roomiest(roomiest: list[tuple[int, int]], room: Sequence[int], may_join: Callable[[int], bool]) -> int:
    """Take the eligible node with most room out of a heap; outdated entries are skipped."""
    passed = []
    while True:
        if not roomiest:
            raise InvariantBroken("no node may take a replica that is missing")
        entry = heappop(roomiest)
        if -entry[0] != room[entry[1]]:
            continue
        if may_join(entry[1]):
            break
        passed.append(entry)
    for other in passed:
        heappush(roomiest, other)
    return entry[1]
