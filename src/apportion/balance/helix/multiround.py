"""`helix.multiround`: Apache Helix's MultiRoundCrushRebalanceStrategy, to the bit.

Zones are drawn for all partitions. Then nodes are drawn one placement at a time, separately for each zone and each
state. Nodes that lack more weigh more. The surplus of a node is drawn again, in three rounds.
Promises: the lists of Helix, including its defects; no two nodes of a list in one zone.
Refuses: short lists. With fewer live zones than replicas, the function raises, as Helix does. Helix also raises for a
cluster without zones; here every node is then a zone.
Source: `MultiRoundCrushRebalanceStrategy` of Apache Helix 2.0.
"""

from collections.abc import Iterable, Mapping

from apportion.balance.api import BalancerSpec
from apportion.balance.arguments import Partitions
from apportion.balance.helix.card_dealer import Held
from apportion.balance.helix.draws import draw
from apportion.balance.helix.group import owners_by
from apportion.balance.helix.jenkins import hash1
from apportion.balance.helix.models import ModelName, StateModel, model_of
from apportion.balance.helix.request import HelixRequest, Lists, ResourceLists
from apportion.balance.helix.straws import Straws
from apportion.balance.helix.tree import FaultZone, Tree
from apportion.balance.java.hashmap import in_order
from apportion.balance.java.values import string_hash
from apportion.errors import NotEnoughNodes
from apportion.model.topology import Topology

MOST_ROUNDS = 3
MOST_TRIES = 100


def multiround(
    resource: str,
    partitions: Partitions,
    replicas: int,
    topology: Topology,
    *,
    live: Iterable[str] | None = None,
    model: ModelName = "MasterSlave",
) -> ResourceLists:
    """Return Helix's preference lists.

    `partitions` is a count (ids "0", "1", …) or the ids; `live` are the nodes that are up, all by default. `model`
    determines the states; each state is evened out on its own. O(partitions · replicas · (zones + nodes of a zone)).
    Raises `InvalidInput`, `UnknownNode`, `BadWeight`, `NoNodes`, `NotEnoughNodes`.

    >>> multiround("orders", ["orders_0", "orders_1"], 2, Topology(["a", "b", "c"])).preference_lists["orders_0"]
    ('c', 'a')
    """
    states = model_of(model)
    request = HelixRequest.checked(resource, partitions, replicas, topology, live)
    tree = Tree.of(request, request.nodes, request.live.__contains__)
    return request.answer(_placed(request, tree, states))


def _placed(request: HelixRequest, tree: Tree, states: StateModel) -> Lists:
    drawn = {partition: _zones_of(partition, request.replicas, tree) for partition in request.partitions}
    lists: dict[str, dict[str, list[str]]] = {name: {} for name in request.partitions}
    for place, zone in enumerate(tree.zones):
        for state, partitions in _by_state(place, drawn, request.replicas, states).items():
            for partition, node in _in_one_zone(zone, partitions).items():
                lists[partition].setdefault(state, []).append(node)
    return {
        name: tuple(node for state in states.counts(request.replicas) for node in nodes.get(state, ()))
        for name, nodes in lists.items()
    }


def _zones_of(partition: str, replicas: int, tree: Tree) -> list[int]:
    """Return the zones drawn for a partition; more than `replicas` when the last draw gave more."""
    zones: list[int] = []
    data = string_hash(partition)
    there = [zone.name for zone in tree.zones if zone.weight]
    for _ in range(MOST_TRIES if len(there) >= replicas else 0):
        zones += draw(tree.straws, data, replicas, zones)
        if len(zones) >= replicas:
            return zones
        data = hash1(data)
    raise NotEnoughNodes(replicas, there, "in distinct live zones")


def _by_state(place: int, drawn: Mapping[str, list[int]], replicas: int, states: StateModel) -> dict[str, list[str]]:
    """Return the partitions with a replica in a zone, by its state, in the order in which Java meets them."""
    found: dict[str, list[str]] = {state: [] for state in states.counts(replicas)}
    for partition in in_order(drawn):
        zones = drawn[partition][:replicas]
        if place in zones:
            found[states.state_at(zones.index(place))].append(partition)
    return found


def _in_one_zone(zone: FaultZone, partitions: list[str]) -> dict[str, str]:
    """Return the node of each partition that has its replica of one state in this zone."""
    held: Held = {}
    surplus: Held = {}
    straws, pending = zone.straws, list(partitions)
    for _ in range(MOST_ROUNDS):
        for node in in_order(surplus):
            # As in Helix, the surplus of an earlier round is never forgotten: it is drawn for again in each round.
            held[node] = [partition for partition in held[node] if partition not in surplus[node]]
            pending += surplus[node]
        for partition in pending:
            node = zone.nodes[_node_of(partition, straws)]
            held.setdefault(node, []).append(partition)
            straws = _by_what_lacks(zone, held, surplus, len(partitions))
        pending = []
    return {partition: node for node in in_order(held) for partition in held[node]}


def _node_of(partition: str, straws: Straws) -> int:
    data = string_hash(partition)
    while not (drawn := draw(straws, data, 1)):
        data = hash1(data)
    return drawn[0]


def _by_what_lacks(zone: FaultZone, held: Held, surplus: Held, partitions: int) -> Straws:
    """Return straws that are longer for nodes that lack more; the zone's own if no node lacks any. Fill `surplus`."""
    total, lacks = zone.weight, []
    for node, weight in zip(zone.nodes, zone.weights, strict=True):
        target = int(weight / total * partitions)
        count = len(held.get(node, ()))
        if weight and count > target + 1:
            surplus[node] = held[node][: count - target - 1]
        lacks.append(max(0, target - count) * 10)
    return zone.straws.weighing(lacks) if any(lacks) else zone.straws


SPEC = BalancerSpec(
    name="helix.multiround",
    assign=multiround,
    owners=owners_by(multiround),
    source="Apache Helix 2.0, MultiRoundCrushRebalanceStrategy",
    takes="resource",
    zoned=True,
)
