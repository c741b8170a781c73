"""Rows read like tuples of tuples, whatever lies behind them, and find what is no list of indexes."""

import pickle
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidInput
from apportion.model.rows import NOBODY, Rows

listed = st.lists(st.lists(st.integers(0, 9), max_size=4, unique=True).map(tuple), max_size=8).map(tuple)


def rows_of(buffer, width):
    """Return rows over a buffer as it is, whatever it holds."""
    return Rows(array("I", buffer), width=width)


@given(listed)
def test_rows_read_like_the_tuples_they_were_made_of(rows):
    laid = Rows.of(rows)
    assert (list(rows), len(rows), list(reversed(rows))) == (list(laid), len(laid), list(reversed(laid)))
    assert [rows[place] for place in range(-len(rows), len(rows))] == [
        laid[place] for place in range(-len(rows), len(rows))
    ]
    assert rows[1::2] == laid[1::2]
    assert rows[::-1] == laid[::-1]


@given(listed, listed)
def test_rows_are_equal_exactly_when_their_tuples_are(left, right):
    assert (left == right) == (Rows.of(left) == Rows.of(right)) == (Rows.of(left) == right)


@given(listed)
def test_rows_are_found_in_a_dictionary_by_their_tuples(rows):
    assert "found" == {rows: "found"}[Rows.of(rows)]


def test_rows_of_another_width_are_equal_if_their_tuples_are():
    wide = rows_of([0, 1, NOBODY, 2, NOBODY, NOBODY], 3)
    assert Rows.of([(0, 1), (2,)]) == wide
    assert hash(Rows.of([(0, 1), (2,)])) == hash(wide)
    assert Rows.of([(0, 1), (2, 3)]) != wide


def test_rows_differ_from_what_is_no_sequence_of_tuples():
    assert Rows.of([(0,)]) != 1
    assert Rows.of([(0,)]) != [[0]]
    assert Rows.of([(0,), (1,)]) != [(0,)]


def test_a_row_out_of_reach_is_an_index_error():
    with pytest.raises(IndexError):
        Rows.of([(0,)])[1]


def test_rows_of_rows_are_the_same_rows():
    rows = Rows.of([(0,)])
    assert rows is Rows.of(rows)


@given(listed, st.integers(1, 12))
def test_the_first_row_that_is_no_list_of_distinct_known_indexes_is_found(rows, nodes):
    expected = next((place for place, row in enumerate(rows) if any(index >= nodes for index in row)), None)
    assert expected == Rows.of(rows).first_invalid(nodes)


@pytest.mark.parametrize(
    ("buffer", "width", "place"),
    [
        ([0, 1, 2, 2], 2, 1),
        ([0, 1, 2, 1, 2, 1], 3, 1),
        ([0, 1, NOBODY, 2, 2, NOBODY], 3, 1),
        ([0, NOBODY, 1, 0, 1, 2], 3, 0),
        ([NOBODY, 0], 2, 0),
        ([0, 1, 2, NOBODY, NOBODY, NOBODY], 3, None),
        ([0, 3], 2, 0),
    ],
)
def test_an_index_twice_too_large_or_after_the_end_of_its_row_is_found(buffer, width, place):
    assert place == rows_of(buffer, width).first_invalid(3)


@pytest.mark.parametrize(("buffer", "width"), [(array("I", [1, 2, 3]), 2), (array("Q", [1]), 1), (array("I"), 0)])
def test_a_buffer_that_cannot_be_rows_is_refused(buffer, width):
    with pytest.raises(InvalidInput, match="rows is"):
        Rows(buffer, width=width)


def test_rows_are_written_little_endian_with_their_width():
    assert "02000000000000000100000002000000ffffffff" == Rows.of([(0, 1), (2,)]).to_bytes().hex()


@given(listed)
def test_rows_survive_pickling(rows):
    assert Rows.of(rows) == pickle.loads(pickle.dumps(Rows.of(rows)))


def test_few_rows_are_shown_and_many_are_counted():
    assert "Rows.of([(0, 1), ()])" == repr(Rows.of([(0, 1), ()]))
    assert "<9 rows of 1>" == repr(Rows.of([(0,)] * 9))
