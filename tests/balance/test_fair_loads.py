"""The check of evenness takes exactly the loads that are as even as zones allow: tried on all loads of small cases."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apportion.balance.solver.fair_loads import ZoneLimits, box_of, fair_shares
from apportion.errors import InvalidInput
from tests.balance import lists
from tests.balance.test_quotas import demand_of, demands, feasible_loads


def asked(demand):
    """Return the nodes' weights by id, and the zones, without nodes that may own nothing."""
    weights = {f"n{node}": weight for node, weight in enumerate(demand.weights) if weight}
    zones = [
        ZoneLimits(
            members=[f"n{node}" for node, own in enumerate(demand.zones) if own == zone and demand.weights[node]],
            must=demand.zone_least[zone] * demand.partitions,
            may=demand.zone_most[zone] * demand.partitions,
        )
        for zone in sorted(set(demand.zones))
    ]
    return weights, [zone for zone in zones if zone.members]


def by_id(demand, loads):
    """Return loads by id, without nodes that may own nothing."""
    return {f"n{node}": load for node, load in enumerate(loads) if demand.weights[node]}


def lies_in(box, loads):
    """Return whether loads are among those of a box."""
    in_bounds = all(box.least[node_id] <= load <= box.most[node_id] for node_id, load in loads.items())
    return in_bounds and all(total == sum(loads[node_id] for node_id in members) for members, total in box.pools)


@settings(max_examples=200)
@example(demand_of(3, 2, (0, 1, 1, 1, 3), (0, 0, 1, 2, 0)))  # two zones pay equally for a replica that they exchange
@given(demands())
def test_exactly_the_loads_that_are_as_even_as_zones_allow_are_taken(demand):
    weights, zones = asked(demand)
    feasible = feasible_loads(demand)
    even = lists.even_loads(feasible, lists.shares(demand.weights, demand.partitions, demand.replicas))
    for loads in feasible - even:
        with pytest.raises(InvalidInput, match=r"loads of the assignment is .* as even as zones allow"):
            box_of(by_id(demand, loads), weights, zones, partitions=demand.partitions)
    for loads in even:
        box = box_of(by_id(demand, loads), weights, zones, partitions=demand.partitions)
        assert even == {each for each in feasible if lies_in(box, by_id(demand, each))}


@given(demands(most_nodes=7, most_partitions=50))
def test_shares_are_those_of_the_dumb_twin(demand):
    weights, _ = asked(demand)
    expected = lists.shares(demand.weights, demand.partitions, demand.replicas)
    found = fair_shares(weights, partitions=demand.partitions, total=demand.total)
    assert by_id(demand, expected) == found


@settings(max_examples=200)
@given(demands(), st.data())
def test_no_even_loads_earn_more_than_the_most_that_is_said(demand, data):
    weights, zones = asked(demand)
    feasible = feasible_loads(demand)
    even = lists.even_loads(feasible, lists.shares(demand.weights, demand.partitions, demand.replicas))
    box = box_of(by_id(demand, min(even)), weights, zones, partitions=demand.partitions)
    prices = {node_id: data.draw(st.integers(-3, 3)) for node_id in weights}
    earned = [sum(prices[node_id] * load for node_id, load in by_id(demand, loads).items()) for loads in even]
    assert max(earned) <= box.most_earned(prices)


def test_a_zone_that_must_hold_more_lends_nothing_to_others():
    demand = demand_of(3, 3, (10**15, 10**15, 1, 1, 1), (0, 0, 0, 1, 1))
    weights, zones = asked(demand)
    even = lists.even_loads(feasible_loads(demand), lists.shares(demand.weights, 3, 3))
    box = box_of(by_id(demand, (3, 3, 0, 1, 2)), weights, zones, partitions=3)
    prices = {"n0": 1, "n1": 1, "n2": 1, "n3": 5, "n4": 5}
    assert max(sum(prices[f"n{node}"] * load for node, load in enumerate(loads)) for loads in even) == (
        box.most_earned(prices)
    )
