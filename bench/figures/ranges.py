"""A million keys in one call among 1000 ranges, of text and of ints; beside it the standard library's `bisect`.

Ratios are speeds over `[owners[bisect_right(bounds, key)] for key in keys]`, in one interleaved run: what one writes
who has only boundaries of one kind, and keys of the same.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from apportion.placement.ranges import Ranges
from bench.clock import race, speed_ratio, spread
from bench.contender import NotSane
from bench.fleet import SEED, node_names
from bench.goal import Goal, at_least
from bench.row import Row, native_row

KEYS, RANGES = 1_000_000, 1000
ROUNDS = 5
GOALS = {"text": at_least(6, "x bisect"), "ints": at_least(5, "x bisect")}
PEER = "bisect"


def rows() -> list[Row]:
    """Route keys of both kinds, drawn at random from those that could be boundaries."""
    random = Random(SEED)
    numbers = [random.randrange(-(2**62), 2**62) for _ in range(KEYS)]
    texts = [f"tenant-{number % 1_000_000}" for number in numbers]
    return [*_routed("text", texts, GOALS["text"]), *_routed("ints", numbers, GOALS["ints"])]


def by_bisect(bounds: Sequence[str] | Sequence[int], owners: list[str], keys: list[str] | list[int]) -> list[str]:
    """Return the owners of keys, the boundaries being of their kind."""
    return [owners[bisect_right(bounds, key)] for key in keys]


def check(
    ranges: Ranges, bounds: Sequence[str] | Sequence[int], owners: list[str], keys: list[str] | list[int]
) -> None:
    """Raise `NotSane` unless the ranges answer as the boundaries do, one key and many."""
    expected = by_bisect(bounds, owners, keys)
    if expected != ranges.route_many(keys) or expected != [ranges.route(key) for key in keys]:
        raise NotSane("ranges answer otherwise than bisect")


def _routed(kind: str, keys: list[str] | list[int], goal: Goal) -> list[Row]:
    bounds = sorted({*keys[:: KEYS // RANGES]})[1:]
    nodes = node_names(100)
    owners = [nodes[number % len(nodes)] for number in range(len(bounds) + 1)]
    ranges = Ranges(nodes, bounds=bounds, owners=owners)
    check(ranges, bounds, owners, keys[:1000])
    turns: dict[str, Callable[[], object]] = {
        PEER: partial(by_bisect, bounds, owners, keys),
        "ids": partial(ranges.route_many, keys),
        "indexes": partial(ranges.route_indexes, keys),
    }
    times = race(turns, rounds=ROUNDS)
    name = f"1 M keys, {RANGES} ranges of {kind}"
    bisect_ns = spread(times[PEER], calls=KEYS)
    found = [Row(name=f"{name}: bisect", value=bisect_ns.median, shown=bisect_ns.shown("ns a key", digits=0))]
    for result in ("ids", "indexes"):
        ratio = speed_ratio(times[PEER], times[result])
        shown = f"{ratio.shown('x bisect')}, {spread(times[result], calls=KEYS).median:.1f} ns a key"
        found.append(native_row(f"{name}: list -> {result}", ratio.median, shown, goal if result == "ids" else None))
    return found
