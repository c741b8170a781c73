"""A plan between two assignments counts partitions, and agrees with what the balancer proves."""

import pytest

from apportion import Assignment, Plan, Ring, Slots, Topology, apply, balance, encode, plan
from apportion.errors import InvalidInput, PlanRefused

TOPOLOGY = Topology(["a", "b", "c"])
BEFORE = balance.optimal(12, 2, TOPOLOGY)
AFTER = balance.optimal(12, 2, TOPOLOGY.add("d"), previous=BEFORE)
CHANGE = plan(BEFORE, AFTER)


def test_its_moves_are_those_of_the_assignments_and_as_few_as_proven():
    assert AFTER.moves_from(BEFORE) == CHANGE.moves
    assert balance.verify(AFTER, previous=BEFORE).moves == len(CHANGE.moves) == 6
    assert (6 / 24, 6 / 24) == (CHANGE.moved_ratio, CHANGE.lower_bound_ratio)
    assert (BEFORE.epoch, AFTER.epoch, True) == (CHANGE.before, CHANGE.after, CHANGE.is_pending)


def test_its_words_speak_of_replicas_and_partitions():
    words = (
        f"plan: 25.00% of the 24 replicas move (bound 25.00%), {len(CHANGE.changes)} of 12 partitions, 3 -> 4 nodes, "
    )
    assert str(CHANGE).startswith(words)


def test_its_nodes_gain_and_give():
    assert 0.25 == CHANGE.per_node["d"].gained_ratio == CHANGE.per_node["d"].after_ratio
    assert 0.25 == sum(CHANGE.per_node[node_id].lost_ratio for node_id in "abc")


def test_nothing_changes_between_an_assignment_and_itself():
    assert ((), False) == (plan(AFTER, AFTER).changes, plan(AFTER, AFTER).is_pending)


def test_a_new_partition_is_a_copy_and_a_dropped_one_moves_nothing():
    more = balance.optimal(13, 2, TOPOLOGY, previous=BEFORE)
    sources = {move.source for change in [plan(BEFORE, more)] for move in change.moves if move.item == "12"}
    assert {None} == sources
    assert "12" not in {move.item for move in plan(more, BEFORE).moves}


@pytest.mark.parametrize(
    ("old", "new", "options", "says"),
    [
        (BEFORE, Ring(TOPOLOGY), {}, "an Assignment on both sides"),
        (Slots(balance.slots(TOPOLOGY)), BEFORE, {}, "slots.assignment"),
        (BEFORE, None, {}, "new is None"),
        (BEFORE, AFTER, {"keys": ["k"]}, "no value, with assignments"),
        (BEFORE, AFTER, {"replicas": 2}, "no value, with assignments"),
        (BEFORE, Assignment(topology=Topology(["a"], cluster="x"), rows=((0,),)), {}, "cluster"),
    ],
)
def test_what_cannot_be_compared_is_refused(old, new, options, says):
    with pytest.raises(InvalidInput, match=says):
        plan(old, new, **options)


def test_it_is_neither_saved_nor_applied_to_a_table():
    with pytest.raises(InvalidInput, match="exact plan"):
        encode(CHANGE)
    with pytest.raises(PlanRefused):
        apply(CHANGE, Ring(TOPOLOGY).table())
    assert isinstance(CHANGE, Plan)
