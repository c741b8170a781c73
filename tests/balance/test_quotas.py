"""Bounds on loads hold exactly the loads that are as even as zones allow: tried against all of them when small."""

from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from apportion.balance.solver.quotas import Demand, load_bounds, quotas, settled
from tests.balance import lists

WEIGHTS = st.sampled_from([0, 1, 1, 2, 3, 10**6, 10**15])


def demand_of(partitions, replicas, weights, zones):
    """Return a demand of which every zone gets as many replicas as the documentation says."""
    spread = [Counter(zones[node] for node in chosen) for chosen in lists.owner_sets(weights, zones, replicas)]
    numbers = range(max(zones) + 1)
    return Demand(
        partitions=partitions,
        replicas=replicas,
        weights=tuple(weights),
        zones=tuple(zones),
        zone_least=tuple(min(held[zone] for held in spread) for zone in numbers),
        zone_most=tuple(max(held[zone] for held in spread) for zone in numbers),
    )


@st.composite
def demands(draw, most_nodes=5, most_partitions=4):
    """Draw demands on a few nodes in zones numbered in order of appearance, some without a node that may own."""
    weights = draw(st.lists(WEIGHTS, min_size=1, max_size=most_nodes))
    assume(any(weights))
    zones = [draw(st.integers(0, 2)) for _ in weights]
    numbers = list(dict.fromkeys(zones))
    replicas = draw(st.integers(1, min(3, sum(map(bool, weights)))))
    return demand_of(draw(st.integers(1, most_partitions)), replicas, weights, [numbers.index(zone) for zone in zones])


def feasible_loads(demand):
    """Return all loads for which there are lists, with the zones that the demand speaks of."""
    sums = range(demand.partitions + 1)
    return {
        loads
        for loads in product(*(sums if weight else (0,) for weight in demand.weights))
        if sum(loads) == demand.total and all(_zone_holds(demand, loads, zone) for zone in set(demand.zones))
    }


def _zone_holds(demand, loads, zone):
    held = sum(load for load, own in zip(loads, demand.zones, strict=True) if own == zone)
    return demand.zone_least[zone] <= Fraction(held, demand.partitions) <= demand.zone_most[zone]


def lies_within(bounds, loads):
    """Return whether loads are within the bounds of nodes, and have the totals of the pools."""
    in_pools = Counter()
    for pool, load in zip(bounds.pools, loads, strict=True):
        in_pools[pool] += load
    return all(map(lambda low, load, high: low <= load <= high, bounds.least, loads, bounds.most)) and all(
        in_pools[pool] == total for pool, total in enumerate(bounds.totals)
    )


@settings(max_examples=300)
@given(demands())
@example(demand_of(4, 3, (10**15, 10**15, 1, 1, 1), (0, 0, 0, 1, 1)))  # a zone that must hold more than its share
def test_exactly_the_loads_that_are_as_even_as_zones_allow_lie_within_the_bounds(demand):
    feasible = feasible_loads(demand)
    expected = lists.even_loads(feasible, lists.shares(demand.weights, demand.partitions, demand.replicas))
    bounds = load_bounds(demand)
    assert expected == {loads for loads in feasible if lies_within(bounds, loads)}


@settings(max_examples=300)
@given(demands(most_nodes=7, most_partitions=50))
def test_a_quota_is_the_share_by_weight_and_never_above_one_replica_of_every_partition(demand):
    numerators, denominator = quotas(demand)
    found = [Fraction(numerator, denominator) for numerator in numerators]
    assert lists.shares(demand.weights, demand.partitions, demand.replicas) == found
    assert demand.total == sum(found)
    assert max(found) <= demand.partitions


@given(demands(most_nodes=7, most_partitions=50))
def test_bounds_of_a_node_differ_by_one_at_most_and_pools_share_out_everything(demand):
    bounds = load_bounds(demand)
    assert all(0 <= low <= high <= low + 1 for low, high in zip(bounds.least, bounds.most, strict=True))
    assert demand.total == sum(bounds.totals)
    assert all(most == 0 for most, weight in zip(bounds.most, demand.weights, strict=True) if weight == 0)


@settings(max_examples=300)
@given(demands(), st.data())
def test_settled_loads_are_even_and_no_even_ones_suit_elsewhere_better(demand, data):
    bounds = load_bounds(demand)
    elsewhere = data.draw(st.lists(st.integers(-3, 3), min_size=len(demand.weights), max_size=len(demand.weights)))
    exact = settled(bounds, demand, elsewhere)
    even = {loads for loads in feasible_loads(demand) if lies_within(bounds, loads)}
    assert exact.least == exact.most
    assert exact.least in even

    def burden(loads):
        """Return what extra replicas are put on nodes, by how much these hold elsewhere."""
        extras = map(lambda load, low, held: (load - low) * held, loads, bounds.least, elsewhere)
        return sum(extras)

    assert min(map(burden, even)) == burden(exact.least)


def test_a_node_of_extreme_weight_is_full_and_the_others_share_what_it_cannot_take():
    numerators, denominator = quotas(demand_of(10, 2, (10**15, 1, 1), (0, 1, 2)))
    assert [10, 5, 5] == [Fraction(numerator, denominator) for numerator in numerators]


def test_water_runs_over_from_one_full_node_to_the_next():
    numerators, denominator = quotas(demand_of(6, 3, (100, 10, 1, 1), (0, 1, 2, 3)))
    assert [6, 6, 3, 3] == [Fraction(numerator, denominator) for numerator in numerators]


def test_a_zone_that_is_too_small_takes_all_it_may_and_the_rest_is_even():
    bounds = load_bounds(demand_of(4, 2, (4, 1, 1, 1), (0, 1, 1, 1)))
    assert ((4, 1, 1, 1), (4, 2, 2, 2)) == (bounds.least, bounds.most)
    bounds = load_bounds(demand_of(4, 2, (1, 1, 1, 1, 1), (0, 0, 0, 0, 1)))
    assert ((1, 1, 1, 1, 4), 8) == (bounds.most, sum(bounds.totals))


def test_the_higher_loads_go_first_to_zones_that_must_hold_more():
    demand = demand_of(3, 4, (1,) * 8, (0, 0, 0, 1, 1, 1, 2, 2))
    exact = settled(load_bounds(demand), demand, (0,) * 6 + (1,) * 2)
    assert (2, 2, 2, 1, 1, 1, 2, 1) == exact.least


@pytest.mark.parametrize("weight", [1, 10**6, 10**15])
def test_only_the_ratio_of_weights_counts(weight):
    demand = demand_of(7, 2, (weight, weight, weight), (0, 1, 2))
    assert ((4, 4, 4), (5, 5, 5)) == (load_bounds(demand).least, load_bounds(demand).most)
