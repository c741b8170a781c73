"""The exact difference of two tables of 1000 nodes, 150 tokens each: every range whose owner differs, none divided.

`Table.diff` is the call that only compares; `plan(old, new)` also sums up what each node gains and loses, and is
information, as is the difference to a fleet of other nodes, where nearly every range changes.
"""

from collections.abc import Callable
from functools import partial

from apportion import Ring, Table, plan
from bench.clock import race, spread
from bench.contender import NotSane
from bench.fleet import equal_fleet
from bench.goal import at_most
from bench.row import Row, native_row

NODES = 1000
ROUNDS = 7
GOAL = at_most(20, "ms")
NAME = f"exact difference, {NODES} nodes x 150"
ONE_MORE, OTHERS, PLAN = "one node more", "1000 other nodes", "one node more, as a plan"


def rows() -> list[Row]:
    """Compare the same tables over and over."""
    fleet = equal_fleet(NODES)
    old = Ring(fleet)
    new = old.on(fleet.add("node-9999"))
    before, after = old.table(), new.table()
    others = Ring([f"other-{node_id}" for node_id in fleet.ids]).table()
    _check(before, after)
    turns: dict[str, Callable[[], object]] = {
        ONE_MORE: partial(before.diff, after),
        OTHERS: partial(before.diff, others),
        PLAN: partial(plan, old, new),
    }
    found = []
    for name, times_ns in race(turns, rounds=ROUNDS).items():
        diff_ms = spread(times_ns, calls=1_000_000)
        goal = GOAL if name == ONE_MORE else None
        found.append(native_row(f"{NAME}: {name}", diff_ms.median, diff_ms.shown("ms"), goal))
    return found


def _check(before: Table, after: Table) -> None:
    """Raise `NotSane` unless the difference is what it must be: some ranges, all of them to the new node."""
    changes = before.diff(after)
    if not changes or {change.after for change in changes} != {("node-9999",)}:
        raise NotSane("the difference of one node more is not what that node gains")
