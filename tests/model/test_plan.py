"""A plan says what moves, why, how much had to, and cannot contradict itself."""

from fractions import Fraction

import pytest
from hypothesis import given

from apportion import Jump, KeyRange, Node, Plan, Table, Topology, plan
from apportion.errors import InvalidInput
from apportion.model import Change, Move
from tests import twins, worlds
from tests.worlds import table_of

ABC = Topology(["a", "b", "c"])
HALF = 2**63
END = 2**64


def plan_of(before, after, old=ABC, new=None):
    """Return the plan between two tables that are one stretch each, so that there is one change."""
    return plan(table_of([(0, before)], old), table_of([(0, after)], new or old))


def moves_of(change):
    return [(move.source, move.target) for move in change.moves]


@given(worlds.tables(), worlds.tables())
def test_moved_is_never_below_the_lower_bound(old, new):
    change = plan(old, new)
    assert change.lower_bound_ratio <= change.moved_ratio


@given(worlds.tables(), worlds.tables())
def test_what_nodes_gain_is_what_moves(old, new):
    change = plan(old, new)
    assert change.moved_ratio == pytest.approx(sum(node.gained_ratio for node in change.per_node.values()))
    assert sorted({*old.topology.ids, *new.topology.ids}) == list(change.per_node)


@given(worlds.tables(), worlds.tables())
def test_the_moves_of_a_change_turn_its_old_owners_into_its_new_ones(old, new):
    for change in plan(old, new).changes:
        moves = [move for move in plan(old, new).moves if move.item == change.item]
        sources = {move.source for move in moves} - {None}
        targets = {move.target for move in moves} - {None}
        assert (set(change.before) - set(change.after), set(change.after) - set(change.before)) == (sources, targets)


@given(worlds.tables(), worlds.tables())
def test_ratios_are_those_of_the_dumb_twin(old, new):
    change = plan(old, new)
    led = sum(end - start for start, end, before, after in twins.stretches(old, new) if before[0] != after[0])
    assert float(twins.moved_ratio(old, new)) == change.moved_ratio
    assert float(Fraction(led, END)) == change.leader_moved_ratio


def test_lost_and_gained_owners_pair_in_the_same_zone_first():
    nodes = [Node("a", zone=("eu",)), Node("b", zone=("us",)), Node("c", zone=("us",)), Node("d", zone=("eu",))]
    assert [("a", "d"), ("b", "c")] == moves_of(plan_of(("a", "b"), ("c", "d"), Topology(nodes)))


def test_lost_and_gained_owners_of_no_common_zone_pair_by_id():
    topology = Topology(["a", "b", "c", "d"])
    assert [("a", "c"), ("b", "d")] == moves_of(plan_of(("b", "a"), ("d", "c"), topology))


def test_the_zone_of_a_source_is_that_of_before_and_of_a_target_that_of_after():
    old = Topology([Node("a", zone=("eu",)), "b", "c", "d"])
    new = Topology(["b", Node("c", zone=("us",)), Node("d", zone=("eu",))])
    assert [("a", "d"), ("b", "c")] == moves_of(plan_of(("a", "b"), ("c", "d"), old, new))


def test_an_owner_that_stays_never_moves():
    assert [("a", "c")] == moves_of(plan_of(("a", "b"), ("b", "c")))


def test_a_longer_row_makes_a_copy_and_a_shorter_one_drops_it():
    more, less = plan_of(("a",), ("a", "b")), plan_of(("a", "b"), ("b",))
    assert [(None, "b")] == moves_of(more)
    assert [("a", None)] == moves_of(less)
    assert (0.5, 0.0) == (more.moved_ratio, less.moved_ratio)
    assert (0.0, 0.0) == (more.stray_ratio, less.stray_ratio)


@pytest.mark.parametrize(
    ("cause", "new", "strays"),
    [
        ("nothing changed", ABC, True),
        ("the source left", ABC.without("a"), False),
        ("the source drains", ABC.drain("a"), False),
        ("the source lost weight", ABC.reweight("a", 0.5), False),
        ("the source gained weight", ABC.reweight("a", 2), True),
        ("the target gained weight", ABC.reweight("b", 2), False),
        ("the target lost weight", ABC.reweight("b", 0.5), True),
        ("a third node left", ABC.without("c"), True),
        ("a third node came", ABC.add("d"), True),
    ],
)
def test_a_move_is_stray_unless_its_source_shrank_or_its_target_grew(cause, new, strays):
    before = table_of([(0, ("a",)), (HALF, ("b",))], ABC)
    after = table_of([(0, ("b",))], new)
    assert (0.5 if strays else 0.0) == plan(before, after).stray_ratio, cause


def test_a_move_to_a_new_node_is_not_stray():
    assert 0.0 == plan_of(("a",), ("d",), ABC, ABC.add("d")).stray_ratio


def test_the_fair_bound_is_the_share_that_weights_ask_for():
    assert 0.25 == plan_of(("a",), ("a",), ABC, ABC.add("d")).fair_bound_ratio
    assert pytest.approx(1 / 3) == plan_of(("a",), ("a",), ABC, ABC.without("b")).fair_bound_ratio
    assert 0.0 == plan_of(("a",), ("b",)).fair_bound_ratio
    assert pytest.approx(2 / 5 - 1 / 3) == plan_of(("a",), ("a",), ABC, ABC.reweight("c", 4 / 3)).fair_bound_ratio


def test_nodes_that_all_drain_ask_for_nothing_and_nodes_after_them_for_everything():
    drained = Topology(Node(name, weight=0) for name in ABC.ids)
    assert 0.0 == plan_of(("a",), ("a",), ABC, drained).fair_bound_ratio
    assert 1.0 == plan_of(("a",), ("a",), drained, ABC).fair_bound_ratio


def test_shares_and_gains_of_a_node_are_ratios_of_the_whole():
    before = table_of([(0, ("a",)), (HALF, ("b",))], ABC)
    after = table_of([(0, ("a",)), (HALF // 2, ("c",)), (HALF, ("b",))], ABC)
    nodes = plan(before, after).per_node
    assert (0.5, 0.25, 0.0, 0.25) == (
        nodes["a"].before_ratio, nodes["a"].after_ratio, nodes["a"].gained_ratio, nodes["a"].lost_ratio,
    )  # fmt: skip
    assert (0.0, 0.25, 0.25, 0.0) == (
        nodes["c"].before_ratio, nodes["c"].after_ratio, nodes["c"].gained_ratio, nodes["c"].lost_ratio,
    )  # fmt: skip


def test_a_plan_is_pending_when_only_the_topology_differs():
    same = plan_of(("a",), ("a",))
    assert not same.is_pending
    assert not plan_of(("a",), ("a",), ABC, Topology(["a", "b", "c"], number=5)).is_pending
    assert plan_of(("a",), ("a",), ABC, ABC.add("d")).is_pending


def test_a_plan_prints_one_stable_line():
    before = table_of([(0, ("a",)), (HALF, ("b",))], ABC)
    change = plan(before, table_of([(0, ("a",)), (HALF, ("d",))], ABC.add("d")))
    expected = (
        "plan: 50.00% of the key space moves (bound 50.00%, fair 25.00%), stray 0.00%, 1 ranges, 3 -> 4 nodes, "
        f"epoch {change.before} -> {change.after}"
    )
    assert expected == str(change)


def test_a_move_prints_its_range_source_and_target():
    assert "[0000000000000000, 0000000000000005) a -> b" == str(Move(KeyRange(0, 5), "a", "b", 5))
    assert "'k' (new copy) -> b" == str(Move("k", None, "b", 1))
    assert "'k' a -> (dropped)" == str(Move("k", "a", None, 1))


def _members(**changed):
    change = plan_of(("a",), ("b",))
    names = ("before", "after", "old", "new", "hasher", "exact", "changes", "span", "widths_before", "widths_after")
    return {name: getattr(change, name) for name in names} | changed


@pytest.mark.parametrize(
    "changed",
    [
        {"span": 0},
        {"span": -1},
        {"span": True},
        {"widths_before": {}},
        {"widths_after": {"a": 0, "b": 0, "c": 0}},
        {"widths_after": {"a": 1, "b": 1, "z": 1}},
        {"changes": (Change(KeyRange(0, 5), ("z",), ("a",)),)},
        {"changes": (Change(KeyRange(0, 5), ("a",), ("a", "a")),)},
        {"changes": (Change(KeyRange(0, 5), ("a",), ("b",)), Change(KeyRange(4, 6), ("a",), ("b",)))},
        {"changes": (Change(KeyRange(5, 9), ("a",), ("b",)), Change(KeyRange(0, 5), ("a",), ("b",)))},
        {"changes": (Change("key", ("a",), ("b",)),)},
    ],
    ids=str,
)
def test_a_plan_that_contradicts_itself_cannot_exist(changed):
    assert Plan(**_members())
    with pytest.raises(InvalidInput, match="plan"):
        Plan(**_members(**changed))


def test_what_goes_and_comes_is_paired_by_whole_zone_paths():
    topology = Topology(
        [
            Node("a", zone=("eu", "r1")),
            Node("b", zone=("eu", "r2")),
            Node("x", zone=("eu", "r2")),
            Node("y", zone=("eu", "r1")),
        ]
    )
    rows = {
        name: ((topology.index(one), topology.index(two)),) for name, one, two in (("old", "a", "b"), ("new", "x", "y"))
    }
    old, new = (Table(topology=topology, hasher="xxh3-64", starts=(0,), rows=rows[name]) for name in ("old", "new"))
    assert [("a", "y"), ("b", "x")] == [(move.source, move.target) for move in plan(old, new).moves]


def test_shares_before_are_of_what_was_owned_before():
    topology = Topology(["a", "b"])
    old, new = (Table(topology=topology, hasher="xxh3-64", starts=(0,), rows=rows) for rows in (((0,),), ((0, 1),)))
    per_node = plan(old, new).per_node
    assert (1.0, 0.5) == (per_node["a"].before_ratio, per_node["a"].after_ratio)


def test_a_move_away_from_a_node_that_drains_is_never_stray():
    topology = Topology([Node("a", weight=0), "b", "c"])
    old, new = (Table(topology=topology, hasher="xxh3-64", starts=(0,), rows=rows) for rows in (((0,),), ((1,),)))
    assert 0.0 == plan(old, new).stray_ratio


def test_a_change_that_moves_keys_is_pending_whatever_the_epochs_say():
    one, other = Jump(["a", "b"]), Jump(["b", "a"])
    assert plan(one, other, ["k"]).is_pending
