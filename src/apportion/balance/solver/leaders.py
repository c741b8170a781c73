"""Leaders: one replica of each partition leads it, and every node leads as many as its replicas entitle it to.

Promises: each node leads the floor or the ceiling of the sum of 1 / (length of the list) over its partitions. Among
all choices with this property for the lists as they are, none changes fewer leaders. The returned prices prove it.
"""

from array import array
from collections.abc import Sequence
from fractions import Fraction

from apportion import native
from apportion.balance.solver.augment import NOTHING, Augmenting, Open
from apportion.balance.solver.equal_costs import even_out
from apportion.balance.solver.quotas import LoadBounds
from apportion.model.rows import Rows


def choose_leaders(
    rows: Rows, led_before: Sequence[int], nodes: int, elsewhere: Sequence[int] | None = None
) -> "tuple[array[int], tuple[int, ...]]":
    """Return the leader of each partition (32 bits, -1 for none) and the price of leading on each node.

    `led_before[p]` is the earlier leader of partition p, or -1 if there was none or it cannot lead now. `elsewhere` is
    how much each node leads of other resources. Among the choices with the fewest changes, one that evens out the sum
    is taken.
    """
    if not native.IN_USE:
        return reference_choose_leaders(rows, led_before, nodes, elsewhere)
    leaders, prices = native.extension.choose_leaders(rows, array("i", led_before), nodes, elsewhere)
    return array("i", leaders), tuple(prices)


def reference_choose_leaders(
    rows: Rows, led_before: Sequence[int], nodes: int, elsewhere: Sequence[int] | None = None
) -> "tuple[array[int], tuple[int, ...]]":
    """Return the result of `choose_leaders`, computed in Python."""
    listed = tuple(rows)
    solver = _Leads(listed, led_before, leader_bounds(listed, nodes))
    solver.finish()
    if elsewhere is not None:
        even_out(solver, elsewhere)
    return array("i", solver.leaders), tuple(solver.price[:nodes])


def leader_bounds(rows: Sequence[Sequence[int]], nodes: int) -> LoadBounds:
    """Return how many partitions each node may lead, given the lists of all partitions."""
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

    def swap(self, item: int, giver: int, taker: int) -> None:  # noqa: ARG002 - the giver is known
        """Note that a partition is led by another of its holders."""
        self.leaders[item] = taker

    def target(self, node: int, item: int, among: Open) -> int:
        """Return an open holder that could lead at the same cost."""
        old = self.led_before[item]
        value = self.price[node] + (node != old)
        for other in self.rows[item]:
            if other in among and self.price[other] + (other != old) == value:
                return other
        return NOTHING


def _first_leaders(rows: Sequence[Sequence[int]], led_before: Sequence[int], bounds: LoadBounds) -> list[int]:
    """Keep each leader that still holds its partition; else choose the holder with most room, the first of equals."""
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
