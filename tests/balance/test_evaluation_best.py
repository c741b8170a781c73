"""The least deviation is that of the best placement of all that keep the zone rule."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Node, Topology
from apportion.balance import Resource
from apportion.balance.evaluation import Cluster, State, entrant, least_deviation, measured
from apportion.balance.solver.fair_loads import fair_shares

WEIGHTS = st.sampled_from([0, 0.5, 1, 1, 2, 3])
NODES = st.lists(st.tuples(WEIGHTS, st.integers(0, 2)), min_size=1, max_size=5)


def state_of(nodes, down=()):
    listed = [Node(f"n{place}", zone=(f"z{zone}",), weight=weight) for place, (weight, zone) in enumerate(nodes)]
    return State(topology=Topology(listed), down=frozenset(down))


def least_of_all(state, demands):
    """Return the least deviation over every placement that lacks nothing."""
    ids = list(state.weights)
    zones = [state.topology[node_id].fault_domain() for node_id in ids]
    sums = {(0,) * len(ids)}
    for partitions, replicas in demands:
        most = min(replicas, len(ids))
        spread = min(replicas, len(set(zones)))
        lists = [row for row in combinations(range(len(ids)), most) if len({zones[node] for node in row}) >= spread]
        for _ in range(partitions):
            sums = {tuple(load + (node in row) for node, load in enumerate(loads)) for loads in sums for row in lists}
    total = sum(next(iter(sums)))
    shares = fair_shares(state.weights, partitions=sum(count for count, _ in demands), total=total)
    squares = (sum((load - shares[node_id]) ** 2 for load, node_id in zip(loads, ids, strict=True)) for loads in sums)
    return float(min(squares) / len(ids)) ** 0.5


@settings(max_examples=150, deadline=None)
@given(NODES, st.integers(1, 3), st.lists(st.integers(1, 3), min_size=1, max_size=2))
def test_it_is_the_least_of_all_placements_where_replicas_are_equally_many(nodes, replicas, partitions):
    state = state_of(nodes)
    demands = [(count, replicas) for count in partitions]
    if not state.weights:
        assert 0.0 == least_deviation(state, demands)
        return
    assert least_of_all(state, demands) == pytest.approx(least_deviation(state, demands))


@settings(max_examples=100, deadline=None)
@given(NODES, st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3)), min_size=1, max_size=3))
def test_no_placement_is_below_it(nodes, demands):
    state = state_of(nodes)
    if state.weights:
        assert least_deviation(state, demands) <= least_of_all(state, demands) + 1e-9


def test_it_counts_a_replica_per_zone_where_one_resource_has_as_many_replicas_as_there_are_zones():
    state, demands = state_of([(1, 0), (1, 1), (0.001, 2)]), [(1, 3), (1, 1)]
    assert least_of_all(state, demands) == pytest.approx(least_deviation(state, demands))


def test_a_small_zone_raises_it_above_exact_shares():
    two_zones = state_of([(1, 0), (1, 0), (1, 0), (1, 1)])
    no_zones = State(topology=Topology(["a", "b", "c", "d"]))
    assert (0.0, True) == (least_deviation(no_zones, [(12, 2)]), least_deviation(two_zones, [(12, 2)]) > 3)


@pytest.mark.parametrize("down", [(), ("n1",), ("n0", "n3")])
def test_optimal_reaches_it_for_one_resource_and_no_other_sound_balancer_is_below(down):
    nodes = [(weight, zone) for zone, weight in enumerate((1, 2, 1))] + [(1, 0), (1, 1), (3, 2)]
    state = state_of(nodes, down)
    cluster = Cluster(name="c", topology=state.topology, resources={"orders": Resource(40, 2)})
    for name in ("optimal", "helix.crush", "helix.crushed"):
        found = measured(entrant(name).place(cluster, state, None), state)
        assert 0 == found.lacking
        if name == "optimal":
            assert found.least_partitions_deviation == pytest.approx(found.partitions.deviation)
        assert found.least_partitions_deviation <= found.partitions.deviation + 1e-9
        assert found.least_leaders_deviation <= found.leaders.deviation + 1e-9
