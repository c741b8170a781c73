"""Quotas: how many replicas each node should hold, exactly, and which loads are as even as zones allow.

A node's quota is its share of all replicas by weight, but never more than one replica of every partition. The part
beyond that limit is shared out among the other nodes, again by weight. Even means: every load is the floor or the
ceiling of its quota. A zone can be too small or too large for its nodes' quotas. Then even means: the least sum of
squared differences from the quotas.

Promises: integers only. Every list of loads within the bounds, with the totals of its pools, is as even as possible.
Every list that is equally even lies within the bounds.
Refuses: to say which of these lists moves least; the flow decides that.

Source: water filling; separable convex allocation under laminar bounds (Federgruen and Groenevelt 1986).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The replicas to place: `replicas` of each of `partitions`, on nodes with weights, each node in a zone.

    Node i stands in zone `zones[i]` and has the weight `weights[i]`; with weight 0 it takes nothing. Zone z holds at
    least `zone_least[z]` and at most `zone_most[z]` replicas of one partition.
    """

    partitions: int
    replicas: int
    weights: tuple[int, ...]
    zones: tuple[int, ...]
    zone_least: tuple[int, ...]
    zone_most: tuple[int, ...]

    @property
    def total(self) -> int:
        """The number of replicas of all partitions."""
        return self.partitions * self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBounds:
    """The loads that are as even as possible: node i holds `least[i]` or `most[i]`, which differ by one at most.

    The nodes of pool g, those with `pools[i] == g`, hold `totals[g]` together.
    """

    least: tuple[int, ...]
    most: tuple[int, ...]
    pools: tuple[int, ...]
    totals: tuple[int, ...]


def quotas(demand: Demand) -> tuple[tuple[int, ...], int]:
    """Return each node's exact quota as a numerator, and the denominator of all quotas. O(nodes log nodes)."""
    heaviest_first = sorted(range(len(demand.weights)), key=lambda index: -demand.weights[index])
    left, weight = demand.total, sum(demand.weights)
    full = set()
    for index in heaviest_first:
        if left * demand.weights[index] <= demand.partitions * weight:
            break
        full.add(index)
        left -= demand.partitions
        weight -= demand.weights[index]
    denominator = weight or 1
    numerators = (
        demand.partitions * denominator if index in full else left * own for index, own in enumerate(demand.weights)
    )
    return tuple(numerators), denominator


def load_bounds(demand: Demand) -> LoadBounds:
    """Return the bounds of the loads that are as even as the zones allow. O(nodes log(replicas · weight))."""
    numerators, denominator = quotas(demand)
    floors = tuple(numerator // denominator for numerator in numerators)
    ceilings = tuple(-(-numerator // denominator) for numerator in numerators)
    held = _Zones(demand)
    if held.least_total(floors) <= demand.total <= held.most_total(ceilings) and held.can_hold(floors, ceilings):
        pools = (0,) * len(floors)
        return LoadBounds(least=floors, most=ceilings, pools=pools, totals=(demand.total,))
    return _least_squares(demand, held, numerators, denominator)


def settled(bounds: LoadBounds, demand: Demand, elsewhere: Sequence[int]) -> LoadBounds:
    """Return one list of loads within bounds, higher where nodes hold least elsewhere. O(nodes log nodes)."""
    loads, held = list(bounds.least), _Zones(demand)
    room = [may - total for may, total in zip(held.most, held.sums(loads), strict=True)]
    owed = [must - total for must, total in zip(held.least, held.sums(loads), strict=True)]
    left = [
        total - sum(load for load, pool in zip(loads, bounds.pools, strict=True) if pool == number)
        for number, total in enumerate(bounds.totals)
    ]
    candidates = [index for index, (low, high) in enumerate(zip(bounds.least, bounds.most, strict=True)) if low < high]
    candidates.sort(key=lambda index: (elsewhere[index], index))
    for only_owed in (True, False):
        for index in candidates:
            zone, pool = demand.zones[index], bounds.pools[index]
            is_wanted = owed[zone] > 0 if only_owed else left[pool] > 0 and room[zone] > 0
            if is_wanted and loads[index] == bounds.least[index]:
                loads[index] += 1
                room[zone], owed[zone], left[pool] = room[zone] - 1, owed[zone] - 1, left[pool] - 1
    exact = tuple(loads)
    return LoadBounds(least=exact, most=exact, pools=bounds.pools, totals=bounds.totals)


class _Zones:
    """Sums of loads by zone, compared with the least and the most replicas of all partitions that a zone may hold."""

    def __init__(self, demand: Demand) -> None:
        self.members: list[list[int]] = [[] for _ in demand.zone_most]
        for index, zone in enumerate(demand.zones):
            self.members[zone].append(index)
        self.least = [count * demand.partitions for count in demand.zone_least]
        self.most = [count * demand.partitions for count in demand.zone_most]

    def sums(self, loads: Sequence[int]) -> list[int]:
        """Return the load of each zone."""
        return [sum(loads[index] for index in members) for members in self.members]

    def least_total(self, loads: Sequence[int]) -> int:
        """Return the total of these loads, after each zone below its minimum was raised to it."""
        return sum(map(max, self.sums(loads), self.least))

    def most_total(self, loads: Sequence[int]) -> int:
        """Return the total of these loads, after each zone above its maximum was lowered to it."""
        return sum(map(min, self.sums(loads), self.most))

    def can_hold(self, least: Sequence[int], most: Sequence[int]) -> bool:
        """Whether each zone on its own allows some loads between these bounds."""
        at_least, at_most = self.sums(least), self.sums(most)
        return all(
            low <= may and must <= high
            for low, high, must, may in zip(at_least, at_most, self.least, self.most, strict=True)
        )


def _least_squares(demand: Demand, held: _Zones, numerators: Sequence[int], denominator: int) -> LoadBounds:
    """Return the bounds of all loads with the least sum of squared differences from the quotas.

    The k-th replica of a node costs more the further k lies above its quota. At a `level`, every node holds the
    replicas that cost at most the level. The level is the lowest at which all replicas have a place. Some zones lack
    room at that level, or have a larger minimum. Each of them gets its own level and becomes a pool.
    """

    def at(level: int, index: int) -> int:
        """Return the load of a node at a level."""
        if demand.weights[index] == 0:
            return 0
        return min(max((numerators[index] + level) // denominator, 0), demand.partitions)

    def zone_at(members: Sequence[int], level: int) -> int:
        """Return the load of a zone's nodes at a level."""
        return sum(at(level, index) for index in members)

    def held_at(level: int) -> int:
        """Return the load of all nodes at a level, with each zone within its bounds."""
        zones = zip(held.members, held.least, held.most, strict=True)
        return sum(min(max(zone_at(members, level), must), may) for members, must, may in zones)

    span = (demand.partitions + 1) * denominator
    common = _first_level(held_at, demand.total, span)
    nodes = range(len(numerators))
    least, most = [at(common - 1, index) for index in nodes], [at(common, index) for index in nodes]
    pools, totals = [0] * len(least), [demand.total]
    for members, must, may in zip(held.members, held.least, held.most, strict=True):
        if must <= zone_at(members, common) and zone_at(members, common - 1) <= may:
            continue
        fixed = must if must > zone_at(members, common) else may
        own = _first_level(partial(zone_at, members), fixed, span)
        for index in members:
            least[index], most[index], pools[index] = at(own - 1, index), at(own, index), len(totals)
        totals.append(fixed)
        totals[0] -= fixed
    return LoadBounds(least=tuple(least), most=tuple(most), pools=tuple(pools), totals=tuple(totals))


def _first_level(held_at: Callable[[int], int], wanted: int, span: int) -> int:
    """Return the lowest level in -span .. span with `wanted` replicas or more; their number grows with the level."""
    low, high = -span, span
    while low < high:
        middle = (low + high) // 2
        if held_at(middle) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low
