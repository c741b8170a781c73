"""`kafka.roundrobin`: all partitions of all topics go around, as cards are dealt.

Promises: the results of Kafka's Java client. Members go in the order of their ids, static ones first. A member that
does not want a topic is passed over; so loads are uneven where members want different topics.
Refuses: to look at earlier owners, or at racks.
Source: `RoundRobinAssignor` of Kafka 4.1.
"""

from collections.abc import Iterable, Mapping

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.for_groups import owners_by
from apportion.balance.kafka.group import CheckedGroup, Racks
from apportion.balance.kafka.subscription import Assigned, Subscription


def roundrobin(topics: Mapping[str, int], members: Iterable[Subscription], *, racks: Racks | None = None) -> Assigned:
    """Return the partitions of each member; `racks` are checked and change nothing. Raises `InvalidInput`.

    O(partitions), and O(partitions · members) where few members want the same topics.

    >>> members = [Subscription("a", topics=["t", "u"]), Subscription("b", topics=["t", "u"])]
    >>> roundrobin({"t": 3, "u": 1}, members).by_member
    {'a': (('t', 0), ('t', 2)), 'b': (('t', 1), ('u', 0))}
    """
    group = CheckedGroup.checked(topics, members, racks)
    rows: tuple[list[int], ...] = tuple([] for _ in group.members)
    circle = group.static_first()
    turn = 0
    for topic, takers in zip(group.layout.topics, map(frozenset, group.takers(circle)), strict=True):
        for index in group.layout.span(topic):
            while circle[turn] not in takers:
                turn = (turn + 1) % len(circle)
            rows[circle[turn]].append(index)
            turn = (turn + 1) % len(circle)
    return group.assigned(rows)


SPEC = BalancerSpec(
    name="kafka.roundrobin",
    assign=roundrobin,
    owners=owners_by(roundrobin),
    source="Kafka's RoundRobinAssignor",
    takes="subscriptions",
    even=True,
)
