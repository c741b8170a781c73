"""Stray moves: what changes hands between nodes that a change is not about. One added node may only gain, one removed
may only lose, one re-weighted only the one or the other; everything else that moves is stray.

Exact for ring and slots, in positions of the circle, from the ranges of a plan. Counted for rendezvous and jump, over
100 000 keys of every kind. The cause is judged here, from before and after, and not by the plan's own `is_stray`.
Promises: a change that moves nothing at all is an error, so that 0 cannot come from looking at nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apportion import Jump, Node, Rendezvous, Ring, Slots, Topology, balance, plan
from apportion.model.plan import Key
from bench.fleet import equal_fleet, mixed_fleet, mixed_keys
from bench.row import Row

KEYS = 100_000
CIRCLE = 2**64
FLEETS = (equal_fleet(100), mixed_fleet(20))
CHANGED = "node-0007"
ADDED = "node-9999"

Hand = tuple[str, str, int]
"""Owner before, owner after, and how much changed from the one to the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A change of topology, and the one node that may gain by it, or may lose."""

    name: str
    new: Topology
    node_id: str
    gains: bool

    def explains(self, before: str, after: str) -> bool:
        """Return whether the node is on the right side of a move."""
        return (after if self.gains else before) == self.node_id


def rows() -> list[Row]:
    """Count strays of each placement and each kind of change, over all fleets."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for placement, cause, hands, total in _changes():
        moved = list(hands)
        if not moved:
            raise RuntimeError(
                f"{placement}: nothing moved on {cause.name} of {cause.node_id}; there is nothing to judge"
            )
        stray = sum(width for before, after, width in moved if not cause.explains(before, after))
        found.setdefault((placement, cause.name), []).append((stray, sum(width for *_, width in moved) / total))
    return [_row(placement, change, counts) for (placement, change), counts in found.items()]


def _row(placement: str, change: str, counts: list[tuple[int, float]]) -> Row:
    stray = sum(count for count, _ in counts)
    unit = "positions, exact" if placement in ("ring", "slots") else f"of {KEYS} keys"
    moved = ", ".join(f"{ratio:.2%}" for _, ratio in counts)
    return Row(
        name=f"stray moves, {placement}: {change}",
        value=stray,
        shown=f"{stray} {unit} (moved: {moved})",
        goal="0",
        met=stray == 0,
    )


def _changes() -> Iterator[tuple[str, Cause, Iterable[Hand], int]]:
    for fleet in FLEETS:
        yield from (("ring", cause, hands, CIRCLE) for cause, hands in _ring(fleet))
        yield from (("slots", cause, hands, CIRCLE) for cause, hands in _slots(fleet))
    keys = mixed_keys(KEYS)
    for fleet in FLEETS:
        yield from (("rendezvous", cause, hands, KEYS) for cause, hands in _rendezvous(fleet, keys))
    yield from (("jump", cause, hands, KEYS) for cause, hands in _jump(FLEETS[0], keys))


def _causes(fleet: Topology) -> list[Cause]:
    weight = fleet[CHANGED].weight
    return [
        Cause(name="add", new=fleet.add(Node(ADDED)), node_id=ADDED, gains=True),
        Cause(name="remove", new=fleet.without(CHANGED), node_id=CHANGED, gains=False),
        Cause(name="re-weight up", new=fleet.reweight(CHANGED, weight * 1.5), node_id=CHANGED, gains=True),
        Cause(name="re-weight down", new=fleet.reweight(CHANGED, weight / 1.5), node_id=CHANGED, gains=False),
    ]


def _ring(fleet: Topology) -> Iterator[tuple[Cause, Iterable[Hand]]]:
    ring = Ring(fleet)
    return ((cause, _exact(ring, ring.on(cause.new))) for cause in _causes(fleet))


def _slots(fleet: Topology) -> Iterator[tuple[Cause, Iterable[Hand]]]:
    slots = Slots(balance.slots(fleet))
    for cause in _causes(fleet):
        yield cause, _exact(slots, Slots(balance.slots(cause.new, previous=slots.assignment)))


def _rendezvous(fleet: Topology, keys: list[Key]) -> Iterator[tuple[Cause, Iterable[Hand]]]:
    rendezvous = Rendezvous(fleet)
    before = rendezvous.route_many(keys)
    return ((cause, _counted(before, rendezvous.on(cause.new).route_many(keys))) for cause in _causes(fleet))


def _jump(fleet: Topology, keys: list[Key]) -> Iterator[tuple[Cause, Iterable[Hand]]]:
    """Change the end of the order, which is all that jump hashing promises to bear; it knows no weights."""
    jump = Jump(fleet)
    before, last = jump.route_many(keys), jump.order[-1]
    for cause in (
        Cause(name="add at the end", new=fleet.add(Node(ADDED)), node_id=ADDED, gains=True),
        Cause(name="remove the last", new=fleet.without(last), node_id=last, gains=False),
    ):
        yield cause, _counted(before, jump.on(cause.new).route_many(keys))


def _exact(old: Ring | Slots, new: Ring | Slots) -> Iterator[Hand]:
    return ((change.before[0], change.after[0], change.width) for change in plan(old, new).changes)


def _counted(before: list[str], after: list[str]) -> Iterator[Hand]:
    return ((was, now, 1) for was, now in zip(before, after, strict=True) if was != now)
