"""Scores of assignments: evenness, stillness, and the state after the loss of a zone.

Promises: scores count the lists as they are and judge nothing. `verify` proves; scores describe.
Refuses: sizes of partitions; every partition counts as one.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from apportion.balance.arguments import check_assignment
from apportion.balance.solver.fair_loads import fair_shares
from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.placement.spread import check_options


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadScore:
    """The distance of loads from quotas, the exact shares by weight. A difference is a load less its quota.

    - `gap`: the largest difference less the smallest, in partitions. For nodes of equal weight, this is the largest
      load less the smallest.
    - `deviation`: the square root of the mean square difference, in partitions. For nodes of equal weight, this is
      the standard deviation.
    - `peak_ratio`: the largest load over its quota; infinite where a node without a quota holds something.
    """

    gap: float
    deviation: float
    peak_ratio: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Evenness:
    """The evenness of an assignment: of the replicas that nodes hold, and of the partitions that they lead."""

    replicas: LoadScore
    leaders: LoadScore


def evenness(assignment: Assignment) -> Evenness:
    """Return how even an assignment is over the nodes that are up and do not drain.

    A node that is down or drains has the quota 0, and counts where it holds something. O(partitions · replicas +
    nodes²) at worst.

    >>> from apportion import Topology
    >>> score = evenness(Assignment(topology=Topology(["a", "b"]), rows=((0,), (0,), (0,), (1,))))
    >>> score.replicas
    LoadScore(gap=2.0, deviation=1.0, peak_ratio=1.5)
    """
    check_assignment("assignment", assignment)
    return Evenness(
        replicas=_load_score(assignment, assignment.loads), leaders=_load_score(assignment, assignment.leader_loads)
    )


def _load_score(assignment: Assignment, loads: Mapping[str, int]) -> LoadScore:
    down = set(assignment.down)
    weights = {node.id: node.millionths for node in assignment.topology if node.weight and node.id not in down}
    shares = fair_shares(weights, partitions=len(assignment.rows), total=sum(loads.values())) if weights else {}
    pairs = [(load, shares.get(node_id, Fraction(0))) for node_id, load in loads.items() if load or node_id in shares]
    if not pairs:
        return LoadScore(gap=0.0, deviation=0.0, peak_ratio=0.0)
    apart = [load - share for load, share in pairs]
    return LoadScore(
        gap=float(max(apart) - min(apart)),
        deviation=(sum(each * each for each in apart) / len(apart)) ** 0.5,
        peak_ratio=max((float(load / share) if share else float("inf") for load, share in pairs if load), default=0.0),
    )


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Stillness:
    """The movement that a change causes.

    `added` counts the replicas by which lists grew; `moved` counts all other replicas that a node has to receive.
    No change from the loads before to the loads after can move fewer than `bound` replicas. `leader_changes` counts
    the partitions with another leader.
    """

    moved: int
    added: int
    bound: int
    leader_changes: int

    @property
    def extra(self) -> int:
        """Replicas moved beyond the bound."""
        return self.moved - self.bound


def stillness(before: Assignment, after: Assignment) -> Stillness:
    """Return the movement of a change. Partitions in only one of the two do not count. O(partitions · replicas).

    >>> from apportion import Topology
    >>> before = Assignment(topology=Topology(["a", "b", "c"]), rows=((0,), (1,)))
    >>> score = stillness(before, Assignment(topology=before.topology, rows=((1,), (2,))))
    >>> score.moved, score.bound, score.extra, score.leader_changes
    (2, 1, 1, 2)
    """
    check_assignment("before", before)
    check_assignment("after", after)
    received = added = leader_changes = 0
    gains: Counter[str] = Counter()
    for partition, owners in after.preference_lists.items():
        was = before.preference_lists.get(partition)
        if was is None:
            continue
        if was != owners:
            received += len(set(owners).difference(was))
            added += max(0, len(owners) - len(was))
            leader_changes += was[:1] not in ((), owners[:1])
            gains.update(owners)
            gains.subtract(was)
    bound = max(0, sum(gain for gain in gains.values() if gain > 0) - added)
    return Stillness(moved=received - added, added=added, bound=bound, leader_changes=leader_changes)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneLoss:
    """The state after the loss of a zone: `left[k]` is the number of partitions with k live replicas, sorted by k."""

    zone: Hashable
    left: Mapping[int, int]

    @property
    def unavailable(self) -> int:
        """Partitions without a live replica."""
        return self.left.get(0, 0)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRisk:
    """The state after the loss of each zone, in the order of the topology; `now` is the state without a loss."""

    now: Mapping[int, int]
    zones: Sequence[ZoneLoss]

    @property
    def worst(self) -> ZoneLoss:
        """The loss that leaves the most partitions without a replica.

        Between equal losses, it is the one that leaves the most partitions with 1 replica, then with 2, and so on.
        """
        most = max(self.now)
        return max(self.zones, key=lambda loss: [loss.left.get(replicas, 0) for replicas in range(most + 1)])

    @property
    def unavailable(self) -> int:
        """Partitions without a live replica after the worst loss."""
        return self.worst.unavailable


def zone_risk(assignment: Assignment, *, spread_level: int | None = None) -> ZoneRisk:
    """Return the state that the loss of each zone leaves of an assignment.

    Two nodes are in one zone when their paths are equal down to `spread_level`. None means the level of the
    assignment's rule, or the whole path. A zone is its path; a node without a path is a zone named by its id.
    Replicas on nodes that are down are not live. O(partitions · replicas + zones · replicas).

    >>> from apportion import Node, Topology
    >>> topology = Topology([Node("a", zone=("x",)), Node("b", zone=("x",)), Node("c", zone=("y",))])
    >>> risk = zone_risk(Assignment(topology=topology, rows=((0, 2), (1, 2), (0, 1))))
    >>> risk.worst
    ZoneLoss(zone=('x',), left={0: 1, 1: 2})
    """
    check_assignment("assignment", assignment)
    check_options(1, spread_level, "strict")
    if not len(assignment.topology):
        raise InvalidInput("nodes of the assignment", 0, "at least 1", "An assignment without nodes can lose nothing.")
    level = assignment.rule.spread_level if spread_level is None and assignment.rule is not None else spread_level
    zones = [node.fault_domain(level) for node in assignment.topology]
    down = {assignment.topology.index(node_id) for node_id in assignment.down}
    now: Counter[int] = Counter()
    left: dict[Hashable, Counter[int]] = {zone: Counter() for zone in zones}
    for row, count in Counter(assignment.rows).items():
        hit = Counter(zones[index] for index in row if index not in down)
        live = hit.total()
        now[live] += count
        for zone, replicas in hit.items():
            left[zone][live] -= count
            left[zone][live - replicas] += count
    losses = [ZoneLoss(zone=zone, left=_sorted(now, change)) for zone, change in left.items()]
    return ZoneRisk(now=_sorted(now, Counter()), zones=tuple(losses))


def _sorted(counts: Counter[int], change: Counter[int]) -> dict[int, int]:
    total = {replicas: counts[replicas] + change[replicas] for replicas in counts.keys() | change.keys()}
    return {replicas: total[replicas] for replicas in sorted(total) if total[replicas]}
