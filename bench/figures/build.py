"""Building a ring of 100 and of 1000 nodes, 150 tokens each, from their names.

The textbook ring inserts point by point into a sorted list, which costs it the square of the points; that is how it is
shown, and how it is used when nodes come one at a time. Garbage collection is off, for all alike.
"""

from functools import partial

from bench.clock import race, speed_ratio, spread
from bench.fleet import node_names
from bench.goal import at_most
from bench.ours import RING
from bench.peers import TEXTBOOK, UHASHRING, UHASHRING_MMH3
from bench.row import Row, native_row, not_measured

ROUNDS = {100: 15, 1000: 5}
CONTENDERS = (TEXTBOOK, RING, UHASHRING, UHASHRING_MMH3)
GOALS = {1000: at_most(10, "ms")}


def rows() -> list[Row]:
    """Build each ring over and over."""
    return [row for nodes, rounds in ROUNDS.items() for row in _built(nodes, rounds=rounds)]


def _built(nodes: int, *, rounds: int) -> list[Row]:
    names, name = node_names(nodes), f"build, {nodes} nodes x 150"
    here = [contender for contender in CONTENDERS if not contender.absent]
    times = race({contender.name: partial(contender.build, names) for contender in here}, rounds=rounds)
    found = [not_measured(f"{name}: {each.name}", each.absent) for each in CONTENDERS if each.absent]
    for contender, times_ns in times.items():
        build_ms, ratio = spread(times_ns, calls=1_000_000), speed_ratio(times[TEXTBOOK.name], times_ns)
        against = "" if contender == TEXTBOOK.name else f", {ratio.median:.2f} x T"
        goal = GOALS.get(nodes) if contender == RING.name else None
        found.append(native_row(f"{name}: {contender}", build_ms.median, build_ms.shown("ms") + against, goal))
    return found
