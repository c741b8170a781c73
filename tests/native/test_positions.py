"""The twin's positions are the reference's: on every stored vector, every short length and every kind of key."""

import json
import random
from enum import IntEnum
from functools import reduce
from operator import xor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import hashers, native
from apportion.errors import ApportionError, InvalidInput
from apportion.placement.keys.key_bytes import MAX_KEY_BYTES
from tests.native.comparing import SECRET, SECRETS, answered_by_the_twin, needs_twin, reference, twin
from tests.placement import test_golden, test_hashers

pytestmark = needs_twin
every_hasher = pytest.mark.parametrize("name", hashers.names())


@every_hasher
def test_stored_hashes_are_the_twins(name):
    stored = json.loads((test_golden.VECTORS / "hashes.json").read_text())["answers"][name]
    shift = 64 - hashers.get(name, key=SECRETS[name]).bits
    assert stored == {label: f"{twin(name, key) >> shift:x}" for label, key in test_golden.KEYS.items()}


def test_published_hashes_are_the_twins():
    published = [
        *(("xxh3-64", test_hashers.sanity_buffer(length), known) for length, known in test_hashers.XXH3_64.items()),
        *(("xxh64", test_hashers.sanity_buffer(length), known) for length, known in test_hashers.XXH64.items()),
        *(("siphash-2-4", bytes(range(length)), known) for length, known in test_hashers.SIPHASH_2_4.items()),
        *((name, data, known) for name, of in test_hashers.PUBLISHED.items() for data, known in of.items()),
    ]
    for name, data, known in published:
        assert known << (64 - hashers.get(name, key=SECRETS[name]).bits) == twin(name, data)


@every_hasher
def test_every_length_from_0_to_300_and_some_long_ones(name):
    source = random.Random(300)
    for length in (*range(301), 511, 512, 1023, 1024, 1025, 4096, 65_535, 65_536):
        data = source.randbytes(length)
        assert reference(name, data) == twin(name, data), length


@every_hasher
@given(data=st.binary(max_size=2000))
def test_bytes(name, data):
    assert reference(name, data) == twin(name, data)


@every_hasher
@given(text=st.text())
def test_texts_of_every_script(name, text):
    assert reference(name, text) == twin(name, text) == twin(name, text.encode())


@given(text=st.text(st.sampled_from("aé節𝄞\0\x7f\x80ÿĀ")))
def test_texts_at_the_edges_of_the_widths_of_characters(text):
    assert reference("xxh3-64", text) == twin("xxh3-64", text)


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_numbers(number):
    assert reference("xxh3-64", number) == twin("xxh3-64", number)


@pytest.mark.parametrize("number", [0, 1, -1, 2**30, 2**31, 2**32, -(2**31), 2**60, 2**63 - 1, -(2**63)])
def test_numbers_at_the_ends_of_the_words(number):
    assert reference("xxh3-64", number) == twin("xxh3-64", number)


@given(uuid=st.uuids())
def test_uuids(uuid):
    assert reference("xxh3-64", uuid) == twin("xxh3-64", uuid)


@given(keys=st.lists(st.one_of(st.text(), st.binary(), st.integers(-(2**63), 2**63 - 1), st.uuids())))
def test_a_list_of_keys_of_every_kind(keys):
    with answered_by_the_twin(len(keys)):
        found = native.extension.positions("xxh3-64", keys)
    assert b"".join(reference("xxh3-64", key).to_bytes(8, "little") for key in keys) == found


class Text(str):
    __slots__ = ()

    def encode(self, *_):
        return b"other"

    def __len__(self):
        return 0


class Data(bytes):
    __slots__ = ()

    def __len__(self):
        return 0


class Number(int):
    def to_bytes(self, *_, **__):
        return b"other"


class Colour(IntEnum):
    RED = 7


SUBCLASSED = [Text("k"), Text("é"), Data(b"k"), Number(5), Colour.RED]


@pytest.mark.parametrize("key", SUBCLASSED, ids=range(len(SUBCLASSED)))
def test_a_subclass_cannot_answer_for_the_key(key):
    assert reference("xxh3-64", key) == twin("xxh3-64", key)


REFUSED = [
    True, False, 1.5, None, object, bytearray(b"k"), memoryview(b"k"), ["k"], ("k",), {}, 2**63, -(2**63) - 1, 10**100,
    Number(2**64), "\ud800", "ok\udfff", "é\ud800", "\ud800" * 30_000, "\ud800" * 70_000, Text("\udfff"),
    "x" * (MAX_KEY_BYTES + 1), "é" * (MAX_KEY_BYTES // 2 + 1), "節" * MAX_KEY_BYTES, b"x" * (MAX_KEY_BYTES + 1),
    Text("x" * (MAX_KEY_BYTES + 1)), Data(b"x" * (MAX_KEY_BYTES + 1)),
]  # fmt: skip


def complaint(call, *arguments):
    """Return the type and the text of what a call raises."""
    with pytest.raises(ApportionError) as caught:
        call(*arguments)
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize("key", REFUSED, ids=range(len(REFUSED)))
def test_what_the_reference_refuses_the_twin_refuses_in_the_same_words(key):
    expected = complaint(reference, "xxh3-64", key)
    with answered_by_the_twin(0):
        assert expected == complaint(native.extension.position, "xxh3-64", key)
        assert expected == complaint(native.extension.positions, "xxh3-64", ["a", key, "b"])


@given(text=st.text(st.characters(exclude_categories=[]), max_size=20))
def test_texts_with_and_without_half_surrogates(text):
    try:
        expected = reference("xxh3-64", text)
    except InvalidInput:
        assert complaint(reference, "xxh3-64", text) == complaint(native.extension.position, "xxh3-64", text)
    else:
        assert expected == twin("xxh3-64", text)


@pytest.mark.parametrize("unit", ["x", "é", "節", "𝄞"])
def test_the_longest_keys(unit):
    text = MAX_KEY_BYTES // len(unit.encode()) * unit
    assert reference("xxh3-64", text) == twin("xxh3-64", text) == twin("xxh3-64", text.encode())


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("murmur", None), ("", None), ("XXH3-64", None), ("xxh3-64", SECRET), ("siphash-2-4", None),
        ("siphash-2-4", b"hunter2"), ("siphash-2-4", SECRET + b"x"), ("siphash-2-4", b""),
    ],
)  # fmt: skip
def test_a_hasher_that_the_reference_refuses_the_twin_refuses_in_the_same_words(name, secret):
    expected = complaint(lambda: hashers.get(name, key=secret))
    assert expected == complaint(native.extension.position, name, "k", secret)
    assert expected == complaint(native.extension.positions, name, ["k"], secret)
    assert "hunter2" not in expected[1]


def test_reading_a_key_leaves_no_copy_of_it_behind():
    import sys

    keys = [f"schlüssel-{number}" for number in range(100)]
    before = sum(map(sys.getsizeof, keys))
    native.extension.positions("xxh3-64", keys)
    assert before == sum(map(sys.getsizeof, keys))


def test_hashes_folded_into_one_are_those_of_the_keys():
    keys = [f"k{number}" for number in range(1000)]
    with answered_by_the_twin(len(keys)):
        folded = native.extension.folded(hashers.DEFAULT, keys)
    assert folded == reduce(xor, map(hashers.get(), map(str.encode, keys)))
    assert 0 == native.extension.folded(hashers.DEFAULT, [])
