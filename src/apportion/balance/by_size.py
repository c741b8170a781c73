"""By size: moves partitions until each node has its share of the bytes, within a tolerance.

Promises: each load lies within the tolerance of the node's share, if no partition is larger than the tolerance of the
smallest share. A partition with an owner moves only if the move mends a load and brings no other load out of bounds.
The same input gives the same result.
Refuses: to cut a partition. `larger_than_a_share` names the partitions that are larger than every node's share.

Why the bytes are few: bytes leave a node for two reasons only. The node is above its upper bound, or another node is
below its lower bound and this one can spare them. Bytes go first to the node that lacks most, so that one move can mend
both. The partitions of a move are chosen so that their sum is hardly more than needed; see `solver.least_sum`.
"""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

from apportion.balance.arguments import check_previous, check_topology
from apportion.balance.request import Sizes, checked_sizes
from apportion.balance.solver.least_sum import least_sum
from apportion.errors import InvalidInput, NoNodes
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology


def by_size(previous: Assignment, topology: Topology, sizes: Sizes, *, tolerance: float = 0.1) -> Assignment:
    """Return an assignment with one owner per partition and about its weighted share of the bytes on each node.

    `sizes` are the bytes of the partitions: by id, or in their order. A load may differ from its share by `tolerance`
    times that share; `tolerance` is at least 0 and less than 1. Partitions of nodes that are gone, or have the weight
    0, move.

    O(moves · nodes log nodes + partitions log partitions). Raises `NoNodes`, `InvalidInput`.

    >>> before = Assignment(topology=Topology(["a", "b"]), rows=((0,), (0,), (0,), (1,)))
    >>> by_size(before, before.topology, [50, 30, 10, 10])["1"]
    ('b',)
    """
    fleet = _fleet(previous, topology, sizes, tolerance)
    for place in sorted(fleet.homeless, key=lambda place: (-fleet.sizes[place], place)):
        fleet.settle(place)
    for node in sorted(range(len(topology)), key=fleet.room):
        fleet.relieve(node)
    for node in sorted(range(len(topology)), key=fleet.spare):
        fleet.fill(node)
    rows = tuple((fleet.owners[place],) for place in range(len(fleet.sizes)))
    return Assignment(topology=topology, rows=rows, names=previous.names, sizes=fleet.sizes)


def least_bytes(previous: Assignment, topology: Topology, sizes: Sizes, *, tolerance: float = 0.1) -> int:
    """Return a lower bound of the bytes that must move: no result within the tolerance moves fewer.

    The bound is the larger of two sums. One is the bytes without an owner plus all bytes above upper bounds. The other
    is all bytes that nodes lack up to their lower bounds. The arguments are those of `by_size`. O(partitions).
    """
    fleet = _fleet(previous, topology, sizes, tolerance)
    pairs = list(zip(fleet.loads, fleet.bounds, strict=True))
    above = sum(fleet.sizes[place] for place in fleet.homeless) + sum(max(0, load - each.most) for load, each in pairs)
    return max(above, sum(max(0, each.least - load) for load, each in pairs))


def larger_than_a_share(assignment: Assignment, sizes: Sizes) -> tuple[str, ...]:
    """Return the ids of the partitions with more bytes than the largest share, the largest first. O(partitions)."""
    listed = _listed(assignment, sizes)
    shares = _shares(assignment.topology, sum(listed))
    names = list(assignment.preference_lists)
    large = [(-size, place) for place, size in enumerate(listed) if size > max(shares)]
    return tuple(names[place] for _, place in sorted(large))


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBounds:
    """The least and the most bytes of a node."""

    least: int
    most: int


@dataclass(slots=True, kw_only=True)
class _Fleet:
    """The nodes while partitions move. `held` are the partitions of each node as (size, place), ascending."""

    sizes: tuple[int, ...]
    bounds: tuple[SizeBounds, ...]
    weights: tuple[int, ...]
    owners: dict[int, int]
    held: list[list[tuple[int, int]]]
    loads: list[int]
    homeless: list[int]

    def settle(self, place: int) -> None:
        """Give a partition without an owner to the node that then has the fewest bytes per weight."""
        size = self.sizes[place]

        def load_then(node: int) -> tuple[Fraction, Fraction, int]:
            """Return the bytes per weight that a node would have, and its partitions per weight, to break ties."""
            weight = self.weights[node]
            return Fraction(self.loads[node] + size, weight), Fraction(len(self.held[node]) + 1, weight), node

        self._give(place, min((node for node, weight in enumerate(self.weights) if weight), key=load_then))

    def relieve(self, giver: int) -> None:
        """Move partitions away until a node is not above its upper bound, or none of them fits elsewhere."""
        while (excess := self.loads[giver] - self.bounds[giver].most) > 0:
            takers = sorted((node for node in self._nodes if self.room(node) > 0), key=self.spare)
            if not any(self._sent(giver, taker, min(excess, self._gap(taker))) for taker in takers):
                return

    def fill(self, taker: int) -> None:
        """Move partitions here until a node is not below its lower bound, or no other node can spare one."""
        while (missing := -self.spare(taker)) > 0:
            givers = sorted((node for node in self._nodes if self.spare(node) > 0), key=self.spare, reverse=True)
            if not any(self._sent(giver, taker, min(missing, -(-self.spare(giver) // 2))) for giver in givers):
                return

    @property
    def _nodes(self) -> range:
        return range(len(self.loads))

    def room(self, node: int) -> int:
        """Return the bytes up to the upper bound of a node."""
        return self.bounds[node].most - self.loads[node]

    def spare(self, node: int) -> int:
        """Return the bytes above the lower bound of a node."""
        return self.loads[node] - self.bounds[node].least

    def _gap(self, node: int) -> int:
        """Return the bytes that a node misses, or half of its room if it misses none."""
        missing = -self.spare(node)
        return missing if missing > 0 else -(-self.room(node) // 2)

    def _sent(self, giver: int, taker: int, wanted: int) -> bool:
        """Move partitions with `wanted` bytes or slightly more; False if none can go without breaking a bound."""
        held = self.held[giver]
        most = min(self.spare(giver), self.room(taker))
        places = [held[index][1] for index in least_sum([size for size, _ in held], wanted, most)]
        for place in places:
            self._move(place, giver, taker)
        return bool(places)

    def _move(self, place: int, giver: int, taker: int) -> None:
        size = self.sizes[place]
        del self.held[giver][bisect_left(self.held[giver], (size, place))]
        self.loads[giver] -= size
        self._give(place, taker)

    def _give(self, place: int, taker: int) -> None:
        size, held = self.sizes[place], self.held[taker]
        held.insert(bisect_left(held, (size, place)), (size, place))
        self.loads[taker] += size
        self.owners[place] = taker


def _fleet(previous: Assignment, topology: Topology, sizes: Sizes, tolerance: float) -> _Fleet:
    check_topology(topology)
    check_previous(previous, topology)
    if type(tolerance) not in (int, float) or not 0 <= tolerance < 1:
        raise InvalidInput("tolerance", tolerance, "a number of at least 0 and less than 1", "0.1 is a tenth.")
    if all(node.weight == 0 for node in topology):
        raise NoNodes("an assignment by size")
    listed, nodes = _listed(previous, sizes), range(len(topology))
    owners: dict[int, int] = {}
    for place, row in enumerate(previous.preference_lists.values()):
        if row and row[0] in topology and topology[row[0]].weight:
            owners[place] = topology.index(row[0])
    held: list[list[tuple[int, int]]] = [[] for _ in nodes]
    for place, owner in owners.items():
        held[owner].append((listed[place], place))
    margin = Fraction(tolerance)
    shares = _shares(topology, sum(listed))
    return _Fleet(
        sizes=listed,
        bounds=tuple(SizeBounds(least=-(each * (margin - 1) // 1), most=each * (1 + margin) // 1) for each in shares),
        weights=tuple(node.millionths for node in topology),
        owners=owners,
        held=[sorted(each) for each in held],
        loads=[sum(size for size, _ in each) for each in held],
        homeless=[place for place in range(len(listed)) if place not in owners],
    )


def _listed(assignment: Assignment, sizes: Sizes) -> tuple[int, ...]:
    """Return the sizes in the order of the partitions; refuse an assignment with several owners of a partition."""
    if any(len(row) > 1 for row in assignment.rows):
        hint = "For partitions with replicas, use balance.optimal(sizes=…)."
        raise InvalidInput("previous", "several owners of a partition", "one owner each", hint)
    names = list(assignment.preference_lists)
    return checked_sizes(sizes, names, names)


def _shares(topology: Topology, total: int) -> list[Fraction]:
    weights = [node.millionths for node in topology]
    return [Fraction(total * weight, sum(weights)) for weight in weights]
