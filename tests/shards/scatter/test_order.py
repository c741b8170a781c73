"""The place of a row in an order is that of its database: NULL, NaN, equal values and both directions."""

from decimal import Decimal
from functools import cmp_to_key
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.shards.scatter.order import OrderKey, sort_key

NAN = float("nan")
NUMBERS = st.sampled_from([None, NAN, Decimal("NaN"), -1, 0, 0.0, True, 2.5, Decimal("2.5"), 10**20, float("inf")])
TEXTS = st.sampled_from([None, "", "a", "b", "é"])


def ranked(value, key):
    """Return a value between NULL, NaN and the numbers."""
    if value is None:
        return (-1 if key.has_nulls_first else 1, 0, "")
    is_nan = value != value  # noqa: PLR0124 - NaN differs from itself
    return (0, 1 if is_nan else 0, "" if is_nan else value)


def compared(keys):
    """Return a comparison of two rows, one key after another."""

    def found(one, two):
        for key in keys:
            first, second = (ranked(row[key.place], key) for row in (one, two))
            if first != second:
                is_less = first < second
                is_turned = key.is_descending and first[0] == second[0] == 0
                return 1 if is_less == is_turned else -1
        return 0

    return found


@pytest.mark.parametrize(("is_descending", "has_nulls_first"), [*product([False, True], repeat=2)])
@given(rows=st.lists(st.tuples(NUMBERS, TEXTS), max_size=12))
def test_rows_have_the_places_of_a_plain_comparison(is_descending, has_nulls_first, rows):
    first = OrderKey(place=0, is_descending=is_descending, has_nulls_first=has_nulls_first)
    keys = [first, OrderKey(place=1, is_descending=not is_descending, has_nulls_first=not has_nulls_first)]
    assert sorted(rows, key=cmp_to_key(compared(keys))) == sorted(rows, key=sort_key(keys))


@pytest.mark.parametrize("is_descending", [False, True])
def test_digits_beyond_the_precision_of_the_process_have_an_order(is_descending):
    one, two = Decimal(10**40), Decimal(10**40 + 1)
    place = sort_key([OrderKey(place=0, is_descending=is_descending)])
    assert is_descending == (place([two]) < place([one]))
