"""`kafka.optimal`: as even as members' topics allow, with the fewest moves. `kafka.sticky` comes near to this.

There are three goals, and none is given up for a later one. First, each partition goes to a member that wants its
topic. Second, the sum of the squares of the loads is the least possible. Third, the fewest partitions leave their
owners.

Promises: loads and moves are optimal, also where members want different topics. Claims are judged as in `sticky`.
Refuses: to match Java; to use racks, which are checked and not looked at.
Source: an integral minimum-cost flow, see `evenest` and `apportion.balance.solver.augment`.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.claims import claims_of
from apportion.balance.kafka.evenest import evenest_loads
from apportion.balance.kafka.for_groups import owners_by
from apportion.balance.kafka.group import CheckedGroup, Racks
from apportion.balance.kafka.subscription import Assigned, Subscription
from apportion.balance.solver.augment import NOTHING, Augmenting, Open
from apportion.balance.solver.quotas import LoadBounds


def optimal(topics: Mapping[str, int], members: Iterable[Subscription], *, racks: Racks | None = None) -> Assigned:
    """Return the partitions of each member: the evenest loads, and of these the fewest moves. Raises `InvalidInput`.

    O(partitions · members) for each of a few rounds. The order of members, topics and claims does not matter.

    >>> members = [Subscription("a", topics=["t", "u"]), Subscription("b", topics=["t", "v"])]
    >>> optimal({"t": 2, "u": 2, "v": 4}, members).by_member["a"]
    (('t', 0), ('t', 1), ('u', 0), ('u', 1))
    """
    group = CheckedGroup.checked(topics, members, racks).sorted()
    wanting = group.takers(group.by_id)
    bounds = evenest_loads(wanting, tuple(group.layout.counts.values()), len(group.members))
    owners = _Owners(group, wanting, bounds)
    owners.finish()
    return group.assigned(owners.held)


class _Owners(Augmenting):
    """Partitions at members that want them: an item is a partition."""

    def __init__(self, group: CheckedGroup, wanting: Sequence[tuple[int, ...]], bounds: LoadBounds) -> None:
        self._before = [NOTHING] * group.layout.total
        held: list[list[int]] = [[] for _ in group.members]
        for place, owned in enumerate(claims_of(group).owned):
            for index in owned:
                self._before[index] = place
        self._wanting: list[frozenset[int]] = []
        for topic, wants in zip(group.layout.topics, wanting, strict=True):
            span, among = group.layout.span(topic), frozenset(wants)
            self._wanting += [among] * len(span)
            for index in span:
                if self._before[index] in among:
                    held[self._before[index]].append(index)
        _fill(group, wanting, held, bounds.most)
        super().__init__(bounds, (0,) * len(held), held)

    def swap(self, item: int, giver: int, taker: int) -> None:
        """Do nothing more: `held` already lists the items of each member."""

    def target(self, node: int, item: int, among: Open) -> int:
        """Return an open member that wants a partition at the same cost, its old owner first."""
        old, wants = self._before[item], self._wanting[item]
        value = self.price[node] + (node != old)
        if old in among and old in wants and self.price[old] == value:
            return old
        for _, members in among.zones_at(value - 1):
            for member in members:
                if member in wants and member != old:
                    return member
        return NOTHING


def _fill(
    group: CheckedGroup, wanting: Sequence[Sequence[int]], held: Sequence[list[int]], most: Sequence[int]
) -> None:
    """Give out partitions without an owner, topics with the fewest takers first, to the member with most room."""
    is_held = {index for row in held for index in row}
    for number in sorted(range(len(wanting)), key=lambda number: len(wanting[number])):
        heap = [(len(held[place]) - most[place], place) for place in wanting[number]]
        heapify(heap)
        for index in group.layout.span(group.layout.topics[number]):
            if index not in is_held:
                excess, place = heap[0]
                heapreplace(heap, (excess + 1, place))
                held[place].append(index)


SPEC = BalancerSpec(
    name="kafka.optimal",
    assign=optimal,
    owners=owners_by(optimal),
    source="an integral minimum-cost flow",
    takes="subscriptions",
    even=True,
    minimal_movement=True,
)
