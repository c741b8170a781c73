"""Every balancer of the catalog takes part, is asked as it wants to be, and goes on from what was before."""

from dataclasses import replace
from itertools import pairwise

import pytest

from apportion import Assignment, Node, Topology, balance
from apportion.balance import Resource, catalog
from apportion.balance.evaluation import (
    BalancerTrial,
    Cluster,
    Entrant,
    Movement,
    State,
    entrant,
    make_scenario,
    measured,
    movement,
)
from apportion.errors import CannotPlace, UnknownOption

NODES = [Node(f"n{number:02}", zone=(f"z{number % 4}",)) for number in range(12)]
PLACING = [name for name in catalog.names() if catalog.get(name).takes != "subscriptions"]
SHARING = [name for name in catalog.names() if catalog.get(name).takes == "subscriptions"]


def cluster_of(replicas, nodes=NODES):
    resources = {"orders": Resource(40, replicas), "users": Resource(17, replicas)}
    return Cluster(name="c", topology=Topology(nodes), resources=resources)


def played(name, cluster, scenario):
    """Return what was placed in each state of a scenario, with the state."""
    entrant_, placed = entrant(name), []
    for state in make_scenario(scenario, cluster.topology, seed=1).states:
        placed.append((entrant_.place(cluster, state, placed[-1][0] if placed else None), state))
    return placed


@pytest.mark.parametrize("name", [*PLACING, *SHARING])
@pytest.mark.parametrize("scenario", ["disable-10%", "add-10%", "remove-and-return"])
def test_every_partition_is_on_nodes_that_are_up(name, scenario):
    cluster = cluster_of(1 if name in SHARING else 2)
    for placed, state in played(name, cluster, scenario):
        assert list(cluster.resources) == list(placed.resources)
        for resource, assignment in placed.resources.items():
            assert set(cluster.partitions(resource)) == set(assignment.preference_lists)
            assert {True} == {bool(owners) for owners in assignment.preference_lists.values()}
            assert {owner for owners in assignment.preference_lists.values() for owner in owners} <= set(state.live)


@pytest.mark.parametrize("name", [*PLACING, *SHARING])
def test_the_order_in_which_nodes_are_given_does_not_matter(name):
    replicas = 1 if name in SHARING else 2
    one, other = cluster_of(replicas), cluster_of(replicas, NODES[::-1])
    assert played(name, one, "disable-5%") == played(name, other, "disable-5%")


@pytest.mark.parametrize("name", SHARING)
def test_a_balancer_of_one_replica_refuses_more(name):
    with pytest.raises(CannotPlace, match=f"{name} places only one replica, but orders has 2"):
        entrant(name).place(cluster_of(2), State(topology=Topology(NODES)), None)


@pytest.mark.parametrize("name", ["optimal", "kafka.sticky"])
def test_what_goes_on_from_before_moves_no_more_than_it_must(name):
    before, after = played(name, cluster_of(1), "add-1%")
    found = movement(before, after)
    assert 0 < found.moved == found.bound
    assert 0 == found.extra


def test_auto_leaves_replicas_of_a_node_that_returns_where_they_went():
    states = played("helix.auto", cluster_of(2), "rolling-upgrade")
    moved = sum((movement(old, new) for old, new in pairwise(states[1:])), Movement())
    fresh = [(entrant("helix.auto").place(cluster_of(2), state, None), state) for _, state in states]
    anew = sum((movement(old, new) for old, new in pairwise(fresh[1:])), Movement())
    assert moved.moved < anew.moved / 2


def test_optimal_is_asked_for_all_resources_together():
    cluster = cluster_of(2)
    state = State(topology=cluster.topology)
    apart = {name: balance.optimal(cluster.partitions(name), 2, cluster.topology) for name in cluster.resources}
    together = entrant("optimal").place(cluster, state, None)
    assert measured(together, state).partitions.gap <= 1
    loads = [sum(each.loads[node_id] for each in apart.values()) for node_id in cluster.topology.ids]
    assert max(loads) - min(loads) > 1, "alone each would do, and this test would say nothing"


def test_an_unknown_balancer_names_the_nearest():
    with pytest.raises(UnknownOption) as caught:
        entrant("helix.crusht")
    assert caught.value.nearest in ("helix.crush", "helix.crushed")


def test_a_balancer_that_names_no_rule_is_judged_by_the_replicas_that_the_cluster_asks_for(monkeypatch):
    def one_node(partitions, replicas, topology, *, previous=None, live=None):
        return Assignment(topology=topology, rows=((0,),) * len(partitions), names=tuple(partitions))

    spec = replace(catalog.get("optimal"), name="one", assign=one_node)
    monkeypatch.setattr(catalog, "get", lambda _: spec)
    cluster = cluster_of(2)
    state = State(topology=cluster.topology)
    assert 40 + 17 == measured(entrant("one").place(cluster, state, None), state).lacking


def test_a_balancer_places_each_state_once_and_goes_on_from_the_state_before():
    cluster, asked, optimal = cluster_of(2), [], entrant("optimal")

    def place(cluster, state, before):
        placed = optimal.place(cluster, state, before)
        asked.append((state, before, placed))
        return placed

    scenario = make_scenario("remove-and-return", cluster.topology, seed=1)
    trial = BalancerTrial(clusters=[(cluster, [scenario])], entrants=[Entrant("one", place)], absent={})
    assert 1 == len([*trial.run(lambda: 0.0)])
    states, befores, placed = zip(*asked, strict=True)
    assert scenario.states == states
    assert (None, *placed[:-1]) == befores
