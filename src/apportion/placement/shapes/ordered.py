"""Ordered: the base of placements that number their nodes in the order given, and change only at its end.

The base of `jump` and `kafka`. Each of these adds the rule by which a hash picks a number.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Self

from apportion.errors import CannotPlace, InvalidInput
from apportion.model.topology import MAX_NODES, Topology
from apportion.placement.api import Nodes, check_topology, topology_of
from apportion.placement.hashers import Hasher
from apportion.placement.shapes.computed import Computed, equal_weights


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Ordered(Computed):
    """The shared half of these placements: `order` are the nodes that own something, each at its number."""

    _KIND: ClassVar[str]

    order: tuple[str, ...]
    _indexes: tuple[int, ...]

    def _fill_in_order(self, topology: Topology, ids: Iterable[str], hasher: Hasher) -> None:
        owning = {node.id for node in equal_weights(topology, self._KIND)}
        order = tuple(node_id for node_id in ids if node_id in owning)
        self._fill(topology, hasher)
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "_indexes", tuple(topology.index(node_id) for node_id in order))

    @abstractmethod
    def _refusal(self, node_id: str) -> CannotPlace:
        """Return the error for a node that leaves before others."""

    def on(self, topology: Topology) -> Self:
        """Return the same placement on a topology that differs only at the end of the order.

        New nodes are appended, sorted by id. Raises `CannotPlace` if a node leaves from elsewhere than the end of the
        order: the nodes after it would get new numbers.
        """
        owning = dict.fromkeys(node.id for node in equal_weights(check_topology(topology), self._KIND))
        kept = [node_id for node_id in self.order if node_id in owning]
        for node_id, expected in zip(kept, self.order, strict=False):
            if node_id != expected:
                raise self._refusal(expected)
        return self._in_order(topology, dict.fromkeys([*kept, *owning]), self.hasher)

    @classmethod
    def _in_order(cls, topology: Topology, ids: Iterable[str], hasher: Hasher) -> Self:
        placement = object.__new__(cls)
        placement._fill_in_order(topology, ids, hasher)
        return placement

    def __reduce__(self) -> "tuple[Callable[..., Self], tuple[Topology, tuple[str, ...], Hasher]]":
        return self._in_order, (self.topology, self.order, self.hasher)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topology!r}, order={self.order!r}, hasher={self.hasher.label!r})"


def in_order(nodes: Nodes, hint: str) -> tuple[Topology, tuple[str, ...]]:
    """Return the topology of some nodes, and their ids in the order given; `InvalidInput` for a set, which has none."""
    if isinstance(nodes, (set, frozenset)):
        raise InvalidInput("nodes", nodes, "nodes in an order", hint)
    # A generator can be read only once, but both the order and the topology come from it.
    listed = tuple(islice(nodes, MAX_NODES + 1)) if isinstance(nodes, Iterator) else nodes
    return topology_of(listed), tuple(node if isinstance(node, str) else node.id for node in listed)
