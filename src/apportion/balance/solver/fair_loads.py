"""Fair loads: whether given loads are as even as possible, and which other loads are equally even.

It shares no line with `quotas`, which finds the even loads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from apportion.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """All equally even loads: for each pool, the least and most load of its nodes, and their total."""

    least: Mapping[str, int]
    most: Mapping[str, int]
    pools: Sequence[tuple[Sequence[str], int]]

    def most_earned(self, prices: Mapping[str, int]) -> int:
        """Return the most that nodes could earn under any of these loads, where each replica pays its node's price."""
        earned = 0
        for members, total in self.pools:
            earned += sum(prices[node_id] * self.least[node_id] for node_id in members)
            free = total - sum(self.least[node_id] for node_id in members)
            extras = (prices[node_id] for node_id in members if self.most[node_id] > self.least[node_id])
            earned += sum(sorted(extras, reverse=True)[:free])
        return earned


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneLimits:
    """The nodes of a zone, and the least and the most replicas of all partitions that the zone may hold."""

    members: Sequence[str]
    must: int
    may: int


@dataclass(frozen=True, slots=True)
class Costs:
    """The amount that a replica adds to the sum of squares: `load - share` for the last replica, 1 more for the next.

    The exact amount is twice this number, less 1. Comparisons have the same result with either number.
    """

    loads: Mapping[str, int]
    shares: Mapping[str, Fraction]
    partitions: int

    def last(self, node_id: str) -> Fraction | None:
        """Return the cost of the last replica that a node holds, None if it holds none."""
        return self.loads[node_id] - self.shares[node_id] if self.loads[node_id] > 0 else None

    def next(self, node_id: str) -> Fraction | None:
        """Return the cost of one more, None if the node holds all partitions."""
        return self.loads[node_id] + 1 - self.shares[node_id] if self.loads[node_id] < self.partitions else None


Span = tuple[Fraction | None, Fraction | None, int]
"""For a zone: the cost of the dearest last replica, the cost of the cheapest next one, and the number of replicas."""


def box_of(
    loads: Mapping[str, int], weights: Mapping[str, int], zones: Sequence[ZoneLimits], *, partitions: int
) -> Box:
    """Return all loads that are as even as these; `InvalidInput` if these are not as even as possible."""
    shares = fair_shares(weights, partitions=partitions, total=sum(loads.values()))
    floors = {node_id: share.numerator // share.denominator for node_id, share in shares.items()}
    ceilings = {node_id: -(-share.numerator // share.denominator) for node_id, share in shares.items()}
    if all(floors[node_id] <= load <= ceilings[node_id] for node_id, load in loads.items()):
        return Box(least=floors, most=ceilings, pools=[(list(loads), sum(loads.values()))])
    return _least_squares_box(loads, shares, zones, partitions)


def fair_shares(weights: Mapping[str, int], *, partitions: int, total: int) -> dict[str, Fraction]:
    """Return the share of each node by weight, none above the number of partitions. O(nodes²) at worst."""
    shares: dict[str, Fraction] = {}
    open_nodes = dict(weights)
    while open_nodes:
        weight = sum(open_nodes.values())
        full = [node_id for node_id, own in open_nodes.items() if total * own >= partitions * weight]
        if not full:
            break
        for node_id in full:
            shares[node_id] = Fraction(partitions)
            total -= partitions
            del open_nodes[node_id]
    weight = sum(open_nodes.values())
    return shares | {node_id: Fraction(total * own, weight) for node_id, own in open_nodes.items()}


def _least_squares_box(
    loads: Mapping[str, int], shares: Mapping[str, Fraction], zones: Sequence[ZoneLimits], partitions: int
) -> Box:
    """Return the loads of the same sum of squares, after the check that no single exchange makes it smaller.

    No node may pay more for its last replica than another would for its next, wherever the two can be exchanged.
    """

    costs = Costs(loads, shares, partitions)
    spans = []
    for zone in zones:
        dearest = max((cost for cost in map(costs.last, zone.members) if cost is not None), default=None)
        cheapest = min((cost for cost in map(costs.next, zone.members) if cost is not None), default=None)
        if dearest is not None and cheapest is not None and dearest > cheapest:
            _refuse(zone.members, loads)
        spans.append((dearest, cheapest, sum(loads[node_id] for node_id in zone.members)))
    floor = max(
        (span[0] for span, zone in zip(spans, zones, strict=True) if span[0] is not None and span[2] > zone.must),
        default=None,
    )
    ceiling = min(
        (span[1] for span, zone in zip(spans, zones, strict=True) if span[1] is not None and span[2] < zone.may),
        default=None,
    )
    if floor is not None and ceiling is not None and floor > ceiling:
        _refuse(list(loads), loads)
    return _pools(loads, zones, spans, floor if floor == ceiling else None, costs)


def _pools(
    loads: Mapping[str, int], zones: Sequence[ZoneLimits], spans: Sequence[Span], level: Fraction | None, costs: Costs
) -> Box:
    """Return the loads that exchanges of equal cost can reach: exchanges within a zone, or at the common level."""
    least, most, common = dict(loads), dict(loads), list[str]()
    pools = []
    for zone, (dearest, cheapest, total) in zip(zones, spans, strict=True):
        is_full = level is None or (cheapest is not None and cheapest < level)
        is_needed = level is None or (dearest is not None and dearest > level)
        own = dearest if dearest == cheapest else None
        if is_full or is_needed:
            pools.append((zone.members, total))
        else:
            common += zone.members
        tie = own if is_full or is_needed else level
        for node_id in zone.members:
            least[node_id] -= tie is not None and costs.last(node_id) == tie
            most[node_id] += tie is not None and costs.next(node_id) == tie
    return Box(least=least, most=most, pools=[*pools, (common, sum(loads[node_id] for node_id in common))])


def _refuse(node_ids: Sequence[str], loads: Mapping[str, int]) -> NoReturn:
    listed = ", ".join(f"{node_id}: {loads[node_id]}" for node_id in list(node_ids)[:5])
    raise InvalidInput("loads of the assignment", listed, "loads as even as zones allow", "Assign again with optimal.")
