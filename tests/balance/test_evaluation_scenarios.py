"""Every scenario does to a cluster what its name says, and to the same nodes for the same seed."""

import pytest

from apportion import Node, Topology
from apportion.balance.evaluation import NAMES, SHAPES, Scenario, State, make_scenario, production_like
from apportion.errors import CannotPlace, UnknownOption

TOPOLOGY = production_like(SHAPES[3], seed=1).topology
START = State(topology=TOPOLOGY)
TAKING = [name for name in NAMES if name not in ("static", "weight-change") and not name.startswith("add-")]


def test_static_is_one_state():
    assert ((START,), ()) == (make_scenario("static", TOPOLOGY, seed=1).states, ())


@pytest.mark.parametrize(("percent", "nodes"), [(1, 1), (2, 1), (5, 3), (10, 5)])
def test_disabled_nodes_are_down_and_stay_in_the_topology(percent, nodes):
    played = make_scenario(f"disable-{percent}%", TOPOLOGY, seed=1)
    before, after = played.states
    assert (START, TOPOLOGY, ((0, 1),)) == (before, after.topology, played.steps)
    assert nodes == len(after.down) == len(TOPOLOGY) - len(after.live)
    assert set(TOPOLOGY.ids) == after.down | set(after.live)


@pytest.mark.parametrize(("percent", "nodes"), [(1, 1), (5, 3), (10, 5), (20, 10)])
def test_added_nodes_fill_up_the_zones_that_have_fewest(percent, nodes):
    after = make_scenario(f"add-{percent}%", TOPOLOGY, seed=1).states[1]
    assert nodes == len(after.topology) - len(TOPOLOGY)
    assert set(TOPOLOGY) <= set(after.topology)
    zones = [node.zone for node in after.topology]
    sizes = [zones.count(zone) for zone in set(zones)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("nodes", "added"), [(1, 1), (149, 1), (150, 2), (249, 2), (250, 3)])
def test_a_part_of_the_nodes_is_rounded_to_the_nearest_and_is_one_at_the_least(nodes, added):
    before, after = make_scenario("add-1%", Topology(map("n{:03}".format, range(nodes))), seed=1).states
    assert added == len(after.topology) - len(before.topology)


def test_an_added_node_has_the_weight_that_most_have_and_a_free_name():
    nodes = [Node("added-000", weight=3), Node("a", weight=3), Node("b"), Node("c", weight=0), Node("d", weight=0)]
    after = make_scenario("add-1%", Topology(nodes), seed=1).states[1].topology
    assert [("added-001", 3.0)] == [(node.id, node.weight) for node in after if node not in nodes]


def test_a_rolling_upgrade_takes_one_node_after_the_other():
    played = make_scenario("rolling-upgrade", TOPOLOGY, seed=1)
    down = [state.down for state in played.states]
    assert [0, 1, 1, 1, 1] == list(map(len, down))
    assert 4 == len(frozenset().union(*down))
    assert ((1, 2), (2, 3), (3, 4)) == played.steps


def test_a_change_of_weight_doubles_that_of_one_node_in_twenty():
    before, after = make_scenario("weight-change", TOPOLOGY, seed=1).states
    changed = [node for node in after.topology if node not in before.topology.nodes]
    assert [2.0, 2.0, 2.0] == [node.weight for node in changed]


def test_the_weight_of_the_only_node_that_has_one_changes_too():
    nodes = [Node("a"), *(Node(f"drained-{number}", weight=0) for number in range(50))]
    after = make_scenario("weight-change", Topology(nodes), seed=1).states[1].topology
    assert [("a", 2.0)] == [(node.id, node.weight) for node in after if node.weight]
    with pytest.raises(CannotPlace, match="weight-change leaves no node"):
        make_scenario("weight-change", Topology(nodes[1:]), seed=1)


def test_a_lost_zone_is_down_as_a_whole():
    state = make_scenario("zone-loss", TOPOLOGY, seed=1).states[1]
    (zone,) = {TOPOLOGY[node_id].zone for node_id in state.down}
    assert {node.id for node in TOPOLOGY if node.zone == zone} == state.down


@pytest.mark.parametrize("name", ["outage-and-return", "remove-and-return"])
def test_what_returns_ends_where_it_began(name):
    played = make_scenario(name, TOPOLOGY, seed=1)
    first, between, last = played.states
    assert (START, ((0, 2),)) == (first, played.steps)
    assert first == last
    assert len(TOPOLOGY) - 1 == len(between.live)
    assert (name == "outage-and-return") == (between.topology == TOPOLOGY)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_chooses_the_same_nodes_and_another_one_others(name):
    assert make_scenario(name, TOPOLOGY, seed=1) == make_scenario(name, TOPOLOGY, seed=1)
    is_drawn = name != "static" and not name.startswith("add-")
    played = {make_scenario(name, TOPOLOGY, seed=seed).states for seed in range(8)}
    assert is_drawn == (len(played) > 1)


@pytest.mark.parametrize("name", TAKING)
def test_nodes_too_few_for_a_scenario_are_refused(name):
    with pytest.raises(CannotPlace, match=name):
        make_scenario(name, Topology([Node("a", zone=("x",)), Node("b", zone=("x",), weight=0)]), seed=1)


@pytest.mark.parametrize("seed", range(8))
def test_a_node_that_drains_is_never_chosen(seed):
    topology = Topology([Node(name, zone=(name,), weight=int(name not in "bd")) for name in "abcdef"])
    for name in NAMES:
        played = make_scenario(name, topology, seed=seed)
        assert set() == {"b", "d"} & {node_id for state in played.states for node_id in state.down}
        assert {0.0} == {state.topology[each].weight for state in played.states for each in "bd"}


def test_a_scenario_of_another_name_names_the_nearest():
    with pytest.raises(UnknownOption) as caught:
        make_scenario("zone-lost", TOPOLOGY, seed=1)
    assert "zone-loss" == caught.value.nearest


def test_a_change_that_leaves_nobody_is_refused():
    nobody = State(topology=Topology(["a"]), down=frozenset("a"))
    with pytest.raises(CannotPlace, match="scenario lights-out leaves no node"):
        Scenario.change("lights-out", State(topology=Topology(["a"])), nobody)
