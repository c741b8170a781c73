"""Seats for replicas: the seats of each live node, the replicas that sit there already, and places for the rest.

A node has its part of all replicas, rounded down; the first nodes have one seat more. The numbers of the partition
and of the replica alone determine each replica's preferred node. An orphan goes to its preferred node, to any node
with a free seat, or to a node that borrows a seat. Guests of a node that is too full move on.
Promises: the seats of Helix and its order of events. Refuses: zones and weights, which Helix does not look at here.
Source: `AutoRebalanceStrategy` of Apache Helix 2.0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from apportion.balance.java.values import string_hash, string_order


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a partition, by number."""

    partition: str
    number: int

    @property
    def text(self) -> str:
        """The text that determines the hash and the order of the replica."""
        return f"{self.partition}|{self.number}"


@dataclass(slots=True, eq=False)
class Host:
    """A node with its seats. `own` has the replicas that prefer it, `guests` has others, `new` the new ones of both."""

    id: str
    is_live: bool = False
    seats: int = 0
    has_extra: bool = False
    taken: int = 0
    own: list[Replica] = field(default_factory=list)
    guests: list[Replica] = field(default_factory=list)
    new: set[Replica] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)

    @property
    def has_room(self) -> bool:
        """Whether a seat is free."""
        return self.taken < self.seats

    def may_hold(self, replica: Replica) -> bool:
        """Whether the node is live and holds no other replica of the partition."""
        return self.is_live and replica.partition not in self.partitions

    def can_take(self, replica: Replica) -> bool:
        """Whether the node may hold the replica and has a seat for it."""
        return self.has_room and self.may_hold(replica)

    def settle(self, replica: Replica, *, as_guest: bool) -> None:
        """Note a replica that sits here; its seat is counted already."""
        (self.guests if as_guest else self.own).append(replica)
        self.partitions.add(replica.partition)

    def take(self, replica: Replica, *, as_guest: bool) -> None:
        """Seat a new replica."""
        self.taken += 1
        self.new.add(replica)
        self.settle(replica, as_guest=as_guest)

    def release(self, replica: Replica) -> None:
        """Let a guest go."""
        self.taken -= 1
        self.new.discard(replica)
        self.guests.remove(replica)
        self.partitions.discard(replica.partition)


@dataclass(slots=True, kw_only=True)
class Seating:
    """All nodes; the live ones in the order of their seats; the preferred node of each replica."""

    hosts: Mapping[str, Host]
    live: Sequence[Host]
    preferred: Mapping[Replica, Host]
    replicas: int
    seated: dict[Replica, Host] = field(default_factory=dict)

    def take_in(self, current: Mapping[str, Sequence[str]]) -> None:
        """Seat the current replicas: first those on their preferred nodes, then guests."""
        for partition, host in self._current(current):
            host.taken += 1
            self._sit(partition, host, as_guest=False)
        for partition, host in self._current(current):
            if partition not in host.partitions:
                self._sit(partition, host, as_guest=True)

    def _current(self, current: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Host]]:
        return ((partition, self.hosts[node]) for partition, nodes in current.items() for node in nodes)

    def _sit(self, partition: str, host: Host, *, as_guest: bool) -> None:
        for replica in (Replica(partition, number) for number in range(self.replicas)):
            if replica not in self.seated and (self.preferred[replica] is not host) == as_guest:
                self.seated[replica] = host
                host.settle(replica, as_guest=as_guest)
                return

    def place_orphans(self) -> list[Replica]:
        """Seat replicas that are on no node; return those without a seat."""
        orphans = sorted(self.preferred.keys() - self.seated.keys(), key=_order)
        return [replica for replica in orphans if not (self._found_seat(replica) or self._borrowed_seat(replica))]

    def _found_seat(self, replica: Replica) -> bool:
        preferred = self.preferred[replica]
        host = next((host for host in (preferred, *self._from(replica)) if host.can_take(replica)), None)
        if host is not None:
            host.take(replica, as_guest=host is not preferred)
        return host is not None

    def _borrowed_seat(self, replica: Replica) -> bool:
        """Move an extra seat from a node that may not hold the replica to one that may, and seat the replica there."""
        lenders = (host for host in self._from(replica) if host.has_extra and host.has_room)
        takers = (host for host in self._from(replica) if not host.has_extra and host.taken == host.seats)
        lender = next((host for host in lenders if not host.may_hold(replica)), None)
        taker = next((host for host in takers if host.may_hold(replica)), None)
        if lender is None or taker is None:
            return False
        lender.has_extra, taker.has_extra = False, True
        lender.seats, taker.seats = lender.seats - 1, taker.seats + 1
        taker.take(replica, as_guest=True)
        return True

    def bring_home(self) -> None:
        """Let guests of a node that is too full go to their preferred node, if it has a seat for them."""
        for replica in sorted(self.seated, key=_order):
            donor, preferred = self.seated[replica], self.preferred[replica]
            if donor is not preferred and donor.taken > donor.seats and preferred.can_take(replica):
                donor.release(replica)
                preferred.take(replica, as_guest=False)

    def thin_out(self) -> None:
        """Let guests of a node that is too full go to any node with a seat for them. They do not count as new."""
        for donor in self.live:
            if donor.taken <= donor.seats:
                continue
            donor.guests.sort(key=_order)
            for replica in tuple(donor.guests):
                host = next((host for host in self._from(replica) if host.can_take(replica)), None)
                if host is not None:
                    donor.release(replica)
                    host.taken += 1
                    host.settle(replica, as_guest=True)
                if donor.taken <= donor.seats:
                    break

    def force(self, orphans: Sequence[Replica], most: int) -> None:
        """Seat the remaining replicas beyond the existing seats, up to a limit per node."""
        for replica in orphans:
            chosen, least = None, None
            for host in self.live:
                # Helix compares seats with an excess; its intention is to find the least overloaded node.
                if (least is None or host.seats < least) and host.taken < most and host.may_hold(replica):
                    excess = host.taken - host.seats
                    chosen, least = host, excess if least is None else min(excess, least)
            if chosen is not None:
                chosen.take(replica, as_guest=True)

    def lists(self, *, of_new: bool) -> dict[str, list[str]]:
        """Return, by partition, the nodes with new replicas (`of_new`) or with earlier ones; own ones before guests."""
        found: dict[str, list[str]] = {}
        sitting = chain(
            ((host, replica) for host in self.live for replica in host.own),
            ((host, replica) for host in self.live for replica in host.guests),
        )
        for host, replica in sitting:
            if (replica in host.new) == of_new:
                found.setdefault(replica.partition, []).append(host.id)
        return found

    def _from(self, replica: Replica) -> Iterator[Host]:
        """Yield the live nodes in their order, starting at one that depends on the replica."""
        start = (string_hash(replica.text) & 0x7FFFFFFF) % len(self.live)
        return chain(self.live[start:], self.live[:start])


def _order(replica: Replica) -> bytes:
    return string_order(replica.text)
