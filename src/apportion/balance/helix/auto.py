"""`helix.auto`: Apache Helix's AutoRebalanceStrategy, to the bit.

Every node gets seats for its part of the replicas. Replicas that exist already stay while there are seats for them.
Promises: the lists of Helix, including its defects; loads within one of each other for a first placement.
Refuses: zones and weights, which Helix does not look at here. So leave a draining node out of `live`.
Source: `AutoRebalanceStrategy` of Apache Helix 2.0.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from apportion.balance.api import BalancerSpec, GroupView, Owners
from apportion.balance.arguments import Partitions, partition_ids
from apportion.balance.helix.group import owners_of, taken
from apportion.balance.helix.models import ModelName, StateModel, model_of
from apportion.balance.helix.request import HelixRequest, Lists, ResourceLists
from apportion.balance.helix.seats import Host, Replica, Seating
from apportion.balance.java.hashmap import in_order
from apportion.balance.java.values import MAX_INT, string_order
from apportion.errors import InvalidInput
from apportion.model.topology import Topology

Current = Mapping[str, Mapping[str, str]] | Mapping[int, Mapping[str, str]]
"""The state of each node that has a replica, by partition; an int n means str(n)."""


def auto(
    resource: str,
    partitions: Partitions,
    replicas: int,
    topology: Topology,
    *,
    live: Iterable[str] | None = None,
    previous: Current | None = None,
    model: ModelName = "MasterSlave",
    most_per_node: int | None = None,
) -> ResourceLists:
    """Return Helix's preference lists, which keep most of the current replicas.

    `partitions` is a count (ids "0", "1", …) or the ids; `live` are the nodes that are up, all by default. `previous`
    is the current mapping, as `{"orders_0": {"a": "MASTER"}}`. Entries for partitions not asked for and for nodes
    that are not live are left out: they have no current state. `most_per_node` is Helix's maxPartitionsPerInstance.
    O(partitions · replicas · nodes). Raises `InvalidInput`, `UnknownOption`, `UnknownNode`, `BadWeight`, `NoNodes`.

    >>> auto("orders", 2, 2, Topology(["a", "b", "c"])).preference_lists["0"]
    ('a', 'c')
    """
    states = model_of(model)
    request = HelixRequest.checked(resource, partitions, replicas, topology, live)
    most = _most(most_per_node)
    current = _current(request, previous, states)
    seating = _seating(request, current, most)
    seating.take_in(current)
    orphans = seating.place_orphans()
    seating.bring_home()
    seating.thin_out()
    seating.force(orphans, most)
    return request.answer(_ranked(seating, request, states))


def _most(most_per_node: int | None) -> int:
    if most_per_node is None:
        return MAX_INT
    if type(most_per_node) is not int or most_per_node < 1:
        raise InvalidInput("most_per_node", most_per_node, "an int of at least 1, or None", "None is no limit.")
    return most_per_node


def _current(request: HelixRequest, previous: Current | None, states: StateModel) -> dict[str, list[str]]:
    """Return the live nodes of each partition; both are in the order of Java's maps."""
    if previous is None:
        return {}
    if not isinstance(previous, Mapping) or not all(isinstance(nodes, Mapping) for nodes in previous.values()):
        hint = "Write {'orders_0': {'a': 'MASTER'}}; leave it out for a first placement."
        raise InvalidInput("previous", previous, "a mapping of partitions to the states of nodes", hint)
    for state in chain.from_iterable(nodes.values() for nodes in previous.values()):
        states.check(state)
    there = dict(zip(partition_ids(previous), previous.values(), strict=True))
    return {
        partition: in_order([node for node in there.get(partition, ()) if node in request.live])
        for partition in in_order(request.partitions)
    }


def _seating(request: HelixRequest, current: Mapping[str, Sequence[str]], most: int) -> Seating:
    hosts = {node: Host(node, is_live=node in request.live) for node in request.nodes}
    counts = Counter(node for nodes in current.values() for node in nodes)
    # The nodes that hold most come first, and so get the extra seats.
    live = sorted((host for host in hosts.values() if host.is_live), key=lambda host: -counts[host.id])
    replicas = min(request.replicas, len(hosts))
    seats, extra = divmod(replicas * len(request.partitions), len(live))
    for host in live:
        host.seats = min(seats, most)
        if extra > 0 and host.seats < most:
            host.seats, host.has_extra, extra = host.seats + 1, True, extra - 1
    preferred = _preferred(request, list(hosts.values()), replicas)
    return Seating(hosts=hosts, live=live, preferred=preferred, replicas=replicas)


def _preferred(request: HelixRequest, hosts: Sequence[Host], replicas: int) -> dict[Replica, Host]:
    nodes, partitions = len(hosts), len(request.partitions)
    preferred = {}
    for place, partition in enumerate(request.partitions):
        for number in range(replicas):
            at = place + number
            if nodes >= partitions:
                at = place + number * partitions + (number if nodes == partitions else 0)
            preferred[Replica(partition, number)] = hosts[at % nodes]
    return preferred


def _ranked(seating: Seating, request: HelixRequest, states: StateModel) -> Lists:
    """Return the lists: earlier owners first, then new ones.

    Among earlier owners, and among new ones, each place goes to the node that has the state of that place least often.
    """
    counts: Counter[tuple[str, str]] = Counter()
    lists: dict[str, list[str]] = {partition: [] for partition in sorted(request.partitions, key=string_order)}
    for found in (seating.lists(of_new=False), seating.lists(of_new=True)):
        for partition in lists:
            lists[partition] += _spread(found.get(partition, []), counts, states)
    return {partition: tuple(ranked) for partition, ranked in lists.items()}


def _spread(nodes: list[str], counts: Counter[tuple[str, str]], states: StateModel) -> list[str]:
    ranked: list[str] = []
    while nodes:
        state = states.state_at(len(ranked))
        chosen = min(nodes, key=lambda node: counts[node, state])
        counts[chosen, state] += 1
        nodes.remove(chosen)
        ranked.append(chosen)
    return ranked


def _owners(view: GroupView) -> Owners:
    previous = None
    if view.previous is not None:
        previous = {name: dict.fromkeys(nodes, "MASTER") for name, nodes in view.previous.preference_lists.items()}
    live = [node.id for node in view.topology if node.weight]
    return owners_of(auto(view.name, view.partitions, 1, taken(view.topology), live=live, previous=previous))


SPEC = BalancerSpec(
    name="helix.auto",
    assign=auto,
    owners=_owners,
    source="Apache Helix 2.0, AutoRebalanceStrategy",
    takes="resource",
)
