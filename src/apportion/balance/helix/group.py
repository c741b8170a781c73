"""Groups on Helix's strategies: members with weights and zones that Helix can take.

Promises: members with any weights and zones get an answer; a group need not match Helix's own answers. Weights are
cut to the range that Helix can count. Zones get names that differ where their paths differ.
"""

from collections.abc import Callable

from apportion.balance.api import GroupView, Owners
from apportion.balance.helix.request import ResourceLists
from apportion.balance.java.values import MAX_INT
from apportion.model.topology import Node, Topology

_LEAST, _MOST = 0.001, MAX_INT // 1000


def taken(topology: Topology) -> Topology:
    """Return the same nodes, with weights and zones that Helix can take.

    >>> [(node.zone, node.weight) for node in taken(Topology([Node("a", zone=("x/y",), weight=1e-6)]))]
    [(('x~1y',), 0.001)]
    """
    zones = {"/".join(map(_escaped, node.zone)) for node in topology if node.zone}
    weights = {node.id: min(max(node.weight, _LEAST), _MOST) if node.weight else 0 for node in topology}
    return Topology(Node(node.id, zone=_zone(node, zones), weight=weights[node.id]) for node in topology)


def owners_by(strategy: Callable[[str, int, int, Topology], ResourceLists]) -> Callable[[GroupView], Owners]:
    """Return the `owners` function of a strategy that needs no previous owners."""
    return lambda view: owners_of(strategy(view.name, view.partitions, 1, taken(view.topology)))


def owners_of(lists: ResourceLists) -> Owners:
    """Return the first node of each list."""
    return tuple(nodes[0] if nodes else None for nodes in lists.preference_lists.values())


def _zone(node: Node, zones: set[str]) -> tuple[str, ...]:
    if node.zone:
        return tuple(map(_escaped, node.zone))
    return (f"{node.id}~",) if node.id in zones else ()


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
