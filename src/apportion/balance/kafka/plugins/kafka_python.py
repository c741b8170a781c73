"""Assignors for kafka-python 3: give a class, or a `partial` of one, in `partition_assignment_strategy`.

They have the names and the bytes of Kafka's own assignors, so groups may mix them with consumers in Java. One object
serves one consumer.
Refuses: racks, which the client does not tell an assignor. It cannot notice a lost session, because the client does not
tell an assignor of it (`docs/balance/kafka-plugins.md` names the remaining danger).
Source: kafka-python's `AbstractPartitionAssignor` as of 3.0, of which nothing is imported.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from apportion.balance.kafka.cooperative import SPEC as COOPERATIVE_STICKY
from apportion.balance.kafka.plugins import wire
from apportion.balance.kafka.plugins.assignor import Assignment, Assignor
from apportion.balance.kafka.plugins.leader import ClusterMetadata, Seat, lead
from apportion.balance.kafka.plugins.wire import Past
from apportion.balance.kafka.roundrobin import SPEC as ROUND_ROBIN
from apportion.balance.kafka.sticky import SPEC as STICKY
from apportion.balance.kafka.userdata import recall_generation

EAGER, COOPERATIVE = 0, 1


class Owned(Protocol):
    """Partitions of one topic, in a subscription of kafka-python."""

    topic: str
    partitions: Sequence[int]


class Metadata(Protocol):
    """A member's message when it joins, as kafka-python has read it."""

    topics: Sequence[str]
    user_data: bytes | None
    owned_partitions: Sequence[Owned]
    generation_id: int


class Member(Protocol):
    """A member, as kafka-python reports it to the leader."""

    member_id: str
    group_instance_id: str | None
    metadata: Metadata


class Range(Assignor):
    """`kafka.range`: each member gets a run of partitions of each topic; members are in the order of their ids."""

    def supported_protocols(self) -> list[int]:
        """Return the eager protocol: members stop reading while the group rebalances."""
        return [EAGER]

    def assign(self, cluster: ClusterMetadata, members: Iterable[Member]) -> dict[str, bytes]:
        """Return the assignment of each member, in Kafka's bytes."""
        seats = [
            Seat(
                member_id=member.member_id,
                topics=tuple(member.metadata.topics),
                past=self._heard(member.metadata),
                group_instance_id=member.group_instance_id,
            )
            for member in members
        ]
        return lead(self._spec, cluster, seats)

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Remember the assignment of this member."""
        self._past = replace(wire.given(assignment.partitions(), assignment.user_data), generation=generation)

    def _heard(self, metadata: Metadata) -> Past:  # noqa: ARG002 - this assignor needs no past
        return Past()


class RoundRobin(Range):
    """`kafka.roundrobin`: all partitions in turn."""

    name = "roundrobin"
    _spec = ROUND_ROBIN


class Sticky(Range):
    """`kafka.sticky`: even; members get back their earlier partitions as far as evenness allows.

    A member writes its past as kafka-python's own assignor does. In a group with Java, all our members write as Java
    does, also after Java has left. If kafka-python's own assignor leads the group after that, it treats our members as
    new.
    """

    name = "sticky"
    _spec = STICKY

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return this member's message when it joins: its earlier partitions and their generation."""
        return wire.subscription(topics, wire.sticky_data(self._past, has_version=not self._past.is_beside_java))

    def _heard(self, metadata: Metadata) -> Past:
        return wire.sticky_past(metadata.user_data)


class Cooperative(Range):
    """`kafka.cooperative`: as `Sticky`, and members go on reading meanwhile, except for partitions that are to move."""

    name = "cooperative-sticky"
    _spec = COOPERATIVE_STICKY

    def supported_protocols(self) -> list[int]:
        """Return the cooperative protocol: members go on reading while the group rebalances."""
        return [COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return this member's message when it joins: its partitions of topics it still wants, and their generation."""
        wanted = frozenset(topics)
        # The client releases the rest before it joins. If a member claimed partitions that it has released, others
        # would wait for it in vain.
        owned = tuple(partition for partition in self._past.owned if partition[0] in wanted)
        return wire.owning_subscription(wanted, replace(self._past, owned=owned, is_held=True))

    def _heard(self, metadata: Metadata) -> Past:
        past = wire.cooperative_past(metadata.user_data)
        if past is not None:
            return past
        # This member's assignor is not ours. Its partitions are in the subscription. Before version 2, its generation
        # is in the user data.
        generation = max(metadata.generation_id, recall_generation(metadata.user_data))
        owned = tuple((each.topic, number) for each in metadata.owned_partitions or () for number in each.partitions)
        return Past(owned=owned, generation=generation, is_held=True)
