"""Movement: what moves when one node joins 100, against the least that could.

Ring: the least between the shares before and after is what nodes own more than they did; integers are compared, not
ratios. Slots: the new node must get at least the floor of its share, and nothing of it was there before, so that many
slots is the least under any even assignment. Modulo, the baseline, is counted over keys.
"""

from apportion import Modulo, Plan, Ring, Slots, balance, plan
from bench.fleet import equal_fleet, mixed_keys
from bench.row import Row

NODES = 100
KEYS = 100_000
NAME = f"moved, {NODES} -> {NODES + 1} nodes"


def rows() -> list[Row]:
    """Plan the same change for ring, slots and modulo."""
    old = equal_fleet(NODES)
    new = old.add("node-9999")
    ring, modulo = Ring(old), Modulo(old)
    before = balance.slots(old)
    after = balance.slots(new, previous=before)
    return [
        _ring_row(plan(ring, ring.on(new))),
        _slots_row(plan(Slots(before), Slots(after)), slots=len(before.rows), nodes=len(new)),
        _modulo_row(plan(modulo, modulo.on(new), mixed_keys(KEYS))),
    ]


def _ring_row(change: Plan) -> Row:
    moved = _moved(change)
    bound = sum(max(0, width - change.widths_before.get(node_id, 0)) for node_id, width in change.widths_after.items())
    return Row(
        name=f"{NAME}, ring",
        value=moved,
        shown=f"{moved} positions ({change.moved_ratio:.4%}; fair {change.fair_bound_ratio:.4%})",
        goal=f"= {bound}, its bound",
        met=moved == bound > 0,
    )


def _slots_row(change: Plan, *, slots: int, nodes: int) -> Row:
    moved, rest = divmod(_moved(change) * slots, change.span)
    least = slots // nodes
    return Row(
        name=f"{NAME}, slots",
        value=moved,
        shown=f"{moved} of {slots} slots ({change.moved_ratio:.4%}; fair {change.fair_bound_ratio:.4%})",
        goal=f"= {least}, the minimum",
        met=moved == least and rest == 0,
    )


def _modulo_row(change: Plan) -> Row:
    moved = _moved(change)
    return Row(name=f"{NAME}, modulo", value=moved, shown=f"{moved} of {change.span} keys ({change.moved_ratio:.2%})")


def _moved(change: Plan) -> int:
    return sum(move.width for move in change.moves if move.target is not None)
