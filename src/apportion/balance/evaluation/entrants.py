"""Entrants: balancers of the catalog in an evaluation. Each entrant places all resources of a cluster.

An entrant is a function from a cluster, its state and the previous placement to the current placement. `optimal` is
asked for all resources together, as in `balance.optimal_resources`, and knows the previous placement. Balancers of
Helix are asked for one resource after the other; `helix.auto` also gets the current mapping. Balancers of Kafka are
asked for all topics at once, with the partitions that members own. They place one replica, so a cluster with more
replicas has no answer.

Refuses: to judge; `measures` does. Programs of others are entrants too; the console adds them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from apportion.balance import catalog
from apportion.balance.api import BalancerSpec
from apportion.balance.evaluation.clusters import Cluster
from apportion.balance.evaluation.scenarios import State
from apportion.balance.helix.auto import auto
from apportion.balance.helix.models import model_of
from apportion.balance.kafka import Partition, Subscription
from apportion.balance.optimal import optimal
from apportion.balance.resources import Resource, optimal_resources
from apportion.errors import CannotPlace
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment, PreferenceList, Rule

# The choice of states does not matter, as long as one of them leads.
WITH_LEADERS: Literal["LeaderStandby"] = "LeaderStandby"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Every resource by name; `memory` holds anything else that an entrant needs to go on from here."""

    resources: Mapping[str, Assignment]
    memory: object = field(default=None, compare=False, repr=False)


Place = Callable[[Cluster, State, Placed | None], Placed]


@brief
@dataclass(frozen=True, slots=True)
class Entrant:
    """A balancer by its name, with its placing function; it raises `CannotPlace` where it has no answer."""

    name: str
    place: Place


def entrant(name: str) -> Entrant:
    """Return a balancer of the catalog as an entrant; `UnknownOption` names the nearest known name.

    >>> from apportion.model.topology import Topology
    >>> cluster = Cluster(name="two", topology=Topology(["a", "b"]), resources={"t": Resource(4, 1)})
    >>> entrant("optimal").place(cluster, State(topology=cluster.topology), None).resources["t"].loads
    {'a': 2, 'b': 2}
    """
    spec = catalog.get(name)
    ways = {"topology": _by_topology, "resource": _by_resource, "subscriptions": _by_subscriptions}
    way = ways[spec.takes]
    return Entrant(name, lambda cluster, state, before: Placed(resources=way(spec, cluster, state, before)))


def laid_out(cluster: Cluster, state: State, resource: str, lists: Mapping[str, PreferenceList]) -> Assignment:
    """Return preference lists as the assignment of a resource."""
    names, index = cluster.partitions(resource), state.topology.index
    return Assignment(
        topology=state.topology,
        rows=tuple(tuple(map(index, lists.get(name, ()))) for name in names),
        names=names,
        down=tuple(sorted(state.down)),
        rule=Rule(replicas=cluster.resources[resource].replicas, spread="best-effort"),
    )


def _by_topology(spec: BalancerSpec, cluster: Cluster, state: State, before: Placed | None) -> dict[str, Assignment]:
    asked = {name: Resource(cluster.partitions(name), each.replicas) for name, each in cluster.resources.items()}
    previous = {} if before is None else dict(before.resources)
    if spec.assign is optimal:
        return optimal_resources(asked, state.topology, previous=previous, live=state.live, spread="best-effort")
    placed = {
        name: spec(each.partitions, each.replicas, state.topology, previous=previous.get(name), live=state.live)
        for name, each in asked.items()
    }
    # A balancer of another package need not name the rule, and is judged by the rule all the same.
    return {
        name: each if each.rule else replace(each, rule=Rule(replicas=asked[name].replicas, spread="best-effort"))
        for name, each in placed.items()
    }


def _by_resource(spec: BalancerSpec, cluster: Cluster, state: State, before: Placed | None) -> dict[str, Assignment]:
    placed = {}
    for name, resource in cluster.resources.items():
        names, asked = cluster.partitions(name), (resource.replicas, state.topology)
        if spec.assign is auto:
            current = None if before is None else _states(before.resources[name])
            answer = auto(name, names, *asked, live=state.live, previous=current, model=WITH_LEADERS)
        else:
            answer = spec(name, names, *asked, live=state.live)
        placed[name] = laid_out(cluster, state, name, answer.preference_lists)
    return placed


def _states(before: Assignment) -> dict[str, dict[str, str]]:
    """Return the state of each replica, as in Helix's current mapping."""
    model = model_of(WITH_LEADERS)
    return {
        partition: {node_id: model.state_at(place) for place, node_id in enumerate(owners)}
        for partition, owners in before.preference_lists.items()
    }


def _by_subscriptions(
    spec: BalancerSpec, cluster: Cluster, state: State, before: Placed | None
) -> dict[str, Assignment]:
    """Return the answer for a group of the nodes that are up; all want all topics, and report their partitions."""
    topics = {name: cluster.count(name) for name in cluster.resources}
    for name, resource in cluster.resources.items():
        if resource.replicas != 1:
            raise CannotPlace(
                f"{spec.name} places only one replica, but {name} has {resource.replicas}.", "Leave the balancer out."
            )
    owned = _owned(before)
    members = [
        Subscription(node_id, topics=topics, owned=owned.get(node_id, ()), generation=-1 if before is None else 1)
        for node_id in state.weights
    ]
    answer = spec(topics=topics, members=members)
    # Partitions that a cooperative assignor withholds are handed on in the next round.
    owners = answer.by_partition | {partition: taker for partition, (_, taker) in answer.withheld.items()}
    lists: dict[str, dict[str, PreferenceList]] = {name: {} for name in topics}
    for (topic, number), owner in owners.items():
        lists[topic][f"{topic}_{number}"] = (owner,)
    return {name: laid_out(cluster, state, name, each) for name, each in lists.items()}


def _owned(before: Placed | None) -> dict[str, list[Partition]]:
    owned: dict[str, list[Partition]] = {}
    for name, assignment in ({} if before is None else before.resources).items():
        for number, row in enumerate(assignment.rows):
            for index in row:
                owned.setdefault(assignment.topology.ids[index], []).append((name, number))
    return owned
