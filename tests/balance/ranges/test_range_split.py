"""A split leaves keys on both sides, waits for age and sample, and refuses to divide one hot key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import KeyRange
from apportion.balance.ranges import RangeLimits, RangeLoad, RangeSplit, plan_split
from apportion.errors import BadRange, InvalidInput
from tests.balance.ranges.fleets import LIMITS, NOW, covers_everything, range_loads

ALL = KeyRange(b"", None)
KEYS = tuple(b"%02d" % number for number in range(20))


def load(**changed):
    values = {"range": ALL, "owner": "a", "size_bytes": 0, "requests": 3000, "requested_keys": KEYS}
    return RangeLoad(**{**values, **changed})


@given(range_loads())
def test_a_split_leaves_sampled_keys_on_both_sides_and_the_ranges_cover_all_keys(loads):
    for split in plan_split(loads, now=NOW, limits=LIMITS).splits:
        place = [each.range for each in loads].index(split.range)
        before = loads[place]
        left, right = split.halves(before, now=NOW)
        keys = (left.requested_keys, right.requested_keys) if split.cause == "load" else (
            left.stored_keys, right.stored_keys,
        )  # fmt: skip
        assert all(keys)
        assert keys[0] + keys[1] == (before.requested_keys if split.cause == "load" else before.stored_keys)
        assert left.requests + right.requests == before.requests
        assert left.size_bytes + right.size_bytes == before.size_bytes
        together = left.peaks.plus(right.peaks).values
        assert all(0 <= peak - whole <= 1 for peak, whole in zip(together, before.peaks.values, strict=True))
        assert {NOW} == {left.changed_at, right.changed_at}
        loads[place : place + 1] = [left, right]
    assert covers_everything(loads)


@given(range_loads(), st.integers(0, 4))
def test_only_old_enough_ranges_above_a_limit_split_and_few_at_once(loads, running):
    in_flight = [each.range for each in loads[:running]]
    splits = plan_split(loads, now=NOW, limits=LIMITS, in_flight=in_flight).splits
    assert len(splits) <= max(0, LIMITS.most_in_flight - len(in_flight))
    by_range = {each.range: each for each in loads}
    for split in splits:
        each = by_range[split.range]
        assert each.changed_at + LIMITS.least_age_seconds <= NOW
        assert each.requests > LIMITS.split_requests or each.size_bytes > LIMITS.split_bytes
        assert each.range not in in_flight


@given(range_loads(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(loads, random):
    shuffled = random.sample(loads, len(loads))
    assert plan_split(loads, now=NOW, limits=LIMITS) == plan_split(shuffled, now=NOW, limits=LIMITS)


@given(range_loads())
def test_a_range_that_no_split_helps_has_a_key_with_most_of_the_sample(loads):
    for verdict in plan_split(loads, now=NOW, limits=LIMITS).unsplittable:
        assert verdict.key_ratio > 0.75
        assert verdict.key in verdict.range
        assert verdict.parts >= 2
        assert "salt(" in verdict.advice


def test_a_hot_key_is_named_with_the_number_of_nodes_that_it_needs():
    keys = (b"news",) * 90 + tuple(b"n%d" % number for number in range(10))
    (verdict,) = plan_split([load(requests=9500, requested_keys=keys)], now=NOW).unsplittable
    assert (b"news", 0.9, 4, "load") == (verdict.key, verdict.key_ratio, verdict.parts, verdict.cause)
    assert "PopularKeys" in verdict.advice


def test_a_hot_key_does_not_hide_that_a_range_is_too_large():
    limits = RangeLimits(split_bytes=100)
    plan = plan_split([load(size_bytes=200, requested_keys=(b"x",) * 20, stored_keys=KEYS)], now=NOW, limits=limits)
    assert (["size"], ["load"]) == ([each.cause for each in plan.splits], [each.cause for each in plan.unsplittable])


def test_a_large_key_gets_no_advice_to_cache():
    limits = RangeLimits(split_bytes=100)
    plan = plan_split([load(requests=0, size_bytes=500, stored_keys=(b"x",) * 20)], now=NOW, limits=limits)
    assert ["Key b'x' has 100% of the rows of [b'', end). Divide it: salt(key, 5, rng)."] == [
        each.advice for each in plan.unsplittable
    ]


@pytest.mark.parametrize(
    ("changed", "splits"),
    [
        ({}, 1),
        ({"requests": 2500}, 0),
        ({"changed_at": NOW - 300}, 1),
        ({"changed_at": NOW - 299}, 0),
        ({"requested_keys": KEYS[:15]}, 0),
        ({"requested_keys": KEYS[:16]}, 1),
        ({"requested_keys": (b"a",) * 2 + (b"b",) * 14}, 1),
        ({"requested_keys": (b"a",) * 2 + (b"b",) * 15}, 0),
    ],
)
def test_the_bounds_of_a_split_are_exact(changed, splits):
    assert splits == len(plan_split([load(**changed)], now=NOW).splits)


def test_the_range_furthest_above_its_limit_comes_first():
    halves = KeyRange(b"", b"m"), KeyRange(b"m", None)
    loads = [
        load(range=each, requests=requests, requested_keys=tuple(each.start + key for key in KEYS))
        for each, requests in zip(halves, (3000, 4000), strict=True)
    ]
    assert [halves[1], halves[0]] == [split.range for split in plan_split(loads, now=NOW).splits]


@pytest.mark.parametrize("at", [b"a", b"m", b"z", 5])
def test_a_boundary_outside_of_its_range_is_refused(at):
    with pytest.raises(BadRange, match=r"expected .*inside|kind"):
        RangeSplit(range=KeyRange(b"a", b"m"), at=at, cause="load")


def test_ranges_that_overlap_are_refused():
    loads = [load(range=KeyRange(b"", b"n"), requested_keys=()), load(range=KeyRange(b"m", None), requested_keys=())]
    with pytest.raises(BadRange, match=r"range is \"\[b'm', end\)\", expected one that begins after \[b'', b'n'\)"):
        plan_split(loads, now=NOW)


def test_tokens_beside_bytes_are_refused():
    loads = [load(range=KeyRange(0, 2**64), requested_keys=()), load(range=KeyRange(b"m", None), requested_keys=())]
    with pytest.raises(BadRange, match="kind"):
        plan_split(loads, now=NOW)


@pytest.mark.parametrize("name", ["requested_keys", "stored_keys"])
def test_a_range_above_its_limit_without_a_sample_is_refused(name):
    above = {"requested_keys": {"requested_keys": ()}, "stored_keys": {"requests": 0, "size_bytes": 2**40}}
    with pytest.raises(InvalidInput, match=f"{name} is .*expected sampled keys of"):
        plan_split([load(**above[name])], now=NOW)


def test_a_sampled_key_outside_of_its_range_is_refused():
    with pytest.raises(BadRange, match=r"requested_keys is b'z', expected keys in \[b'', b'm'\)"):
        load(range=KeyRange(b"", b"m"), requested_keys=(b"z",))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"now": -1}, "now"),
        ({"now": float("nan")}, "now"),
        ({"now": "soon"}, "now"),
        ({"limits": None}, "limits"),
        ({"in_flight": [b"a"]}, "range in flight"),
        ({"loads": [5]}, "load of a range"),
    ],
)
def test_arguments_of_another_kind_are_refused(arguments, field):
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        plan_split(**{"loads": [load()], "now": NOW, **arguments})


def test_halves_are_refused_for_another_range():
    split = RangeSplit(range=KeyRange(b"", b"m"), at=b"c", cause="load")
    with pytest.raises(BadRange, match="that of the split"):
        split.halves(load(), now=NOW)


def test_tokens_are_split_like_bytes():
    tokens = tuple(range(100, 120))
    plan = plan_split([load(range=KeyRange(0, 2**64), requested_keys=tokens)], now=NOW)
    assert [110] == [split.at for split in plan.splits]
