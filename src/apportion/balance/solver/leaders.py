"""Leaders: one replica of each partition leads it, every node as many as its replicas entitle it to.

Promises: each node leads the floor or the ceiling of the sum of 1 / (length of the list) over its partitions; among all
such choices for the lists as they are, none changes fewer leaders, and the prices returned prove it.
"""

from array import array
from collections.abc import Sequence
from fractions import Fraction

from apportion import native
from apportion.balance.solver.augment import NOTHING, Augmenting, Open
from apportion.balance.solver.quotas import LoadBounds
from apportion.balance.solver.tie_breaks import even_out
from apportion.model.rows import Rows


def choose_leaders(
    rows: Rows, led_before: Sequence[int], nodes: int, elsewhere: Sequence[int] | None = None
) -> "tuple[array[int], tuple[int, ...]]":
    """Return who leads each partition, in 32 bits and -1 for nobody, and the price of leading on each node.

    `led_before[p]` is who led partition p, or -1 for nobody that could now. `elsewhere` is how much each node leads of
    other things: of the choices with the fewest changes, one is taken that evens that out.
    """
    if not native.IN_USE:
        return reference_choose_leaders(rows, led_before, nodes, elsewhere)
    leaders, prices = native.extension.choose_leaders(rows, array("i", led_before), nodes, elsewhere)
    return array("i", leaders), tuple(prices)


def reference_choose_leaders(
    rows: Rows, led_before: Sequence[int], nodes: int, elsewhere: Sequence[int] | None = None
) -> "tuple[array[int], tuple[int, ...]]":
    """Return what `choose_leaders` does, found in Python."""
    listed = tuple(rows)
    solver = _Leads(listed, led_before, leader_bounds(listed, nodes))
    solver.finish()
    if elsewhere is not None:
        even_out(solver, elsewhere)
    return array("i", solver.leaders), tuple(solver.price[:nodes])


def leader_bounds(rows: Sequence[Sequence[int]], nodes: int) -> LoadBounds:
    """Return how many partitions each node may lead, given who holds them."""
    held: list[dict[int, int]] = [{} for _ in range(nodes)]
    for row in rows:
        for node in row:
            held[node][len(row)] = held[node].get(len(row), 0) + 1
    shares = [sum((Fraction(count, length) for length, count in counts.items()), Fraction()) for counts in held]
    return LoadBounds(
        least=tuple(share.numerator // share.denominator for share in shares),
        most=tuple(-(-share.numerator // share.denominator) for share in shares),
        pools=(0,) * nodes,
        totals=(sum(map(bool, rows)),),
    )


class _Leads(Augmenting):
    """Leads of partitions on nodes that hold them: an item is a partition that the node leads."""

    def __init__(self, rows: Sequence[Sequence[int]], led_before: Sequence[int], bounds: LoadBounds) -> None:
        self.rows, self.led_before = rows, led_before
        self.leaders = list(_first_leaders(rows, led_before, bounds))
        held: list[list[int]] = [[] for _ in bounds.least]
        for partition, leader in enumerate(self.leaders):
            if leader != NOTHING:
                held[leader].append(partition)
        super().__init__(bounds, (0,) * len(held), held)

    def swap(self, item: int, giver: int, taker: int) -> None:  # noqa: ARG002 - who gave it is known
        """Note that a partition is led by another of its holders."""
        self.leaders[item] = taker

    def target(self, node: int, item: int, among: Open) -> int:
        """Return an open holder that could lead for the same."""
        old = self.led_before[item]
        value = self.price[node] + (node != old)
        for other in self.rows[item]:
            if other in among and self.price[other] + (other != old) == value:
                return other
        return NOTHING


def _first_leaders(rows: Sequence[Sequence[int]], led_before: Sequence[int], bounds: LoadBounds) -> list[int]:
    """Let each leader lead on if it still holds the partition; else the holder with most room, the first of equals."""
    leaders = [old if old in row else NOTHING for row, old in zip(rows, led_before, strict=True)]
    room = list(bounds.most)
    for leader in leaders:
        if leader != NOTHING:
            room[leader] -= 1
    for partition, row in enumerate(rows):
        if leaders[partition] == NOTHING and row:
            leaders[partition] = max(row, key=lambda node: room[node])
            room[leaders[partition]] -= 1
    return leaders
