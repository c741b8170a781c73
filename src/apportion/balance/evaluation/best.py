"""Best possible loads: the least deviation from fair shares that any balancer can reach under the zone rule.

The zone rule asks that the replicas of a partition lie in as many zones as replicas and zones allow. A node holds a
partition once. Both rules limit the loads of nodes and the sums of zones. The least sum of squares within these limits
is found exactly. A *level* is an amount that is added to the share of each node; the sums, rounded down, are the loads.
All zones within their limits have one level in common. Each other zone has a level of its own.

Promises: no placement that keeps the rule has a smaller deviation. Where all resources have equally many replicas,
some placement has this deviation.

Source: separable convex allocation under laminar bounds (Federgruen and Groenevelt 1986).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import lcm, sqrt

from apportion.balance.evaluation.scenarios import State
from apportion.balance.solver.fair_loads import fair_shares


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRule:
    """For one partition: its number of replicas, and the least (`must`) and the most (`may`) of them in each zone."""

    replicas: int
    must: Mapping[object, int]
    may: Mapping[object, int]

    @classmethod
    def of(cls, state: State, replicas: int) -> "ZoneRule":
        """Return the rule for this number of replicas on the nodes that are up."""
        members = Counter(state.topology[node_id].fault_domain() for node_id in state.weights)
        placed = min(replicas, members.total())
        doubled = max(1, placed - len(members) + 1)
        return cls(
            replicas=placed,
            must=dict.fromkeys(members, int(len(members) <= placed)),
            may={zone: min(count, doubled) for zone, count in members.items()},
        )


def least_deviation(state: State, demands: Iterable[tuple[int, int]]) -> float:
    """Return the least deviation of all loads together, in partitions; 0.0 if no node may hold anything.

    `demands` are the partitions and the replicas of each resource. O(resources · zones + nodes² log partitions).
    """
    rules = [(partitions, ZoneRule.of(state, replicas)) for partitions, replicas in demands]
    most, total = sum(count for count, _ in rules), sum(count * rule.replicas for count, rule in rules)
    if not total:
        return 0.0
    zones: dict[object, list[Fraction]] = {}
    shares = fair_shares(state.weights, partitions=most, total=total)
    for node_id, share in shares.items():
        zones.setdefault(state.topology[node_id].fault_domain(), []).append(share)
    limited = [
        LimitedZone(
            shares=of_zone,
            must=sum(count * rule.must[zone] for count, rule in rules),
            may=sum(count * rule.may[zone] for count, rule in rules),
        )
        for zone, of_zone in zones.items()
    ]
    levels = _Levels(unit=lcm(*(share.denominator for share in shares.values())), most=most)
    return sqrt(levels.least_squares(limited, total) / len(shares))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedZone:
    """The fair shares of a zone's nodes, and the least and the most replicas of all partitions in the zone."""

    shares: Sequence[Fraction]
    must: int
    may: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levels:
    """Loads at a level: a load is the share plus `level / unit`, rounded down, at least 0 and at most `most`.

    Compared with the level below, a level adds a replica where the share plus `level / unit` is a whole number. The
    load then exceeds the share by exactly `level / unit`. So all replicas of one level cost the same.
    """

    unit: int
    most: int

    def least_squares(self, zones: Sequence[LimitedZone], total: int) -> Fraction:
        """Return the least sum of squared differences from the shares."""

        def held(level: int) -> int:
            """Return the load of all nodes at a level, with each zone within its limits."""
            return sum(min(max(self._sum(zone.shares, level), zone.must), zone.may) for zone in zones)

        common = self._first(held, total)
        squares, free, left = Fraction(0), list[Fraction](), total
        for zone in zones:
            at_most, at_least = self._sum(zone.shares, common), self._sum(zone.shares, common - 1)
            if zone.must <= at_most and at_least <= zone.may:
                free.extend(zone.shares)
                continue
            fixed = zone.must if zone.must > at_most else zone.may
            squares += self._squares(zone.shares, fixed)
            left -= fixed
        return squares + self._squares(free, left)

    def _squares(self, shares: Sequence[Fraction], total: int) -> Fraction:
        """Return the least sum of squares of nodes that hold `total` together."""
        level = self._first(partial(self._sum, shares), total)
        loads = [self._load(share, level) for share in shares]
        squares = sum(((load - share) ** 2 for load, share in zip(loads, shares, strict=True)), Fraction(0))
        return squares - (sum(loads) - total) * (2 * Fraction(level, self.unit) - 1)

    def _sum(self, shares: Sequence[Fraction], level: int) -> int:
        return sum(self._load(share, level) for share in shares)

    def _load(self, share: Fraction, level: int) -> int:
        return min(max((share.numerator * (self.unit // share.denominator) + level) // self.unit, 0), self.most)

    def _first(self, held: Callable[[int], int], wanted: int) -> int:
        """Return the lowest level at which nodes hold `wanted` or more; loads grow with the level."""
        low, high = -(self.most + 1) * self.unit, (self.most + 1) * self.unit
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if held(middle) >= wanted else (middle + 1, high)
        return low
