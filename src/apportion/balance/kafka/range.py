"""`kafka.range`: each topic is cut into stretches, one per member that wants it, so that topics are cut alike.

Members stand by their ids, static ones first. The first members get one more where the division leaves a remainder.
With racks, members first get partitions in their racks, within the same quotas. Topics with the same number of
partitions and the same members then stay together. So partition 3 of one topic goes to the owner of partition 3 of the
others.

Promises: the results of Kafka's Java client; no member gets more than its quota of a topic for the sake of a rack.
Refuses: to be even over several topics: the same members come first in each topic.
Source: `RangeAssignor` of Kafka 4.1 (KIP-881).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.for_groups import owners_by
from apportion.balance.kafka.group import CheckedGroup, Racks, is_rack_aware
from apportion.balance.kafka.subscription import Assigned, Subscription


def assign_ranges(
    topics: Mapping[str, int], members: Iterable[Subscription], *, racks: Racks | None = None
) -> Assigned:
    """Return the partitions of each member. O(partitions), with racks O(partitions · members). Raises `InvalidInput`.

    `racks` are the racks of the replicas of each partition, (topic, number) -> names.

    >>> members = [Subscription("a", topics=["t", "u"]), Subscription("b", topics=["t", "u"])]
    >>> assign_ranges({"t": 3, "u": 3}, members).by_member
    {'a': (('t', 0), ('t', 1), ('u', 0), ('u', 1)), 'b': (('t', 2), ('u', 2))}
    """
    group = CheckedGroup.checked(topics, members, racks)
    rows: tuple[list[int], ...] = tuple([] for _ in group.members)
    takers = group.takers(group.static_first())
    shares = [_Share(group, topic, places, rows) for topic, places in zip(group.layout.topics, takers, strict=True)]
    if any(share.is_rack_aware for share in shares):
        for together in _together(shares):
            if len(together) > 1:
                _assign_together(together)
            elif together[0].is_rack_aware:
                together[0].assign(together[0].is_near)
    for share in shares:
        share.assign(lambda _, __: True)
    return group.assigned(rows)


class _Share:
    """One topic during assignment: the partitions without an owner, and how many each member may still get."""

    def __init__(self, group: CheckedGroup, topic: str, places: tuple[int, ...], rows: Sequence[list[int]]) -> None:
        span = group.layout.span(topic)
        self.start, self.count = span.start, len(span)
        self.places, self._rows = places, rows
        self.left = list(span)
        self._quota, self._extra = divmod(self.count, len(places))
        self._got = dict.fromkeys(places, 0)
        self._member_racks = {place: group.members[place].rack for place in places}
        wanted = {rack for rack in self._member_racks.values() if rack}
        self._racks = group.racks or ()
        self.is_rack_aware = bool(wanted and self._racks) and is_rack_aware(wanted, self._racks[span.start : span.stop])

    def is_near(self, place: int, index: int) -> bool:
        """Whether a partition lies in the rack of a member, or the member has none."""
        rack = self._member_racks[place]
        return rack is None or rack in self._racks[index]

    def room(self, place: int) -> int:
        """Return the number of partitions that a member may still get now."""
        return max(0, self._quota + (self._extra > 0) - self._got[place])

    def give(self, place: int, indexes: Sequence[int]) -> None:
        """Give partitions to a member."""
        self._rows[place].extend(indexes)
        self._got[place] += len(indexes)
        if self._got[place] > self._quota:
            self._extra -= 1

    def assign(self, may_have: Callable[[int, int], bool]) -> None:
        """Give every member its next eligible partitions, up to its quota."""
        for place in self.places:
            given, rest, room = list[int](), list[int](), self.room(place)
            for position, index in enumerate(self.left):
                if len(given) == room:
                    rest += self.left[position:]
                    break
                (given if may_have(place, index) else rest).append(index)
            if given:
                self.give(place, given)
                self.left = rest


def _together(shares: Iterable[_Share]) -> Iterable[list[_Share]]:
    """Return the topics in groups with the same number of partitions, wanted by the same members."""
    groups: dict[tuple[int, tuple[int, ...]], list[_Share]] = {}
    for share in shares:
        groups.setdefault((share.count, share.places), []).append(share)
    return groups.values()


def _assign_together(shares: Sequence[_Share]) -> None:
    """Give partitions of one number to the first member that is near to them all and has room."""
    first = shares[0]
    given = set()
    open_places = list(first.places)
    for number in range(first.count):
        fitting = (
            place
            for place in open_places
            if all(share.room(place) and share.is_near(place, share.start + number) for share in shares)
        )
        place = next(fitting, None)
        if place is None:
            continue
        given.add(number)
        for share in shares:
            share.give(place, (share.start + number,))
        if not first.room(place):
            open_places.remove(place)
    for share in shares:
        share.left = [index for index in share.left if index - share.start not in given]


SPEC = BalancerSpec(
    name="kafka.range",
    assign=assign_ranges,
    owners=owners_by(assign_ranges),
    source="Kafka's RangeAssignor, KIP-881",
    takes="subscriptions",
    even=True,
)
