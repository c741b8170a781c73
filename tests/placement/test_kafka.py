"""A partition is the one that Kafka chooses, and a topic is its partitions in order."""

import json
import pickle
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Node, Topology, plan
from apportion.errors import BadWeight, CannotPlace, InvalidInput, NoNodes
from apportion.placement.layouts.kafka import HASHER, SPEC, Kafka, murmur2, partition

VECTORS = json.loads((Path(__file__).parent / "vectors" / "kafka_murmur2.json").read_text())["hashes"]
KEYS = [f"tenant-{number}é" for number in range(2000)]

# Origin: Apache Kafka, UtilsTest (testMurmur2).
PUBLISHED = [
    ("21", -973932308),
    ("foobar", -790332482),
    ("a-little-bit-long-string", -985981536),
    ("a-little-bit-longer-string", -1486304829),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ("abc", 479470107),
]


@pytest.mark.parametrize(("text", "expected"), PUBLISHED)
def test_a_hash_is_the_published_one(text, expected):
    assert expected == murmur2(text.encode())


def test_every_hash_is_the_one_that_kafka_gave():
    assert [expected for _, expected in VECTORS] == [murmur2(bytes.fromhex(key)) for key, _ in VECTORS]
    assert set(range(65)) <= {len(bytes.fromhex(key)) for key, _ in VECTORS}


def twin(data):
    """MurmurHash2 byte by byte, every step on its own, as a number without a sign."""
    state = (0x9747B28C ^ len(data)) % 2**32
    for place in range(0, len(data) - 3, 4):
        word = sum(data[place + step] * 256**step for step in range(4))
        word = word * 0x5BD1E995 % 2**32
        word = word ^ (word // 2**24)
        word = word * 0x5BD1E995 % 2**32
        state = state * 0x5BD1E995 % 2**32
        state = state ^ word
    rest = data[len(data) // 4 * 4 :]
    for step in reversed(range(len(rest))):
        state = state ^ rest[step] * 256**step
    if rest:
        state = state * 0x5BD1E995 % 2**32
    state = state ^ (state // 2**13)
    state = state * 0x5BD1E995 % 2**32
    return state ^ (state // 2**15)


@given(st.binary(max_size=40), st.integers(1, 2**31 - 1))
def test_a_partition_is_that_of_the_dumb_twin(data, partitions):
    assert twin(data) % 2**31 % partitions == partition(data, partitions)
    assert twin(data) == murmur2(data) % 2**32 == HASHER(data)


def test_the_sign_of_a_hash_is_dropped_and_not_turned():
    assert -973932308 % 2**31 % 7 == partition("21", 7) != 973932308 % 7


def test_a_key_is_its_bytes_and_an_int_is_not_what_kafka_writes_for_a_long():
    assert partition("é", 1000) == partition("é".encode(), 1000)
    assert partition(5, 1000) == partition((5).to_bytes(8, "little"), 1000) != partition((5).to_bytes(8, "big"), 1000)


@pytest.mark.parametrize("partitions", [0, -1, 2**31, 1.0, True, "12", None])
def test_what_is_no_number_of_partitions_is_refused(partitions):
    with pytest.raises(InvalidInput, match="partitions is"):
        partition("k", partitions)


@pytest.mark.parametrize("key", [None, 1.5, True, bytearray(b"k"), "\ud800"])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(InvalidInput, match="key is"):
        partition(key, 12)


def test_a_topic_routes_to_the_partition_in_its_order():
    topic = Kafka(["c", "a", "b"])
    expected = [("c", "a", "b")[partition(key, 3)] for key in KEYS]
    assert expected == topic.route_many(KEYS) == [topic.explain(key).owner for key in KEYS]
    assert (("c", "a", "b"), ("a", "b", "c")) == (topic.order, Kafka(Topology(["c", "a", "b"])).order)
    assert topic == Kafka(node for node in (Node("c"), "a", "b")) != Kafka(["a", "b", "c"])


def test_shares_are_equal():
    counts = Counter(partition(key, 10) for key in KEYS)
    assert all(abs(counts[number] - 200) < 6 * 200**0.5 for number in range(10)), counts


def test_one_more_partition_moves_nearly_every_key_as_the_spec_says():
    topic = Kafka([f"t-{number}" for number in range(9)])
    change = plan(topic, topic.on(topic.topology.add("t-9")), KEYS)
    assert 0.85 < change.moved_ratio < 0.95
    assert 0.7 < change.stray_ratio
    assert SPEC.minimal_disruption is False


def test_new_partitions_are_appended_and_only_the_last_can_leave():
    topic = Kafka(["c", "a"])
    assert ("c", "a", "b", "d") == topic.on(topic.topology.add("d", "b")).order
    assert ("c",) == topic.on(topic.topology.without("a")).order
    for rest in (topic.topology.without("c"), topic.topology.drain("c")):
        with pytest.raises(CannotPlace, match=r"(?s)'c' leaves from the middle.*Kafka itself removes none"):
            topic.on(rest)


def test_an_explanation_agrees_with_the_answers():
    topic = Kafka(["c", "a", "b"])
    assert {True, False} == {topic.explain(key).if_owner_left is None for key in KEYS}
    for key in KEYS[:100]:
        explained = topic.explain(key)
        assert (twin(key.encode()), (), "kafka-murmur2") == (explained.hash, explained.next, explained.hasher)
        assert f"% 3 = {partition(key, 3)};" in explained.why
        if explained.if_owner_left is not None:
            assert explained.if_owner_left == topic.on(topic.topology.without(explained.owner)).route(key)


@pytest.mark.parametrize("nodes", [{"a", "b"}, frozenset("ab")], ids=["set", "frozenset"])
def test_nodes_without_an_order_are_refused(nodes):
    with pytest.raises(InvalidInput, match="nodes in an order"):
        Kafka(nodes)


def test_weights_are_refused_and_nobody_and_too_many_are_too():
    with pytest.raises(BadWeight, match="weight of node 'b'"):
        Kafka(["a", Node("b", weight=2)])
    for nodes in ([], [Node("a", weight=0)]):
        with pytest.raises(NoNodes):
            Kafka(nodes)
    with pytest.raises(InvalidInput, match="at most MAX_NODES"):
        Kafka(f"n{number}" for number in count())


def test_a_topic_survives_pickling():
    topic = Kafka(["c", "a", "b"])
    back = pickle.loads(pickle.dumps(topic))
    assert (topic, hash(topic), repr(topic), topic.order) == (back, hash(back), repr(back), back.order)
    assert "order=('c', 'a', 'b'), hasher='kafka-murmur2')" in repr(back)
    assert pickle.loads(pickle.dumps(HASHER)) == HASHER
