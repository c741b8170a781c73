"""One `str` key by the reference in Python, which is held to a goal of its own however fast the twin becomes.

It is another process with the twin switched off, and a textbook ring beside it, in one interleaved run.
"""

from bench import implementation
from bench.elsewhere import rows_of
from bench.figures.one_key import ORDERS, routes_of
from bench.figures.one_key import warm as raced
from bench.goal import at_least
from bench.ours import RING
from bench.peers import TEXTBOOK
from bench.row import Row

NAME = "one_key_reference"
KEYS = 50_000
ROUNDS = 9
NODES = 100
GOAL = at_least(0.8, "x T")


def rows() -> list[Row]:
    """Measure the reference here, or have it measured where it is in use."""
    if implementation.is_native():
        return rows_of(NAME, "--reference")
    routes = routes_of((TEXTBOOK, RING), NODES)
    found = []
    for order, keys_of in ORDERS.items():
        name = f"one key, reference in Python, {NODES} nodes, {order}"
        found += [_judged(row) for row in raced(routes, keys_of(KEYS), name, rounds=ROUNDS)]
    return found


def _judged(row: Row) -> Row:
    """Return our row with its goal: one of the reference, so it has a verdict where the reference is measured."""
    if row.value is None or not row.name.endswith(f": {RING.name}"):
        return row
    return Row(name=row.name, value=row.value, shown=row.shown, goal=str(GOAL), met=GOAL.is_met(row.value))
