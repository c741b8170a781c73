"""`kafka.cooperative`: as `kafka.sticky`, but no member gets a partition in the round in which another owns it.

In the first round the owner learns that it has to release a partition, and no member has the partition. The owner
rejoins, and in the next round the partition is given out. All other members go on reading meanwhile.

Promises: the results of Kafka's Java client for the round that is asked for, with the exceptions that `sticky` names.
`withheld` lists the waiting partitions, each with its giver and its taker. A partition that two members claimed in
one generation waits too, even if it stays with one of them. Where all members want the same topics, older claims are
lost, as in Java; elsewhere every claim counts, as in Java.
Source: `CooperativeStickyAssignor` of Kafka 4.1 (KIP-429).
"""

from collections.abc import Iterable, Mapping

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.claims import NOBODY, claimants, claims_of
from apportion.balance.kafka.constrained import deal
from apportion.balance.kafka.for_groups import owners_by
from apportion.balance.kafka.general import even_out
from apportion.balance.kafka.group import CheckedGroup, Racks
from apportion.balance.kafka.nearby import Nearby
from apportion.balance.kafka.subscription import Assigned, Subscription


def cooperative(topics: Mapping[str, int], members: Iterable[Subscription], *, racks: Racks | None = None) -> Assigned:
    """Return the partitions of this round and the withheld ones. Takes and raises the same as `sticky`.

    >>> before = [Subscription("a", topics=["t"], owned=[("t", 0), ("t", 1)], generation=1)]
    >>> first = cooperative({"t": 2}, [*before, Subscription("b", topics=["t"])])
    >>> first.by_member, first.withheld
    ({'a': (('t', 0),), 'b': ()}, {('t', 1): ('a', 'b')})
    """
    group = CheckedGroup.checked(topics, members, racks)
    claims, nearby = claims_of(group), Nearby.of(group)
    if group.has_equal_topics:
        dealt = deal(group, claims, nearby)
        rows, transfers = dealt.rows, dealt.transfers
    else:
        rows = even_out(group, claims, nearby)
        transfers = _transfers(group, rows)
    return group.assigned(rows, withheld=_named(group, transfers))


def _transfers(group: CheckedGroup, rows: tuple[list[int], ...]) -> dict[int, int]:
    """Return the partitions that go to a member without a claim on them, while another member claims them."""
    owners = [NOBODY] * group.layout.total
    for place, row in enumerate(rows):
        for index in row:
            owners[index] = place
    claimed = claimants(group)
    return {
        index: owners[index]
        for index, places in claimed.items()
        if owners[index] != NOBODY and owners[index] not in places
    }


def _named(group: CheckedGroup, transfers: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Return giver and taker of each. The giver is the newest of the other claimants; without others, the taker."""
    claimed = claimants(group) if transfers else {}
    found = {}
    for index in sorted(transfers):
        to = transfers[index]
        others = [place for place in claimed[index] if place != to] or [to]
        found[index] = max(others, key=lambda place: group.members[place].generation), to
    return found


SPEC = BalancerSpec(
    name="kafka.cooperative",
    assign=cooperative,
    owners=owners_by(cooperative),
    source="Kafka's CooperativeStickyAssignor, KIP-429",
    takes="subscriptions",
    even=True,
    minimal_movement=True,
)
