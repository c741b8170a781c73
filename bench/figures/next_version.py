"""The next version of a ring of 1000 nodes, 150 tokens each, after one change: the old one stays as it is.

The next topology was made beforehand, as it is by whoever publishes it; with `topology.add` and the like on the clock
the rows are information. Every turn makes rings of nodes not seen before, so that no memory of answers helps.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from apportion import Ring, Topology
from bench import implementation
from bench.clock import race, spread
from bench.contender import NotSane
from bench.fleet import contiguous_keys, equal_fleet, node_names
from bench.goal import at_most
from bench.row import Row, native_row

NODES = 1000
# A ring by the reference takes a thousand times as long.
ROUNDS = {True: 15, False: 5}
GOAL = at_most(0.5, "ms")

Change = Callable[[Topology, int], Topology]
CHANGES: dict[str, Change] = {
    "one node more": lambda fleet, number: fleet.add(f"added-{number:04d}"),
    "one node less": lambda fleet, number: fleet.without(fleet.ids[number]),
    "one node twice as heavy": lambda fleet, number: fleet.reweight(fleet.ids[number], 2.0),
}


def rows() -> list[Row]:
    """Make the next ring over and over, after each kind of change."""
    fleet = equal_fleet(NODES)
    ring = Ring(fleet)
    _check(ring)
    rounds = ROUNDS[implementation.is_native()]
    turns: dict[str, Callable[[], object]] = {}
    for name, change in CHANGES.items():
        nexts = iter([change(fleet, number) for number in range(rounds + 1)])
        turns[name] = partial(_next, ring, nexts)
        turns[f"{name}, with the topology"] = partial(_changed, ring, change, count())
    return [_row(name, times_ns) for name, times_ns in race(turns, rounds=rounds).items()]


def _row(name: str, times_ns: list[int]) -> Row:
    next_ms = spread(times_ns, calls=1_000_000)
    goal = GOAL if name in CHANGES else None
    return native_row(f"next version, {NODES} nodes x 150: {name}", next_ms.median, next_ms.shown("ms", digits=2), goal)


def _next(ring: Ring, topologies: Iterator[Topology]) -> Ring:
    return ring.on(next(topologies))


def _changed(ring: Ring, change: Change, numbers: Iterator[int]) -> Ring:
    return ring.on(change(ring.topology, next(numbers)))


def _check(ring: Ring) -> None:
    """Raise `NotSane` if a next version is not the ring that would be built of its nodes."""
    keys = contiguous_keys(1000)
    if ring.on(ring.topology.add("added")).route_many(keys) != Ring([*node_names(NODES), "added"]).route_many(keys):
        raise NotSane("the next version answers otherwise than a ring built anew")
