"""What Java computes: numbers that a Java virtual machine of version 17 printed, and what they follow from."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.balance.helix.heap import Heap
from apportion.balance.helix.jenkins import hash1, hash2, hash3
from apportion.balance.helix.shuffle import Random, shuffle
from apportion.balance.java.hashmap import bins_for, in_order, in_order_of_copy
from apportion.balance.java.values import float32, signed, string_hash, string_order


def test_random_numbers_are_those_of_java_also_where_they_are_drawn_again():
    random, total = Random(-7), 0
    for number in range(1000):
        total = total * 31 + random.below((1 << 30) + 1 + number)
    assert -7332469833878674388 == (total + 2**63) % 2**64 - 2**63


def test_a_shuffle_is_that_of_java():
    cards = list(range(1, 7))
    shuffle(cards, 42)
    assert [2, 1, 5, 6, 4, 3] == cards


def test_sets_are_walked_as_in_java():
    letters = "opqrstuvwxyz"
    assert "pqrstuvwxyzo" == "".join(in_order(letters))
    assert "opqrstuvwxyz" == "".join(in_order_of_copy(letters))


def test_a_map_that_was_larger_once_keeps_its_bins():
    assert in_order("opqrstuvwxyz", most=13) == in_order_of_copy("opqrstuvwxyz") != in_order("opqrstuvwxyz")


def test_keys_of_one_hash_keep_their_order():
    assert ["BB", "Aa"] == in_order(["BB", "Aa"])
    assert ["Aa", "BB"] == in_order(["Aa", "BB"])


def test_a_priority_queue_gives_equals_out_as_java_does():
    heap, order = (
        Heap(["bb", "a", "cc", "dd", *"ef", "gg", "hh", "i", "jj", "k", "ll"], lambda text: (len(text), 0)),
        [],
    )
    while len(heap):
        order.append(heap.pop())
        if len(order) <= 4:
            heap.push(order[-1] + "x")
    assert "a e i k f kx bb jj dd hh gg cc ax ll ix ex" == " ".join(order)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2))))
def test_a_priority_queue_gives_the_least_first(ranks):
    heap = Heap(list(ranks), lambda rank: rank)
    popped = [heap.pop() for _ in ranks]
    assert sorted(ranks) == popped
    assert not len(heap)


def test_strings_are_hashed_and_ordered_by_units_of_16_bits():
    assert (-1082655647, 1772899, 0) == (string_hash("TestDB_0"), string_hash("\N{GRINNING FACE}"), string_hash(""))
    assert ["a", "\N{GRINNING FACE}", "\ue000"] == sorted(["\ue000", "\N{GRINNING FACE}", "a"], key=string_order)


@given(st.text("aZ~é節🙂\0\uffff", max_size=40))
def test_a_hash_is_a_polynomial_of_units(text):
    data = text.encode("utf-16-le", "surrogatepass")
    units = [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]
    assert signed(sum(unit * 31**place for place, unit in enumerate(reversed(units)))) == string_hash(text)


def test_jenkins_hashes_are_those_of_helix():
    assert (3574081617, 3079532188) == (hash1(1), hash2(1, 2))
    assert (1935332395, 3127571618) == (hash3(1, 2, 3), hash3(-5, 7, 1))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=1, max_value=2**100))
def test_a_float_of_32_bits_stays_and_its_neighbourhood_rounds_to_it(number):
    assert number == float32(number) == float32(number * (1 + 2**-40))


def test_floats_of_32_bits_grow_with_what_is_rounded():
    rounded = [float32(0.1 + step * 1e-9) for step in range(100)]
    assert all(before <= after for before, after in pairwise(rounded))
    assert 0.1 != rounded[0]


@pytest.mark.parametrize(
    ("text", "hashed"), [("", 0), ("a", 97), ("orders", -1008770331), ("consumer-1", -166239206), ("é🙂", 1996878)]
)
def test_a_string_hashes_as_in_java(text, hashed):
    assert hashed == string_hash(text)


def test_a_map_is_walked_as_in_java():
    expected = "121 100 144 16 49 25 36 4 9 64 81 1 0"
    assert expected == " ".join(key[7:] for key in in_order([f"member-{number * number}" for number in range(13)]))
    expected = (
        "121 484 100 144 441 16 361 36 4 9 256 576 676 49 196 25 64 81 1 529 0 729 625 289 784 169 400 225 324 841"
    )
    assert expected == " ".join(key[7:] for key in in_order([f"member-{number * number}" for number in range(30)]))


def test_keys_of_one_bin_are_walked_in_the_order_they_came_in():
    assert ["a", "q", "b"] == in_order(["b", "a", "q"])
    assert ["q", "a", "b"] == in_order(["q", "b", "a"])


def test_a_map_grows_above_three_quarters():
    assert [16, 16, 32, 32, 64, 4096] == [bins_for(keys) for keys in (0, 12, 13, 24, 25, 3072)]


def test_strings_are_in_the_order_of_their_units():
    assert ["z", "🙂", "\uff5e"] == sorted(["\uff5e", "🙂", "z"], key=string_order)
