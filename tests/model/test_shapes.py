"""What the members of a form may be: the last value that is taken, and the first that is not."""

import pytest

from apportion.errors import BadSnapshot
from apportion.model import shapes


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (shapes.hexadecimal, "f" * 32, 2**128 - 1),
        (shapes.hexadecimal, "0", 0),
        (shapes.integer, 2**64 - 1, 2**64 - 1),
        (shapes.integer, -(2**64) + 1, -(2**64) + 1),
        (shapes.text, "", ""),
        (shapes.names_in, ["a", ""], ("a", "")),
        (shapes.names_in, [], ()),
    ],
)
def test_the_last_value_that_fits_is_taken(read, value, expected):
    assert expected == read(value)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (shapes.hexadecimal, ""),
        (shapes.hexadecimal, "f" * 33),
        (shapes.hexadecimal, "0x1"),
        (shapes.hexadecimal, "\u0661"),
        (shapes.integer, 2**64),
        (shapes.integer, -(2**64)),
        (shapes.integer, True),
        (shapes.integer, 1.0),
        (shapes.text, 1),
        (shapes.text, None),
        (shapes.names_in, [1]),
        (shapes.names_in, ["a", 1]),
        (shapes.names_in, "a"),
    ],
)
def test_the_first_that_does_not_is_refused(read, value):
    with pytest.raises(BadSnapshot):
        read(value)
