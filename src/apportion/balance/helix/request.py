"""Requests to Helix's strategies and their answers, in this library's words.

Helix calls a node an INSTANCE, its weight INSTANCE_WEIGHT (1000 unless set, which is our weight 1), its zone ZONE_ID.
Promises: where Helix cannot tell two inputs apart, this module refuses them, or treats them as one, as Helix does. An
answer tells which lists are short.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from apportion.balance.arguments import Partitions, check_ids, check_topology, checked_count, listed_partitions
from apportion.balance.java.values import MAX_INT, string_order
from apportion.errors import BadWeight, InvalidInput, NoNodes, shown
from apportion.errors.brief import brief
from apportion.model.assignment import PreferenceList, Rule
from apportion.model.topology import MAX_NODES, Node, Topology, check_name

Lists = dict[str, PreferenceList]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLists:
    """The preference list of each partition of a resource, in the order asked for; the first node leads."""

    resource: str
    replicas: int
    preference_lists: Mapping[str, PreferenceList]

    @property
    def short(self) -> tuple[str, ...]:
        """The partitions with fewer nodes than asked for: Helix logs them and goes on."""
        return tuple(name for name, nodes in self.preference_lists.items() if len(nodes) < self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class HelixRequest:
    """Checked input. `nodes` are in Java's order of names; `zones` and `weights` are Helix's, by node."""

    resource: str
    partitions: tuple[str, ...]
    replicas: int
    nodes: tuple[str, ...]
    zones: Mapping[str, str]
    weights: Mapping[str, int]
    live: frozenset[str]

    @classmethod
    def checked(
        cls, resource: str, partitions: Partitions, replicas: int, topology: Topology, live: Iterable[str] | None
    ) -> "HelixRequest":
        """Return the request if it is valid; raise `InvalidInput` or one of its kind for the first error."""
        check_topology(topology)
        check_name("resource", resource)
        if Rule(replicas=replicas).replicas > MAX_NODES:
            raise InvalidInput("replicas", replicas, f"at most MAX_NODES = {MAX_NODES}", "No topology has more nodes.")
        weights = {node.id: _weight(node) for node in topology}
        up = _live(topology, live)
        if not any(weights[node_id] for node_id in up):
            raise NoNodes(f"resource {shown(resource)}", "the topology" if live is None else "live")
        names = range(checked_count(partitions)) if isinstance(partitions, int) else listed_partitions(partitions)
        return cls(
            resource=resource,
            partitions=tuple(map(str, names)),
            replicas=replicas,
            nodes=tuple(sorted(topology.ids, key=string_order)),
            zones=_zones(topology),
            weights=weights,
            live=up,
        )

    def answer(self, lists: Mapping[str, PreferenceList]) -> ResourceLists:
        """Return lists as the answer, in the order asked for; a partition without a list gets an empty one."""
        listed = {name: lists.get(name, ()) for name in self.partitions}
        return ResourceLists(resource=self.resource, replicas=self.replicas, preference_lists=MappingProxyType(listed))


def _live(topology: Topology, live: Iterable[str] | None) -> frozenset[str]:
    if live is None:
        return frozenset(topology.ids)
    check_ids("live", live)
    return frozenset(topology.ids[topology.index(node_id)] for node_id in live)


def _zones(topology: Topology) -> dict[str, str]:
    """Return the zone of each node, by its joined path; a node without one is a zone of its own name."""
    paths: dict[str, tuple[str, ...]] = {}
    for node in topology:
        path = node.zone or (node.id, "")
        name = "/".join(node.zone) or node.id
        if paths.setdefault(name, path) != path:
            expected = "the name of one zone path, or of one node without a zone"
            raise InvalidInput(
                "name of a zone", name, expected, "Helix joins the levels of a path with '/': rename one of the two."
            )
    return {node.id: "/".join(node.zone) or node.id for node in topology}


def _weight(node: Node) -> int:
    weight = round(node.weight * 1000)
    if weight > MAX_INT or (weight == 0 and node.weight > 0):
        expected = f"0, or 0.001 .. {MAX_INT / 1000}: Helix counts in thousandths, in 31 bits"
        raise BadWeight(f"weight of node {shown(node.id)}", node.weight, expected, "Divide or multiply all weights.")
    return weight
