"""Assignors for aiokafka: pass an object in `partition_assignment_strategy`, one per consumer.

An object keeps its state in itself and not in its class. aiokafka tells an assignor no generation: the leader puts it
into the assignments. `Cooperative` is as cooperative as aiokafka's protocol allows (`docs/balance/kafka-plugins.md`).
Refuses: static members and racks, which the client does not tell an assignor. It also refuses to lead cooperative
members that are not ours. It cannot see their partitions, since it reads subscriptions of version 0 alone.
Source: aiokafka's `AbstractPartitionAssignor` as of 0.14, of which nothing is imported.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from apportion.balance.kafka.cooperative import SPEC as COOPERATIVE_STICKY
from apportion.balance.kafka.plugins import wire
from apportion.balance.kafka.plugins.assignor import Assignment, Assignor
from apportion.balance.kafka.plugins.leader import ClusterMetadata, Seat, lead
from apportion.balance.kafka.plugins.wire import Past
from apportion.balance.kafka.roundrobin import SPEC as ROUND_ROBIN
from apportion.balance.kafka.sticky import SPEC as STICKY
from apportion.errors import InvalidInput


class Metadata(Protocol):
    """A member's message when it joins, as aiokafka has read it."""

    subscription: Sequence[str]
    user_data: bytes | None


class Range(Assignor):
    """`kafka.range`: each member gets a run of partitions of each topic; members are in the order of their ids."""

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, Metadata]) -> dict[str, bytes]:
        """Return the assignment of each member, in Kafka's bytes."""
        seats = [
            Seat(member_id=member_id, topics=tuple(said.subscription), past=self._heard(member_id, said))
            for member_id, said in members.items()
        ]
        return lead(self._spec, cluster, seats)

    def on_assignment(self, assignment: Assignment) -> None:
        """Remember the assignment of this member, and the generation that came with it."""
        self._past = wire.given(assignment.partitions(), assignment.user_data)

    def _heard(self, member_id: str, said: Metadata) -> Past:  # noqa: ARG002 - this assignor needs no past
        return Past()


class RoundRobin(Range):
    """`kafka.roundrobin`: all partitions in turn."""

    name = "roundrobin"
    _spec = ROUND_ROBIN


class Sticky(Range):
    """`kafka.sticky`: even; members get back their earlier partitions as far as evenness allows."""

    name = "sticky"
    _spec = STICKY

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return this member's message when it joins: its earlier partitions and their generation."""
        return wire.subscription(topics, wire.sticky_data(self._past))

    def _heard(self, member_id: str, said: Metadata) -> Past:  # noqa: ARG002 - the same for every member
        return wire.sticky_past(said.user_data)


class Cooperative(Range):
    """`kafka.cooperative`, for groups with kafka-python.

    While a group rebalances, consumers of kafka-python go on reading. Consumers of aiokafka stop, and get their
    partitions back.
    """

    name = "cooperative-sticky"
    _spec = COOPERATIVE_STICKY

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Return this member's message when it joins: its earlier partitions, and that it holds none of them now."""
        return wire.owning_subscription(topics, self._past)

    def _heard(self, member_id: str, said: Metadata) -> Past:
        past = wire.cooperative_past(said.user_data)
        if past is None:
            expected = "a member with one of apportion's assignors"
            hint = "In a cooperative group, combine aiokafka only with kafka-python consumers that use our Cooperative."
            raise InvalidInput("member of a cooperative group that aiokafka leads", member_id, expected, hint)
        return past
