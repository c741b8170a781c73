"""Ranges of slots: each key has one slot after any splits and merges, and only the named range changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import BadRange, BadSnapshot, InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.topology import Node, Topology
from apportion.shards.ranges.range_map import RangeBounds, RangeMap, check_bound
from apportion.shards.slots import (
    FIRST_RANGE,
    SlotTable,
    shard_key_bytes,
    slots_by,
    with_own_slot,
    with_part,
    without_own_slot,
)
from apportion.tables.layout import Version

TOPOLOGY = Topology([Node("one"), Node("two")])
VERSION = Version(incarnation=1, number=1)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=4)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
KINDS = st.sampled_from([TEXT, NUMBERS])


def named(*names):
    return Assignment(topology=TOPOLOGY, rows=((0,),) * len(names), names=names)


def table(assignment):
    return SlotTable.of(VERSION, assignment)


class Twin:
    """The dumb twin: a list of the first keys of all slots, which is searched from its end."""

    def __init__(self):
        self.starts = [(None, 0)]

    def slot(self, key):
        return next(slot for start, slot in reversed(self.starts) if start is None or start <= key)

    def split(self, at, slot):
        self.starts = sorted([*self.starts[1:], (at, slot)])
        self.starts.insert(0, (None, 0))

    def merge(self, slot):
        self.starts = [each for each in self.starts if each[1] != slot]


@given(st.data(), KINDS)
def test_each_key_has_the_slot_of_the_twin_after_any_splits_and_merges(data, kind):
    value, twin = named(FIRST_RANGE), Twin()
    keys = data.draw(st.lists(kind, min_size=1, max_size=12))
    for number in range(1, data.draw(st.integers(1, 8))):
        before = table(value)
        gone = sorted(slot for slot in before.owners if slot)
        if gone and data.draw(st.booleans()):
            changed = data.draw(st.sampled_from(gone))
            value = without_own_slot(value, changed)
            twin.merge(changed)
        else:
            at = data.draw(st.sampled_from(keys) | kind)
            changed = number
            former = before.slot(at)
            if before.ranges.bounds[former].start == at:
                with pytest.raises(BadRange):
                    with_part(value, former, at, number, "two")
                continue
            value = with_part(value, former, at, number, "two")
            twin.split(at, number)
        after = table(value)
        for key in keys:
            assert twin.slot(key) == after.slot(key)
            assert before.slot(key) == after.slot(key) or changed in (before.slot(key), after.slot(key))
    assert [slot for _, slot in twin.starts] == [*table(value).ranges.slots]


@given(KINDS.flatmap(lambda kind: st.tuples(kind, kind)))
def test_a_range_reads_its_own_text(bounds):
    start, end = bounds
    for each in (RangeBounds(start=start, end=end), RangeBounds(start=start), RangeBounds(end=end)):
        assert each == RangeBounds.of(str(each))


@given(st.lists(TEXT, min_size=2, max_size=5))
def test_text_is_ordered_by_its_bytes(keys):
    assert sorted(keys) == sorted(keys, key=shard_key_bytes)


def test_a_key_with_its_own_slot_is_in_no_range():
    value = with_own_slot(with_part(named(FIRST_RANGE), 0, "m", 1, "two"), 2, b"tiger", "one")
    assert [2, 1, 0] == [table(value).slot(key) for key in ("tiger", "tigers", "cat")]
    assert 2 == table(without_own_slot(value, 1)).slot("tiger")
    assert 1 == table(without_own_slot(value, 2)).slot("tiger")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("0[,m)", "1[l,)"), r"range is '1\[l,\)', expected one from m on, where 0\[,m\) ends"),
        (("0[,m)", "1[n,)"), r"range is '1\[n,\)', expected one from m on"),
        (("0[,)", "1[m,)"), r"range is '1\[m,\)', expected none after 0\[,\)"),
        (("0[,m)", "1[m,t)"), "a last range without an end"),
        (("0[a,)",), "one without a start"),
        (("0[,m)", "1[m,5)", "2[5,)"), "bounds of one kind"),
        (("0[,m)", "1[,m)", "2[m,)"), "where 0"),
        (("0[,t)", "1[t,m)", "2[m,)"), "range is"),
        (("0[,m)", "1"), "a range in each name"),
        (("0[,m", "1[m,)"), "a range such as"),
        (("0[,07)", "1[07,)"), "a range such as"),
        (("0[,m n)", "1[m n,)"), "a range such as"),
        (("0[,m)", "0[m,)"), "a slot and a key that no other partition names"),
    ],
)
def test_a_table_with_ranges_that_do_not_fit_is_refused(names, said):
    with pytest.raises(BadSnapshot, match=said):
        table(named(*names))


def test_a_key_of_another_kind_is_refused():
    text, numbers = (table(with_part(named(FIRST_RANGE), 0, at, 1, "one")) for at in ("m", 5))
    for kept, key in ((text, 5), (numbers, "5"), (text, ("a", "b")), (text, True)):
        with pytest.raises(InvalidInput):
            kept.slot(key)
    assert [1, 1, 0] == [text.slot(key) for key in (b"m", "m", "")]


@pytest.mark.parametrize("at", ["", "a\0", "\ud800", 2**63, True, None, b"m", 1.5])
def test_a_bound_is_text_or_an_integer(at):
    with pytest.raises(BadRange, match="boundary of the split"):
        check_bound(at)


def test_neighbours_come_in_the_order_of_their_keys():
    ranges = RangeMap(bounds={0: RangeBounds(end="m"), 2: RangeBounds(start="m", end="t"), 1: RangeBounds(start="t")})
    assert [(0, 2), (2, 1)] == [ranges.neighbours(2, 0), ranges.neighbours(1, 2)]
    for pair in ((0, 1), (0, 0)):
        with pytest.raises(BadRange, match="slot to merge"):
            ranges.neighbours(*pair)
    with pytest.raises(BadRange, match="Keep the first range"):
        ranges.without(0)


def test_a_set_by_lists_or_ranges_begins_with_one_slot():
    assert [4096, 1, 1, 64] == [
        slots_by("hash", None),
        slots_by("lists", None),
        slots_by("ranges", 1),
        slots_by("hash", 64),
    ]
    for by, slots in (("ranges", 64), ("rows", None), ("hash", 3)):
        with pytest.raises(InvalidInput):
            slots_by(by, slots)
