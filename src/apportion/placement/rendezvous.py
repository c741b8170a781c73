"""Rendezvous hashing: every key ranks every node; the node with the highest rank owns it.

Promises: when a node comes, goes or changes weight, only keys that it gains or loses move. Shares are exactly
proportional to weights (to 2**-48 of a share). It uses no memory beyond the list of nodes. The ranking is the
preference list. Of equal scores, the larger hash ranks first, then the smaller id.
Refuses: lookups faster than O(nodes), so it is for up to some sixty nodes; hashes of fewer than 64 bits.

Format: `docs/algorithms/rendezvous.md`.
Source: Thaler and Ravishankar 1998; weights after Schindelhauer and Schomaker 2005.
"""

from array import array
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Self

from apportion import native
from apportion.errors import NoNodes
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.topology import Topology
from apportion.placement.api import Nodes, PlacementSpec, check_topology, topology_of
from apportion.placement.hashers import DEFAULT, Digest, Hasher, resolve
from apportion.placement.keys.key_bytes import check_threads, key_bytes, listed
from apportion.placement.shapes.log2 import FRACTION_BITS, log2_fixed
from apportion.placement.shapes.ranked import Ranked
from apportion.placement.shapes.rebuilt import Rebuilt
from apportion.placement.spread import Spread, spread_rule


@dataclass(frozen=True, slots=True)
class _WeightClass:
    """The nodes of one weight: their indexes, ascending, and the labels that are hashed with a key."""

    millionths: int
    indexes: tuple[int, ...]
    labels: tuple[bytes, ...]

    def score(self, u: int) -> int:
        """Return -log2((u + 1) / 2**64) / weight as an integer: the logarithm gets 64 more bits before the division."""
        return ((64 << FRACTION_BITS) - log2_fixed(u + 1) << 64) // self.millionths

    def best(self, digest: Digest, data: bytes) -> tuple[int, int]:
        """Return the largest of the nodes' hashes for a key, and the index of its node."""
        hashes = [digest(label + data) for label in self.labels]
        largest = max(hashes)
        return largest, self.indexes[hashes.index(largest)]

    def ranked(self, digest: Digest, data: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield (score, -u, index) of each node, lowest first."""
        pairs = zip(self.labels, self.indexes, strict=True)
        for negative_u, index in sorted((-digest(label + data), index) for label, index in pairs):
            yield self.score(-negative_u), negative_u, index


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Rendezvous(Rebuilt, Ranked):
    """Highest random weight. Build: O(nodes). Lookup: O(nodes) hashes, one logarithm per distinct weight.

    Preference list: O(nodes log nodes).

    >>> rendezvous = Rendezvous(["a", "b", "c"])
    >>> rendezvous.route("tenant-42"), rendezvous.preference("tenant-42", 3)
    ('b', ('b', 'a', 'c'))
    >>> rendezvous.on(rendezvous.topology.without("b")).route("tenant-42")
    'a'
    """

    _NAME = "rendezvous"
    _OPTIONS = ("hasher",)

    _classes: tuple[_WeightClass, ...] = field(compare=False)

    def __init__(self, nodes: Nodes, *, hasher: str | Hasher = DEFAULT) -> None:
        topology = topology_of(nodes)
        self._fill(topology, resolve(hasher, least_bits=64))
        object.__setattr__(self, "_classes", _weight_classes(topology))

    def _make_twin(self) -> "native.extension.Chooser":
        return native.extension.Chooser.rendezvous(self.topology.ids, self.hasher, self._labelled())

    def _labelled(self) -> list[tuple[int, tuple[int, ...], tuple[bytes, ...]]]:
        return [(each.millionths, each.indexes, each.labels) for each in self._classes]

    def _owner(self, key_hash: int) -> int:
        data = key_hash.to_bytes(8, "little")
        if len(self._classes) == 1:
            return self._classes[0].best(self._hash, data)[1]
        bests = ((weight_class, *weight_class.best(self._hash, data)) for weight_class in self._classes)
        return min((weight_class.score(u), -u, index) for weight_class, u, index in bests)[2]

    def preference_indexes(
        self,
        keys: Iterable[Key],
        count: int,
        *,
        spread_level: int | None = None,
        spread: Spread = "strict",
        threads: int = 1,
    ) -> "array[int]":
        """Return the preference lists of many keys as one buffer of node indexes, `count` per key. O(keys · nodes).

        >>> list(Rendezvous(["a", "b", "c"]).preference_indexes(["tenant-42", "tenant-43"], 2))
        [1, 0, 1, 2]
        """
        check_threads(threads)
        rule = spread_rule(self.topology, count, level=spread_level, spread=spread)
        if self._twin() and not rule.reuses_domains:
            numbers: dict[Hashable, int] = {}
            domains = [numbers.setdefault(domain, len(numbers)) for domain in rule.domains]
            return native.extension.rendezvous_lists(self.hasher, self._labelled(), domains, count, keys, threads)
        rankings = (self._ranking(self._hash(key_bytes(key))) for key in listed(keys))
        return array("I", (index for ranking in rankings for index in rule.pick(ranking)))

    def _why(self, key_hash: int, owner: str) -> str:  # noqa: ARG002
        nodes = sum(len(each.indexes) for each in self._classes)
        return f"{owner} has the best score of {nodes} nodes for this key"

    def on(self, topology: Topology) -> Self:
        """Return rendezvous hashing over another topology."""
        return type(self)(check_topology(topology), hasher=self.hasher)

    def _ranking(self, key_hash: int) -> Iterator[int]:
        data = key_hash.to_bytes(8, "little")
        ranked = (weight_class.ranked(self._hash, data) for weight_class in self._classes)
        return (index for _, _, index in merge(*ranked))


def _weight_classes(topology: Topology) -> tuple[_WeightClass, ...]:
    members: dict[int, list[int]] = {}
    for index, node in enumerate(topology):
        if node.millionths:
            members.setdefault(node.millionths, []).append(index)
    if not members:
        raise NoNodes("rendezvous hashing")
    return tuple(
        _WeightClass(millionths, tuple(indexes), tuple(_label(topology.ids[index]) for index in indexes))
        for millionths, indexes in sorted(members.items())
    )


def _label(node_id: str) -> bytes:
    name = node_id.encode()
    return b"rendezvous/1" + len(name).to_bytes(4, "little") + name


SPEC = PlacementSpec(
    name="rendezvous",
    build=Rendezvous,
    source="Thaler and Ravishankar 1998",
    minimal_disruption=True,
    weighted=True,
    ranked=True,
    lookup="O(nodes)",
)
