"""A merge needs six cold windows on both sides, age, and room; the smaller side moves."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import KeyRange
from apportion.balance.ranges import PeakWindows, RangeLoad, RangeMerge, plan_merge, plan_split
from apportion.errors import BadRange
from apportion.model import Move
from tests.balance.ranges.fleets import LIMITS, NOW, covers_everything, range_loads

LEFT, RIGHT = KeyRange(b"", b"m"), KeyRange(b"m", None)
COLD = PeakWindows(values=(249,) * 6)


def pair(**changed):
    """Return two ranges that merge, the right one changed."""
    same = {"owner": "a", "size_bytes": 249, "requests": 0, "peaks": COLD}
    return [RangeLoad(range=LEFT, **same), RangeLoad(**{"range": RIGHT, **same, **changed})]


@given(range_loads())
def test_after_merges_the_ranges_cover_all_keys_and_none_is_split_or_merged_soon(loads):
    changed = []
    for merge in plan_merge(loads, now=NOW, limits=LIMITS):
        place = [each.range for each in loads].index(merge.left)
        joined = merge.joined(*loads[place : place + 2], now=NOW)
        assert (merge.range, merge.owner) == (joined.range, joined.owner)
        assert 2 * joined.peaks.highest < LIMITS.split_requests
        assert 2 * joined.size_bytes < LIMITS.split_bytes
        loads[place : place + 2] = [joined]
        changed.append(joined.range)
    assert covers_everything(loads)
    soon = NOW + LIMITS.least_age_seconds - 1
    again = {split.range for split in plan_split(loads, now=soon, limits=LIMITS).splits}
    again |= {side for merge in plan_merge(loads, now=soon, limits=LIMITS) for side in (merge.left, merge.right)}
    assert again.isdisjoint(changed)


@given(range_loads())
def test_the_sides_of_a_split_do_not_merge_within_the_least_age(loads):
    made = []
    for split in plan_split(loads, now=NOW, limits=LIMITS).splits:
        place = [each.range for each in loads].index(split.range)
        loads[place : place + 1] = split.halves(loads[place], now=NOW)
        made += [each.range for each in loads[place : place + 2]]
    soon = NOW + LIMITS.least_age_seconds - 1
    merged = {side for merge in plan_merge(loads, now=soon, limits=LIMITS) for side in (merge.left, merge.right)}
    assert merged.isdisjoint(made)


@given(range_loads(), st.integers(0, 4), st.randoms(use_true_random=False))
def test_few_pairs_at_once_none_twice_and_the_order_of_the_input_does_not_matter(loads, running, random):
    in_flight = [each.range for each in loads[:running]]
    merges = plan_merge(loads, now=NOW, limits=LIMITS, in_flight=in_flight)
    sides = [side for merge in merges for side in (merge.left, merge.right)]
    assert len(merges) <= max(0, LIMITS.most_in_flight - len(in_flight))
    assert len(sides) == len(set(sides))
    assert set(sides).isdisjoint(in_flight)
    shuffled = random.sample(loads, len(loads))
    assert merges == plan_merge(shuffled, now=NOW, limits=LIMITS, in_flight=in_flight)


@pytest.mark.parametrize(
    ("changed", "merges"),
    [
        ({}, 1),
        ({"peaks": PeakWindows(values=(249, 250, 249, 249, 249, 249))}, 1),
        ({"peaks": PeakWindows(values=(251, 0, 0, 0, 0, 0))}, 0),
        ({"peaks": PeakWindows(values=(0,) * 5)}, 0),
        ({"requests": 251}, 0),
        ({"size_bytes": 250}, 1),
        ({"size_bytes": 251}, 0),
        ({"changed_at": NOW - 300}, 1),
        ({"changed_at": NOW - 299}, 0),
        ({"range": KeyRange(b"n", None)}, 0),
    ],
)
def test_the_bounds_of_a_merge_are_exact(changed, merges):
    assert merges == len(plan_merge(pair(**changed), now=NOW, limits=LIMITS))


def test_neither_side_merges_without_six_windows():
    left, right = pair()
    short = PeakWindows(values=(0,) * 5)
    assert () == plan_merge([replace(left, peaks=short), right], now=NOW, limits=LIMITS)
    assert () == plan_merge([left, replace(right, peaks=short)], now=NOW, limits=LIMITS)


@pytest.mark.parametrize(("size", "source", "target"), [(249, "b", "a"), (248, "b", "a"), (250, "a", "b")])
def test_the_side_with_fewer_bytes_moves_to_the_owner_of_the_other(size, source, target):
    (merge,) = plan_merge(pair(owner="b", size_bytes=size), now=NOW, limits=LIMITS)
    item = LEFT if source == "a" else RIGHT
    assert (target, Move(item, source, target, 0)) == (merge.owner, merge.move)


def test_the_coldest_pair_comes_first():
    bounds = [b"", b"c", b"f", b"i", None]
    loads = [
        RangeLoad(
            range=KeyRange(start, end), owner="a", size_bytes=0, requests=0, peaks=PeakWindows(values=(peak,) * 6)
        )
        for start, end, peak in zip(bounds, bounds[1:], (200, 100, 90, 200), strict=False)
    ]
    assert [KeyRange(b"c", b"i")] == [each.range for each in plan_merge(loads, now=NOW, limits=LIMITS)]


def test_a_merge_over_a_gap_is_refused():
    with pytest.raises(BadRange, match="begins at the end of"):
        RangeMerge(left=LEFT, right=KeyRange(b"n", None), owner="a")


def test_other_ranges_than_those_of_the_merge_are_refused():
    (merge,) = plan_merge(pair(), now=NOW, limits=LIMITS)
    with pytest.raises(BadRange, match="that of the merge"):
        merge.joined(*reversed(pair()), now=NOW)
