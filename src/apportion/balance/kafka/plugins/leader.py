"""What the leader of a group does for all: read what members say, ask an assignor, and write what each gets.

Promises: a member that has let go of what it owned (aiokafka's do before each rebalance, and so has any that comes back
under a new member id) is waited for by nobody, and its past never stands against what another still holds. The
generation that assignments carry is one more than the newest that any member knows: it grows as Kafka's own does, and
is never ahead.
Refuses: to see that a member let go and kept its id, as when the broker refuses its generation: it is waited for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from apportion.balance.api import BalancerSpec
from apportion.balance.kafka.plugins import wire
from apportion.balance.kafka.plugins.wire import Past
from apportion.balance.kafka.subscription import MAX_NUMBER, NO_GENERATION, Assigned, Partition, Subscription


class ClusterMetadata(Protocol):
    """What is asked of a client's metadata."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of the partitions that a topic has; None where it is not known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A member as the leader hears of it."""

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
    return {
        member_id: wire.assignment([*owned, *freed.get(member_id, ())], generation=generation, member_id=member_id)
        for member_id, owned in found.by_member.items()
    }


def _let_go_if_lost(seat: Seat) -> Seat:
    """Return the seat; who comes under another id than it had has lost its session, and then holds nothing."""
    is_same = seat.past.member_id in ("", seat.member_id)
    return seat if is_same else replace(seat, past=replace(seat.past, is_held=False))


def _without_contradiction(seats: list[Seat]) -> list[Seat]:
    """Return the seats; who holds nothing neither claims what others hold, nor knows a newer generation than they."""
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
            # Numbers have no gaps in Kafka: one that is missing here has no leader just now.
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
    """Return what is withheld although nobody holds it, by who is to have it."""
    held = {partition for seat in seats if seat.past.is_held for partition in seat.past.owned}
    freed: dict[str, list[Partition]] = {}
    for partition, (_, to) in found.withheld.items():
        if partition not in held:
            freed.setdefault(to, []).append(partition)
    return freed
