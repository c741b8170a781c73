"""`helix.crush`: Apache Helix's CrushRebalanceStrategy, to the bit.

Each partition draws zones by straws, then one node in each of these zones. The loss of a node moves little, and no
earlier placement is remembered.
Promises: the lists of Helix, including its defects; no two nodes of a list in one zone.
Refuses: evenness (loads of 50 nodes differ by tens), and shares by weight: see `straws`.
Source: `CrushRebalanceStrategy` of Apache Helix 2.0, after Weil et al. 2006.
"""

from collections.abc import Iterable, Sequence

from apportion import native
from apportion.balance.api import BalancerSpec
from apportion.balance.arguments import Partitions
from apportion.balance.helix.draws import reference_draw
from apportion.balance.helix.group import owners_by
from apportion.balance.helix.jenkins import hash1
from apportion.balance.helix.request import HelixRequest, Lists, ResourceLists
from apportion.balance.helix.tree import Tree
from apportion.balance.java.values import reference_hash
from apportion.model.assignment import PreferenceList
from apportion.model.topology import Topology

MOST_TRIES = 10


def crush(
    resource: str, partitions: Partitions, replicas: int, topology: Topology, *, live: Iterable[str] | None = None
) -> ResourceLists:
    """Return Helix's preference lists, which are `short` where Helix found too few zones.

    `partitions` is a count (ids "0", "1", …) or the ids; Helix itself mostly names them `resource_0`. `live` are the
    nodes that are up, all by default. O(partitions · replicas · (zones + nodes of a zone)). Raises `InvalidInput`,
    `UnknownNode`, `BadWeight`, `NoNodes`.

    >>> crush("orders", ["orders_0", "orders_1"], 2, Topology(["a", "b", "c"])).preference_lists["orders_0"]
    ('c', 'a')
    """
    request = HelixRequest.checked(resource, partitions, replicas, topology, live)
    return request.answer(crushed_on(request, request.nodes, request.live))


def crushed_on(request: HelixRequest, nodes: Sequence[str], live: Iterable[str]) -> Lists:
    """Return the lists on some nodes of a request, of which some are live."""
    tree = Tree.of(request, nodes, frozenset(live).__contains__)
    if not native.IN_USE:
        return reference_lists(tree, request.partitions, request.replicas)
    zones = [(zone.straws, zone.nodes) for zone in tree.zones]
    found = native.extension.crush_lists(request.partitions, request.replicas, tree.straws, zones)
    return dict(zip(request.partitions, found, strict=True))


def reference_lists(tree: Tree, partitions: Sequence[str], replicas: int) -> Lists:
    """Return the list of each partition, by the reference version."""
    return {partition: _placed(tree, reference_hash(partition), replicas) for partition in partitions}


def _placed(tree: Tree, data: int, replicas: int) -> PreferenceList:
    nodes: list[str] = []
    # A zone stays taken even if no node of it was drawn.
    taken: set[int] = set()
    for _ in range(MOST_TRIES):
        for place in reference_draw(tree.straws, data, replicas - len(nodes), taken):
            taken.add(place)
            zone = tree.zones[place]
            nodes += [zone.nodes[at] for at in reference_draw(zone.straws, data, 1)]
        if len(nodes) == replicas:
            break
        data = hash1(data)
    return tuple(nodes)


SPEC = BalancerSpec(
    name="helix.crush",
    assign=crush,
    owners=owners_by(crush),
    source="Apache Helix 2.0, CrushRebalanceStrategy",
    takes="resource",
    zoned=True,
)
