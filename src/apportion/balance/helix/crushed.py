"""`helix.crushed`: Apache Helix's CrushEdRebalanceStrategy, CRUSH with an even distribution, to the bit.

CRUSH places over all nodes, live or not. Cards are dealt until loads are even, and leaders are spread. The partitions
of nodes that are not live move along a circle. When a step fails, the whole resource gets plain CRUSH.
Promises: the lists of Helix, including its defects; no two nodes of a list in one zone. While all nodes are live, loads
are within one or two of the shares by weight.
Refuses: evenness when a node is down; few moves when nodes are added. See the page on Helix in docs/algorithms.
Source: `CrushEdRebalanceStrategy` of Apache Helix 2.0.
"""

from collections.abc import Iterable

from apportion.balance.api import BalancerSpec
from apportion.balance.arguments import Partitions
from apportion.balance.helix.card_dealer import Held, deal
from apportion.balance.helix.circle import move_from_dead
from apportion.balance.helix.crush import crushed_on
from apportion.balance.helix.group import owners_by
from apportion.balance.helix.request import HelixRequest, Lists, ResourceLists
from apportion.balance.helix.tree import Tree
from apportion.balance.java.hashmap import in_order, in_order_of_copy
from apportion.balance.java.values import string_hash
from apportion.model.topology import Topology


def crushed(
    resource: str, partitions: Partitions, replicas: int, topology: Topology, *, live: Iterable[str] | None = None
) -> ResourceLists:
    """Return Helix's preference lists, evenly spread while all nodes are live; `short` where zones are too few.

    The name of the resource is the seed. `partitions` is a count (ids "0", "1", …) or the ids, `live` are the nodes
    that are up, all by default. O(partitions · replicas · (zones + nodes of a zone)), and 1000 tokens per node when a
    node is not live. Raises `InvalidInput`, `UnknownNode`, `BadWeight`, `NoNodes`.

    >>> from collections import Counter
    >>> topology = Topology(["a", "b", "c", "d"])
    >>> lists = crushed("orders", [f"orders_{number}" for number in range(40)], 2, topology).preference_lists
    >>> sorted(Counter(node for nodes in lists.values() for node in nodes).items())
    [('a', 21), ('b', 20), ('c', 19), ('d', 20)]
    """
    request = HelixRequest.checked(resource, partitions, replicas, topology, live)
    # Nodes of weight 0 take no part here. `helix.crush` keeps them and marks them as out.
    nodes = [node for node in request.nodes if request.weights[node]]
    base = crushed_on(request, nodes, nodes)
    are_all_live = request.live.issuperset(nodes)
    lists = _evened(request, Tree.of(request, nodes, lambda _: True), base, are_all_live=are_all_live)
    if lists is None:
        lists = base if are_all_live else crushed_on(request, nodes, request.live)
    return request.answer(lists)


def _evened(request: HelixRequest, tree: Tree, base: Lists, *, are_all_live: bool) -> Lists | None:
    held, seed = _held(base), string_hash(request.resource)
    if not deal(tree.zones, held, replicas=request.replicas, seed=seed):
        return None
    ranked = _ranked(held, request.replicas)
    if are_all_live:
        return {partition: tuple(nodes) for partition, nodes in ranked.items()}
    most = len(held)
    if not move_from_dead(tree.zones, held, request.live, seed):
        return None
    return {
        partition: _with_new_last(ranked[partition], nodes) for partition, nodes in _by_partition(held, most).items()
    }


def _held(lists: Lists) -> Held:
    held: Held = {}
    for partition in in_order(lists):
        for node in lists[partition]:
            held.setdefault(node, []).append(partition)
    return held


def _by_partition(held: Held, most: int = 0) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in in_order(held, most=most):
        for partition in held[node]:
            found.setdefault(partition, []).append(node)
    return found


def _ranked(held: Held, replicas: int) -> dict[str, list[str]]:
    """Return the nodes of each partition, the leader first. A chosen leader gets a penalty: others lead next."""
    scores = {node: len(partitions) for node, partitions in held.items()}
    lists = _by_partition(held)
    for partition in in_order(lists):
        nodes = lists[partition]
        nodes.sort(key=lambda node: (scores[node], string_hash(partition + node)))
        scores[nodes[0]] += replicas**2
        for node in nodes:
            scores[node] -= 1
    return lists


def _with_new_last(before: list[str], after: list[str]) -> tuple[str, ...]:
    stayed = [node for node in before if node in after]
    return (*stayed, *(node for node in in_order_of_copy(after) if node not in stayed))


SPEC = BalancerSpec(
    name="helix.crushed",
    assign=crushed,
    owners=owners_by(crushed),
    source="Apache Helix 2.0, CrushEdRebalanceStrategy",
    takes="resource",
    weighted=True,
    zoned=True,
)
