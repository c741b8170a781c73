"""What the members of a form may be: the last value that is taken, and the first that is not."""

import pytest

from apportion.errors import BadSnapshot
from apportion.model.codec import parsing


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (parsing.hexadecimal, "f" * 32, 2**128 - 1),
        (parsing.hexadecimal, "0", 0),
        (parsing.integer, 2**64 - 1, 2**64 - 1),
        (parsing.integer, -(2**64) + 1, -(2**64) + 1),
        (parsing.text, "", ""),
        (parsing.names_in, ["a", ""], ("a", "")),
        (parsing.names_in, [], ()),
    ],
)
def test_the_last_value_that_fits_is_taken(read, value, expected):
    assert expected == read(value)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (parsing.hexadecimal, ""),
        (parsing.hexadecimal, "f" * 33),
        (parsing.hexadecimal, "0x1"),
        (parsing.hexadecimal, "\u0661"),
        (parsing.integer, 2**64),
        (parsing.integer, -(2**64)),
        (parsing.integer, True),
        (parsing.integer, 1.0),
        (parsing.text, 1),
        (parsing.text, None),
        (parsing.names_in, [1]),
        (parsing.names_in, ["a", 1]),
        (parsing.names_in, "a"),
    ],
)
def test_the_first_that_does_not_is_refused(read, value):
    with pytest.raises(BadSnapshot):
        read(value)
