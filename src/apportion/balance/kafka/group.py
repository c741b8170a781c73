"""A consumer group as its leader sees it: the topics that each member wants, the partitions, and their racks.

Promises: members stand in the order in which the Java client walks them, topics in the order in which it sorts them.
Topics are left out if no member wants them, if they have no partitions, or if they are unknown.
Refuses: two members of one id; impossible counts and racks.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.balance.java.hashmap import in_order
from apportion.balance.java.values import string_order
from apportion.balance.kafka.subscription import Assigned, Layout, Partition, Subscription, check_partitions, check_text
from apportion.errors import InvalidInput
from apportion.model.assignment import MAX_PARTITIONS
from apportion.model.numbers import check_int

Racks = Mapping[Partition, Collection[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedGroup:
    """Checked input. A member is known by its place in `members`, a partition by its index in `layout`.

    `by_id` are the places of members sorted by id; `ranks[place]` is a member's position in `by_id`. `racks[index]`
    are the racks of a partition. `racks` is None where no member reports a rack, or no racks are given.
    """

    members: tuple[Subscription, ...]
    layout: Layout
    racks: tuple[frozenset[str], ...] | None
    by_id: tuple[int, ...] = field(init=False)
    ranks: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        by_id = sorted(range(len(self.members)), key=lambda place: string_order(self.members[place].member_id))
        rank_of = {place: rank for rank, place in enumerate(by_id)}
        object.__setattr__(self, "by_id", tuple(by_id))
        object.__setattr__(self, "ranks", tuple(rank_of[place] for place in range(len(by_id))))

    @classmethod
    def checked(cls, topics: Mapping[str, int], members: Iterable[Subscription], racks: Racks | None) -> "CheckedGroup":
        """Return the group; raise `InvalidInput` for the first error. O(size)."""
        walked = _walked(members)
        counts = _checked_counts(topics)
        wanted = sorted(set().union(*(member.topics for member in walked)), key=string_order)
        layout = Layout(counts={topic: counts[topic] for topic in wanted if counts.get(topic)})
        if layout.total > MAX_PARTITIONS:
            raise InvalidInput("partitions", layout.total, f"at most {MAX_PARTITIONS}", "Split the group.")
        known = _checked_racks(racks)
        located = None
        if known is not None and any(member.rack for member in walked):
            located = tuple(known.get(partition, frozenset()) for partition in layout.partitions())
        return cls(members=walked, layout=layout, racks=located)

    def sorted(self) -> "CheckedGroup":
        """Return the group with its members by their ids, for algorithms that need not walk as Java does."""
        return replace(self, members=tuple(self.members[place] for place in self.by_id))

    @property
    def has_equal_topics(self) -> bool:
        """Whether all members want the same topics, counting unknown ones."""
        first = set(self.members[0].topics)
        return all(len(member.topics) == len(first) and first.issuperset(member.topics) for member in self.members)

    def takers(self, order: Iterable[int]) -> list[tuple[int, ...]]:
        """Return the members that want each topic, with members in this order. O(topics of all members)."""
        found: dict[str, list[int]] = {topic: [] for topic in self.layout.topics}
        for place in order:
            for topic in self.members[place].topics:
                if topic in found:
                    found[topic].append(place)
        return list(map(tuple, found.values()))

    def assigned(self, rows: Sequence[list[int]], withheld: Mapping[int, tuple[int, int]] | None = None) -> Assigned:
        """Return the answer that gives each member, by its place, a row of indexes without the withheld ones."""
        ids = [member.member_id for member in self.members]
        for row in rows:
            row.sort()
        if not withheld:
            return Assigned(layout=self.layout, rows=dict(zip(ids, rows, strict=True)))
        given = [[index for index in row if index not in withheld] for row in rows]
        named = self.layout.partitions()
        waiting = {named[index]: (ids[giver], ids[taker]) for index, (giver, taker) in withheld.items()}
        return Assigned(layout=self.layout, rows=dict(zip(ids, given, strict=True)), withheld=waiting)

    def static_first(self) -> list[int]:
        """Return the places of the members: static ones by their static ids, then the others by their member ids."""
        return sorted(range(len(self.members)), key=self._static_first)

    def _static_first(self, place: int) -> tuple[bool, bytes]:
        member = self.members[place]
        is_dynamic = member.group_instance_id is None
        return is_dynamic, string_order(member.group_instance_id or member.member_id)


def is_rack_aware(wanted: Collection[str], racks: Collection[frozenset[str]]) -> bool:
    """Whether racks can matter: a member's rack is that of a partition, and not all partitions are in all racks.

    >>> is_rack_aware({"a"}, [frozenset("ab"), frozenset("b")]), is_rack_aware({"a"}, [frozenset("ab")] * 2)
    (True, False)
    """
    everywhere = frozenset().union(*racks)
    return not everywhere.isdisjoint(wanted) and any(each != everywhere for each in racks)


def _walked(members: Iterable[Subscription]) -> tuple[Subscription, ...]:
    if isinstance(members, (str, bytes, Mapping)) or not isinstance(members, Iterable):
        raise InvalidInput("members", members, "an iterable of Subscription", "Put a single one in a list.")
    by_id: dict[str, Subscription] = {}
    for member in members:
        if not isinstance(member, Subscription):
            raise InvalidInput("member", member, "a Subscription", 'Write Subscription("c1", topics=["t"]).')
        if member.member_id in by_id:
            expected = "an id that no other member of the group has"
            raise InvalidInput("member id", member.member_id, expected, "Drop one of the two.")
        by_id[member.member_id] = member
    if not by_id:
        raise InvalidInput("members", "none", "at least one Subscription", "A group without members owns nothing.")
    return tuple(map(by_id.__getitem__, in_order(by_id)))


def _checked_counts(topics: Mapping[str, int]) -> Mapping[str, int]:
    if not isinstance(topics, Mapping):
        raise InvalidInput("topics", topics, "a mapping of names to numbers of partitions", 'Write {"t": 12}.')
    for topic, count in topics.items():
        check_text("topic", topic)
        hint = "Leave out an unknown topic."
        check_int(f"partitions of {topic!r}", count, 0, MAX_PARTITIONS, hint=hint)
    return topics


def _checked_racks(racks: Racks | None) -> dict[Partition, frozenset[str]] | None:
    """Return racks by partition, for all topics given; None where no racks are given."""
    if racks is None:
        return None
    if not isinstance(racks, Mapping):
        raise InvalidInput("racks", racks, "a mapping of partitions to racks", 'Write {("t", 0): ["r1"]}.')
    check_partitions("partition of racks", tuple(racks))
    return {partition: _checked_names(partition, names) for partition, names in racks.items()}


def _checked_names(partition: Partition, racks: Collection[str]) -> frozenset[str]:
    what = f"racks of {partition[0]!r} {partition[1]}"
    if isinstance(racks, (str, bytes)) or not isinstance(racks, Collection):
        raise InvalidInput(what, racks, "a collection of names", 'Put a single one in a list: ["r1"].')
    for rack in racks:
        if type(rack) is not str:
            raise InvalidInput(what, rack, "names that are str", "Leave out unknown racks.")
    return frozenset(racks)
