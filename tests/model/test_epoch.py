"""An epoch is a number and a digest; both are checked, and digests of different parts differ."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Epoch
from apportion.errors import InvalidInput
from apportion.model.epoch import content_digest

DIGEST = "0123456789abcdef" * 2


def test_epochs_are_equal_when_number_and_digest_are():
    assert Epoch(number=1, digest=DIGEST) == Epoch(number=1, digest=DIGEST)
    assert Epoch(number=1, digest=DIGEST) != Epoch(number=2, digest=DIGEST)
    assert Epoch(number=1, digest=DIGEST) != Epoch(number=1, digest=DIGEST[::-1])


def test_an_epoch_prints_its_number_and_the_beginning_of_its_digest():
    assert "7:01234567" == str(Epoch(number=7, digest=DIGEST))


@pytest.mark.parametrize("number", [-1, 2**63, 1.0, True, None, "1"])
def test_a_number_that_cannot_count_is_refused(number):
    with pytest.raises(InvalidInput, match="epoch number is"):
        Epoch(number=number, digest=DIGEST)


@pytest.mark.parametrize("digest", ["", DIGEST[1:], DIGEST + "0", DIGEST.upper(), "g" * 32, b"0" * 32, None])
def test_a_digest_that_is_not_32_hexadecimal_digits_is_refused(digest):
    with pytest.raises(InvalidInput, match="epoch digest is"):
        Epoch(number=1, digest=digest)


def test_the_largest_number_is_that_of_a_signed_64_bit_column():
    assert 2**63 - 1 == Epoch(number=2**63 - 1, digest=DIGEST).number


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_no_two_lists_of_parts_look_alike(one, other):
    assert (one == other) == (content_digest(*one) == content_digest(*other))


def test_a_digest_is_blake2b_of_lengths_and_parts():
    expected = blake2b(b"\x02\0\0\0\0\0\0\0ab" + b"\0" * 8, digest_size=16).hexdigest()
    assert expected == content_digest(b"ab", b"")
