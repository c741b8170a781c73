"""Several resources on one cluster: each as good as alone, and all of them together even too."""

from random import Random

import pytest

from apportion import Node, Topology, balance
from apportion.balance import Resource
from apportion.balance.solver.leaders import choose_leaders
from apportion.model.rows import Rows

SHAPES = {
    "five-zones": [Node(f"n{number:02}", zone=(f"z{number % 5}",)) for number in range(30)],
    "unequal-zones": [Node(f"n{number:02}", zone=(f"z{zone}",)) for number, zone in enumerate("00011112222333344444")],
    "large-zone": [Node(f"n{number:02}", zone=(f"z{min(number // 3, 4)}",)) for number in range(20)],
    "no-zones": [Node(f"n{number:02}") for number in range(13)],
    "tiny-zone": [Node(f"n{number:02}", zone=(f"z{min(number, 3)}",)) for number in range(16)],
}


def resources_of(seed, count=12, most=130):
    """Return resources of many sizes, of two or three replicas."""
    random = Random(seed)
    return {f"r{number}": Resource(random.randint(5, most), random.choice([2, 3])) for number in range(count)}


def together(placed):
    """Return what each node holds and leads of all resources."""
    ids = next(iter(placed.values())).topology.ids
    held = {node_id: sum(each.loads[node_id] for each in placed.values()) for node_id in ids}
    led = {node_id: sum(each.leader_loads[node_id] for each in placed.values()) for node_id in ids}
    return held, led


def spread_of(loads, among=None):
    """Return the largest difference of two loads."""
    counted = [load for node_id, load in loads.items() if among is None or node_id in among]
    return max(counted) - min(counted)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_first_assignments_differ_by_two_at_most_over_all_resources(shape, seed):
    topology = Topology(SHAPES[shape])
    placed = balance.optimal_resources(resources_of(seed), topology)
    for assignment in placed.values():
        balance.verify(assignment, topology=topology)
    held, led = together(placed)
    if shape in {"five-zones", "unequal-zones", "no-zones"}:
        assert spread_of(held) <= 2
        assert spread_of(led) <= 2
    else:
        # Zones too small for their share are full in every resource; what is left to choose is even inside each zone.
        own = {zone: [node.id for node in topology if node.zone == zone] for zone in {node.zone for node in topology}}
        assert max(spread_of(held, among) for among in own.values()) <= 2


@pytest.mark.parametrize("shape", ["five-zones", "unequal-zones", "large-zone"])
@pytest.mark.parametrize("seed", range(2))
def test_changes_are_the_smallest_of_each_resource_alone(shape, seed):
    topology, resources = Topology(SHAPES[shape]), resources_of(seed)
    before = balance.optimal_resources(resources, topology)
    changed = topology.without("n03").add(Node("n77", zone=("z3",)), Node("n78", zone=("z4",)))
    after = balance.optimal_resources(resources, changed, previous=before)
    for name, assignment in after.items():
        alone = balance.optimal(resources[name].partitions, resources[name].replicas, changed, previous=before[name])
        balance.verify(assignment, previous=before[name], topology=changed)
        assert alone.certificate.home.moves == assignment.certificate.home.moves
    held, _ = together(after)
    separate = {
        name: balance.optimal(resources[name].partitions, resources[name].replicas, changed, previous=before[name])
        for name in resources
    }
    assert spread_of(held) <= spread_of(together(separate)[0])


def test_the_order_of_resources_and_nodes_does_not_matter():
    resources = resources_of(3, count=6)
    nodes = SHAPES["unequal-zones"]
    backwards = dict(reversed(resources.items()))
    placed = balance.optimal_resources(resources, Topology(nodes))
    assert placed == balance.optimal_resources(backwards, Topology(nodes[::-1]))
    assert sorted(resources) == list(placed)


def test_resources_that_are_even_already_stay_as_they_are():
    resources, topology = resources_of(4, count=6), Topology(SHAPES["five-zones"])
    before = balance.optimal_resources(resources, topology)
    assert before == balance.optimal_resources(resources, topology, previous=before)


def test_an_outage_is_repaired_in_each_resource_and_leaves_no_drift():
    resources, topology = resources_of(5, count=5), Topology(SHAPES["five-zones"])
    before = balance.optimal_resources(resources, topology)
    away = balance.optimal_resources(resources, topology, previous=before, live=topology.ids[2:])
    for name, assignment in away.items():
        balance.verify(assignment, previous=before[name])
        assert before[name].rows == assignment.home
    back = balance.optimal_resources(resources, topology, previous=away)
    assert {name: each.rows for name, each in before.items()} == {name: each.rows for name, each in back.items()}


def test_a_new_resource_goes_where_the_others_are_not():
    topology = Topology(["a", "b", "c", "d"])
    before = {"one": balance.optimal(5, 1, topology)}
    after = balance.optimal_resources({"one": Resource(5, 1), "two": Resource(3, 1)}, topology, previous=before)
    assert before["one"].rows == after["one"].rows
    assert {2} == set(together(after)[0].values())


def test_no_resources_are_no_assignments():
    assert {} == balance.optimal_resources({}, Topology(["a"]))


def test_sizes_and_ids_are_those_of_each_resource():
    resources = {"one": Resource(["x", "y"], 1, sizes={"x": 3, "y": 4}), "two": Resource(2, 2)}
    placed = balance.optimal_resources(resources, Topology(["a", "b"]))
    assert ((3, 4), None) == (placed["one"].sizes, placed["two"].sizes)
    assert (["x", "y"], ["0", "1"]) == (list(placed["one"].preference_lists), list(placed["two"].preference_lists))


@pytest.mark.parametrize(("elsewhere", "leader"), [((1, 0), 1), ((0, 1), 0)])
def test_a_partition_is_led_where_fewer_of_other_resources_are_led(elsewhere, leader):
    assert [leader] == list(choose_leaders(Rows.of([(0, 1)]), [-1], 2, elsewhere)[0])
