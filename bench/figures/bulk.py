"""A million `str` keys in one call, from a list: to a list of node ids, and to a buffer of indexes.

Ratios are speeds over the textbook ring's `list(map(...))`, in one interleaved run. Keys just built lie in memory in
the order of the list, which flatters whoever only reads them; shuffled keys are what a long-running program has, and
their rows are information. Peers have no bulk call, but for fastring, which has a figure of its own.
"""

from collections.abc import Callable
from functools import partial

from apportion import Ring
from bench.clock import race, speed_ratio, spread
from bench.contender import NotSane
from bench.fleet import contiguous_keys, node_names, shuffled_keys
from bench.goal import Goal, at_least
from bench.peers import TEXTBOOK
from bench.row import Row, native_row

KEYS = 1_000_000
ROUNDS = {"contiguous": 7, "shuffled": 3}
SIZES = (100, 1000)
GOALS = {
    ("ids", 100): at_least(22, "x T"),
    ("ids", 1000): at_least(28, "x T"),
    ("indexes", 100): at_least(35, "x T"),
    ("indexes", 1000): at_least(45, "x T"),
}


def rows() -> list[Row]:
    """Route a million keys with each fleet, in both orders of keys."""
    found: list[Row] = []
    for order, keys in (("contiguous", contiguous_keys(KEYS)), ("shuffled", shuffled_keys(KEYS))):
        for nodes in SIZES:
            found += _routed(keys, nodes=nodes, order=order)
    return found


def check(ring: Ring, keys: list[str]) -> None:
    """Raise `NotSane` unless the bulk calls answer as one call a key does."""
    alone = [ring.route(key) for key in keys]
    if alone != ring.route_many(keys) or alone != [ring.topology.ids[index] for index in ring.route_indexes(keys)]:
        raise NotSane("the bulk calls answer otherwise than route()")


def _routed(keys: list[str], *, nodes: int, order: str) -> list[Row]:
    ring, textbook = Ring(node_names(nodes)), TEXTBOOK.build(node_names(nodes))
    check(ring, keys[:1000])
    turns: dict[str, Callable[[], object]] = {
        TEXTBOOK.name: lambda: list(map(textbook, keys)),
        "ids": partial(ring.route_many, keys),
        "indexes": partial(ring.route_indexes, keys),
    }
    times = race(turns, rounds=ROUNDS[order])
    name = f"1 M keys, {nodes} nodes, {order}"
    textbook_ns = spread(times[TEXTBOOK.name], calls=KEYS)
    found = [Row(name=f"{name}: textbook", value=textbook_ns.median, shown=textbook_ns.shown("ns a key", digits=0))]
    for result in ("ids", "indexes"):
        goal: Goal | None = GOALS[result, nodes] if order == "contiguous" else None
        ratio = speed_ratio(times[TEXTBOOK.name], times[result])
        shown = f"{ratio.shown('x T')}, {spread(times[result], calls=KEYS).median:.1f} ns a key"
        found.append(native_row(f"{name}: list of str -> {result}", ratio.median, shown, goal))
    return found
