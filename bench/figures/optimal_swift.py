"""`optimal` beside Swift's ring builder: 2**16 partitions x 3 on 100 devices in 5 zones, then 5 devices more.

Both are asked in turn, in one process; both must leave no two replicas in a zone, and loads that differ by one at most.
"""

from collections import Counter
from collections.abc import Sequence

from apportion import Assignment, Node, Topology
from apportion.balance import optimal
from bench.clock import race, speed_ratio, spread
from bench.contender import NotSane
from bench.goal import at_least
from bench.peers import swift
from bench.row import Row, native_row, not_measured

PARTITIONS, REPLICAS = 2**swift.POWER, swift.REPLICAS
ROUNDS = 3
NAME = f"optimal beside Swift's ring builder, {PARTITIONS} x {REPLICAS} on {swift.DEVICES} devices"
FULL_GOAL, NEXT_GOAL = at_least(20, "x swift"), at_least(10, "x swift")


def rows() -> list[Row]:
    """Race both from nothing, then to five devices more."""
    if swift.ABSENT:
        return [not_measured(NAME, swift.ABSENT, NEXT_GOAL)]
    topology = _topology(swift.DEVICES)
    before = optimal(PARTITIONS, REPLICAS, topology)
    grown = _topology(swift.DEVICES + swift.ADDED)
    ring = swift.SwiftRing()
    ring.rebalance()
    old = ring.rows()
    ring.add(range(swift.DEVICES, swift.DEVICES + swift.ADDED))
    ring.rebalance()
    theirs = _moved(old, ring.rows())
    after = optimal(PARTITIONS, REPLICAS, grown, previous=before)
    ours = _moved(before.rows, after.rows) if before.topology.ids == after.topology.ids[: swift.DEVICES] else -1
    _check("optimal", list(after.rows))
    _check("swift", ring.rows())
    proven = 0 if after.certificate is None else after.certificate.home.moves
    moves = Row(
        name=f"{NAME}, {swift.ADDED} more: moved",
        value=ours,
        shown=f"{ours}, proven {proven}; {swift.described()}: {theirs}",
        goal="= proven, <= swift",
        met=ours == proven <= theirs,
    )
    return [moves, *_times(topology, grown, before)]


def _times(topology: Topology, grown: Topology, before: Assignment) -> list[Row]:
    rings = [_ready_ring() for _ in range(ROUNDS + 1)]
    full = race(
        {"swift": lambda: swift.SwiftRing().rebalance(), "ours": lambda: optimal(PARTITIONS, REPLICAS, topology)},
        rounds=ROUNDS,
    )
    more = race(
        {
            "swift": lambda: rings.pop().rebalance(),
            "ours": lambda: optimal(PARTITIONS, REPLICAS, grown, previous=before),
        },
        rounds=ROUNDS,
    )
    found = []
    for what, times, goal in (("from nothing", full, FULL_GOAL), (f"{swift.ADDED} more", more, NEXT_GOAL)):
        ratio = speed_ratio(times["swift"], times["ours"])
        ours_s = spread(times["ours"], calls=1_000_000_000)
        shown = f"{ratio.shown('x swift')}, {ours_s.shown('s', digits=2)}"
        found.append(native_row(f"{NAME}, {what}: time", ratio.median, shown, goal))
    return found


def _ready_ring() -> swift.SwiftRing:
    ring = swift.SwiftRing()
    ring.rebalance()
    ring.add(range(swift.DEVICES, swift.DEVICES + swift.ADDED))
    return ring


def _topology(devices: int) -> Topology:
    return Topology([Node(f"d{number:04}", zone=(f"zone-{number % swift.ZONES}",)) for number in range(devices)])


def _moved(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> int:
    return sum(len(set(new).difference(old)) for old, new in zip(before, after, strict=True))


def _check(name: str, lists: Sequence[Sequence[int]]) -> None:
    if any(len({device % swift.ZONES for device in owners}) != REPLICAS for owners in lists):
        raise NotSane(f"{name} puts two replicas into one zone")
    loads = Counter(device for owners in lists for device in owners).values()
    if max(loads) - min(loads) > 1 or len(loads) != swift.DEVICES + swift.ADDED:
        raise NotSane(f"{name} leaves loads of {min(loads)} to {max(loads)}")
