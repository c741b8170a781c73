"""`optimal` on clusters of a usual size: even, still and safe when nodes come, go, rest, drain and change weight."""

import os
import subprocess
import sys
from fractions import Fraction
from random import Random

import pytest

from apportion import Node, Topology, balance
from apportion.errors import InvalidInput, NotEnoughNodes
from tests import invariants
from tests.balance import lists

FIFTY = [Node(f"n{number:02}", zone=(f"z{number % 5}",)) for number in range(50)]
NEW = [Node(f"n{number:02}", zone=(f"z{number % 5}",)) for number in range(50, 60)]
REPLICAS = 3000


@pytest.fixture(scope="module")
def before():
    """Return 1000 partitions of three replicas each on fifty nodes in five zones."""
    return balance.optimal(1000, 3, Topology(FIFTY))


def spread_of(loads):
    """Return the largest difference of two loads."""
    return max(loads) - min(loads)


def check(after, previous=None, *, up=None):
    """Hold an assignment to what every one promises; return its moves."""
    verdict = balance.verify(after, previous=previous, topology=after.topology)
    invariants.lists_are_spread(after, up)
    return verdict.moves


def test_a_first_assignment_is_even_and_so_are_its_leaders(before):
    check(before)
    assert {60} == set(before.loads.values())
    assert {20} == set(before.leader_loads.values())


@pytest.mark.parametrize(("new", "moves"), [(1, 58), (5, 270), (10, 500)])
def test_an_expansion_moves_what_the_new_nodes_get_and_nothing_else(before, new, moves):
    after = balance.optimal(1000, 3, before.topology.add(*NEW[:new]), previous=before)
    assert moves == check(after, before) == len(after.moves_from(before))
    assert {1: "1.93", 5: "9.00", 10: "16.67"}[new] == f"{100 * moves / REPLICAS:.2f}"
    assert {target.target for target in after.moves_from(before)} == {node.id for node in NEW[:new]}
    assert spread_of(after.loads.values()) <= 1
    assert spread_of(after.leader_loads.values()) <= 1
    bound = 1000 * new / (50 + new)
    assert after.certificate.home.leader_changes <= bound + 30


@pytest.mark.parametrize("new", [1, 5, 10])
def test_an_expansion_of_any_numbers_moves_its_lower_bound(new):
    previous = balance.optimal(512, 2, Topology(f"n{number:02}" for number in range(30)))
    after = balance.optimal(
        512, 2, previous.topology.add(*(f"n{number}" for number in range(30, 30 + new))), previous=previous
    )
    gained = sum(max(0, load - previous.loads.get(node_id, 0)) for node_id, load in after.loads.items())
    assert gained == check(after, previous)


@pytest.mark.parametrize(("down", "percent"), [(1, 2), (2, 4), (5, 10)])
@pytest.mark.parametrize("seed", range(2))
def test_an_outage_moves_what_was_on_the_nodes_that_are_down_and_home_waits(before, down, percent, seed):
    rest = Random(seed).sample(before.topology.ids, down)
    up = [node_id for node_id in before.topology.ids if node_id not in rest]
    after = balance.optimal(1000, 3, before.topology, previous=before, live=up)
    check(after, before, up=up)
    assert 0 == after.certificate.home.moves
    assert REPLICAS * percent // 100 == after.certificate.current.moves == len(after.moves_from(before))
    assert spread_of([after.loads[node_id] for node_id in up]) <= 1
    assert spread_of([after.leader_loads[node_id] for node_id in up]) <= 1
    assert after.certificate.current.leader_changes <= 10 * percent + 30
    assert before.rows == after.home
    back = balance.optimal(1000, 3, before.topology, previous=after)
    assert (before.rows, before.rows, 0) == (back.rows, back.home_rows, back.certificate.home.moves)


def test_a_rolling_restart_of_twenty_nodes_leaves_no_drift_and_each_step_is_minimal(before):
    current = before
    for resting in Random(7).sample(before.topology.ids, 20):
        up = [node_id for node_id in before.topology.ids if node_id != resting]
        current = balance.optimal(1000, 3, before.topology, previous=current, live=up)
        assert (0, 60) == (current.certificate.home.moves, current.certificate.current.moves)
        assert spread_of([current.loads[node_id] for node_id in up]) <= 1
    back = balance.optimal(1000, 3, before.topology, previous=current)
    assert before.rows == back.rows == back.home_rows


def test_a_node_gone_for_good_moves_what_it_held(before):
    after = balance.optimal(1000, 3, before.topology.without("n07"), previous=before)
    assert 60 == check(after, before)
    assert spread_of(after.loads.values()) <= 1


def test_a_node_that_drains_holds_nothing_and_stays_a_source(before):
    after = balance.optimal(1000, 3, before.topology.drain("n07"), previous=before)
    assert 60 == check(after, before)
    assert (0, 0) == (after.loads["n07"], after.leader_loads["n07"])
    assert {"n07"} == {move.source for move in after.moves_from(before)}


def test_input_that_is_even_already_stays_as_it_is(before):
    again = balance.optimal(1000, 3, before.topology, previous=before)
    assert before == again
    assert (0, 0) == (again.certificate.home.moves, again.certificate.home.leader_changes)


def test_a_node_gone_during_an_outage_of_another_does_not_wake_that_one(before):
    topology = before.topology.without("n11")
    up = [node_id for node_id in topology.ids if node_id != "n22"]
    away = balance.optimal(1000, 3, before.topology, previous=before, live=[*up, "n11"])
    after = balance.optimal(1000, 3, topology, previous=away, live=up)
    check(after, away, up=up)
    assert 0 == after.loads["n22"]
    assert 60 == after.certificate.home.moves
    back = balance.optimal(1000, 3, topology, previous=after)
    direct = balance.optimal(1000, 3, topology, previous=before)
    assert direct.rows == after.home == back.rows


def weighted(seed):
    """Return a topology of weighted nodes in zones of unequal size, its zones safe for three replicas."""
    random = Random(seed)
    return Topology(
        Node(f"n{number:02}", zone=(f"z{number % 5}",), weight=random.choice([0.5, 1, 1, 2, 3])) for number in range(24)
    )


def quotas_of(topology, partitions, replicas):
    """Return the exact quota of each node."""
    return lists.shares([node.millionths for node in topology], partitions, replicas)


@pytest.mark.parametrize("seed", range(6))
def test_every_load_is_the_floor_or_the_ceiling_of_its_quota_and_reweighting_moves_what_that_needs(seed):
    topology = weighted(seed)
    first = balance.optimal(200, 3, topology)
    changed = topology.reweight("n03", 4).reweight("n08", 0.7)
    after = balance.optimal(200, 3, changed, previous=first)
    for assignment, on in ((first, topology), (after, changed)):
        quotas = quotas_of(on, 200, 3)
        assert all(abs(load - quota) < 1 for load, quota in zip(assignment.loads.values(), quotas, strict=True))
    # A node that held h and may hold the floor f or f + 1 loses max(0, h - f), or one less; the ones are shared out.
    floors = [quota.__floor__() for quota in quotas]
    held = list(first.loads.values())
    extras = 600 - sum(floors)
    saves = sum(load > floor for load, floor, quota in zip(held, floors, quotas, strict=True) if quota != floor)
    needed = sum(max(0, load - floor) for load, floor in zip(held, floors, strict=True)) - min(saves, extras)
    assert needed == check(after, first)


@pytest.mark.parametrize("weight", [1e-6, 1e9])
def test_a_weight_far_from_the_others_counts_exactly(weight):
    topology = Topology([Node("a", weight=weight), "b", "c", "d"])
    assignment = balance.optimal(100, 2, topology)
    check(assignment)
    quotas = quotas_of(topology, 100, 2)
    assert all(abs(load - quota) < 1 for load, quota in zip(assignment.loads.values(), quotas, strict=True))


def test_the_order_of_nodes_partitions_sizes_and_live_does_not_matter():
    random = Random(3)
    nodes, partitions = [*weighted(1).nodes], [f"p{number}" for number in range(60)]
    up = [node.id for node in nodes[3:]]
    sizes = {partition: len(partition) for partition in partitions}
    asked = balance.optimal(partitions, 3, Topology(nodes), live=up, sizes=sizes)
    for _ in range(3):
        for each in (nodes, partitions, up):
            random.shuffle(each)
        listed = [sizes[partition] for partition in partitions]
        again = balance.optimal(iter(partitions), 3, Topology(nodes), live=iter(up), sizes=listed)
        assert asked == again
        assert asked.certificate == again.certificate


PRINTED = """
from apportion import Node, Topology, balance
nodes = [Node(f"n{n}", zone=(f"z{n % 4}",), weight=1 + n % 3) for n in range(13)]
before = balance.optimal([f"p{n}" for n in range(70)], 3, Topology(nodes))
asked, up = {f"p{n}" for n in range(5, 80)}, {"n3", "n5", "n6", "n8"}
after = balance.optimal(asked, 2, Topology(nodes[2:]), previous=before, live=up)
print(before.epoch.digest, after.epoch.digest, after.certificate)
"""


@pytest.mark.slow
def test_every_process_gives_the_same_answer_whatever_its_hash_seed():
    answers = {
        subprocess.run(
            [sys.executable, "-c", PRINTED], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert 1 == len(answers)


def test_ids_that_are_ints_mean_their_digits():
    topology = Topology(["a", "b", "c"])
    assert balance.optimal(12, 2, topology) == balance.optimal([*range(11, 3, -1), "0", 1, "2", 3], 2, topology)
    assert ("7", "-1", "10") == balance.optimal(["10", -1, 7], 1, topology).names


def test_partitions_come_in_the_order_of_length_then_letters():
    names = balance.optimal(["b", "aa", "a", 10, 9, -1], 1, Topology(["a"])).names
    assert ("9", "a", "b", "-1", "10", "aa") == names


def test_sizes_go_by_id_or_by_the_order_given():
    topology = Topology(["a", "b"])
    assert 7 == balance.optimal(["x", "y"], 1, topology, sizes={"y": 5, "x": 7}).size("x")
    assert 7 == balance.optimal(["y", "x"], 1, topology, sizes=[5, 7]).size("x")
    assert (4, 6) == balance.optimal(2, 1, topology, sizes={1: 6, 0: 4}).sizes
    assert (4, 6) == balance.optimal([1, 0], 1, topology, sizes=[6, 4]).sizes


@pytest.mark.parametrize(("replicas", "moves"), [(4, 0), (2, 0)])
def test_more_or_fewer_replicas_move_nothing_that_need_not(before, replicas, moves):
    after = balance.optimal(1000, replicas, before.topology, previous=before)
    assert moves == check(after, before)
    kept = zip(before.preference_lists.values(), after.preference_lists.values(), strict=True)
    assert all(set(old) <= set(new) or set(new) <= set(old) for old, new in kept)
    assert spread_of(after.leader_loads.values()) <= 1


def test_partitions_that_are_new_start_somewhere_and_those_dropped_are_forgotten(before):
    asked = [str(number) for number in range(100, 1100)]
    after = balance.optimal(asked, 3, before.topology, previous=before)
    check(after, before)
    assert asked == list(after.preference_lists)
    assert {60} == set(after.loads.values())
    # 900 partitions stay, of which nodes that gave up fewer than they hold too many of must pass some on.
    surplus = sum(
        max(0, sum(node in after.topology.ids and node in before[each] for each in asked[:900]) - 60)
        for node in before.topology.ids
    )
    assert surplus == after.certificate.home.moves


def test_best_effort_names_each_partition_that_is_not_spread():
    topology = Topology([Node("a", zone=("z",)), Node("b", zone=("z",)), Node("c", zone=("y",))])
    with pytest.raises(NotEnoughNodes, match="3 replicas wanted in distinct zones, 2 eligible"):
        balance.optimal(4, 3, topology)
    crowded = balance.optimal(4, 3, topology, spread="best-effort")
    check(crowded)
    assert dict.fromkeys("0123", "3 replicas in 2 zones") == crowded.degraded
    short = balance.optimal(4, 3, topology, spread="best-effort", live=["a", "c"])
    assert dict.fromkeys("0123", "2 of 3 replicas") == short.degraded
    check(short, up=["a", "c"])
    assert {} == balance.optimal(4, 2, topology, spread="best-effort").degraded


def test_zones_are_compared_down_to_a_level():
    topology = Topology(Node(f"n{number}", zone=(f"d{number % 2}", f"r{number}")) for number in range(6))
    deep = balance.optimal(30, 3, topology)
    assert {} == deep.degraded
    with pytest.raises(NotEnoughNodes, match="in distinct zones"):
        balance.optimal(30, 3, topology, spread_level=0)
    outer = balance.optimal(30, 2, topology, spread_level=0, previous=deep)
    check(outer, deep)
    assert all(
        {"d0", "d1"} == {topology[owner].zone[0] for owner in owners} for owners in outer.preference_lists.values()
    )


def test_a_zone_of_one_node_holds_one_replica_of_every_partition_that_has_no_other_way():
    topology = Topology(
        [Node("alone", zone=("x",)), *(Node(f"n{number}", zone=(f"z{number % 2}",)) for number in range(6))]
    )
    assignment = balance.optimal(40, 3, topology)
    check(assignment)
    assert 40 == assignment.loads["alone"]
    assert spread_of([load for node_id, load in assignment.loads.items() if node_id != "alone"]) <= 1


@pytest.mark.parametrize("seed", range(4))
def test_from_any_lists_loads_get_even_with_the_fewest_moves(seed):
    random = Random(seed)
    topology = weighted(seed)
    rows = tuple(tuple(random.sample(range(24), random.randint(0, 4))) for _ in range(150))
    previous = balance.slots(topology, count=150)
    previous = type(previous)(topology=topology, rows=rows)
    after = balance.optimal(150, 3, topology.without("n05"), previous=previous)
    check(after, previous)
    assert sum(Fraction(load) for load in after.loads.values()) == 450


@pytest.mark.parametrize(
    ("nodes", "zones", "partitions", "replicas"), [(6, 3, 100, 3), (9, 3, 999, 3), (10, 5, 200, 5)]
)
def test_a_node_that_joins_costs_few_leaders_beyond_those_it_gets(nodes, zones, partitions, replicas):
    before = balance.optimal(
        partitions, replicas, Topology(Node(f"n{place}", zone=(f"z{place % zones}",)) for place in range(nodes))
    )
    after = balance.optimal(partitions, replicas, before.topology.add(Node("new", zone=("z0",))), previous=before)
    needed = sum(max(0, led - before.leader_loads.get(node_id, 0)) for node_id, led in after.leader_loads.items())
    assert needed <= after.certificate.home.leader_changes <= needed + 0.03 * partitions


def test_sizes_known_from_before_stay_and_new_partitions_need_theirs():
    topology = Topology(["a", "b", "c"])
    before = balance.optimal(["p", "q"], 2, topology, sizes={"p": 500, "q": 700})
    assert (500, 700) == balance.optimal(["p", "q"], 2, topology, previous=before).sizes
    assert (500, 9) == balance.optimal(["p", "q"], 2, topology, previous=before, sizes={"q": 9}).sizes
    assert (700, 1) == balance.optimal(["q", "r"], 2, topology, previous=before, sizes={"r": 1}).sizes
    with pytest.raises(InvalidInput, match="sizes is \"without 'r'\", expected one for each partition"):
        balance.optimal(["q", "r"], 2, topology, previous=before)


def test_a_size_given_by_number_replaces_the_one_known_from_before():
    topology = Topology(["a", "b"])
    before = balance.optimal(2, 1, topology, sizes=[5, 7])
    assert (5, 9) == balance.optimal(2, 1, topology, previous=before, sizes={1: 9}).sizes
