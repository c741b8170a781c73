"""Modulo: `hash(key) % n`. The baseline for comparing the others, not a recommendation.

Promises: equal shares.
Refuses: weights, preference lists, and stable keys. When n becomes n + 1, only one key in n + 1 stays.
"""

from dataclasses import dataclass, field
from typing import Self

from apportion import native
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.topology import Topology
from apportion.placement.api import Nodes, PlacementSpec, check_topology, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import DEFAULT, Hasher, resolve
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.computed import Computed, equal_weights
from apportion.placement.shapes.rebuilt import Rebuilt


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Modulo(Rebuilt, Computed):
    """The key's hash modulo the number of nodes. Lookup: O(1).

    >>> Modulo(["a", "b", "c"]).route("tenant-42")
    'a'
    """

    _OPTIONS = ("hasher",)

    _indexes: tuple[int, ...] = field(compare=False)

    def __init__(self, nodes: Nodes, *, hasher: str | Hasher = DEFAULT) -> None:
        topology = topology_of(nodes)
        owning = equal_weights(topology, "modulo")
        self._fill(topology, resolve(hasher))
        object.__setattr__(self, "_indexes", tuple(topology.index(node.id) for node in owning))

    def _make_twin(self) -> "native.extension.Chooser":
        return native.extension.Chooser.modulo(self.topology.ids, self.hasher, self._indexes)

    def _owner(self, key_hash: int) -> int:
        return self._indexes[key_hash % len(self._indexes)]

    def explain(self, key: Key) -> Explanation:
        """Return the remainder that decides, and the node of the key with one node fewer."""
        key_hash = self._hash(key_bytes(key))
        nodes = len(self._indexes)
        owner = self.route(key)
        left = self.on(self.topology.without(owner)).route(key) if nodes > 1 else None
        return Explanation(
            key=key,
            placement="modulo",
            hasher=self.hasher.label,
            hash=key_hash,
            owner=owner,
            why=f"hash % {nodes} = {key_hash % nodes}; another number of nodes moves nearly every key",
            if_owner_left=left,
        )

    def on(self, topology: Topology) -> Self:
        """Return modulo over another topology, which moves nearly every key."""
        return type(self)(check_topology(topology), hasher=self.hasher)


SPEC = PlacementSpec(
    name="modulo",
    build=Modulo,
    source="folklore; the baseline of Karger et al. 1997",
    lookup="O(1)",
)
