"""The leader of a group: it reads members' messages, asks an assignor, and writes each member's assignment.

Promises: no member waits for a member that has released its partitions. aiokafka's members release theirs before each
rebalance; a member that comes back under a new member id has released them too. The past of such a member never
counts against partitions that another member still holds. The generation in assignments is one more than the newest
that any member knows: it grows as Kafka's own does, and is never ahead.
Refuses: to detect a member that released its partitions and kept its id, as when the broker refuses its generation.
Others wait for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.plugins import wire
from apportion.balance.kafka.plugins.wire import Past
from apportion.balance.kafka.subscription import MAX_NUMBER, NO_GENERATION, Assigned, Partition, Subscription


class ClusterMetadata(Protocol):
    """The part of a client's metadata that is needed here."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions; None where the topic is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A member, with the facts that the leader learns."""

    member_id: str
    topics: tuple[str, ...]
    past: Past
    group_instance_id: str | None = None


def lead(spec: BalancerSpec, cluster: ClusterMetadata, seats: Iterable[Seat]) -> dict[str, bytes]:
    """Return the assignment of each member, in Kafka's bytes."""
    listed = _without_contradiction([_let_go_if_lost(seat) for seat in seats])
    counts = _counts(cluster, listed)
    found: Assigned = spec(counts, list(map(_subscription, listed)))
    newest = max((seat.past.generation for seat in listed), default=NO_GENERATION)
    generation = min(newest + 1, MAX_NUMBER)
    freed = _freed(found, listed)
    assignment = partial(
        wire.assignment, generation=generation, is_beside_java=any(seat.past.is_beside_java for seat in listed)
    )
    return {
        member_id: assignment([*owned, *freed.get(member_id, ())], member_id=member_id)
        for member_id, owned in found.by_member.items()
    }


def _let_go_if_lost(seat: Seat) -> Seat:
    """Return the seat; a member with another id than before has lost its session, and holds nothing."""
    is_same = seat.past.member_id in ("", seat.member_id)
    return seat if is_same else replace(seat, past=replace(seat.past, is_held=False))


def _without_contradiction(seats: list[Seat]) -> list[Seat]:
    """Return the seats, changed so that members that hold nothing do not contradict those that hold partitions.

    The past of a member that holds nothing loses the partitions that others hold. Its generation becomes at most the
    newest one of the holders.
    """
    held = {partition for seat in seats if seat.past.is_held for partition in seat.past.owned}
    newest = max((seat.past.generation for seat in seats if seat.past.is_held and seat.past.owned), default=None)
    if newest is None:
        return seats
    return [seat if seat.past.is_held else replace(seat, past=_behind(seat.past, held, newest)) for seat in seats]


def _behind(past: Past, held: set[Partition], newest: int) -> Past:
    owned = tuple(partition for partition in past.owned if partition not in held)
    return Past(owned=owned, generation=min(past.generation, newest))


def _counts(cluster: ClusterMetadata, seats: Iterable[Seat]) -> dict[str, int]:
    counts = {}
    for topic in sorted({topic for seat in seats for topic in seat.topics}):
        numbers = cluster.partitions_for_topic(topic)
        if numbers:
            # Numbers have no gaps in Kafka: a number that is missing here has no leader just now.
            counts[topic] = 1 + max(numbers)
    return counts


def _subscription(seat: Seat) -> Subscription:
    return Subscription(
        seat.member_id,
        topics=seat.topics,
        owned=seat.past.owned,
        generation=seat.past.generation,
        group_instance_id=seat.group_instance_id,
    )


def _freed(found: Assigned, seats: Iterable[Seat]) -> dict[str, list[Partition]]:
    """Return the partitions that are withheld although no member holds them, by their new owner."""
    held = {partition for seat in seats if seat.past.is_held for partition in seat.past.owned}
    freed: dict[str, list[Partition]] = {}
    for partition, (_, to) in found.withheld.items():
        if partition not in held:
            freed.setdefault(to, []).append(partition)
    return freed
