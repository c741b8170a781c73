"""Ranges in the twin answer like the reference, which is laid beside them with the same boundaries and owners."""

from array import array
from enum import IntEnum
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Node, Topology, group_keys, native
from apportion.placement.ranges import Ranges
from apportion.placement.shapes.range_router import ReferenceRangeRouter
from tests import worlds
from tests.native.comparing import answered_by_the_twin, hammered, is_refused, needs_twin, outcome
from tests.native.test_positions import REFUSED, SUBCLASSED

pytestmark = needs_twin

FIRST, LAST = -(2**63), 2**63 - 1
EDGES = [FIRST, FIRST + 1, -(2**32), -(2**31), -1, 0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, LAST - 1, LAST]
ints = st.one_of(st.sampled_from(EDGES), st.integers(-40, 40), st.integers(FIRST, LAST))
# Few letters, so that keys begin with each other, often with more than a word of them.
short = st.one_of(st.binary(max_size=12), st.text("ab\0é\U0001f642", max_size=9).map(str.encode))
datas = st.builds(bytes.__add__, st.sampled_from([b"", b"tenant-", b"tenant-0000000", b"\xff" * 9, b"\0" * 8]), short)


class Reference(ReferenceRangeRouter):
    """The reference of ranges, of which nothing is in the twin."""

    __slots__ = ("_table", "topology")

    _owners, _preferred, _row = Ranges._owners, Ranges._preferred, Ranges._row


def reference_of(ranges):
    """Return the reference of ranges, asked for nothing that the twin has."""
    reference = Reference()
    reference.topology, reference._table = ranges.topology, ranges._table
    reference._lay(ranges.topology.ids, ranges._ends, ranges._table.rows, ranges._table.is_measurable)
    return reference


@st.composite
def drawn_ranges(draw, keys, lowest):
    """Draw ranges, of any number of owners each, over nodes in zones some of which drain."""
    topology = draw(worlds.owning_topologies)
    bounds = sorted(draw(st.sets(keys.filter(lambda key: key != lowest), min_size=int(lowest == FIRST), max_size=40)))
    rows = st.lists(st.sampled_from(topology.ids), min_size=1, max_size=3, unique=True).map(tuple)
    owners = draw(st.lists(rows, min_size=len(bounds) + 1, max_size=len(bounds) + 1))
    return Ranges(topology, bounds=bounds, owners=owners)


def near(bound):
    """Return the keys around a boundary."""
    if isinstance(bound, int):
        return [key for key in (bound - 2**63 - 1, bound - 2**63, bound - 2**63 + 1) if FIRST <= key <= LAST]
    return [bound[:-1], bound, bound + b"\0", bound + b"a", bound[:-1] + bytes([bound[-1] ^ 1]), bound[:8], bound[1:]]


def agreed(ranges, make, threads=(1, 2, 16)):
    """Return the ids, or the error, on which twin and reference agree; `make` makes the container anew."""
    reference = reference_of(ranges)
    expected = outcome(lambda: reference.route_many(make()))
    for count in threads:
        with answered_by_the_twin(2 * len(expected) if isinstance(expected, list) else 0):
            found = outcome(lambda count=count: ranges.route_many(make(), threads=count))
            indexes = outcome(lambda count=count: ranges.route_indexes(make(), threads=count))
        assert expected == found
        assert indexes == (expected if isinstance(expected, tuple) else reference.route_indexes(make()))
    return expected


def check(ranges, keys):
    """Hold every call of the twin to the reference, for keys and for keys around each boundary."""
    keys = [*keys, *(key for bound in ranges._ends for key in near(bound))]
    reference = reference_of(ranges)
    alone = [reference.route(key) for key in keys]
    with answered_by_the_twin(len(keys)):
        assert alone == [ranges.route(key) for key in keys]
    assert alone == agreed(ranges, lambda: keys, threads=(1, 2)) == agreed(ranges, lambda: iter(keys), threads=(1,))
    assert [reference._range(key) for key in keys] == [ranges._range(key) for key in keys]
    for count in (1, 2, 3):
        for options in ({}, {"spread": "best-effort"}, {"spread_level": 0}):
            expected = [outcome(lambda key=key: reference.preference(key, count, **options)) for key in keys]  # noqa: B023
            assert expected == [outcome(lambda key=key: ranges.preference(key, count, **options)) for key in keys]  # noqa: B023
            many = outcome(lambda: ranges.preference_many(keys, count, **options))  # noqa: B023
            assert many == outcome(lambda: reference.preference_many(keys, count, **options))  # noqa: B023


@given(drawn_ranges(datas, b""), st.lists(datas, max_size=20))
def test_bytes_fall_where_the_reference_finds_them(ranges, keys):
    check(ranges, ["", b"", b"\xff" * 20, UUID(int=7), "節", *SUBCLASSED[:1], *keys])


@given(drawn_ranges(ints, FIRST), st.lists(ints, max_size=20))
def test_ints_fall_where_the_reference_finds_them(ranges, keys):
    check(ranges, [*EDGES, *keys])


def laid(bounds, owners=3):
    """Return ranges of these boundaries whose owners take turns."""
    nodes = [f"n{number}" for number in range(owners)]
    return Ranges(nodes, bounds=bounds, owners=[nodes[number % owners] for number in range(len(bounds) + 1)])


WORDS = sorted({f"tenant-{number * number % 99_991:05}/é" for number in range(5000)})
TEXT, INTS = laid(WORDS), laid([number * 3 - 6000 for number in range(4000)])


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257, 3000])
@pytest.mark.parametrize("start", [FIRST + 1, -(2**32), -(2**31), -1500, 0, 2**31, 2**32, LAST - 3000])
def test_any_number_of_ints_side_by_side(count, start):
    ranges = laid(range(start, start + count))
    agreed(ranges, lambda: [key for key in range(start - 1, start + count + 2) if key <= LAST], threads=(1,))


@pytest.mark.parametrize("shared", ["", "k", "tenants", "tenants/", "tenants/of/europe/", "é" * 500])
@pytest.mark.parametrize("rest", ["{:x}", "{:03x}", "{:012x}", "{:x}é", "\0{:020x}"])
def test_texts_that_begin_alike_for_any_length(shared, rest):
    bounds = sorted({shared + rest.format(number) for number in range(1, 700)}, key=str.encode)
    ranges = laid(bounds)
    cut = [shared[:length] for length in range(len(shared))]
    others = [*cut, *(each + "\uffff" for each in cut), *(bound + "\0" for bound in bounds), shared]
    agreed(ranges, lambda: [*bounds, *others, *(bound[:-1] for bound in bounds)], threads=(1, 2))
    check(laid(bounds[:3]), bounds[:9])


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 4096, 4097, pytest.param(50_000, marks=pytest.mark.slow)])
def test_every_size_of_block_and_share(size):
    texts = [f"tenant-{number:05}" for number in range(size)]
    for keys in (texts, tuple(texts), pa.array(texts, pa.utf8()), np.array(texts, "U12"), np.array(texts, "S12")):
        assert size == len(agreed(TEXT, lambda keys=keys: keys))
    for make in (lambda: list(range(size)), lambda: np.arange(size), lambda: pa.array(range(size), pa.int64())):
        assert size == len(agreed(INTS, make))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("width", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_of_every_width_sign_and_order(width, order):
    ends = np.iinfo(width)
    keys = np.array([ends.min, 0, 1, 100, ends.max // 3, min(ends.max, LAST)], order + width)
    for step in (1, 2, -1):
        assert isinstance(agreed(laid(EDGES[1:]), lambda step=step: keys[::step]), list)
    assert is_refused(agreed(TEXT, lambda: keys), "str or bytes, like the boundaries")
    assert agreed(INTS, lambda: array("q", range(-9, 9))) == agreed(INTS, lambda: list(range(-9, 9)))


TEXTS = [*WORDS[::50], "", "é", "節" * 30, "tenant-", "tenant-00000/", "a\0b"]
BYTES_LIKE = {pa.utf8(): pa.binary(), pa.large_utf8(): pa.large_binary(), pa.string_view(): pa.binary_view()}


@pytest.mark.parametrize("kind", [*BYTES_LIKE, *BYTES_LIKE.values()], ids=str)
def test_text_in_arrow_arrays(kind):
    keys = [text.encode() for text in TEXTS]
    one = pa.array(keys, pa.binary()).cast(kind)
    for make in (lambda: one, lambda: one[3:90], lambda: pa.chunked_array([one[:0], one[:7], one[7:]])):
        assert isinstance(agreed(TEXT, make), list)
        assert is_refused(agreed(INTS, make), "an int, like the boundaries")
    assert agreed(TEXT, lambda: one) == agreed(TEXT, lambda: keys)
    raw = pa.Array.from_buffers(kind, 1, pa.array([b"\xff"], BYTES_LIKE.get(kind, kind)).buffers())
    assert is_refused(agreed(INTS, lambda: raw), "key is b'\\xff', expected an int")
    assert is_refused(agreed(TEXT, lambda: pa.array([b"a", None], kind)), "key at index 1 is None")
    assert is_refused(agreed(INTS, lambda: pa.array([b"a", None], kind)), "key at index 1 is None")
    assert is_refused(agreed(INTS, lambda: pa.array([b"x" * 65_537], kind)), "length of the key at index 0")


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()], ids=str)
def test_ints_in_arrow_arrays(kind):
    keys = pa.array([0, 1, 7, 100], kind)
    assert agreed(INTS, lambda: keys) == agreed(INTS, lambda: [0, 1, 7, 100])
    assert is_refused(agreed(TEXT, lambda: pa.chunked_array([keys[:0], keys[2:]])), "key is 7, expected str or bytes")


CONTAINERS = [
    np.array([5, 2**63], "u8"), pa.array([5, 2**63], pa.uint64()), np.array([2**63], "u8"),
    pa.array([2**63], pa.uint64()), np.array([b"a\0b", b"", b"c\0"], "S5"), np.array(["a\0b", "", "é"]),
    np.array(["\ud800"]), np.array([65, 0x110000], "u4").view("U2"), np.array(["x" * 65_537]),
    np.array([b"x" * 65_537]), np.array([1.5]), np.array([], "i8"), np.array([], "U3"), pa.array([], pa.utf8()),
    pa.array([], pa.int8()), pa.nulls(2), pa.nulls(0), {"a": 1}, [], (), "abc", b"abc", 5, None,
]  # fmt: skip


@pytest.mark.parametrize("ranges", [TEXT, INTS], ids=["text", "ints"])
@pytest.mark.parametrize("keys", CONTAINERS, ids=range(len(CONTAINERS)))
def test_what_a_container_holds_is_refused_or_answered_alike(ranges, keys):
    agreed(ranges, lambda: keys)


class Level(IntEnum):
    HIGH = 5


OTHERS = [Level.HIGH, True, 2**63, -(2**63) - 1, 5, "5", b"5", "é", UUID(int=5), *SUBCLASSED, *REFUSED]


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [TEXT, INTS], ids=["text", "ints"])
@pytest.mark.parametrize("key", OTHERS, ids=range(len(OTHERS)))
def test_any_key_alone_or_among_plain_ones_is_answered_or_refused_alike(ranges, key):
    reference, plain = reference_of(ranges), WORDS if ranges is TEXT else range(5000)
    for call in ("route", "_range"):
        found = outcome(lambda: getattr(ranges, call)(key))  # noqa: B023
        assert found == outcome(lambda: getattr(reference, call)(key))  # noqa: B023
    for count in (1, 9, 0, "x"):
        found = outcome(lambda: ranges.preference(key, count))  # noqa: B023
        assert found == outcome(lambda: reference.preference(key, count))  # noqa: B023
    for place in (0, 255, 256, 4500):
        agreed(ranges, lambda: [*plain[:place], key, *plain[place:], None], threads=(1, 2))  # noqa: B023
        agreed(ranges, lambda: [*plain[:place], key, *plain[place:]], threads=(1, 2))  # noqa: B023


def test_a_list_of_preferences_is_refused_for_the_first_key_that_has_none():
    ranges = Ranges(["a", "b"], bounds=["g"], owners=[("b", "a"), "a"])
    reference = reference_of(ranges)
    for keys in (["a", "z", 5], ["a", 5, "z"], ["a"], [], "ab"):
        expected = outcome(lambda: reference.preference_many(keys, 2))  # noqa: B023
        assert expected == outcome(lambda: ranges.preference_many(keys, 2))  # noqa: B023
    with answered_by_the_twin(3):
        assert [("b",), ("a",), ("b",)] == ranges.preference_many(["a", "z", "b"], 1, threads=2)
    with answered_by_the_twin(2):
        assert [("b", "a"), ("b", "a")] == ranges.preference_many(["a", "b"], 2)


def test_nodes_that_drain_or_share_a_zone_are_refused_as_in_the_reference():
    topology = Topology([Node("a", zone=("x",)), Node("b", zone=("x",)), Node("c", weight=0, zone=("y",))])
    ranges = Ranges(topology, bounds=["g"], owners=[("a", "b", "c"), ("c", "a")])
    for count in (1, 2, 3, 4):
        for spread in ("strict", "best-effort", "other"):
            asked = [
                outcome(lambda: each.preference("a", count, spread=spread))  # noqa: B023
                for each in (ranges, reference_of(ranges))
            ]
            assert asked[0] == asked[1]


def test_groups_are_those_of_single_calls():
    keys = [f"tenant-{number:05}" for number in range(0, 9999, 7)]
    with answered_by_the_twin(2 * len(keys)):  # where each is, and then in order of nodes
        groups = group_keys(TEXT, keys)
    assert {key: node for node, group in groups.items() for key in group} == {key: TEXT.route(key) for key in keys}


def test_sixteen_threads_of_python_at_once():
    keys = [*(f"tenant-{number:05}" for number in range(9000)), "é", b"raw", UUID(int=9), *WORDS]
    numbers, frozen = list(range(-9000, 9000)), pa.array(WORDS * 3)
    expected = [reference_of(TEXT).route_indexes(keys), reference_of(TEXT).route_indexes(WORDS * 3)]
    expected.append(reference_of(INTS).route_indexes(numbers))

    def call(number):
        threads = number % 4 + 1
        asked = [TEXT.route_indexes(keys, threads=threads), TEXT.route_indexes(frozen, threads=threads)]
        return b"".join([*asked, INTS.route_indexes(numbers, threads=threads)])

    assert {b"".join(expected)} == hammered(call, rounds=5)


def test_a_boundary_takes_its_bytes_and_forty_more_at_most():
    assert INTS._bytes() <= 40 * 4001
    assert TEXT._bytes() <= 40 * (len(WORDS) + 1) + sum(len(word.encode()) for word in WORDS)


def test_ranges_are_asked_only_when_they_are_made_and_made_only_once():
    bare = Ranges.__new__(Ranges)
    with pytest.raises(RuntimeError, match="before it was made"):
        bare.route("k")
    with pytest.raises(AttributeError, match="never changes"):
        Ranges.__init__(laid(["a"]), ["a"], bounds=[], owners=["a"])
    with pytest.raises(RuntimeError, match="made already"):
        laid(["a"])._lay(("a",), (), ((0,),), False)


@pytest.mark.parametrize(
    ("bounds", "rows", "are_ints"),
    [
        ((), (), False), ((), ((),), False), ((), ((1,),), False), ((b"a",), ((0,),), False), ((1,), ((0,),), True),
        ((b"b", b"a"), ((0,),) * 3, False), ((b"a", b"a"), ((0,),) * 3, False), ((2, 1), ((0,),) * 3, True),
    ],
)  # fmt: skip
def test_what_are_no_ranges_stops_in_python(bounds, rows, are_ints):
    with pytest.raises(ValueError, match="each"):
        native.extension.RangeRouter()._lay(("a",), bounds, rows, are_ints)
