"""Assignors for aiokafka: give an object, and one a consumer, in `partition_assignment_strategy`.

They keep their state in themselves and not in their class. aiokafka tells an assignor no generation: the leader puts it
into what it assigns.
`Cooperative` is as cooperative as aiokafka's protocol allows. Its consumers stop reading while their group rebalances,
whatever the assignor; so in a group with others that go on, kafka-python's with our `Cooperative`, these are not
disturbed, and nobody waits for what an aiokafka consumer has let go. In a group of aiokafka's alone it does what
`Sticky` does.
Refuses: static members and racks, which the client does not tell an assignor. To lead cooperative members that are not
ours: it cannot see what they hold, since it reads subscriptions of version 0 alone.
Source: aiokafka's `AbstractPartitionAssignor` as of 0.14, of which nothing is imported.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.cooperative import SPEC as COOPERATIVE_STICKY
from apportion.balance.kafka.plugins import wire
from apportion.balance.kafka.plugins.leader import ClusterMetadata, Seat, lead
from apportion.balance.kafka.plugins.wire import Past
from apportion.balance.kafka.range import SPEC as RANGE
from apportion.balance.kafka.roundrobin import SPEC as ROUND_ROBIN
from apportion.balance.kafka.sticky import SPEC as STICKY
from apportion.balance.kafka.subscription import Partition
from apportion.errors import InvalidInput


class Metadata(Protocol):
    """What a member says, as aiokafka has read it."""

    subscription: Sequence[str]
    user_data: bytes | None


class Assignment(Protocol):
    """What a member was given, as aiokafka has read it."""

    user_data: bytes | None

    def partitions(self) -> Sequence[Partition]:
        """Return (topic, number) pairs."""
        ...


class Range:
    """`kafka.range`: of each topic a run of partitions for each member, by their ids."""

    name: ClassVar[str] = "range"
    _spec: ClassVar[BalancerSpec] = RANGE

    def __init__(self) -> None:
        self._past = Past()

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return what this member says when it joins."""
        return wire.subscription(topics, b"")

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, Metadata]) -> dict[str, bytes]:
        """Return what each member gets."""
        seats = [
            Seat(member_id=member_id, topics=tuple(said.subscription), past=self._heard(member_id, said))
            for member_id, said in members.items()
        ]
        return lead(self._spec, cluster, seats)

    def on_assignment(self, assignment: Assignment) -> None:
        """Remember what this member was given, and the generation that came with it."""
        self._past = wire.given(assignment.partitions(), assignment.user_data)

    def _heard(self, member_id: str, said: Metadata) -> Past:  # noqa: ARG002 - what no past is of
        return Past()


class RoundRobin(Range):
    """`kafka.roundrobin`: all partitions in turn."""

    name = "roundrobin"
    _spec = ROUND_ROBIN


class Sticky(Range):
    """`kafka.sticky`: even, and members get back what they had, as far as that allows."""

    name = "sticky"
    _spec = STICKY

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return what this member says when it joins: what it had, and in which generation."""
        return wire.subscription(topics, wire.sticky_data(self._past))

    def _heard(self, member_id: str, said: Metadata) -> Past:  # noqa: ARG002 - anybody's
        return wire.sticky_past(said.user_data)


class Cooperative(Range):
    """`kafka.cooperative`, for groups with kafka-python's consumers: these read on, and aiokafka's get theirs back."""

    name = "cooperative-sticky"
    _spec = COOPERATIVE_STICKY

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return what this member says when it joins: that it holds nothing, and what it had."""
        return wire.owning_subscription(topics, self._past)

    def _heard(self, member_id: str, said: Metadata) -> Past:
        past = wire.cooperative_past(said.user_data)
        if past is None:
            raise InvalidInput(
                "member of a cooperative group that aiokafka leads",
                member_id,
                "one of apportion's assignors",
                "Let aiokafka's consumers share a cooperative group with ours of kafka-python alone.",
            )
        return past
