"""The hash functions that layouts prescribe are those of the reference, for all bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import native
from apportion.placement import catalog, hashers
from tests.native.comparing import answered_by_the_twin, needs_twin

pytestmark = needs_twin

LABELS = ("cassandra-murmur3", "crc32", "kafka-murmur2", "md5-first-word", "redis-slot")
TAGS = [b"{}a", b"a{b", b"}a{b}", b"a{{b}}c", b"{a}{b}", b"{a", b"a}", b"{}{a}", b""]
LEAST_TOKEN = bytes.fromhex("ee961629b0b5ad1d319e18e83892dbed")


@pytest.mark.parametrize("label", LABELS)
@given(st.binary(max_size=70) | st.lists(st.sampled_from([b"{", b"}", b"a", b"\xff"])).map(b"".join))
def test_a_layouts_hash_is_that_of_the_reference(label, data):
    agrees(label, data)


@pytest.mark.parametrize("label", LABELS)
def test_it_is_at_every_length_and_for_every_tag(label):
    for data in (*TAGS, *(bytes([200, 7]) * (length // 2) + b"\x80" * (length % 2) for length in range(65))):
        agrees(label, data)


@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_it_is_for_every_byte_alone(label):
    for byte in range(256):  # each of which asks another entry of a table
        agrees(label, bytes([byte]))


def test_a_key_that_hashes_to_the_least_token_of_cassandra_stands_at_the_last_position():
    assert 2**64 - 1 == native.extension.position("cassandra-murmur3", LEAST_TOKEN)
    agrees("cassandra-murmur3", LEAST_TOKEN)


def agrees(label, data):
    with answered_by_the_twin(1):
        position = native.extension.position(label, data)
    assert hashers.position_of(catalog.hasher(label))(data) == position
