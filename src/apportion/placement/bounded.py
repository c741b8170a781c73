"""Bounded loads: no node holds more than a little above its fair share, over any placement that ranks nodes.

A key goes to its owner, or to the next node of its preference list with room. A cap is the weighted fair share of the
keys held, times 1 + headroom, rounded up.

Promises: no node gets a key above its cap, which is computed in integers. A key always tries the same nodes in the
same order. `assign` depends only on the set of keys, not on their order, and reports the displaced keys.
Refuses: placements that do not rank all nodes; a headroom of 0, which would leave no room; routing without known
loads. It is therefore not a placement of the catalog: an answer depends on the other keys. In `assign`, one more key
may displace others. In `acquire`, an answer depends on the loads at that moment.

Format: `docs/algorithms/bounded.md`.
Source: Mirrokni, Thorup and Zadimoghaddam 2018.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import NoReturn, Protocol, Self

from apportion import native
from apportion.errors import InvalidInput, InvariantBroken, NotEnoughNodes
from apportion.errors.brief import brief
from apportion.model.numbers import check_int
from apportion.model.plan import Key
from apportion.model.topology import Topology
from apportion.placement.api import Placement
from apportion.placement.hashers import Hasher, native_name
from apportion.placement.keys.key_bytes import key_bytes, listed

DEFAULT_HEADROOM = 250
MOST_HEADROOM = 1_000_000


class Ranking(Placement, Protocol):
    """A placement with preference lists over all nodes, such as `Ring` and `Rendezvous`."""

    @property
    def hasher(self) -> Hasher:
        """The hash that orders the keys of `assign`."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """How many keys each node holds: `counts[i]` belongs to node i of the topology. A change makes a new value.

    >>> Loads.none(Topology(["a", "b"])).counts
    (0, 0)
    """

    topology: Topology
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.topology) or any(type(load) is not int or load < 0 for load in self.counts):
            hint = "Start with Loads.none()."
            raise InvalidInput("loads", str(self.counts)[:60], f"{len(self.topology)} counts, one per node", hint)

    @classmethod
    def none(cls, topology: Topology) -> Self:
        """Return the loads of nodes that hold nothing."""
        return cls(topology=topology, counts=(0,) * len(topology))

    @property
    def total(self) -> int:
        """The number of keys held. O(nodes)."""
        return sum(self.counts)

    def on(self, topology: Topology) -> Self:
        """Return the same loads on another topology. Keys of nodes that left no longer count. O(nodes)."""
        old = dict(zip(self.topology.ids, self.counts, strict=True))
        return replace(self, topology=topology, counts=tuple(old.get(node_id, 0) for node_id in topology.ids))

    def changed(self, node_id: str, by: int) -> Self:
        """Return the loads after a node got `by` more keys. O(nodes)."""
        index = self.topology.index(node_id)
        return replace(self, counts=(*self.counts[:index], self.counts[index] + by, *self.counts[index + 1 :]))


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Displaced:
    """A key that found no room at its own node."""

    key: Key
    preferred: str
    owner: str


# No `slots=True`: a cached property keeps its value in the object's own dictionary.
@brief
@dataclass(frozen=True, kw_only=True)
class BoundedAssignment:
    """The holder of each key of a set: `owners[i]` holds `keys[i]`; without a cap, `preferred[i]` would."""

    loads: Loads
    keys: tuple[Key, ...] = field(repr=False)
    owners: tuple[str, ...] = field(repr=False)
    preferred: tuple[str, ...] = field(repr=False)

    @cached_property
    def displaced(self) -> tuple[Displaced, ...]:
        """The keys that a cap moved away from their preferred node, in the order of `keys`."""
        pairs = zip(self.keys, self.preferred, self.owners, strict=True)
        return tuple(Displaced(key=key, preferred=was, owner=now) for key, was, now in pairs if was != now)

    @cached_property
    def _owners_by_key(self) -> dict[bytes, str]:
        return dict(zip(map(key_bytes, self.keys), self.owners, strict=True))

    def route(self, key: Key) -> str:
        """Return the holder of a key of the set; `InvalidInput` for any other key. O(length)."""
        owner = self._owners_by_key.get(key_bytes(key))
        if owner is None:
            raise InvalidInput("key", key, "one of the keys that were assigned", "Assign it with the others.")
        return owner


@brief
@dataclass(frozen=True, slots=True)
class Bounded:
    """Bounded loads over a ranking placement. The headroom is in thousandths: 50 caps a load at 1.05 times its share.

    >>> from apportion import Ring
    >>> bounded = Bounded(Ring(["a", "b", "c"]), headroom_thousandths=50)
    >>> assigned = bounded.assign(range(100))
    >>> assigned.loads.counts, bounded.caps(100), len(assigned.displaced)
    ((35, 30, 35), (35, 35, 35), 6)
    >>> bounded.acquire("tenant-42", Loads.none(bounded.topology))
    ('c', Loads(topology=Topology(3 nodes, no zones, epoch 1:618cb04a), counts=(0, 0, 1)))
    """

    placement: Ranking
    _: KW_ONLY
    headroom_thousandths: int = DEFAULT_HEADROOM
    _eligible: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hint = "50 caps a load at 1.05 times its share."
        check_int("headroom_thousandths", self.headroom_thousandths, 1, MOST_HEADROOM, hint=hint)
        if not callable(getattr(self.placement, "preference", None)) or not hasattr(self.placement, "hasher"):
            hint = "Build one, say Ring(topology)."
            raise InvalidInput("placement", self.placement, "a placement with a hasher", hint)
        eligible = sum(node.weight > 0 for node in self.topology)
        try:
            self.placement.preference(b"", eligible, spread="best-effort")
        except NotEnoughNodes as error:
            kind = type(self.placement).__name__
            raise InvalidInput("placement", kind, "one that ranks all nodes", "Take Ring or Rendezvous.") from error
        object.__setattr__(self, "_eligible", eligible)

    @property
    def topology(self) -> Topology:
        """The nodes that have the caps."""
        return self.placement.topology

    def caps(self, total: int) -> tuple[int, ...]:
        """Return how many of `total` keys each node may hold, in the order of the topology. O(nodes).

        The cap is ceil((1 + headroom) * total * weight / sum of weights), so all caps together have room for `total`.
        """
        if type(total) is not int or total < 0:
            raise InvalidInput("total of keys", total, "an int, not negative", "Count the keys that are held.")
        weights = [node.millionths for node in self.topology]
        share = total * (1000 + self.headroom_thousandths)
        return tuple(-(-share * weight // (1000 * sum(weights))) for weight in weights)

    def assign(self, keys: Iterable[Key]) -> BoundedAssignment:
        """Return the holder of each key of a set; refuse two keys of the same bytes. O(keys log keys + nodes tried)."""
        given = tuple(listed(keys))
        ids, hasher, caps = self.topology.ids, self.placement.hasher, self.caps(len(given))
        has_twin = native.IN_USE and native_name(hasher)[0] is not None
        fill = native.extension.filled if has_twin else filled
        indexes = self.placement.route_indexes(given)
        displaced, counts = fill(given, hasher, indexes, caps, lambda place: self._others(given[place]))
        preferred = tuple(map(ids.__getitem__, indexes))
        owners = list(preferred)
        for place, index in displaced:
            owners[place] = ids[index]
        return BoundedAssignment(
            loads=Loads(topology=self.topology, counts=tuple(counts)),
            keys=given,
            owners=tuple(owners),
            preferred=preferred,
        )

    def acquire(self, key: Key, loads: Loads) -> tuple[str, Loads]:
        """Return the node for one more key, and the loads after it. O(nodes + nodes tried).

        The load of that node is then at most its cap for the number of keys held, including this one. A node above
        its cap gets no key until its load is below. A release at another node can lower a node's cap below its present
        load.
        """
        self._check(loads)
        caps, index = self.caps(loads.total + 1), self.topology.index(self.placement.route(key))
        if loads.counts[index] >= caps[index]:
            index = first_with_room(self._others(key), loads.counts, caps)
        node_id = self.topology.ids[index]
        return node_id, loads.changed(node_id, 1)

    def release(self, node_id: str, loads: Loads) -> Loads:
        """Return the loads after a node gave up a key; `InvalidInput` if the node holds none. O(nodes)."""
        self._check(loads)
        if loads.counts[self.topology.index(node_id)] == 0:
            hint = "Release each key once, where it is held."
            raise InvalidInput("node id", node_id, "a node that holds a key", hint)
        return loads.changed(node_id, -1)

    def excess(self, loads: Loads) -> dict[str, int]:
        """Return the nodes above their current caps, each with the number of surplus keys. O(nodes).

        Only a release or a change of topology causes a surplus. To remove it, release so many keys and acquire them
        again.
        """
        self._check(loads)
        over = zip(self.topology.ids, loads.counts, self.caps(loads.total), strict=True)
        return {node_id: load - cap for node_id, load, cap in over if load > cap}

    def on(self, topology: Topology) -> Self:
        """Return the same bounds over the placement on another topology."""
        return replace(self, placement=self.placement.on(topology))

    def _others(self, key: Key) -> Iterator[int]:
        """Yield the nodes after the key's owner, in order; ask for a longer list only when needed."""
        done = 1
        while done < self._eligible:
            count = min(4 * done, self._eligible)
            ranking = self.placement.preference(key, count, spread="best-effort")
            yield from map(self.topology.index, ranking[done:])
            done = count

    def _check(self, loads: Loads) -> None:
        if not isinstance(loads, Loads):
            raise InvalidInput("loads", loads, "Loads", "Start with Loads.none(topology).")
        if loads.topology != self.topology:
            hint = "Move the loads over: loads.on(topology)."
            raise InvalidInput("loads", repr(loads.topology), f"those of {self.topology!r}", hint)


def filled(
    keys: tuple[Key, ...],
    hasher: Hasher,
    preferred: Sequence[int],
    caps: Sequence[int],
    others: Callable[[int], Iterator[int]],
) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the keys without room at their node, each as its place and its new node; and the load of each node.

    `preferred[i]` is the node of `keys[i]`; `others(i)` are the nodes after it, in order. O(keys log keys + nodes
    tried).
    """
    data = [key_bytes(key) for key in keys]
    if len(set(data)) < len(data):
        refuse_repeats(keys)
    counts, displaced = [0] * len(caps), []
    for place in sorted(range(len(keys)), key=lambda place: (hasher.digest(data[place]), data[place])):
        index = preferred[place]
        if counts[index] >= caps[index]:
            index = first_with_room(others(place), counts, caps)
            displaced.append((place, index))
        counts[index] += 1
    return displaced, counts


def first_with_room(candidates: Iterable[int], counts: Sequence[int], caps: Sequence[int]) -> int:
    """Return the first node with a load below its cap; all caps together have room for every key."""
    for index in candidates:
        if counts[index] < caps[index]:
            return index
    raise InvariantBroken(f"no node has room: loads {list(counts)}, caps {list(caps)}")


def refuse_repeats(keys: tuple[Key, ...]) -> NoReturn:
    """Raise for keys of which two have the same bytes; name the first that is repeated."""
    last = {key_bytes(key): place for place, key in enumerate(keys)}
    twice = next(key for place, key in enumerate(keys) if last[key_bytes(key)] != place)
    raise InvalidInput(
        "keys", twice, "each key once", "Drop the repeated ones; a text is the same key as its UTF-8 bytes."
    )
