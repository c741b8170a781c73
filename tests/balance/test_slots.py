"""Slots are as even as whole numbers allow; no even assignment moves fewer: tried against all of them when small."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Assignment, Node, Slots, Topology, balance, plan
from apportion.errors import InvalidInput, NoNodes
from tests import invariants, twins, worlds

WEIGHTS = st.sampled_from([0, 0.001, 0.5, 1, 1, 1, 2, 3, 7, 1e9])
SMALL_WEIGHTS = st.sampled_from([0, 1, 1, 2, 3, 5])


def topologies(names, weights=WEIGHTS):
    """Draw topologies of some of `names`, of which at least one may own."""
    return (
        st.dictionaries(st.sampled_from(names), weights, min_size=1)
        .filter(lambda drawn: any(drawn.values()))
        .map(lambda drawn: Topology(Node(name, weight=weight) for name, weight in drawn.items()))
    )


def moves(before, after):
    """Count the slots whose owner differs."""
    lists = zip(before.preference_lists.values(), after.preference_lists.values(), strict=True)
    return sum(was[0] != now[0] for was, now in lists)


@given(worlds.owning_topologies, st.integers(1, 300))
def test_a_first_assignment_gives_every_node_the_floor_or_the_ceiling_of_its_share(topology, count):
    invariants.slots_are_even(balance.slots(topology, count=count))


@given(topologies("abcdef"), topologies("abcdef"), st.integers(1, 100))
def test_a_next_assignment_gives_every_node_the_floor_or_the_ceiling_of_its_share(old, new, count):
    invariants.slots_are_even(balance.slots(new, previous=balance.slots(old, count=count)))


@settings(max_examples=150)
@given(topologies("abc", SMALL_WEIGHTS), topologies("abc", SMALL_WEIGHTS), st.data())
def test_no_even_assignment_at_all_moves_fewer_slots(old, new, data):
    rows = data.draw(st.lists(st.integers(0, len(old) - 1), min_size=1, max_size=7))
    before = Assignment(topology=old, rows=tuple((index,) for index in rows))
    after = balance.slots(new, previous=before)
    held = [new.index(old.ids[index]) if old.ids[index] in new else None for index in rows]
    assert twins.fewest_moves(new, held) == moves(before, after)


@given(topologies("abcde"), topologies("abcde"), st.integers(1, 60))
def test_no_even_assignment_moves_fewer_slots_nor_strays_less(old, new, count):
    before = balance.slots(old, count=count)
    invariants.slots_moved_fewest(before, balance.slots(new, previous=before))


@settings(max_examples=200)
@given(topologies("abcde"), topologies("abcde"), st.data())
def test_from_any_assignment_no_even_one_moves_fewer_slots_nor_strays_less(old, new, data):
    rows = data.draw(st.lists(st.integers(0, len(old) - 1), min_size=1, max_size=40))
    before = Assignment(topology=old, rows=tuple((index,) for index in rows))
    invariants.slots_moved_fewest(before, balance.slots(new, previous=before))


def test_a_slot_without_a_cause_to_leave_goes_to_a_new_node_while_others_fill_the_old_ones():
    old = Topology(["a", "b", "d"])
    before = Assignment(topology=old, rows=tuple((old.index(name),) for name in "aaaadd"))
    after = Slots(balance.slots(old.without("d").add("z"), previous=before))
    moves = sorted((move.source, move.target) for move in plan(Slots(before), after).moves)
    assert [("a", "z"), ("d", "b")] == sorted(set(moves))
    assert {"a": 2, "b": 2, "z": 2} == after.assignment.loads


@given(topologies("abcde"), st.integers(1, 60), st.randoms())
def test_an_even_assignment_stays_as_it_is(topology, count, random):
    loads = random.choice(twins.even_loads(topology, count))
    rows = [(index,) for index, load in enumerate(loads) for _ in range(load)]
    random.shuffle(rows)
    before = Assignment(topology=topology, rows=tuple(rows))
    assert before == balance.slots(topology, previous=before)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 200))
def test_with_equal_weights_no_move_is_without_cause(before, after, count):
    names = [f"n{number}" for number in range(6)]
    old = Slots(balance.slots(Topology(names[:before]), count=count))
    new = Slots(balance.slots(Topology(names[:after]), previous=old.assignment))
    invariants.nothing_strays(plan(old, new))


def test_an_extra_slot_goes_to_the_new_node_when_that_costs_no_further_move():
    weights = {"a": 3, "b": 2, "c": 4, "d": 2, "e": 2}
    old = Topology(Node(name, weight=weight) for name, weight in weights.items())
    rows = tuple((old.index(name),) for name in "abccdde")
    before = Assignment(topology=old, rows=rows)
    after = balance.slots(old.add("z"), previous=before)
    assert {"a": 1, "b": 1, "c": 2, "d": 1, "e": 1, "z": 1} == after.loads


def test_a_node_that_lost_weight_gives_before_one_that_did_not():
    weights = {"a": 3, "b": 5, "c": 1, "d": 5}
    old = Topology(Node(name, weight=weight) for name, weight in weights.items())
    before = Assignment(topology=old, rows=tuple((old.index(name),) for name in "aaabbbbbccdddddd"))
    after = balance.slots(old.reweight("a", 2), previous=before)
    assert {"a": 2, "b": 6, "c": 2, "d": 6} == after.loads


def test_a_slot_that_moves_for_no_cause_of_its_owner_goes_to_a_node_that_gained_weight():
    old, new = ({"a": a, "b": 5, "c": c, "d": 0} for a, c in ((1, 3), (2, 1)))
    topologies = [Topology(Node(name, weight=weight) for name, weight in each.items()) for each in (old, new)]
    before = Assignment(topology=topologies[0], rows=((2,), (2,), (3,)))
    invariants.slots_moved_fewest(before, balance.slots(topologies[1], previous=before))


def test_the_slots_of_a_removed_node_are_shared_and_no_other_moves():
    before = balance.slots(Topology(["a", "b", "c", "d"]), count=100)
    after = balance.slots(before.topology.without("b"), previous=before)
    assert 25 == moves(before, after)
    assert [33, 33, 34] == sorted(after.loads.values())


def test_a_drained_node_gives_all_its_slots_away_and_stays_a_source():
    before = Slots(balance.slots(Topology(["a", "b", "c"]), count=99))
    after = Slots(balance.slots(before.topology.drain("b"), previous=before.assignment))
    change = plan(before, after)
    assert 0 == after.assignment.loads["b"]
    assert {"b"} == {move.source for move in change.moves}
    assert 33 == moves(before.assignment, after.assignment)


def test_a_refilled_node_gets_its_share_back_and_only_that_moves():
    before = balance.slots(Topology(["a", "b", Node("c", weight=0)]), count=90)
    after = balance.slots(before.topology.reweight("c", 1), previous=before)
    assert {"a": 30, "b": 30, "c": 30} == after.loads
    assert 30 == moves(before, after)


@given(st.permutations(worlds.NAMES), st.integers(1, 100))
def test_the_order_of_the_nodes_does_not_matter(names, count):
    assert balance.slots(Topology(worlds.NAMES), count=count) == balance.slots(Topology(names), count=count)


@given(topologies("abcd"), st.integers(1, 50))
def test_asking_twice_gives_the_same_answer(topology, count):
    once, twice = balance.slots(topology, count=count), balance.slots(topology, count=count)
    assert once == twice == balance.slots(topology, previous=once)


def test_the_slots_of_a_node_lie_scattered_over_the_circle():
    lists = balance.slots(Topology(["a", "b", "c"])).preference_lists.values()
    leaders = [owners[0] for owners in lists]
    changes = sum(left != right for left, right in pairwise(leaders))
    assert changes > 2000


@pytest.mark.parametrize(("nodes", "slots"), [(1, 4096), (128, 4096), (129, 8192), (257, 16384)])
def test_there_are_at_least_32_slots_for_each_node(nodes, slots):
    topology = Topology([Node("only"), *(Node(f"n{number}", weight=0) for number in range(nodes - 1))])
    assert slots == len(balance.slots(topology).rows)


def test_the_number_of_slots_stays():
    before = balance.slots(Topology(["a"]), count=5)
    assert 5 == len(balance.slots(Topology(["a", "b"]), previous=before).rows)
    assert 5 == len(balance.slots(Topology(["a", "b"]), previous=before, count=5).rows)
    with pytest.raises(InvalidInput, match="count of slots is 6, expected 5, as before"):
        balance.slots(Topology(["a", "b"]), previous=before, count=6)


def test_a_slot_that_nobody_owned_gets_an_owner():
    before = Assignment(topology=Topology(["a"]), rows=((), (0,)))
    assert ((0,), (0,)) == balance.slots(Topology(["a"]), previous=before).rows


def test_fewer_slots_than_nodes_leave_some_nodes_idle():
    loads = balance.slots(Topology("abcde"[i] for i in range(5)), count=2).loads
    assert [0, 0, 0, 1, 1] == sorted(loads.values())


@pytest.mark.parametrize("topology", [Topology(), Topology([Node("a", weight=0)])])
def test_no_owning_node_is_refused(topology):
    with pytest.raises(NoNodes, match="assignment of slots"):
        balance.slots(topology)


@pytest.mark.parametrize("count", [0, -1, 2**24 + 1, 1.0, True, "8"])
def test_a_bad_count_is_refused(count):
    with pytest.raises(InvalidInput, match="count of slots is"):
        balance.slots(Topology(["a"]), count=count)


@pytest.mark.parametrize("topology", [["a"], None, "a"])
def test_a_topology_is_wanted(topology):
    with pytest.raises(InvalidInput, match="topology is"):
        balance.slots(topology)


def test_the_previous_assignment_is_one_and_of_the_same_cluster():
    before = balance.slots(Topology(["a"], cluster="orders"), count=4)
    with pytest.raises(InvalidInput, match="previous is a Slots, expected an Assignment"):
        balance.slots(Topology(["a"], cluster="orders"), previous=Slots(before))
    with pytest.raises(InvalidInput, match="cluster of previous is 'orders', expected 'payments'"):
        balance.slots(Topology(["a"], cluster="payments"), previous=before)
