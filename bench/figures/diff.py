"""The exact difference of two tables of 1000 nodes, 150 tokens each: every range whose owner differs, none divided.

The goal is that of the tables as two rings have laid them, which is what `plan(old, new)` compares, and of saved
tables, whose columns are Python values: `Table.diff`. A plan also sums up shares and digests, and is information. So is
the difference to a fleet of other nodes, where nearly every range changes: 300 000 changes are made one by one.
"""

from collections.abc import Callable
from functools import partial

from apportion import Plan, Ring, Table, decode, encode, plan
from apportion.placement.shapes.twin_table import both_laid
from bench.clock import race, spread
from bench.contender import NotSane
from bench.fleet import equal_fleet
from bench.goal import at_most
from bench.row import Row, native_row, not_measured

NODES = 1000
ROUNDS = 7
GOAL = at_most(20, "ms")
NAME = f"exact difference, {NODES} nodes x 150"
ONE_MORE, OTHERS, PLAN = "one node more", "1000 other nodes", "one node more, as a plan"
SAVED, SAVED_PLAN = "one node more, saved tables", "one node more, saved tables, as a plan"


def rows() -> list[Row]:
    """Compare the same tables over and over."""
    fleet = equal_fleet(NODES)
    old = Ring(fleet)
    new = old.on(fleet.add("node-9999"))
    before, after = (decode(encode(ring.table()), Table) for ring in (old, new))
    others = Ring([f"other-{node_id}" for node_id in fleet.ids])
    _check(before, after, plan(old, new))
    turns: dict[str, Callable[[], object]] = {
        PLAN: partial(plan, old, new),
        SAVED: partial(before.diff, after),
        SAVED_PLAN: partial(plan, before, after),
    }
    if (laid := both_laid(old, new)) and (far := both_laid(old, others)):
        turns |= {ONE_MORE: partial(laid[0].diff, laid[1]), OTHERS: partial(far[0].diff, far[1])}
    found = []
    for name, times_ns in race(turns, rounds=ROUNDS).items():
        diff_ms = spread(times_ns, calls=1_000_000)
        goal = GOAL if name in {ONE_MORE, SAVED} else None
        found.append(native_row(f"{NAME}: {name}", diff_ms.median, diff_ms.shown("ms"), goal))
    if ONE_MORE not in turns:
        found.append(not_measured(f"{NAME}: {ONE_MORE}", "the native twin is not in use", GOAL))
    return found


def _check(before: Table, after: Table, change: Plan) -> None:
    """Raise `NotSane` unless the difference is right: some ranges, all of them to the new node."""
    changes = before.diff(after)
    if changes != change.changes or not changes or {change.after for change in changes} != {("node-9999",)}:
        raise NotSane("the difference of one node more is not what that node gains")
