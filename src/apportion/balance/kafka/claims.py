"""Claims: the earlier owner of each partition. The newest claim is right; two claims of one generation are both wrong.

Promises: the answer for a partition is that of Java's sticky assignors, with members in the order in which they are
walked. A claim of a partition with an unknown topic or number is passed over. Java does so for topics; with a number
out of range it throws, or gives a partition out twice.
"""

from dataclasses import dataclass
from itertools import chain

from apportion.balance.kafka.group import CheckedGroup

NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The verdict on all claims: `owned[place]` are the indexes that each member rightly claims, ascending.

    `contested` are the partitions that two members claimed in one generation, even if a newer claim decides the
    owner.
    """

    owned: tuple[list[int], ...]
    contested: frozenset[int]


def claims_of(group: CheckedGroup) -> Claims:
    """Return the earlier owners. O(claims + partitions), plus the cost of sorting the claims."""
    claimed = [_claimed(group, place) for place in range(len(group.members))]
    if len(set(chain.from_iterable(claimed))) == sum(map(len, claimed)):
        return Claims(owned=tuple(map(sorted, claimed)), contested=frozenset())
    holders = [NOBODY] * group.layout.total
    contested, void = set[int](), set[int]()
    for place, indexes in enumerate(claimed):
        for index in indexes:
            other = holders[index]
            if other == NOBODY:
                holders[index] = place
                continue
            newer = group.members[place].generation - group.members[other].generation
            if newer < 0:
                continue
            holders[index] = place
            void.discard(index)
            if newer == 0:
                contested.add(index)
                void.add(index)
    owned: tuple[list[int], ...] = tuple([] for _ in group.members)
    for index, place in enumerate(holders):
        if place != NOBODY and index not in void:
            owned[place].append(index)
    return Claims(owned=owned, contested=frozenset(contested))


def claimants(group: CheckedGroup) -> dict[int, list[int]]:
    """Return the members that claim each partition, by right or not: index -> places. O(claims)."""
    found: dict[int, list[int]] = {}
    for place in range(len(group.members)):
        for index in _claimed(group, place):
            found.setdefault(index, []).append(place)
    return found


def older_claims(group: CheckedGroup) -> dict[int, int]:
    """Return the owners in generations older than the group's newest: index -> place. O(claims)."""
    newest = max(member.generation for member in group.members)
    found: dict[int, int] = {}
    for place, member in enumerate(group.members):
        for index in _claimed(group, place) if member.generation < newest else ():
            other = found.get(index)
            if other is None or group.members[other].generation < member.generation:
                found[index] = place
    return found


def _claimed(group: CheckedGroup, place: int) -> list[int]:
    """Return the indexes of the existing partitions that a member claims."""
    starts, counts = group.layout.starts, group.layout.counts
    owned = group.members[place].owned
    return [starts[topic] + number for topic, number in owned if number < counts.get(topic, 0)]
