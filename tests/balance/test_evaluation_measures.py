"""Each measure equals the count of a slow and simple twin."""

from fractions import Fraction
from itertools import permutations
from statistics import pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Assignment, Node, Topology
from apportion.balance.evaluation import Movement, Placed, State, gain, measured, movement
from apportion.model.assignment import Rule

NODES = 7
RESOURCES = {"orders": 12, "users": 9}


def topology_of(weights):
    return Topology([Node(f"n{place}", zone=(f"z{place % 3}",), weight=weight) for place, weight in enumerate(weights)])


def placed_of(state, rows):
    """Return a placement of two resources from lists of indexes."""
    resources, listed = {}, list(rows)
    for name, count in RESOURCES.items():
        own, listed = listed[:count], listed[count:]
        resources[name] = Assignment(
            topology=state.topology,
            rows=tuple(tuple(row) for row in own),
            names=tuple(f"{name}_{number}" for number in range(count)),
            rule=Rule(replicas=3, spread="best-effort"),
        )
    return Placed(resources=resources)


ROWS = st.lists(
    st.lists(st.integers(0, NODES - 1), min_size=1, max_size=3, unique=True),
    min_size=sum(RESOURCES.values()),
    max_size=sum(RESOURCES.values()),
)
WEIGHTS = st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=NODES, max_size=NODES)


def apart(loads, weights):
    """Return how far each load is from its share by weight."""
    whole = Fraction(sum(weights))
    return [load - sum(loads) * Fraction(weight) / whole for load, weight in zip(loads, weights, strict=True)]


def counted(rows, weights, *, of_leaders):
    loads = [sum(node in (row[:1] if of_leaders else row) for row in rows) for node in range(NODES)]
    return apart(loads, weights)


@settings(max_examples=30)
@given(ROWS, WEIGHTS)
def test_evenness_is_that_of_the_twin(rows, weights):
    shares = [3 * 21 * Fraction(weight) / Fraction(sum(weights)) for weight in weights]
    if max(shares) > 9:  # a node holds a partition once: then shares are filled up like water, see test_quotas
        weights = [1.0] * NODES
    state = State(topology=topology_of(weights))
    found = measured(placed_of(state, rows), state)
    parts = [rows[:12], rows[12:]]
    for what, of_leaders in (("partitions", False), ("leaders", True)):
        whole = counted(rows, weights, of_leaders=of_leaders)
        each = [counted(part, weights, of_leaders=of_leaders) for part in parts]
        assert getattr(found, what).deviation == pytest.approx(pstdev(map(float, whole)))
        assert getattr(found, what).gap == pytest.approx(float(max(whole) - min(whole)))
        deviations = [pstdev(map(float, part)) for part in each]
        assert getattr(found, f"{what}_deviation_each") == pytest.approx(sum(deviations) / 2)
        assert getattr(found, f"{what}_gap_each") == pytest.approx(max(float(max(p) - min(p)) for p in each))
    assert sum(len(row) < 3 or len({node % 3 for node in row}) < 3 for row in rows) == found.lacking


def uncaused(before, after, came, went):
    """Return the least number of moves without a cause, over every way to pair lost with gained replicas."""
    gained, lost = [n for n in after if n not in before], [n for n in before if n not in after]
    if len(gained) < len(lost):
        ways = ([*zip(chosen, gained, strict=True)] for chosen in permutations(lost, len(gained)))
    else:
        ways = ([*zip(lost, chosen, strict=True)] for chosen in permutations(gained, len(lost)))
    return min(sum(source not in went and target not in came for source, target in way) for way in ways)


@settings(max_examples=60)
@given(ROWS, ROWS, st.sets(st.integers(0, NODES - 1), max_size=3), st.sets(st.integers(0, NODES - 1), max_size=3))
def test_movement_is_that_of_the_twin(rows, rows_after, down, down_after):
    topology = topology_of([1.0] * NODES)
    states = [State(topology=topology, down=frozenset(f"n{n}" for n in each)) for each in (down, down_after)]
    came, went = down - down_after, down_after - down
    found = movement((placed_of(states[0], rows), states[0]), (placed_of(states[1], rows_after), states[1]))
    pairs = [*zip(rows, rows_after, strict=True)]
    changed = [(old[0], new[0]) for old, new in pairs if old[0] != new[0]]
    expected = {
        "replicas": sum(map(len, rows)),
        "partitions": len(rows),
        "moved": sum(len(set(new) - set(old)) - max(0, len(new) - len(old)) for old, new in pairs),
        "extra": sum(uncaused(old, new, came, went) for old, new in pairs),
        "leader_changes": len(changed),
        "extra_leader_changes": sum(old not in went and new not in came for old, new in changed),
    }
    assert expected == {name: getattr(found, name) for name in expected}
    assert found.bound <= found.moved


def test_a_change_of_weight_is_a_cause_on_the_side_that_it_favours():
    before, after = (State(topology=topology_of([weight] + [1.0] * (NODES - 1))) for weight in (1.0, 2.0))
    start, end = [[1]] * 21, [[0]] * 21
    to_heavier = movement((placed_of(before, start), before), (placed_of(after, end), after))
    from_heavier = movement((placed_of(before, end), before), (placed_of(after, start), after))
    assert (21, 0, 0) == (to_heavier.moved, to_heavier.extra, to_heavier.extra_leader_changes)
    assert (21, 21, 21) == (from_heavier.moved, from_heavier.extra, from_heavier.extra_leader_changes)


def test_movements_add_up_and_nothing_moved_is_zero():
    one = Movement(replicas=10, partitions=5, moved=4, extra=3, bound=2, leader_changes=2, extra_leader_changes=1)
    assert (0.4, 0.3, 0.2, 0.4, 0.2) == (
        (one + one).moved_ratio,
        one.extra_ratio,
        one.bound_ratio,
        one.leader_ratio,
        one.extra_leader_ratio,
    )
    assert 0.0 == Movement().moved_ratio == Movement().extra_leader_ratio
    assert Movement() + one == one


def test_a_gain_over_nothing_is_none():
    assert (None, 0.75, -1.0) == (gain(1.0, 0.0), gain(1.0, 4.0), gain(2.0, 1.0))


def test_a_list_lacks_where_it_is_shorter_than_nodes_allow_or_leaves_a_zone_free():
    topology = Topology([Node(name, zone=(zone,)) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))])
    rows = ((0, 1, 2), (0, 2), (0, 1), (2,))
    assignment = Assignment(topology=topology, rows=rows, rule=Rule(replicas=3, spread="best-effort"))
    placed = Placed(resources={"r": assignment})
    assert 3 == measured(placed, State(topology=topology)).lacking
    assert 2 == measured(placed, State(topology=topology, down=frozenset("b"))).lacking


def test_a_replica_on_a_node_that_is_down_is_lacking():
    topology = Topology([Node(name, zone=(name,)) for name in "abc"])
    assignment = Assignment(topology=topology, rows=((0, 1), (0, 2)), rule=Rule(replicas=2))
    placed = Placed(resources={"r": assignment})
    assert [0, 1] == [measured(placed, State(topology=topology, down=frozenset(each))).lacking for each in ("", "b")]


def test_without_a_rule_the_longest_list_tells_how_many_replicas_were_asked_for():
    topology = Topology([Node(name, zone=(name,)) for name in "abc"])
    placed = Placed(resources={"r": Assignment(topology=topology, rows=((0, 1), (2,)))})
    assert 1 == measured(placed, State(topology=topology)).lacking
