"""A million `str` keys assigned within caps of 1.05 times the mean, to 100 nodes: the twin beside the reference.

Both fill the nodes of one placement, whose own lookups the twin makes for either; on the ring every fiftieth key is
displaced and asks for its next nodes. A figure of the native twin only. Rendezvous hashes each key with each node,
which neither can leave out: information.
"""

from collections.abc import Callable
from functools import partial
from unittest.mock import patch

from apportion import Rendezvous, Ring, native
from apportion.placement.bounded import Bounded, BoundedAssignment
from bench import implementation
from bench.clock import race, speed_ratio, spread
from bench.contender import NotSane
from bench.fleet import node_names, shuffled_keys
from bench.goal import Goal, at_least
from bench.row import Row, native_row, not_measured

KEYS, NODES, HEADROOM = 1_000_000, 100, 50
ROUNDS = 3
GOAL = at_least(10, "x reference")
PLACEMENTS: dict[str, tuple[Callable[[list[str]], Ring | Rendezvous], Goal | None]] = {
    "ring": (Ring, GOAL),
    "rendezvous": (Rendezvous, None),
}


def rows() -> list[Row]:
    """Assign the same keys over and over, over each placement."""
    if not implementation.is_native():
        why = "the native twin is not in use"
        return [not_measured(_name(kind), why, goal) for kind, (_, goal) in PLACEMENTS.items()]
    keys = shuffled_keys(KEYS)
    return [_row(kind, build(node_names(NODES)), keys, goal) for kind, (build, goal) in PLACEMENTS.items()]


def by_the_reference(bounded: Bounded, keys: list[str]) -> BoundedAssignment:
    """Assign keys as where the twin is not in use, but for the placement, which was made before."""
    with patch.object(native, "IN_USE", new=False):
        return bounded.assign(keys)


def check(bounded: Bounded, keys: list[str]) -> None:
    """Raise `NotSane` unless both assign alike, and displace keys."""
    assigned = bounded.assign(keys)
    if assigned != by_the_reference(bounded, keys) or not assigned.displaced:
        raise NotSane("keys are assigned otherwise than by the reference, or none is displaced")


def _row(kind: str, placement: Ring | Rendezvous, keys: list[str], goal: Goal | None) -> Row:
    bounded = Bounded(placement, headroom_thousandths=HEADROOM)
    check(bounded, keys[:1000])
    turns: dict[str, Callable[[], object]] = {
        "twin": partial(bounded.assign, keys),
        "reference": partial(by_the_reference, bounded, keys),
    }
    times = race(turns, rounds=ROUNDS)
    ratio = speed_ratio(times["reference"], times["twin"])
    shown = f"{ratio.shown('x reference')}, {spread(times['twin'], calls=KEYS).median:.0f} ns a key"
    return native_row(_name(kind), ratio.median, shown, goal)


def _name(kind: str) -> str:
    return f"1 M keys within caps, {NODES} nodes: {kind}"
