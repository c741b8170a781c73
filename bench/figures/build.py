"""Building a ring of 100 and of 1000 nodes, 150 tokens each. Information: no goal is set for it.

The textbook ring inserts point by point into a sorted list, which costs it the square of the points; that is how it is
shown, and how it is used when nodes come one at a time. Garbage collection is off, for all alike.
"""

from functools import partial

from bench.clock import race, speed_ratio, spread
from bench.fleet import node_names
from bench.ours import RING
from bench.peers import TEXTBOOK, UHASHRING, UHASHRING_MMH3
from bench.row import Row

ROUNDS = {100: 15, 1000: 5}


def rows() -> list[Row]:
    """Build each ring over and over."""
    return [row for nodes, rounds in ROUNDS.items() for row in _built(nodes, rounds=rounds)]


def _built(nodes: int, *, rounds: int) -> list[Row]:
    names = node_names(nodes)
    contenders = (TEXTBOOK, RING, UHASHRING, UHASHRING_MMH3)
    times = race({contender.name: partial(contender.build, names) for contender in contenders}, rounds=rounds)
    found = []
    for contender, times_ns in times.items():
        build_ms, ratio = spread(times_ns, calls=1_000_000), speed_ratio(times[TEXTBOOK.name], times_ns)
        shown = f"{build_ms.median:.1f} ms ({build_ms.least:.1f}..{build_ms.most:.1f})"
        against = "" if contender == TEXTBOOK.name else f", {ratio.median:.2f} x T"
        found.append(Row(name=f"build, {nodes} nodes x 150: {contender}", value=build_ms.median, shown=shown + against))
    return found
