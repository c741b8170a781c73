"""Lists keep fault domains apart as the dumb twin does, begin alike, and too few domains or nodes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Node, Rendezvous, Ring, Topology
from apportion.errors import NotEnoughNodes
from apportion.placement.spread import SpreadRule, spread_rule
from tests import invariants, twins, worlds

ZONED = Topology(
    [
        Node("a", zone=("eu", "r1")),
        Node("b", zone=("eu", "r1")),
        Node("c", zone=("eu", "r2")),
        Node("d", zone=("us", "r1")),
        Node("e", zone=("us", "r1")),
    ]
)


@given(st.lists(st.sampled_from("uvwxy"), min_size=1, max_size=9), st.randoms(), st.integers(1, 9))
def test_a_list_is_that_of_the_dumb_twin(domains, random, count):
    ranking = list(range(len(domains)))
    random.shuffle(ranking)
    expected = twins.spread(ranking, domains, min(count, len(domains)))
    reuses = len(set(domains)) < count
    assert expected == SpreadRule(count, tuple(domains), reuses_domains=reuses).pick(iter(ranking))


@given(st.lists(st.sampled_from("uvwxy"), min_size=1, max_size=9), st.randoms())
def test_a_list_is_the_beginning_of_every_longer_one(domains, random):
    ranking = list(range(len(domains)))
    random.shuffle(ranking)
    lists = [
        SpreadRule(count, tuple(domains), reuses_domains=len(set(domains)) < count).pick(ranking)
        for count in range(1, len(domains) + 1)
    ]
    assert all(lists[-1][: len(shorter)] == shorter for shorter in lists)


def test_only_as_much_of_a_ranking_is_read_as_is_needed():
    ranking = iter([0, 1, 2, 3])
    assert (0, 2) == SpreadRule(2, ("u", "u", "v", "w"), reuses_domains=False).pick(ranking)
    assert [3] == list(ranking)


@pytest.mark.parametrize("kind", [Ring, Rendezvous])
@given(topology=worlds.owning_topologies, key=st.binary(max_size=8), level=st.sampled_from([None, 0, 1]))
def test_no_two_share_a_domain_while_another_is_free(kind, topology, key, level):
    placement = kind(topology)
    owning = sum(node.weight > 0 for node in topology)
    for count in range(1, owning + 1):
        owners = placement.preference(key, count, spread_level=level, spread="best-effort")
        assert count == len(owners)
        invariants.lists_keep_zones_apart(topology, owners, level)


@pytest.mark.parametrize("kind", [Ring, Rendezvous])
def test_strict_lists_are_those_of_best_effort_while_zones_last(kind):
    placement = kind(ZONED)
    for key in range(50):
        for count in (1, 2, 3):
            assert placement.preference(key, count, spread="best-effort") == placement.preference(key, count)


@pytest.mark.parametrize("kind", [Ring, Rendezvous])
def test_best_effort_goes_round_again_when_every_zone_is_used(kind):
    for key in range(50):
        owners = kind(ZONED).preference(key, 5, spread="best-effort")
        assert {"a", "b", "c", "d", "e"} == set(owners)
        assert 3 == len({ZONED[node_id].zone for node_id in owners[:3]})


@pytest.mark.parametrize("kind", [Ring, Rendezvous])
def test_a_level_compares_the_outer_part_of_zones_only(kind):
    for key in range(50):
        owners = kind(ZONED).preference(key, 2, spread_level=0)
        assert {"eu", "us"} == {ZONED[node_id].zone[0] for node_id in owners}
    with pytest.raises(NotEnoughNodes, match=r"3 replicas wanted in distinct zones, 2 eligible"):
        kind(ZONED).preference("k", 3, spread_level=0)


def test_too_few_zones_name_one_node_of_each_and_the_way_out():
    with pytest.raises(NotEnoughNodes, match=r"4 replicas wanted in distinct zones, 3 eligible \(b, c, e\)") as caught:
        Ring(ZONED).preference("k", 4)
    assert (4, ("b", "c", "e")) == (caught.value.wanted, caught.value.eligible)
    assert "best-effort" in caught.value.hint


def test_too_few_nodes_are_refused_even_at_best_effort():
    with pytest.raises(NotEnoughNodes, match=r"6 replicas wanted on distinct nodes, 5 eligible"):
        Ring(ZONED).preference("k", 6, spread="best-effort")


def test_a_draining_node_is_not_eligible():
    with pytest.raises(NotEnoughNodes, match=r"5 replicas wanted on distinct nodes, 4 eligible \(a, c, d, e\)"):
        Ring(ZONED.drain("b")).preference("k", 5, spread="best-effort")


def test_a_node_without_a_zone_is_a_domain_by_itself():
    topology = Topology(["a", "b", Node("c", zone=("eu",)), Node("d", zone=("eu",))])
    for key in range(50):
        assert {"a", "b"} < set(Ring(topology).preference(key, 3))


def test_the_rule_is_ready_for_the_nodes_of_a_topology():
    rule = spread_rule(ZONED, 3, level=None, spread="strict")
    assert (3, False) == (rule.count, rule.reuses_domains)
    assert tuple(node.zone for node in ZONED) == rule.domains
