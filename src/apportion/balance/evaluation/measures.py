"""Measures of a balancer on a cluster: evenness of all resources together and of each, and movement of changes.

A moved replica is *extra* if no change of nodes explains it; `docs/balance/evaluate.md` tells which changes explain a
move. The same holds for leaders.

Promises: measures only count, and do not judge. Every deviation and gap is measured from exact shares by weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from statistics import fmean

from apportion.balance.evaluation.best import least_deviation
from apportion.balance.evaluation.entrants import Placed
from apportion.balance.evaluation.scenarios import State
from apportion.balance.scores import LoadScore, evenness, stillness
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.model.rows import Row

Lists = Mapping[str, tuple[str, ...]]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The evenness of all resources together, the mean deviation of a resource, and the largest gap of a resource.

    `lacking` is the number of partitions with fewer replicas, or fewer zones, than the nodes that are up allow. The
    `least` deviations are those of the best placement of all resources; it lacks nothing.
    """

    partitions: LoadScore
    leaders: LoadScore
    partitions_deviation_each: float
    leaders_deviation_each: float
    partitions_gap_each: float
    leaders_gap_each: float
    lacking: int
    least_partitions_deviation: float
    least_leaders_deviation: float


def measured(placed: Placed, state: State) -> Measures:
    """Return the evenness of the resources of a cluster. O(replicas + resources · nodes²) at worst."""
    whole = evenness(_together(placed, state))
    each = [evenness(assignment) for assignment in placed.resources.values()]
    asked = [(len(assignment.rows), _replicas(assignment)) for assignment in placed.resources.values()]
    return Measures(
        partitions=whole.replicas,
        leaders=whole.leaders,
        partitions_deviation_each=fmean(score.replicas.deviation for score in each),
        leaders_deviation_each=fmean(score.leaders.deviation for score in each),
        partitions_gap_each=max(score.replicas.gap for score in each),
        leaders_gap_each=max(score.leaders.gap for score in each),
        lacking=sum(_lacking(assignment, state) for assignment in placed.resources.values()),
        least_partitions_deviation=least_deviation(state, asked),
        # Whatever the zones, any replica of a partition can lead.
        least_leaders_deviation=least_deviation(state, [(count, 1) for count, _ in asked]),
    )


def gain(deviation: float, of_crush: float) -> float | None:
    """Return the part by which a deviation is smaller than CRUSH's; None where CRUSH's is 0.

    >>> gain(1.0, 8.0)
    0.875
    """
    return 1 - deviation / of_crush if of_crush else None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """The movement of one or more changes; `replicas` and `partitions` are the totals.

    `moved` counts all moves, `extra` the moves beyond the explained ones. `bound` is the least number of moves
    between the loads before and after.
    """

    replicas: int = 0
    partitions: int = 0
    moved: int = 0
    extra: int = 0
    bound: int = 0
    leader_changes: int = 0
    extra_leader_changes: int = 0

    @property
    def moved_ratio(self) -> float:
        """Moved replicas as a part of all replicas."""
        return self.moved / self.replicas if self.replicas else 0.0

    @property
    def extra_ratio(self) -> float:
        """Moved replicas without an explanation, as a part of all replicas."""
        return self.extra / self.replicas if self.replicas else 0.0

    @property
    def bound_ratio(self) -> float:
        """The least number of moves between these loads, as a part of all replicas."""
        return self.bound / self.replicas if self.replicas else 0.0

    @property
    def leader_ratio(self) -> float:
        """Partitions with another leader, as a part of all partitions."""
        return self.leader_changes / self.partitions if self.partitions else 0.0

    @property
    def extra_leader_ratio(self) -> float:
        """Partitions with another leader without an explanation, as a part of all partitions."""
        return self.extra_leader_changes / self.partitions if self.partitions else 0.0

    def __add__(self, other: "Movement") -> "Movement":
        sums = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
        return Movement(**sums)


def movement(before: tuple[Placed, State], after: tuple[Placed, State]) -> Movement:
    """Return the movement of a change. O(replicas)."""
    (placed, state), (placed_after, state_after) = before, after
    old, new = state.weights, state_after.weights
    came = {node_id for node_id, weight in new.items() if weight > old.get(node_id, 0)}
    went = {node_id for node_id, weight in old.items() if weight > new.get(node_id, 0)}
    start, end = _together(placed, state), _together(placed_after, state_after)
    still = stillness(start, end)
    extra, extra_leaders = _unexplained(start.preference_lists, end.preference_lists, came, went)
    return Movement(
        replicas=sum(map(len, start.rows)),
        partitions=len(start.rows),
        moved=still.moved,
        extra=extra,
        bound=still.bound,
        leader_changes=still.leader_changes,
        extra_leader_changes=extra_leaders,
    )


def _unexplained(before: Lists, after: Lists, came: set[str], went: set[str]) -> tuple[int, int]:
    """Return how many replicas moved, and how many leaders changed, without a cause."""
    extra = leaders = 0
    for partition, owners in after.items():
        was = before[partition]
        if was == owners:
            continue
        gained, lost = set(owners).difference(was), set(was).difference(owners)
        grown = max(0, len(owners) - len(was))
        extra += max(0, len(gained - came) - len(lost & went) - grown)
        changed = was[:1] not in ((), owners[:1])
        leaders += changed and was[0] not in went and came.isdisjoint(owners[:1])
    return extra, leaders


def _together(placed: Placed, state: State) -> Assignment:
    names: list[str] = []
    rows: list[Row] = []
    for assignment in placed.resources.values():
        names += assignment.preference_lists
        rows += assignment.rows
    return Assignment(topology=state.topology, rows=tuple(rows), names=tuple(names), down=tuple(sorted(state.down)))


def _replicas(assignment: Assignment) -> int:
    """Return the number of replicas asked for; without a rule, the length of the longest list."""
    return max(map(len, assignment.rows)) if assignment.rule is None else assignment.rule.replicas


def _lacking(assignment: Assignment, state: State) -> int:
    """Return the number of partitions with fewer live replicas or zones than possible."""
    replicas, nodes = _replicas(assignment), assignment.topology.nodes
    up = {assignment.topology.index(node_id) for node_id in state.weights}
    domains = [node.fault_domain() for node in nodes]
    most, zones = min(replicas, len(up)), min(replicas, len({domains[index] for index in up}))
    live = (up.intersection(row) for row in assignment.rows)
    return sum(len(row) < most or len({domains[index] for index in row}) < zones for row in live)
