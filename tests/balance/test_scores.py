"""Scores count what a dumb count counts."""

from collections import Counter
from math import inf
from statistics import pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Assignment, Node, Topology, balance
from apportion.balance import scores
from apportion.errors import InvalidInput
from apportion.model.assignment import Rule

ZONES = {"a": ("x", "1"), "b": ("x", "2"), "c": ("y", "1"), "d": (), "e": ("y", "1")}
NODES = Topology(Node(name, zone=zone) for name, zone in ZONES.items())
lists = st.lists(st.integers(0, 4), max_size=4, unique=True).map(tuple)
assignments = st.lists(lists, min_size=1, max_size=12).map(lambda rows: Assignment(topology=NODES, rows=tuple(rows)))


@given(assignments)
def test_of_equal_weights_the_gap_is_largest_less_smallest_and_the_deviation_the_standard_one(assignment):
    score = scores.evenness(assignment)
    for loads, of in ((assignment.loads, score.replicas), (assignment.leader_loads, score.leaders)):
        counts = list(loads.values())
        assert max(counts) - min(counts) == of.gap
        assert pytest.approx(pstdev(counts)) == of.deviation
        assert (pytest.approx(max(counts) * len(counts) / sum(counts)) if any(counts) else 0) == of.peak_ratio


@settings(max_examples=30)
@given(st.lists(st.sampled_from([1, 2, 3]), min_size=3, max_size=6), st.integers(1, 40), st.integers(1, 2))
def test_what_the_balancer_makes_is_less_than_one_from_its_quota_or_two_in_all(weights, partitions, replicas):
    topology = Topology(Node(f"n{place}", weight=weight) for place, weight in enumerate(weights))
    score = scores.evenness(balance.optimal(partitions, replicas, topology))
    assert score.replicas.gap < 2
    assert score.replicas.deviation < 1


def test_a_node_counts_by_its_weight_and_up_to_all_partitions():
    topology = Topology([Node("a", weight=2), "b", "c"])
    even = scores.evenness(Assignment(topology=topology, rows=((0,), (0,), (1,), (2,))))
    assert scores.LoadScore(gap=0.0, deviation=0.0, peak_ratio=1.0) == even.replicas == even.leaders
    topology = Topology([Node("a", weight=1000), "b", "c"])
    full = scores.evenness(Assignment(topology=topology, rows=((0, 1), (0, 2))))
    assert scores.LoadScore(gap=0.0, deviation=0.0, peak_ratio=1.0) == full.replicas


def test_a_node_that_drains_or_is_down_counts_only_if_it_holds_something():
    topology = Topology(["a", "b", Node("c", weight=0)])
    assert 0 == scores.evenness(Assignment(topology=topology, rows=((0,), (1,)))).replicas.gap
    left = scores.evenness(Assignment(topology=topology, rows=((0,), (1,), (2,)))).replicas
    assert (1.5, inf) == (left.gap, left.peak_ratio)
    down = scores.evenness(Assignment(topology=topology, rows=((0,), (0,)), down=("b",))).replicas
    assert (0, 1) == (down.gap, down.peak_ratio)


@given(assignments, assignments)
def test_moves_are_what_is_received_beyond_growth_and_never_below_the_bound(before, after):
    score = scores.stillness(before, after)
    both = [(before[p], after[p]) for p in after.preference_lists if p in before.preference_lists]
    added = sum(max(0, len(new) - len(old)) for old, new in both)
    assert added == score.added
    assert sum(len(set(new) - set(old)) for old, new in both) - added == score.moved
    gains = [sum((node in new) - (node in old) for old, new in both) for node in NODES.ids]
    assert max(0, sum(max(0, gain) for gain in gains) - added) == score.bound
    assert 0 <= score.bound <= score.moved == score.bound + score.extra
    assert sum(bool(old) and old[:1] != new[:1] for old, new in both) == score.leader_changes


@settings(max_examples=30)
@given(st.integers(4, 7), st.integers(1, 30), st.integers(1, 3))
def test_where_zones_do_not_bind_the_balancer_moves_nothing_extra(nodes, partitions, replicas):
    topology = Topology(f"n{place}" for place in range(nodes))
    before = balance.optimal(partitions, replicas, topology)
    for changed in (topology.without("n0"), topology.add("new")):
        after = balance.optimal(partitions, replicas, changed, previous=before)
        score = scores.stillness(before, after)
        assert 0 == score.extra
        assert balance.verify(after, previous=before).moves == score.moved


@given(assignments, st.sets(st.sampled_from(NODES.ids), max_size=3), st.sampled_from([None, 0, 1]))
def test_the_loss_of_a_zone_leaves_what_is_not_in_it(assignment, down, level):
    assignment = Assignment(topology=NODES, rows=assignment.rows, down=tuple(sorted(down)))
    risk = scores.zone_risk(assignment, spread_level=level)
    alive = [[NODES[node] for node in owners if node not in down] for owners in assignment.preference_lists.values()]
    assert Counter(map(len, alive)) == risk.now
    assert [node.fault_domain(level) for node in NODES if node.id not in "e" + ("b" if level == 0 else "")] == [
        loss.zone for loss in risk.zones
    ]
    for loss in risk.zones:
        left = Counter(sum(node.fault_domain(level) != loss.zone for node in nodes) for nodes in alive)
        assert left == loss.left
        assert left[0] == loss.unavailable <= risk.unavailable
    assert risk.worst in risk.zones


def test_of_losses_that_leave_equally_many_without_a_replica_that_with_most_last_ones_is_worst():
    rows = ((0, 3), (0, 3), (2, 3))
    risk = scores.zone_risk(Assignment(topology=NODES, rows=rows))
    assert (0, "d", {1: 3}) == (risk.unavailable, risk.worst.zone, risk.worst.left)


def test_a_loss_that_leaves_one_without_a_replica_is_worse_than_one_that_leaves_none_so():
    rows = ((0,), (1, 2), (1, 2), (1, 0))
    risk = scores.zone_risk(Assignment(topology=NODES, rows=rows), spread_level=None)
    assert (("x", "1"), {0: 1, 1: 1, 2: 2}) == (risk.worst.zone, risk.worst.left)


def test_zones_are_those_of_the_rule():
    rule = Rule(replicas=2, spread_level=0)
    assignment = Assignment(topology=NODES, rows=((0, 1),), rule=rule)
    assert 1 == scores.zone_risk(assignment).unavailable
    assert 0 == scores.zone_risk(assignment, spread_level=1).unavailable


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: scores.evenness(NODES), "assignment is a Topology, expected an Assignment"),
        (lambda: scores.stillness(None, None), "before is None, expected an Assignment"),
        (lambda: scores.stillness(Assignment(topology=NODES, rows=((0,),)), 1), "after is 1, expected an Assignment"),
        (lambda: scores.zone_risk([]), "assignment is a list, expected an Assignment"),
        (lambda: scores.zone_risk(Assignment(topology=NODES, rows=((0,),)), spread_level=-1), "spread_level is -1"),
        (lambda: scores.zone_risk(Assignment(topology=NODES, rows=((0,),)), spread_level=8), "spread_level is 8"),
        (lambda: scores.zone_risk(Assignment(topology=Topology(), rows=((),))), "nodes of the assignment is 0"),
    ],
)
def test_bad_input_is_refused(call, problem):
    with pytest.raises(InvalidInput, match=problem) as caught:
        call()
    assert caught.value.hint
