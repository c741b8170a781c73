"""Ranges answer every key once, keep keys in order, read neighbours together, and differ by exactly what differs."""

import json
import pickle
from collections import OrderedDict
from enum import IntEnum
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import KeyRange, Node, Plan, Table, Topology, apply, decode, encode, plan
from apportion.errors import BadRange, BadSnapshot, CannotPlace, InvalidInput, NotEnoughNodes, UnknownNode
from apportion.model import Change
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.ranges import SPEC, Ranges
from tests import invariants

VECTORS = json.loads((Path(__file__).parent / "vectors" / "ranges.json").read_text())
ABC = Topology(["a", "b", "c"])
FIRST, LAST = -(2**63), 2**63 - 1
TEXT = Ranges(ABC, bounds=["g", "p"], owners=["a", "b", "c"])
INTS = Ranges(ABC, bounds=[-10, 10], owners=["a", "b", "c"])

ints = st.one_of(st.integers(-30, 30), st.sampled_from([FIRST, FIRST + 1, LAST]), st.integers(FIRST, LAST))
# Few letters, so that keys begin with each other; the last three compare otherwise as UTF-16 than as code points.
texts = st.text("ab\0é\uffff\U0001f642", max_size=4)
data = st.one_of(texts.map(str.encode), st.binary(max_size=3))
FEW = settings(max_examples=25)
rows = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def explicit(draw, keys, lowest):
    """Draw boundaries in order and owners of the ranges between them."""
    bounds = sorted(draw(st.sets(keys.filter(lambda key: key != lowest), max_size=8)))
    return bounds, [draw(rows) for _ in range(len(bounds) + 1)]


int_ranges, byte_ranges = explicit(ints, FIRST), explicit(data, b"")


def twin(bounds, owners, key):
    """Return the owners of a key by counting the boundaries at or before it."""
    return owners[sum(bound <= key for bound in bounds)]


def scan_twin(bounds, owners, start, end):
    """Return (start, end, owners) of each range cut to the scan, joined where neighbours have the same owners."""
    found = []
    for index, row in enumerate(owners):
        low = start if index == 0 else max(start, bounds[index - 1])
        high = end if index == len(bounds) else bounds[index] if end is None else min(end, bounds[index])
        if high is not None and low >= high:
            continue
        if found and found[-1][2] == row:
            found[-1] = (found[-1][0], high, row)
        else:
            found.append((low, high, row))
    return found


def scanned(ranges, start, end):
    return [(*ranges.keys_of(key_range), owners) for key_range, owners in ranges.scan(start, end)]


@FEW
@given(int_ranges, st.lists(ints, max_size=10))
def test_an_int_is_where_the_dumb_twin_finds_it(drawn, keys):
    bounds, owners = drawn
    ranges = Ranges(ABC, bounds=bounds, owners=owners)
    if bounds:
        assert [twin(bounds, owners, key)[0] for key in [*bounds, *keys]] == ranges.route_many([*bounds, *keys])


@FEW
@given(byte_ranges, st.lists(data, max_size=10))
def test_bytes_are_where_the_dumb_twin_finds_them(drawn, keys):
    bounds, owners = drawn
    ranges = Ranges(ABC, bounds=bounds, owners=owners)
    asked = [*bounds, *keys]
    expected = [twin(bounds, owners, key) for key in asked]
    assert [row[0] for row in expected] == ranges.route_many(asked) == ranges.route_many(iter(asked))
    assert [row[0] for row in expected] == [ABC.ids[index] for index in ranges.route_indexes(asked)]
    assert expected == [ranges.preference(key, len(row)) for key, row in zip(asked, expected, strict=True)]


@pytest.mark.parametrize("kind", ["ints", "texts", "blobs"])
def test_a_key_is_in_the_range_that_sqlite_named(kind):
    read = {"ints": int, "texts": lambda digits: bytes.fromhex(digits).decode(), "blobs": bytes.fromhex}[kind]
    bounds, keys = (list(map(read, VECTORS[kind][name])) for name in ("bounds", "keys"))
    owners = [f"n{number:02}" for number in range(len(bounds) + 1)]
    expected = [owners[number] for number in VECTORS[kind]["ranges"]]
    assert expected == Ranges(owners, bounds=bounds, owners=owners).route_many(keys)


@FEW
@given(st.sets(texts.filter(bool), min_size=1, max_size=6), texts)
def test_text_is_in_the_order_of_its_code_points(bounds, key):
    in_order = sorted(bounds, key=lambda text: [ord(character) for character in text])
    owners = [f"n{number}" for number in range(len(in_order) + 1)]
    ranges = Ranges(owners, bounds=in_order, owners=owners)
    points = [ord(character) for character in key]
    expected = sum([ord(character) for character in bound] <= points for bound in in_order)
    assert f"n{expected}" == ranges.route(key) == ranges.route(key.encode())


@FEW
@given(st.one_of(int_ranges, byte_ranges))
def test_ranges_leave_no_gap_and_no_overlap(drawn):
    bounds, owners = drawn
    ranges = [key_range for key_range, _ in Ranges(ABC, bounds=bounds, owners=owners).table().ranges()]
    counted = bool(bounds) and isinstance(bounds[0], int)
    assert (0 if counted else b"") == ranges[0].start
    assert (2**64 if counted else None) == ranges[-1].end
    assert all(left.end == right.start for left, right in pairwise(ranges))


@FEW
@given(int_ranges, ints, ints)
def test_a_scan_of_ints_is_that_of_the_dumb_twin(drawn, one, other):
    bounds, owners = drawn
    start, end = sorted([one, other])
    if bounds and start < end:
        ranges = Ranges(ABC, bounds=bounds, owners=owners)
        assert scan_twin(bounds, owners, start, end) == scanned(ranges, start, end)
        assert scan_twin(bounds, owners, FIRST, end) == (scanned(ranges, None, end) if end > FIRST else [])
        assert scan_twin(bounds, owners, start, None) == scanned(ranges, start, None)


@FEW
@given(byte_ranges, data, data)
def test_a_scan_of_bytes_is_that_of_the_dumb_twin(drawn, one, other):
    bounds, owners = drawn
    start, end = sorted([one, other])
    ranges = Ranges(ABC, bounds=bounds, owners=owners)
    assert scan_twin(bounds, owners, start, None) == scanned(ranges, start, None)
    assert scan_twin(bounds, owners, b"", None) == scanned(ranges, None, None)
    if start < end:
        assert scan_twin(bounds, owners, start, end) == scanned(ranges, start, end)
        assert scan_twin(bounds, owners, b"", end) == scanned(ranges, None, end)


@FEW
@given(byte_ranges, data, data, st.lists(data, max_size=20))
def test_a_scan_names_the_node_that_every_key_in_it_is_routed_to(drawn, one, other, keys):
    bounds, owners = drawn
    start, end = sorted([one, other])
    ranges = Ranges(ABC, bounds=bounds, owners=owners)
    for key in keys:
        if start <= key < end:
            (row,) = [row for key_range, row in ranges.scan(start, end) if key in key_range]
            assert row[0] == ranges.route(key)


@pytest.mark.parametrize(("start", "end"), [("g", "g"), ("p", "g"), (b"x", "g"), ("a", ""), (None, "")])
def test_a_scan_that_ends_before_it_starts_is_refused(start, end):
    with pytest.raises(BadRange, match="end of the scan is"):
        TEXT.scan(start, end)
    with pytest.raises(BadRange, match="end of the scan is 3, expected more than its start, 5"):
        INTS.scan(5, 3)


def test_a_scan_of_ints_speaks_of_positions_and_keys_of_names_the_ints():
    assert [(KeyRange(2**63 + 5, 2**63 + 10), ("b",)), (KeyRange(2**63 + 10, 2**64), ("c",))] == INTS.scan(5)
    assert [(5, 10, ("b",)), (10, None, ("c",))] == scanned(INTS, 5, None)
    assert (FIRST, -10, ("a",)) == scanned(INTS, None, None)[0]
    with pytest.raises(BadRange, match="of ints"):
        INTS.keys_of(KeyRange(b"a", b"b"))
    with pytest.raises(BadRange, match="of bytes"):
        TEXT.keys_of(KeyRange(1, 2))


def test_the_first_and_the_last_int_have_an_owner():
    assert ["a", "c"] == INTS.route_many([FIRST, LAST])
    edges = Ranges(ABC, bounds=[FIRST + 1, LAST], owners=["a", "b", "c"])
    assert ["a", "b", "b", "c"] == edges.route_many([FIRST, FIRST + 1, LAST - 1, LAST])


class Level(IntEnum):
    HIGH = 5


@pytest.mark.parametrize("key", [5, Level.HIGH, True])
def test_an_int_among_text_is_refused(key):
    for ask in (TEXT.route, TEXT.explain, TEXT.scan, lambda key: TEXT.route_many(["a", key])):
        with pytest.raises(InvalidInput, match=r"key is"):
            ask(key)
    with pytest.raises(InvalidInput, match="boundary is"):
        Ranges(ABC, bounds=["a", key], owners=["a", "b", "c"])


@pytest.mark.parametrize("key", ["5", b"5", UUID(int=5), None, 5.0])
def test_text_among_ints_is_refused(key):
    for ask in (INTS.route, INTS.explain, lambda key: INTS.scan(key or "x"), lambda key: INTS.preference(key, 1)):
        with pytest.raises(InvalidInput, match="an int, like the boundaries"):
            ask(key)
    with pytest.raises(InvalidInput, match="boundary is"):
        Ranges(ABC, bounds=[1, key], owners=["a", "b", "c"])


def test_an_int_of_a_kind_of_its_own_is_an_int_and_no_bytes():
    assert "b" == Ranges(ABC, bounds=[Level.HIGH], owners=["a", "b"]).route(5)
    assert "a" == Ranges(ABC, bounds=[Level.HIGH], owners=["a", "b"]).route(4)
    assert "b" == INTS.route(Level.HIGH)


def test_a_uuid_is_its_characters():
    bound = UUID(int=2**127)
    ranges = Ranges(ABC, bounds=[bound], owners=["a", "b"])
    assert Ranges(ABC, bounds=[str(bound)], owners=["a", "b"]) == ranges
    assert ["a", "b"] == ranges.route_many([UUID(int=1), UUID(int=2**127 + 1)])


@pytest.mark.parametrize(
    ("bounds", "fault"),
    [
        (["p", "g"], "boundary is 'g', expected more than 'p', the one before"),
        (["g", "g"], "boundary is 'g', expected more than 'g'"),
        (["g", b"g"], "boundary is b'g', expected more than 'g'"),
        (["", "g"], "boundary is '', expected more than the first of all keys"),
        ([10, -10], "boundary is -10, expected more than 10, the one before"),
        ([7, 7], "boundary is 7, expected more than 7"),
        ([FIRST, 0], "expected more than the first of all keys"),
    ],
)
def test_boundaries_that_do_not_ascend_are_refused_by_name(bounds, fault):
    with pytest.raises(BadRange, match=fault) as caught:
        Ranges(ABC, bounds=bounds, owners=["a", "b", "c"])
    assert "Sort" in caught.value.hint


@pytest.mark.parametrize(
    "values", [{"a", "b"}, frozenset("ab"), "ab", b"ab", None, 5, iter("ab"), {"a": 1, "b": 2}, OrderedDict(a=1, b=2)]
)
def test_what_has_no_order_is_no_list_of_boundaries_or_owners(values):
    with pytest.raises(InvalidInput, match="bounds is"):
        Ranges(ABC, bounds=values, owners=["a", "b", "c"])
    with pytest.raises(InvalidInput, match="owners is"):
        Ranges(ABC, bounds=["g"], owners=values)


@pytest.mark.parametrize(
    ("owners", "error", "fault"),
    [
        (["a"], InvalidInput, "owners is '1 of them', expected 2"),
        (["a", "b", "c"], InvalidInput, "owners is '3 of them', expected 2"),
        (["a", "z"], UnknownNode, "'z'"),
        (["a", ("b", "z")], UnknownNode, "'z'"),
        (["a", {"b", "c"}], InvalidInput, "owners of a range is a set"),
        (["a", None], InvalidInput, "owners of a range is None"),
        (["a", 5], InvalidInput, "owners of a range is 5"),
        (["a", ()], InvalidInput, "table row"),
        (["a", ("b", "b")], InvalidInput, "table row"),
        (["a", (["b"],)], UnknownNode, "node id"),
    ],
)
def test_owners_that_do_not_fit_are_refused(owners, error, fault):
    with pytest.raises(error, match=fault):
        Ranges(ABC, bounds=["g"], owners=owners)


@pytest.mark.parametrize("key", ["\ud800", "x" * 65_537, bytearray(b"k"), None, 1.5])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(InvalidInput, match="key is"):
        TEXT.route(key)


def test_a_single_key_is_not_taken_for_many():
    for many in (TEXT.route_many, TEXT.route_indexes):
        with pytest.raises(InvalidInput, match="keys is"):
            many("abc")


def test_without_boundaries_one_range_holds_all_bytes():
    ranges = Ranges(ABC, bounds=[], owners=["b"])
    assert ["b", "b"] == ranges.route_many(["", b"\xff" * 9])
    assert [(KeyRange(b"", None), ("b",))] == ranges.scan()


def test_a_plan_between_ints_is_exact_to_the_position():
    old = Ranges(ABC, bounds=[0, 100], owners=["a", "b", "c"])
    new = Ranges(ABC, bounds=[0, 75], owners=["a", "b", "c"])
    change = plan(old, new)
    assert (Change(KeyRange(2**63 + 75, 2**63 + 100), ("b",), ("c",)),) == change.changes
    assert (75, 100) == new.keys_of(change.changes[0].item)
    assert float(Fraction(25, 2**64)) == change.moved_ratio == change.lower_bound_ratio == change.stray_ratio
    assert change.exact
    assert new.table() == apply(change, old.table())


@FEW
@given(int_ranges, int_ranges)
def test_a_plan_between_ints_is_that_of_the_dumb_twin_ratios_and_all(one, other):
    if one[0] and other[0]:
        old, new = (Ranges(ABC, bounds=bounds, owners=owners) for bounds, owners in (one, other))
        lists = [min(map(len, owners)) for _, owners in (one, other)]
        for replicas in {1, min(lists)}:
            before, after = old.table(replicas), new.table(replicas)
            invariants.plan_is_exact(plan(old, new, replicas=replicas), before, after)


@FEW
@given(byte_ranges, byte_ranges, st.lists(data, max_size=10))
def test_a_plan_between_bytes_names_exactly_the_keys_that_move(one, other, keys):
    old, new = (Ranges(ABC, bounds=bounds, owners=[row[0] for row in owners]) for bounds, owners in (one, other))
    change = plan(old, new)
    for key in [*keys, *one[0], *other[0]]:
        moves = [(each.source, each.target) for each in change.moves if key in each.item]
        assert ([] if old.route(key) == new.route(key) else [(old.route(key), new.route(key))]) == moves
    assert new.table() == apply(change, old.table())
    assert change == decode(encode(change), Plan)
    assert all(left.item.end <= right.item.start for left, right in pairwise(change.changes))


def test_a_plan_between_bytes_has_ranges_but_no_ratios():
    change = plan(TEXT, Ranges(ABC, bounds=["g", "q"], owners=["a", "b", "c"]))
    assert (Change(KeyRange(b"p", b"q"), ("c",), ("b",)),) == change.changes
    assert "1 ranges of bytes change owners" in str(change)
    for ratio in ("moved_ratio", "leader_moved_ratio", "stray_ratio", "lower_bound_ratio"):
        with pytest.raises(InvalidInput, match="Pass keys= to plan"):
            getattr(change, ratio)


def test_a_plan_between_bytes_has_ratios_over_keys():
    change = plan(TEXT, Ranges(ABC, bounds=["g", "q"], owners=["a", "b", "c"]), ["a", "pear", "pie", "z"])
    assert (0.5, False) == (change.moved_ratio, change.exact)


def test_ints_and_text_are_not_compared():
    with pytest.raises(InvalidInput, match="hasher is 'bytes-order', expected 'int-order'"):
        plan(INTS, TEXT)


BYTES_TABLE = Ranges(
    Topology([Node("a", zone=("eu", "r1")), "é"]),
    bounds=["\0", "g", b"g\xff", "é"],
    owners=["a", ("é", "a"), "a", "é", ("a", "é")],
).table()


@FEW
@given(st.one_of(int_ranges, byte_ranges))
def test_a_table_survives_saving(drawn):
    table = Ranges(ABC, bounds=drawn[0], owners=drawn[1]).table()
    back = decode(encode(table), Table)
    assert (table, table.epoch) == (back, back.epoch)
    assert encode(table) == encode(back)


def is_refused(snapshot):
    try:
        decode(snapshot, Table)
    except BadSnapshot as error:
        return bool(error.problem and error.hint)
    return False


def test_a_saved_table_of_bytes_cut_at_any_byte_is_refused():
    snapshot = encode(BYTES_TABLE)
    assert BYTES_TABLE == decode(snapshot, Table)
    assert [] == [length for length in range(len(snapshot)) if not is_refused(snapshot[:length])]


def test_a_saved_table_of_bytes_with_any_bit_turned_is_refused():
    snapshot = encode(BYTES_TABLE)
    number = int.from_bytes(snapshot, "big")
    turned = ((number ^ 1 << bit).to_bytes(len(snapshot), "big") for bit in range(8 * len(snapshot)))
    assert 8 * len(snapshot) == sum(map(is_refused, turned))


def test_on_drops_the_owners_that_left_or_drain_and_gives_new_nodes_nothing():
    ranges = Ranges(ABC, bounds=["g"], owners=[("a", "b"), ("b", "c")])
    for topology in (ABC.without("b"), ABC.drain("b")):
        assert Ranges(topology, bounds=["g"], owners=["a", "c"]) == ranges.on(topology)
    assert ["a", "b"] == ranges.on(ABC.add("aa")).route_many(["a", "z"])
    assert ["a", "b"] == ranges.route_many(["a", "z"])


def test_on_refuses_a_topology_on_which_a_range_has_nobody():
    for topology in (ABC.without("b"), ABC.drain("b")):
        with pytest.raises(CannotPlace, match=r"\[b'g', b'p'\) would have no owner") as caught:
            TEXT.on(topology)
        assert "Give the range" in caught.value.hint


def test_owners_of_a_range_are_its_preference_list():
    ranges = Ranges(ABC, bounds=["g"], owners=[("b", "a"), ("c",)])
    assert (("b",), ("b", "a")) == (ranges.preference("a", 1), ranges.preference("a", 2))
    with pytest.raises(NotEnoughNodes, match="from a range with 1 owners"):
        ranges.preference("z", 2)
    with pytest.raises(NotEnoughNodes, match="of each range"):
        ranges.table(2)
    assert [(KeyRange(b"", b"g"), ("b",)), (KeyRange(b"g", None), ("c",))] == list(ranges.table().ranges())


@FEW
@given(byte_ranges, data)
def test_the_table_holds_every_answer(drawn, key):
    bounds, owners = drawn
    ranges, copies = Ranges(ABC, bounds=bounds, owners=owners), min(map(len, owners))
    assert twin(bounds, owners, key)[:copies] == ranges.table(copies).owners(key)


def test_an_explanation_names_the_range_as_its_owner_wrote_it():
    ranges = Ranges(ABC, bounds=[0, 10], owners=["a", ("b", "c"), "c"])
    explained = ranges.explain(3)
    assert "the key lies in [0, 10), which is given to b" == explained.why
    assert ("b", ("c",), "c", None) == (explained.owner, explained.next, explained.if_owner_left, explained.hash)
    assert f"[{FIRST}, 0)" in ranges.explain(-1).why
    assert "[10, end)" in ranges.explain(LAST).why
    assert "[b'g', b'p')" in TEXT.explain("m").why
    assert None is TEXT.explain("m").if_owner_left
    assert 7 == len(str(explained).splitlines())


@pytest.mark.parametrize(
    "ranges", [TEXT, INTS, Ranges(ABC, bounds=[], owners=[("a", "c")])], ids=["text", "ints", "one"]
)
def test_ranges_survive_pickling(ranges):
    back = pickle.loads(pickle.dumps(ranges))
    assert (ranges, hash(ranges), repr(ranges)) == (back, hash(back), repr(back))
    assert ranges.scan() == back.scan()


def test_ranges_are_equal_when_their_answers_are():
    assert TEXT == Ranges(ABC, bounds=[b"g", "k", "p"], owners=["a", "b", "b", "c"])
    assert TEXT != Ranges(ABC, bounds=["g", "p"], owners=["a", "b", "b"])
    assert TEXT != Ranges(ABC.add("d"), bounds=["g", "p"], owners=["a", "b", "c"])


def test_the_spec_says_what_ranges_are():
    assert ("ranges", Ranges, "explicit", True) == (SPEC.name, SPEC.build, SPEC.takes, SPEC.tabular)
    assert key_bytes("g") == TEXT.table().starts[1]


def test_an_integer_of_numpy_is_an_int_for_ranges():
    ranges = Ranges(["a", "b"], bounds=[np.int64(10)], owners=["a", "b"])
    assert Ranges(["a", "b"], bounds=[10], owners=["a", "b"]) == ranges
    assert ["a", "b"] == ranges.route_many([np.int8(9), np.uint64(10)]) == [ranges.route(np.int8(9)), ranges.route(10)]
    with pytest.raises(InvalidInput, match="str or bytes, like the boundaries"):
        Ranges(["a", "b"], bounds=["k"], owners=["a", "b"]).route(np.int64(1))
    with pytest.raises(InvalidInput, match="an int, like the boundaries"):
        ranges.route(np.float64(1))
