"""Subscriptions: the topics that a member of a Kafka group wants, its partitions, and an assignor's answer.

Promises: errors in a subscription are refused before anything is assigned. Odd values that a member may send follow
the rules of the original. A topic named twice counts once; an empty rack is none; an owned partition may be of a
topic that is no longer known. Mappings of a result are made on request: a million partitions take a while.
Refuses: to judge claims. Two members may claim one partition; the sticky assignors judge (see `claims`).
Source: KIP-429 (owned partitions), KIP-341 and KIP-792 (generation), KIP-345 (static members), KIP-881 (racks).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate

from apportion.errors import InvalidInput
from apportion.errors.brief import brief

Partition = tuple[str, int]
"""A topic, and the number of one of its partitions."""

NO_GENERATION = -1
MAX_NUMBER = 2**31 - 1


@brief
@dataclass(frozen=True, slots=True, init=False)
class Subscription:
    """One member: the topics it wants, its earlier partitions, and their generation of the group (-1 if unknown).

    `topics` and `owned` may be any iterables; `owned` holds (topic, number) pairs. `group_instance_id` is the id of a
    static member. `rack` is the rack that the member reads from, None if it has no preference. Raises `InvalidInput`.
    O(owned).

    >>> Subscription("c1", topics=["t"], owned=[("t", 0)], generation=7)
    Subscription(member_id='c1', topics=('t',), owned=(('t', 0),), generation=7, group_instance_id=None, rack=None)
    """

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[Partition, ...]
    generation: int
    group_instance_id: str | None
    rack: str | None

    def __init__(
        self,
        member_id: str,
        *,
        topics: Iterable[str],
        owned: Iterable[Partition] = (),
        generation: int = NO_GENERATION,
        group_instance_id: str | None = None,
        rack: str | None = None,
    ) -> None:
        set_field = partial(object.__setattr__, self)
        set_field("member_id", check_text("member id", member_id))
        set_field("topics", _checked_topics(member_id, topics))
        set_field("owned", checked_owned(f"owned of {member_id!r}", owned))
        set_field("generation", checked_generation(f"generation of {member_id!r}", generation))
        if group_instance_id is not None:
            check_text(f"static id of {member_id!r}", group_instance_id)
        set_field("group_instance_id", group_instance_id)
        if rack is not None and type(rack) is not str:
            raise InvalidInput(f"rack of {member_id!r}", rack, "a str, or None", "Leave it out if unknown.")
        set_field("rack", rack or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The existing partitions, numbered: topics in their order, partitions of each ascending.

    `counts` is the number of partitions of each topic, `starts` the index of its first one.
    """

    counts: Mapping[str, int]
    starts: Mapping[str, int] = field(init=False, compare=False)
    total: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        ends = list(accumulate(self.counts.values(), initial=0))
        object.__setattr__(self, "starts", dict(zip(self.counts, ends, strict=False)))
        object.__setattr__(self, "total", ends[-1])

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, in their order."""
        return tuple(self.counts)

    def span(self, topic: str) -> range:
        """Return the indexes of a topic's partitions."""
        return range(self.starts[topic], self.starts[topic] + self.counts[topic])

    def partitions(self) -> list[Partition]:
        """Return every partition, by its index. O(partitions)."""
        return [(topic, number) for topic, count in self.counts.items() for number in range(count)]


@brief
@dataclass(frozen=True, kw_only=True)
class Assigned:
    """The answer: for each member the indexes of its partitions in a layout, ascending.

    `withheld` lists partitions that a member will get once the present owner releases them: partition -> (from, to).
    Until then no member is given them.
    """

    layout: Layout
    rows: Mapping[str, Sequence[int]]
    withheld: Mapping[Partition, tuple[str, str]] = field(default_factory=dict)

    @cached_property
    def by_member(self) -> dict[str, tuple[Partition, ...]]:
        """The partitions of each member, by topic and number; members sorted by id. O(partitions), once."""
        named = self.layout.partitions()
        return {member_id: tuple(map(named.__getitem__, self.rows[member_id])) for member_id in sorted(self.rows)}

    @cached_property
    def by_partition(self) -> dict[Partition, str]:
        """The owner of each partition that has one, by topic and number. O(partitions), once."""
        owners: list[str | None] = [None] * self.layout.total
        for member_id, row in self.rows.items():
            for index in row:
                owners[index] = member_id
        pairs = zip(self.layout.partitions(), owners, strict=True)
        return {partition: owner for partition, owner in pairs if owner is not None}


def check_text(what: str, text: object) -> str:
    """Return a name that is a str and not empty; raise `InvalidInput` otherwise."""
    if type(text) is not str or not text:
        raise InvalidInput(what, text, "a str that is not empty", "Pass the id as Kafka has it.")
    return text


def _checked_topics(member_id: str, topics: object) -> tuple[str, ...]:
    what = f"topics of {member_id!r}"
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise InvalidInput(what, topics, "an iterable of names", 'Put a single name in a list: ["t"].')
    listed = list(topics)
    if set(map(type, listed)) - {str} or "" in listed:
        wrong = next(topic for topic in listed if type(topic) is not str or not topic)
        raise InvalidInput(f"a topic of {member_id!r}", wrong, "a str that is not empty", "Pass names of topics.")
    return tuple(dict.fromkeys(listed))


def checked_owned(what: str, owned: object) -> tuple[Partition, ...]:
    """Return the owned partitions as pairs; raise `InvalidInput` if they cannot be read so."""
    if isinstance(owned, (str, bytes)) or not isinstance(owned, Iterable):
        raise InvalidInput(what, owned, "an iterable of pairs", 'Write [("t", 0)].')
    listed = tuple(owned)
    check_partitions(what, listed)
    return listed if set(map(type, listed)) <= {tuple} else tuple(map(tuple, listed))


def check_partitions(what: str, partitions: Sequence[Partition]) -> None:
    """Raise `InvalidInput` for the first item that is no partition. O(partitions); fast when all items are valid."""
    if not _are_partitions(partitions):
        wrong = next(each for each in partitions if not _are_partitions([each]))
        expected = f"a tuple of a topic and an int in 0 .. {MAX_NUMBER}"
        raise InvalidInput(what, str(wrong), expected, 'Write it as ("t", 0).')


def _are_partitions(listed: Sequence[Partition]) -> bool:
    """Whether all of these are pairs of a topic and a number; a column at a time, since there may be a million."""
    if not all(issubclass(kind, tuple) for kind in set(map(type, listed))) or set(map(len, listed)) - {2}:
        return False
    topics, numbers = zip(*listed, strict=True) if listed else ((), (0,))
    is_typed = set(map(type, topics)) <= {str} and set(map(type, numbers)) == {int}
    return is_typed and min(numbers) >= 0 and max(numbers) <= MAX_NUMBER


def checked_generation(what: str, generation: object) -> int:
    """Return a generation, -1 for any below it; raise `InvalidInput` for a value that cannot be one."""
    if type(generation) is not int or not -(2**31) <= generation <= MAX_NUMBER:
        raise InvalidInput(what, generation, f"an int in -1 .. {MAX_NUMBER}", "-1 means unknown.")
    return max(NO_GENERATION, generation)
