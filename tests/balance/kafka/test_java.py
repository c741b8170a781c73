"""The orders in which Java walks: hashes as its documentation defines them, walks as Java 17 printed them."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.balance.kafka.java import buckets_for, partition_hash, text_hash, text_order, walk


@pytest.mark.parametrize(
    ("text", "hashed"), [("", 0), ("a", 97), ("orders", -1008770331), ("consumer-1", -166239206), ("é🙂", 1996878)]
)
def test_a_string_hashes_as_in_java(text, hashed):
    assert hashed % 2**32 == text_hash(text)


@given(st.text("aZ~é節🙂", max_size=20))
def test_a_hash_is_a_polynomial_of_the_units(text):
    units = text.encode("utf-16-le", "surrogatepass")
    numbers = [int.from_bytes(units[place : place + 2], "little") for place in range(0, len(units), 2)]
    assert reduce(lambda value, unit: 31 * value + unit, numbers, 0) % 2**32 == text_hash(text)


def test_a_partition_hashes_as_in_java():
    assert 31 * (31 + 7) + 116 == partition_hash(text_hash("t"), 7)


def test_a_map_is_walked_as_in_java():
    expected = "121 100 144 16 49 25 36 4 9 64 81 1 0"
    assert expected == " ".join(key[7:] for key in walk(f"member-{number * number}" for number in range(13)))
    expected = (
        "121 484 100 144 441 16 361 36 4 9 256 576 676 49 196 25 64 81 1 529 0 729 625 289 784 169 400 225 324 841"
    )
    assert expected == " ".join(key[7:] for key in walk(f"member-{number * number}" for number in range(30)))


def test_keys_of_one_bucket_are_walked_in_the_order_they_came_in():
    assert ["a", "q", "b"] == walk(["b", "a", "q"])
    assert ["q", "a", "b"] == walk(["q", "b", "a"])


def test_a_map_grows_above_three_quarters():
    assert [16, 16, 32, 32, 64, 4096] == [buckets_for(keys) for keys in (0, 12, 13, 24, 25, 3072)]


def test_strings_are_in_the_order_of_their_units():
    assert ["z", "🙂", "\uff5e"] == sorted(["\uff5e", "🙂", "z"], key=text_order)
