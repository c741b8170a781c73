"""`kafka.sticky`: members keep as many of their partitions as even loads allow.

The group decides between two algorithms: `constrained` where all members want the same topics, `general` elsewhere. A
member with an older generation than others may have missed an assignment, and its claims give way.

Promises: the results of Kafka's Java client, to the partition, except where Java's cannot be used
(`docs/algorithms/kafka-assignors.md`).
Refuses: weights and lags.
Source: `StickyAssignor` of Kafka 4.1 (KIP-54, KIP-881).
"""

from collections.abc import Iterable, Mapping

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.claims import claims_of
from apportion.balance.kafka.constrained import deal
from apportion.balance.kafka.for_groups import owners_by
from apportion.balance.kafka.general import even_out
from apportion.balance.kafka.group import CheckedGroup, Racks
from apportion.balance.kafka.nearby import Nearby
from apportion.balance.kafka.subscription import Assigned, Subscription


def sticky(topics: Mapping[str, int], members: Iterable[Subscription], *, racks: Racks | None = None) -> Assigned:
    """Return the partitions of each member, moving few partitions from their owners.

    `topics` are the numbers of partitions; `racks` are the racks of the replicas of each partition, (topic, number)
    -> names. Ties go as in Java, by ids and by the order in which Java walks them. The order of `members` matters
    only where ids share a bucket of Java's hash map. O(partitions) where all members want the same topics. Raises
    `InvalidInput`.

    >>> before = sticky({"t": 5}, [Subscription("a", topics=["t"]), Subscription("b", topics=["t"])]).by_member
    >>> before
    {'a': (('t', 0), ('t', 2), ('t', 4)), 'b': (('t', 1), ('t', 3))}
    >>> members = [Subscription(each, topics=["t"], owned=owned, generation=1) for each, owned in before.items()]
    >>> sticky({"t": 5}, [*members, Subscription("c", topics=["t"])]).by_member
    {'a': (('t', 0), ('t', 2)), 'b': (('t', 1), ('t', 3)), 'c': (('t', 4),)}
    """
    group = CheckedGroup.checked(topics, members, racks)
    claims, nearby = claims_of(group), Nearby.of(group)
    rows = deal(group, claims, nearby).rows if group.has_equal_topics else even_out(group, claims, nearby)
    return group.assigned(rows)


SPEC = BalancerSpec(
    name="kafka.sticky",
    assign=sticky,
    owners=owners_by(sticky),
    source="Kafka's StickyAssignor, KIP-54",
    takes="subscriptions",
    even=True,
    minimal_movement=True,
)
