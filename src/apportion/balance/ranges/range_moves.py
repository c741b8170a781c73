"""Range moves: give ranges of hot nodes to other nodes.

The pressure of a node is its load or its bytes over its share by weight, the larger of both. The load of a node is
counted in each window of the past day: ranges that are hot at different hours fit on one node, and a range that moved
for the day does not move back for the night.

Promises: no move raises its target to the pressure that its source had, so the highest pressure never grows. While
each pressure is within the tolerance, nothing moves. The same input gives the same moves.
Refuses: to cut a range, and to move ranges away from a node that has a range to split: after the split, they would
move back.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from apportion.balance.arguments import check_topology
from apportion.balance.ranges.peak_windows import WINDOWS
from apportion.balance.ranges.range_limits import STANDARD, RangeLimits
from apportion.balance.ranges.range_load import RangeLoad, surveyed
from apportion.balance.ranges.range_split import awaits_split
from apportion.errors import NoNodes
from apportion.model.plan import Move
from apportion.model.token import KeyRange
from apportion.model.topology import Topology


def plan_moves(
    loads: Iterable[RangeLoad],
    topology: Topology,
    *,
    limits: RangeLimits = STANDARD,
    in_flight: Iterable[KeyRange] = (),
) -> tuple[Move, ...]:
    """Return the ranges to move to other nodes, in order, each at most once.

    Ranges of nodes that are gone or have the weight 0 come first. Then the hottest node gives a range, as long as its
    pressure is above 1 + `tolerance`. Among all ranges and targets, the pair is taken that leaves the lowest pressure
    on source and target; ties go to fewer bytes, then to the first key and id. A range whose move is under way is in
    `in_flight`; report its target as its owner. O(moves · ranges of a node · nodes). Raises `BadRange` for ranges that
    overlap, and `NoNodes`.

    >>> halves = (KeyRange(b"", b"m"), KeyRange(b"m", None))
    >>> loads = [RangeLoad(range=each, owner="a", size_bytes=10, requests=900) for each in halves]
    >>> [str(move) for move in plan_moves(loads, Topology(["a", "b"]))]
    ["[b'', b'm') a -> b"]
    """
    check_topology(topology)
    serving = {node.id for node in topology if node.weight > 0}
    if not serving:
        raise NoNodes("moves of ranges")
    survey = surveyed(loads, limits, in_flight)
    waiting = {load.owner for load in survey.loads if awaits_split(load, limits)}
    movable = [
        survey.is_free(load) and (load.owner not in waiting or load.owner not in serving) for load in survey.loads
    ]
    fleet = _Fleet.of(survey.loads, topology, movable)
    moves: list[Move] = []
    while len(moves) < survey.room:
        step = fleet.step(1 + Fraction(limits.tolerance))
        if step is None:
            break
        moves.append(fleet.made(*step))
    return tuple(moves)


@dataclass(slots=True, kw_only=True)
class _Fleet:
    """The nodes that may own ranges, while ranges move; None is the owner of a range on any other node."""

    ids: tuple[str, ...]
    weights: tuple[int, ...]
    loads: tuple[RangeLoad, ...]
    demands: tuple[tuple[int, ...], ...]
    owners: list[int | None]
    movable: list[bool]
    sums: list[list[int]]
    fair: int

    @classmethod
    def of(cls, loads: tuple[RangeLoad, ...], topology: Topology, movable: list[bool]) -> "_Fleet":
        """Return the fleet before the first move."""
        nodes = [node for node in topology if node.weight > 0]
        index = {node.id: place for place, node in enumerate(nodes)}
        demands, fair = _demands(loads, sum(node.millionths for node in nodes))
        owners = [index.get(load.owner) for load in loads]
        sums = [[0] * (WINDOWS + 1) for _ in nodes]
        for owner, demand in zip(owners, demands, strict=True):
            if owner is not None:
                sums[owner] = _added(sums[owner], demand)
        return cls(
            ids=tuple(index),
            weights=tuple(node.millionths for node in nodes),
            loads=loads,
            demands=demands,
            owners=owners,
            movable=movable,
            sums=sums,
            fair=fair,
        )

    def step(self, bound: Fraction) -> tuple[int, int] | None:
        """Return the range to move next and its target, as indexes; None if nothing should move."""
        homeless = [place for place, owner in enumerate(self.owners) if owner is None and self.movable[place]]
        if homeless:
            place = max(homeless, key=lambda place: (max(self.demands[place]), -place))
            return place, min(range(len(self.ids)), key=lambda node: (self._with(node, place), node))
        for source in sorted(range(len(self.ids)), key=lambda node: (-self._pressure(node), node)):
            pressure = self._pressure(source)
            if pressure <= bound:
                return None
            best = min(self._choices(source), default=None)
            if best is not None:
                return best[3], best[4]
        return None

    def made(self, place: int, target: int) -> Move:
        """Take one move as done, and return it."""
        load, source, demand = self.loads[place], self.owners[place], self.demands[place]
        if source is not None:
            self.sums[source] = _added(self.sums[source], [-each for each in demand])
        self.sums[target] = _added(self.sums[target], demand)
        self.owners[place], self.movable[place] = target, False
        width = load.range.width if isinstance(load.range.start, int) else 0
        return Move(item=load.range, source=load.owner, target=self.ids[target], width=width)

    def _choices(self, source: int) -> Iterator[tuple[Fraction, Fraction, int, int, int]]:
        """Yield each useful move: the higher and the other pressure after it, the bytes, the range and the target."""
        before = [self._pressure(node) for node in range(len(self.ids))]
        for place, owner in enumerate(self.owners):
            if owner == source and self.movable[place]:
                left = self._of(source, [-each for each in self.demands[place]])
                for target in range(len(self.ids)):
                    there = self._with(target, place)
                    is_cool = there < before[source] or there == before[target]
                    if target != source and left < before[source] and is_cool:
                        yield max(left, there), min(left, there), self.loads[place].size_bytes, place, target

    def _pressure(self, node: int) -> Fraction:
        return Fraction(max(self.sums[node]), self.weights[node] * self.fair)

    def _with(self, node: int, place: int) -> Fraction:
        return self._of(node, self.demands[place])

    def _of(self, node: int, demand: Sequence[int]) -> Fraction:
        return Fraction(max(_added(self.sums[node], demand)), self.weights[node] * self.fair)


def _demands(loads: tuple[RangeLoad, ...], weight: int) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the load of each range in each window and its bytes, in one unit, and a fair share per weight in it.

    The share of a window is that of the busiest window: a quiet window asks for no evenness.
    """
    past = [_past(load) for load in loads]
    requests = max((sum(window) for window in zip(*past, strict=True)), default=0) or 1
    size = sum(load.size_bytes for load in loads) or 1
    demands = tuple(
        (*(each * size * weight for each in windows), load.size_bytes * requests * weight)
        for load, windows in zip(loads, past, strict=True)
    )
    return demands, requests * size


def _past(load: RangeLoad) -> tuple[int, ...]:
    """Return the load of each window, the last one first; the highest known peak stands in for unknown windows."""
    *older, last = load.peaks.values or (0,)
    known = (max(last, load.requests), *reversed(older))
    return known + (max(known),) * (WINDOWS - len(known))


def _added(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [left + right for left, right in zip(one, other, strict=True)]
