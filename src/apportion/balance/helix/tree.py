"""The tree that Helix draws in: the zones of a cluster, and in each its nodes.

Promises: zones are in the order of their first node, nodes in the given order, as Helix inserts them. In a cluster
without zones every node is a zone. Helix's own tree for that case lacks a level, and every draw in it is the same.
Source: `Topology` of Helix. Levels other than fault zone and end node are left out, as in Helix's CRUSH family.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apportion.balance.helix.request import HelixRequest
from apportion.balance.helix.straws import Straws


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultZone:
    """A fault zone: its nodes and their weights; nodes that are not live have weight 0."""

    name: str
    nodes: tuple[str, ...]
    weights: tuple[int, ...]
    straws: Straws

    @property
    def weight(self) -> int:
        """The sum of the weights of live nodes."""
        return sum(self.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """All zones, and the straws of the zones among each other."""

    zones: tuple[FaultZone, ...]
    straws: Straws

    @classmethod
    def of(cls, request: HelixRequest, nodes: Iterable[str], is_live: Callable[[str], bool]) -> "Tree":
        """Return the tree of some nodes of a request. O(nodes log nodes)."""
        members: dict[str, list[str]] = {}
        for node in nodes:
            members.setdefault(request.zones[node], []).append(node)
        weights = {node: request.weights[node] if is_live(node) else 0 for node in request.nodes}
        zones = tuple(_zone(name, listed, [weights[node] for node in listed]) for name, listed in members.items())
        return cls(zones=zones, straws=Straws.of([zone.name for zone in zones], [zone.weight for zone in zones]))


def _zone(name: str, nodes: list[str], weights: list[int]) -> FaultZone:
    return FaultZone(name=name, nodes=tuple(nodes), weights=tuple(weights), straws=Straws.of(nodes, weights))
