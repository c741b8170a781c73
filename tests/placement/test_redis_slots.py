"""`redis_slots` gives every key the slot that Redis Cluster gives it, and is `slots` in all else."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Assignment, Node, Slots, Table, Topology, apply, balance, decode, encode, plan
from apportion.errors import CannotPlace, InvalidInput, NotEnoughNodes
from apportion.placement.layouts.redis_slots import HASHER, SLOTS, RedisSlots, hash_tag, slot
from tests import invariants

VECTORS = json.loads((Path(__file__).parent / "vectors" / "redis_slots.json").read_text())["slots"]
ABC = Topology(["a", "b", "c"])
CLUSTER = RedisSlots(balance.slots(ABC, count=SLOTS))
KEYS = [f"tenant-{number}" for number in range(1000)]


def crc16(data):
    """Return the CRC16 of some bytes, bit by bit."""
    state = 0
    for byte in data:
        state ^= byte << 8
        for _ in range(8):
            state = (state << 1 ^ 0x1021 if state & 0x8000 else state << 1) & 0xFFFF
    return state


def tag(key):
    """Return what is between the first brace and the next, by reading byte for byte."""
    inside, found = False, []
    for byte in key:
        if inside and byte == ord("}"):
            return bytes(found) or key
        if inside:
            found.append(byte)
        inside = inside or byte == ord("{")
    return key


def test_slots_are_those_that_a_redis_server_gave():
    assert [expected for _, expected in VECTORS] == [slot(bytes.fromhex(key)) for key, _ in VECTORS]


@given(st.one_of(st.binary(max_size=64), st.text("{}aé", max_size=12).map(str.encode)))
def test_a_slot_is_that_of_the_dumb_twin(key):
    assert (tag(key), crc16(tag(key)) % 16384) == (hash_tag(key), slot(key))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("{}a", "{}a"), ("a{b", "a{b"), ("}a{b}", "b"), ("a{{b}}c", "{b"), ("{a}{b}", "a"),
        ("foo{}{bar}", "foo{}{bar}"), ("{", "{"), ("", ""), ("{user1}.name", "user1"),
        ("}{", "}{"), ("{a", "{a"), ("x{a}}", "a"),
    ],
)  # fmt: skip
def test_a_hash_tag_is_what_the_first_pair_of_braces_holds(key, expected):
    assert expected.encode() == hash_tag(key.encode())


def test_the_placement_asks_for_the_same_slot():
    for key, expected in VECTORS:
        assert expected == CLUSTER.slot(bytes.fromhex(key)) == CLUSTER.explain(bytes.fromhex(key)).hash
        assert CLUSTER.assignment[expected][0] == CLUSTER.route(bytes.fromhex(key))


def test_keys_of_one_tag_stay_together():
    assert 1 == len(set(CLUSTER.route_many(f"{{user-7}}.{number}" for number in range(1000))))


def test_an_explanation_names_the_tag_by_its_length_and_the_slot():
    assert "CRC16 of the 5 bytes of its hash tag: slot 8106 of 16384" in CLUSTER.explain("{user1}.name").why
    assert "CRC16 of the whole key: slot 12739 of 16384" in CLUSTER.explain("123456789").why
    assert ("redis_slots", "redis-slot") == (CLUSTER.explain("k").placement, CLUSTER.explain("k").hasher)


def test_a_plan_moves_as_little_as_shares_allow():
    topology = ABC.without("b").add(Node("d", weight=2))
    bigger = RedisSlots(balance.slots(topology, previous=CLUSTER.assignment))
    change = plan(CLUSTER, bigger)
    moved = sum(was != now for was, now in zip(*map(_owners, (CLUSTER, bigger)), strict=True))
    assert moved / SLOTS == change.lower_bound_ratio == change.moved_ratio
    invariants.nothing_strays(change)
    assert bigger.table() == apply(change, CLUSTER.table())


def _owners(cluster):
    return cluster.assignment.preference_lists.values()


def test_moving_on_keeps_the_kind_and_refuses_a_slot_without_an_owner():
    assert (RedisSlots, CLUSTER.assignment.rows) == (
        type(CLUSTER.on(ABC.add("d"))),
        CLUSTER.on(ABC.add("d")).assignment.rows,
    )
    with pytest.raises(CannotPlace, match="would have no owner"):
        CLUSTER.on(ABC.without("b"))


def test_it_comes_back_from_pickles_and_tables():
    back = pickle.loads(pickle.dumps(CLUSTER))
    assert (CLUSTER, hash(CLUSTER), repr(CLUSTER)) == (back, hash(back), repr(back))
    assert CLUSTER == RedisSlots.of_table(decode(encode(CLUSTER.table()), Table))
    assert (HASHER, hash(HASHER)) == (replace(HASHER), hash(replace(HASHER)))
    assert CLUSTER.route_many(KEYS) == back.route_many(KEYS)


def test_it_is_no_slots_of_another_hasher():
    assert CLUSTER != Slots(CLUSTER.assignment)
    assert CLUSTER.route_many(KEYS) != Slots(CLUSTER.assignment).route_many(KEYS)
    with pytest.raises(InvalidInput, match="made of slots with redis-slot"):
        RedisSlots.of_table(Slots(CLUSTER.assignment).table())


def test_lists_are_those_of_the_assignment():
    rows = tuple((number % 3, (number + 1) % 3) for number in range(SLOTS))
    cluster = RedisSlots(Assignment(topology=ABC, rows=rows))
    assert cluster.assignment[cluster.slot("k")] == cluster.preference("k", 2)
    with pytest.raises(NotEnoughNodes):
        CLUSTER.preference("k", 2)


@pytest.mark.parametrize("count", [1, 4096, SLOTS - 1, SLOTS + 1, 2 * SLOTS])
def test_another_number_of_slots_is_refused(count):
    assignment = Assignment(topology=ABC, rows=((0,),) * count)
    with pytest.raises(InvalidInput, match=f"slots of the assignment is {count}, expected 16384") as caught:
        RedisSlots(assignment)
    assert "count=16384" in caught.value.hint


@pytest.mark.parametrize("hasher", ["crc16", "xxh3-64", None, 7])
def test_another_hasher_is_refused(hasher):
    with pytest.raises(InvalidInput, match=r"hasher is .* Redis Cluster prescribes its own"):
        RedisSlots(CLUSTER.assignment, hasher=hasher)


@pytest.mark.parametrize("nodes", [None, "abc", 3])
def test_an_assignment_or_nodes_are_wanted(nodes):
    with pytest.raises(InvalidInput, match="nodes is"):
        RedisSlots(nodes)


def test_a_cluster_of_bare_nodes_has_all_slots_of_redis():
    assert CLUSTER == RedisSlots(ABC)


@pytest.mark.parametrize("key", [None, 1.5, True, "\ud800", 2**63, b"x" * 65_537])
def test_what_is_no_key_has_no_slot(key):
    with pytest.raises(InvalidInput, match=r"^key is"):
        slot(key)
