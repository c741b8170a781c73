"""A key has the same bytes wherever it is read, and what has no stable bytes is refused."""

import sys
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidInput
from apportion.placement.keys.key_bytes import MAX_KEY_BYTES, key_bytes

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts)
def test_a_str_is_its_utf_8_bytes(text):
    assert text.encode("utf-8") == key_bytes(text) == key_bytes(text.encode("utf-8"))


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_int_is_eight_bytes_little_endian_twos_complement(number):
    assert bytes(number >> 8 * place & 255 for place in range(8)) == key_bytes(number)


@given(st.uuids())
def test_a_uuid_is_its_36_lower_case_characters(uuid):
    assert str(uuid).lower().encode() == key_bytes(uuid)
    assert key_bytes(uuid) == key_bytes(UUID(str(uuid).upper()))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("", b""),
        (b"", b""),
        (0, b"\0" * 8),
        (-1, b"\xff" * 8),
        (258, b"\x02\x01" + b"\0" * 6),
        (2**63 - 1, b"\xff" * 7 + b"\x7f"),
        ("a\0b", b"a\0b"),
        ("é", b"\xc3\xa9"),
        ("e\u0301", b"e\xcc\x81"),
        (UUID(int=10), b"00000000-0000-0000-0000-00000000000a"),
    ],
)
def test_each_kind_of_key_has_its_documented_bytes(key, expected):
    assert expected == key_bytes(key)


@pytest.mark.parametrize("unit", ["x", "é", "節", "𝄞"])
def test_a_key_of_64_kibibytes_is_the_longest(unit):
    fits = MAX_KEY_BYTES // len(unit.encode())
    assert fits * unit.encode() == key_bytes(fits * unit) == key_bytes(fits * unit.encode())
    for key in ((fits + 1) * unit, (fits + 1) * unit.encode()):
        with pytest.raises(InvalidInput, match="at most 65536 bytes"):
            key_bytes(key)


@pytest.mark.parametrize("text", ["\ud800", "ok\udfff", "\ud800" * 30_000])
def test_half_a_surrogate_is_refused(text):
    with pytest.raises(InvalidInput, match="without unpaired surrogates"):
        key_bytes(text)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**100])
def test_an_int_beyond_64_bits_is_refused(number):
    with pytest.raises(InvalidInput, match="an int of 64 bits, signed"):
        key_bytes(number)


@pytest.mark.parametrize("key", [True, 1.0, None, bytearray(b"k"), memoryview(b"k"), ("a",), ["a"], object()])
def test_what_has_no_stable_bytes_is_refused(key):
    with pytest.raises(InvalidInput, match="a str, bytes, int or UUID") as caught:
        key_bytes(key)
    assert "0x" not in str(caught.value)


NUMPY_KEYS = [
    (np.int8(-2), -2), (np.uint16(7), 7), (np.int32(1), 1), (np.int64(-(2**63)), -(2**63)), (np.uint64(5), 5),
    (np.str_("é"), "é"), (np.bytes_(b"raw"), b"raw"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), NUMPY_KEYS)
def test_a_scalar_of_numpy_is_the_key_of_its_python_value(key, value):
    assert key_bytes(value) == key_bytes(key)


@pytest.mark.parametrize(
    "key",
    [np.float64(1), np.float32(1), np.bool(1), np.timedelta64(5), np.datetime64(5, "s"), np.array(5), np.complex64(1)],
)
def test_any_other_scalar_of_numpy_and_an_array_are_refused(key):
    with pytest.raises(InvalidInput, match="a str, bytes, int or UUID"):
        key_bytes(key)


def test_an_unsigned_integer_of_numpy_beyond_63_bits_is_refused_like_the_python_value():
    with pytest.raises(InvalidInput, match="an int of 64 bits, signed"):
        key_bytes(np.uint64(2**63))


def test_a_subclass_of_str_cannot_answer_for_the_key():
    class Hostile(str):
        __slots__ = ()

        def encode(self, *_):
            return b"other"

        def __len__(self):
            return 0

    assert b"k" == key_bytes(Hostile("k"))
    with pytest.raises(InvalidInput, match="at most 65536 bytes"):
        key_bytes(Hostile("k" * 65_537))


def test_a_subclass_of_bytes_cannot_answer_for_the_key():
    class Hostile(bytes):
        __slots__ = ()

        def __getitem__(self, _):
            return b"other"

        def __len__(self):
            return 0

    assert b"k" == key_bytes(Hostile(b"k"))
    assert bytes is type(key_bytes(Hostile(b"k")))


def test_interning_makes_no_difference():
    assert key_bytes(sys.intern("tenant-1")) == key_bytes("".join(["tenant", "-1"]))
