"""Computed: the base of placements that are a function of the key's hash and the list of nodes.

The base of `rendezvous`, `jump`, `modulo` and `maglev`, among others. Most of them have no table, so plans are counted
over keys.
"""

from abc import abstractmethod
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from apportion import native
from apportion.errors import BadWeight, NoNodes
from apportion.model.plan import Key
from apportion.model.topology import Node, Topology
from apportion.placement.api import index_buffer
from apportion.placement.hashers import Digest, Hasher, native_name
from apportion.placement.keys.key_bytes import check_threads, key_bytes, listed
from apportion.placement.shapes.key_by_key import KeyByKey


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Computed(KeyByKey):
    """The shared half of a computed placement; a subclass computes the node of a hash."""

    _NO_SECOND = "which ranks no second node (Ring and Rendezvous do)"

    hasher: Hasher
    _hash: Digest = field(compare=False)

    _twins: "list[native.extension.Chooser | None]" = field(compare=False)

    def _fill(self, topology: Topology, hasher: Hasher) -> None:
        values = {"topology": topology, "hasher": hasher, "_hash": hasher.digest, "_twins": []}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def _owner(self, key_hash: int) -> int:
        """Return the index of the node that owns the keys with a hash."""

    def _make_twin(self) -> "native.extension.Chooser | None":
        """Return the object of the native twin that finds the same owners; None if there is none."""
        return None

    def _twin(self) -> "native.extension.Chooser | None":
        """Return the object of `_make_twin`, made at its first use."""
        if not self._twins:
            is_known = native.IN_USE and native_name(self.hasher)[0] is not None
            self._twins.append(self._make_twin() if is_known else None)
        return self._twins[0]

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        if twin := self._twin():
            return twin.route(key)
        return self.topology.ids[self._owner(self._hash(key_bytes(key)))]

    def route_many(self, keys: Iterable[Key], *, threads: int = 1) -> list[str]:
        """Return the node ids of many keys, in the order of the keys."""
        check_threads(threads)
        if twin := self._twin():
            return twin.route_many(keys, threads=threads)
        return [self.route(key) for key in listed(keys)]

    def route_indexes(self, keys: Iterable[Key], *, threads: int = 1) -> "array[int]":
        """Return indexes into `topology.nodes` as a buffer, in the order of the keys."""
        check_threads(threads)
        if twin := self._twin():
            return twin.route_indexes(keys, threads=threads)
        indexes = (self._owner(self._hash(key_bytes(key))) for key in listed(keys))
        return index_buffer(indexes, len(self.topology))


def equal_weights(topology: Topology, kind: str) -> list[Node]:
    """Return the nodes that own something; raise `BadWeight` if their weights differ."""
    nodes = [node for node in topology if node.weight > 0]
    if not nodes:
        raise NoNodes(kind)
    for node in nodes:
        if node.weight != nodes[0].weight:
            expected = f"{nodes[0].weight:g}, like {nodes[0].id!r}"
            hint = f"{kind.capitalize()} knows no weights: use Ring, Rendezvous or Slots, or make all weights equal."
            raise BadWeight(f"weight of node {node.id!r}", node.weight, expected, hint)
    return nodes
