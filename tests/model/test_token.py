"""Ranges are half-open, never empty and never wrap; a slot starts at the smallest position that belongs to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import KeyRange
from apportion.errors import BadRange
from apportion.model.token import (
    MAX_POSITION_BYTES,
    POSITIONS,
    check_position,
    position_of_text,
    position_text,
    slot_start,
)
from apportion.placement.keys.limits import MAX_KEY_BYTES


def test_a_range_holds_its_start_and_not_its_end():
    key_range = KeyRange(3, 5)
    assert [False, True, True, False] == [position in key_range for position in (2, 3, 4, 5)]
    assert 2 == key_range.width


def test_a_range_may_be_the_whole_circle():
    assert POSITIONS == KeyRange(0, POSITIONS).width
    assert POSITIONS - 1 in KeyRange(0, POSITIONS)


@pytest.mark.parametrize(
    ("start", "end"),
    [(5, 3), (5, 5), (-1, 5), (0, POSITIONS + 1), (POSITIONS, POSITIONS), ("b", "a"), (0, "a"), (0, 1.0), (False, 5)],
)
def test_what_is_no_range_is_refused(start, end):
    with pytest.raises(BadRange, match=r"range (start|end) is"):
        KeyRange(start, end)


def test_a_range_prints_its_bounds_as_sixteen_digits():
    assert "[0000000000000000, 10000000000000000)" == str(KeyRange(0, POSITIONS))


@given(st.integers(1, 2**24), st.data())
def test_a_slot_starts_at_the_first_position_that_belongs_to_it(slots, data):
    slot = data.draw(st.integers(0, slots - 1))
    start = slot_start(slot, slots)
    assert slot == start * slots >> 64
    assert start == 0 or slot - 1 == (start - 1) * slots >> 64


@given(st.integers(1, 2**24))
def test_slots_cover_the_whole_circle(slots):
    assert (0, POSITIONS) == (slot_start(0, slots), slot_start(slots, slots))


@given(st.integers(1, 2**24), st.data())
def test_slots_differ_in_width_by_at_most_one_position(slots, data):
    slot = data.draw(st.integers(0, slots - 1))
    width = slot_start(slot + 1, slots) - slot_start(slot, slots)
    assert width in (POSITIONS // slots, -(-POSITIONS // slots))


@pytest.mark.parametrize(
    "position",
    [0, 0x0123456789ABCDEF, POSITIONS - 1, b"", bytes(range(256)), b"k" * MAX_POSITION_BYTES, None],
    ids=["first", "every digit", "last", "no bytes", "every byte", "longest", "no end"],
)
def test_a_position_comes_back_from_its_text(position):
    assert position == position_of_text(position_text(position))


@pytest.mark.parametrize(
    "text", ["b6G", "0x", "00FF", "b" + "61" * (MAX_POSITION_BYTES + 1)], ids=lambda text: text[:8]
)
def test_a_text_that_no_position_is_written_as_is_refused(text):
    with pytest.raises(BadRange, match="position is"):
        position_of_text(text)


def test_the_longest_key_is_a_position_and_one_byte_more_is_none():
    check_position("start", b"k" * MAX_KEY_BYTES)
    with pytest.raises(BadRange, match="at most 65536 bytes"):
        check_position("start", b"k" * (MAX_KEY_BYTES + 1))
