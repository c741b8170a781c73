"""Tokens are Cassandra's own, for every partitioner and kind of key, and nodes have tokens that they can have."""

import json
import pickle
from hashlib import md5
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Topology, hashers
from apportion.errors import InvalidInput, UnknownNode, UnknownOption
from apportion.placement.layouts.cassandra import HASHER, token
from apportion.placement.layouts.cassandra.murmur3 import murmur3, murmur3_by_rule
from apportion.placement.layouts.cassandra.tokens import tokens_of_nodes

VECTORS = json.loads((Path(__file__).parent / "vectors" / "cassandra_tokens.json").read_text())["tokens"]
AB = Topology(["a", "b"])
UID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def test_every_token_is_the_one_that_cassandra_gave():
    keys = [bytes.fromhex(key) for key, _, _ in VECTORS]
    assert [int(expected) for _, expected, _ in VECTORS] == [token(key) for key in keys]
    assert [int(expected) for _, _, expected in VECTORS] == [token(key, partitioner="random") for key in keys]
    assert keys == [token(key, partitioner="byteordered") for key in keys]


def test_the_vectors_hold_every_length_of_tail_with_signed_bytes_and_both_ends_of_the_ring():
    keys = [bytes.fromhex(key) for key, _, _ in VECTORS]
    assert set(range(65)) <= {len(key) for key in keys if not key.isascii() or len(key) < 2}
    assert {-(2**63), 2**63 - 1} < {int(expected) for _, expected, _ in VECTORS}


def test_a_hash_that_is_the_least_token_stands_at_the_largest():
    key = bytes.fromhex("653cbefb85ec3111b4e38fa9bc7cbcae")
    assert 2**63 == murmur3(key)
    assert 2**63 - 1 == token(key)


def test_the_empty_key_stands_before_all_others():
    assert (-(2**63), -1, b"") == (token(""), token(b"", partitioner="random"), token("", partitioner="byteordered"))


@given(st.binary(max_size=70))
def test_the_fast_hash_is_the_one_of_the_rule(data):
    assert murmur3_by_rule(data) == murmur3(data)


@given(st.binary(max_size=40), st.text(st.characters(max_codepoint=127), max_size=15))
def test_a_key_that_ends_in_ascii_hashes_as_everywhere(data, text):
    key = data[: len(data) & ~15] + text.encode()
    assert hashers.get("murmur3")(key) == murmur3(key)


def test_a_key_that_ends_otherwise_does_not():
    keys = [bytes([byte]) * length for byte in (0x80, 0xE9, 0xFF) for length in range(1, 7)]
    assert 0 == sum(hashers.get("murmur3")(key) == murmur3(key) for key in keys)


@given(st.binary(min_size=1, max_size=20))
def test_a_random_token_is_md5_without_its_sign(data):
    number = int(md5(data).hexdigest(), 16)
    assert min(number, 2**128 - number) == token(data, partitioner="random")


def test_a_key_is_its_bytes_and_an_int_is_no_bigint():
    assert token("é") == token("é".encode())
    assert token(UID) == token(str(UID)) != token(UID.bytes)
    assert token(5) == token((5).to_bytes(8, "little")) != token((5).to_bytes(8, "big"))


@pytest.mark.parametrize("key", [None, 1.0, True, bytearray(b"k"), 2**63, "\ud800", b"x" * 65_537])
def test_what_is_no_key_has_no_token(key):
    with pytest.raises(InvalidInput, match="key is"):
        token(key)


@pytest.mark.parametrize(
    ("name", "near"), [("murmur", "murmur3"), ("byteorderd", "byteordered"), ("md4", None), (3, None)]
)
def test_an_unknown_partitioner_is_refused(name, near):
    with pytest.raises(UnknownOption, match="partitioner is") as caught:
        token("k", partitioner=name)
    assert near == caught.value.nearest


def test_a_position_is_the_token_and_half_the_circle():
    keys = [bytes.fromhex(key) for key, _, _ in VECTORS]
    assert [token(key) + 2**63 for key in keys] == [HASHER(key) for key in keys] == list(map(HASHER.digest, keys))
    assert (HASHER, 64) == (pickle.loads(pickle.dumps(HASHER)), HASHER.bits)


@given(st.sets(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=9))
def test_tokens_come_sorted_in_the_order_of_the_nodes(values):
    one, *others = values
    assert ((one,), tuple(sorted(others))) == tokens_of_nodes({"b": others, "a": [one]}, AB, partitioner="murmur3")


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ({"a": [1]}, r"tokens of node 'b' is None, expected at least one"),
        ({"a": [1], "b": []}, r"tokens of node 'b' is None"),
        ({}, r"tokens of node 'a' is None"),
        ({"a": [1, 1], "b": [2]}, r"token of node 'a', listed twice, is 1, expected a token that is listed once"),
        ({"a": [1, 7], "b": [7]}, r"token of nodes 'a' and 'b' is 7, expected a token that is listed once"),
        (
            {"a": [2**63], "b": [1]},
            r"token of node 'a' is 9223372036854775808, expected an int in -9223372036854775808",
        ),
        ({"a": [-(2**63) - 1], "b": [1]}, r"token of node 'a' is -9223372036854775809"),
        ({"a": ["1"], "b": [1]}, r"token of node 'a' is '1', expected an int"),
        ({"a": [1.0], "b": [2]}, r"token of node 'a' is 1\.0"),
        ({"a": [True], "b": [2]}, r"token of node 'a' is True"),
        ({"a": [[]], "b": [2]}, r"token of node 'a' is a list"),
        ({"a": b"12", "b": [2]}, r"tokens of node 'a' is b'12', expected an iterable"),
        ({"a": 1, "b": [2]}, r"tokens of node 'a' is 1, expected an iterable"),
        ([1, 2], r"tokens is a list, expected a mapping"),
    ],
)
def test_tokens_that_nodes_cannot_have_are_refused(tokens, says):
    with pytest.raises(InvalidInput, match=says):
        tokens_of_nodes(tokens, AB, partitioner="murmur3")


@pytest.mark.parametrize(
    ("partitioner", "bad"), [("random", -1), ("random", 2**127 + 1), ("random", b"1"), ("byteordered", 1)]
)
def test_each_partitioner_has_its_own_tokens(partitioner, bad):
    good = {"random": [0, 2**127], "byteordered": [b"", b"\xff" * 9]}[partitioner]
    assert (tuple(good), ()) == tokens_of_nodes({"a": good}, AB.drain("b"), partitioner=partitioner)
    with pytest.raises(InvalidInput, match="token of node 'a' is"):
        tokens_of_nodes({"a": [bad]}, AB.drain("b"), partitioner=partitioner)


def test_tokens_of_an_unknown_node_name_the_nearest():
    with pytest.raises(UnknownNode, match="Did you mean 'node-1'"):
        tokens_of_nodes({"node-l": [1]}, Topology(["node-1"]), partitioner="murmur3")


def test_more_tokens_than_a_table_holds_are_refused_before_they_are_kept(monkeypatch):
    monkeypatch.setattr("apportion.placement.layouts.cassandra.tokens.MAX_TOKENS", 3)
    assert ((1, 2), (3,)) == tokens_of_nodes({"a": [1, 2], "b": [3]}, AB, partitioner="murmur3")
    with pytest.raises(InvalidInput, match="tokens is 'more than 3', expected at most MAX_TOKENS = 3"):
        tokens_of_nodes({"a": [1, 2], "b": iter(range(3, 10**12))}, AB, partitioner="murmur3")
