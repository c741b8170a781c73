"""Moves cool the hottest node, heat no other as much, and leave an even fleet alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import KeyRange, Topology
from apportion.balance.ranges import PeakWindows, RangeLimits, RangeLoad, plan_moves
from apportion.errors import NoNodes
from tests.balance.ranges.fleets import LIMITS, NODES, range_loads


def loads_of(*entries):
    """Return ranges of ten bytes each, from pairs of an owner and the peaks of windows."""
    bounds = [b"", *(b"%02d" % number for number in range(1, len(entries))), None]
    return [
        RangeLoad(
            range=KeyRange(*bounds[place : place + 2]),
            owner=owner,
            size_bytes=10,
            requests=peaks[-1],
            peaks=PeakWindows(values=peaks),
        )
        for place, (owner, peaks) in enumerate(entries)
    ]


def highest(loads, owners):
    """Return the highest load or bytes of a node over its share, of the present load alone."""
    weights = {node.id: node.weight for node in NODES if node.weight}
    found = []
    for values in ([each.requests for each in loads], [each.size_bytes for each in loads]):
        total = sum(values) or 1
        for node, weight in weights.items():
            held = sum(value for value, owner in zip(values, owners, strict=True) if owner == node)
            found.append(held * sum(weights.values()) / weight / total)
    return max(found)


@given(range_loads(), st.integers(0, 4), st.randoms(use_true_random=False))
def test_moves_are_few_each_range_once_to_a_node_that_serves_in_any_order_of_input(loads, running, random):
    in_flight = [each.range for each in loads[:running]]
    moves = plan_moves(loads, NODES, limits=LIMITS, in_flight=in_flight)
    items = [move.item for move in moves]
    owners = {each.range: each.owner for each in loads}
    assert len(moves) <= max(0, LIMITS.most_in_flight - len(in_flight))
    assert len(items) == len(set(items))
    assert set(items).isdisjoint(in_flight)
    assert all(move.source == owners[move.item] != move.target and move.target in "ab" for move in moves)
    assert moves == plan_moves(random.sample(loads, len(loads)), NODES, limits=LIMITS, in_flight=in_flight)


@given(range_loads())
def test_the_highest_pressure_never_grows_and_an_even_fleet_stays(loads):
    loads = [
        RangeLoad(range=each.range, owner="b" if each.owner == "b" else "a", size_bytes=each.size_bytes,
                  requests=each.requests)
        for each in loads
    ]  # fmt: skip
    owners = [each.owner for each in loads]
    before = highest(loads, owners)
    moves = plan_moves(loads, NODES, limits=LIMITS)
    assert not moves or before > 1 + LIMITS.tolerance
    places = {each.range: place for place, each in enumerate(loads)}
    for move in moves:
        owners[places[move.item]] = move.target
        after = highest(loads, owners)
        assert after <= before
        before = after


def test_ranges_of_a_node_that_left_move_first_the_busiest_before_others():
    loads = loads_of(("gone", (5,)), ("gone", (900,)), ("a", (500,)), ("a", (500,)), ("c", (1,)))
    moves = plan_moves(loads, NODES, limits=RangeLimits(most_in_flight=3))
    assert ["gone", "gone", "c"] == [move.source for move in moves]
    assert [loads[1].range, loads[0].range, loads[4].range] == [move.item for move in moves]


def test_ranges_that_are_hot_at_different_hours_stay_together():
    day, night = (100, 0, 0, 0, 0, 0), (0, 0, 0, 100, 0, 0)
    assert () == plan_moves(loads_of(("a", day), ("a", night), ("b", day), ("b", night)), Topology(["a", "b"]))
    apart = plan_moves(loads_of(("a", day), ("a", day), ("b", night), ("b", night)), Topology(["a", "b"]))
    assert {("a", "b"), ("b", "a")} == {(move.source, move.target) for move in apart}


def test_a_node_with_a_range_to_split_keeps_its_other_ranges():
    keys = tuple(b"%02d" % number for number in range(20))
    cold = loads_of(("a", (9000,)), ("a", (500,)), ("b", (100,)))
    hot = RangeLoad(range=KeyRange(b"", b"20"), owner="a", size_bytes=10, requests=9000, requested_keys=keys)
    rest = [
        RangeLoad(range=KeyRange(b"20", b"30"), owner="a", size_bytes=10, requests=500),
        RangeLoad(range=KeyRange(b"30", None), owner="b", size_bytes=10, requests=100),
    ]
    assert () == plan_moves([hot, *rest], Topology(["a", "b"]))
    assert [b"01"] == [move.item.start for move in plan_moves(cold, Topology(["a", "b"]))]


def test_bytes_count_like_load():
    loads = [
        RangeLoad(range=key_range, owner="a", size_bytes=100, requests=0)
        for key_range in (KeyRange(b"", b"m"), KeyRange(b"m", None))
    ]
    assert ["b"] == [move.target for move in plan_moves(loads, Topology(["a", "b"]))]


def test_a_move_of_tokens_has_their_width():
    loads = [
        RangeLoad(range=key_range, owner="a", size_bytes=1, requests=1)
        for key_range in (KeyRange(0, 2**62), KeyRange(2**62, 2**64))
    ]
    assert [2**62] == [move.width for move in plan_moves(loads, Topology(["a", "b"]))]


def test_no_ranges_and_one_node_need_no_moves():
    assert () == plan_moves([], NODES)
    assert () == plan_moves(loads_of(("a", (5,)), ("a", (50,))), Topology(["a"]))


def test_a_topology_without_a_node_that_serves_is_refused():
    with pytest.raises(NoNodes, match="moves of ranges"):
        plan_moves(loads_of(("a", (5,))), Topology({"a": 0}))
