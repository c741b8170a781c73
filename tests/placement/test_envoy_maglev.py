"""The Maglev table of Envoy is the one of its docstring, and the one that Envoy's own tests expect."""

import json
import pickle
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from apportion import Node, Topology, plan
from apportion.errors import BadWeight, InvalidInput, NoNodes, NotEnoughNodes
from apportion.placement.layouts.envoy_maglev import MOST_SLOTS, SPEC, EnvoyMaglev
from tests import worlds
from tests.placement import layout_twins as twins

VECTORS = json.loads((Path(__file__).parent / "vectors" / "envoy.json").read_text(encoding="utf-8"))
KEYS = [f"tenant-{number}" for number in range(300)]

weights = st.one_of(st.integers(1, 4), st.sampled_from([7, 100, 10**6]), st.integers(1, 10**6))
hosts = st.lists(st.tuples(worlds.node_ids, weights), min_size=1, max_size=5, unique_by=lambda host: host[0])
SIZES = (2, 3, 5, 7, 17, 31, 97)


def table_of(listed, size):
    """Return who has each slot, by asking for a key of each."""
    built = EnvoyMaglev([Node(node_id, weight=weight) for node_id, weight in listed], table_size=size)
    return built.route_many(key_of_slot(size, slot) for slot in range(size))


def key_of_slot(size, slot):
    """Return a key whose hash is in a slot."""
    return next(key for key in map(str, count()) if xxh64_intdigest(key.encode()) % size == slot)


@settings(max_examples=60)
@given(hosts, st.sampled_from(SIZES))
def test_slots_are_taken_in_the_turns_of_exact_doubles(listed, size):
    if len(listed) > size:
        return
    assert twins.envoy_maglev(listed, size) == table_of(listed, size)


@pytest.mark.parametrize("case", VECTORS["maglev"], ids=lambda case: case["name"])
def test_the_tables_of_envoys_tests_are_ours(case):
    assert case["table"] == table_of(case["hosts"], len(case["table"]))


def test_a_table_of_many_hosts_of_many_weights_is_that_of_the_twin():
    listed = [(f"10.0.0.{number}:80", 1 + number * number % 17) for number in range(40)]
    assert twins.envoy_maglev(listed, 499) == table_of(listed, 499)


def test_equal_hosts_have_equal_slots_to_one():
    built = EnvoyMaglev([f"h{number}" for number in range(7)])
    counts = Counter(built._slots)
    assert (65_537, True) == (sum(counts.values()), max(counts.values()) - min(counts.values()) <= 1)


def test_slots_follow_weights():
    built = EnvoyMaglev([Node("a", weight=1), Node("b", weight=2), Node("c", weight=3)], table_size=6007)
    counts = Counter(built._slots)
    assert [True] * 3 == [abs(counts[index] - 6007 * (index + 1) / 6) <= 2 for index in range(3)]


def test_very_unequal_weights_take_no_longer_than_their_slots():
    nodes = [Node(f"h{number}", weight=1) for number in range(2000)]
    counts = Counter(EnvoyMaglev([*nodes, Node("heavy", weight=10**9)])._slots)
    assert ({1}, 63_537) == ({counts[index] for index in range(2000)}, counts[2000])


def test_the_order_of_the_hosts_does_not_matter():
    assert EnvoyMaglev(["b", "é", "a"], table_size=31) == EnvoyMaglev(["é", "a", "b"], table_size=31)
    assert table_of([("b", 1), ("a", 2)], 31) == table_of([("a", 2), ("b", 1)], 31)


def test_a_host_more_moves_some_keys_between_hosts_that_stay():
    built = EnvoyMaglev([f"h{number}" for number in range(9)], table_size=499)
    change = plan(built, built.on(built.topology.add("h9")), [f"k{number}" for number in range(2000)])
    assert (False, True) == (SPEC.minimal_disruption, 0 < change.stray_ratio < 0.5)


def test_there_is_no_table_of_positions_and_no_second_node():
    built = EnvoyMaglev(["a", "b"], table_size=7)
    assert (None, (built.route("k"),)) == (built.table(), built.preference("k", 1))
    with pytest.raises(NotEnoughNodes):
        built.preference("k", 2)


def test_an_explanation_names_the_slot():
    built = EnvoyMaglev(["a", "b", "c"], table_size=31)
    for key in KEYS[:50]:
        explained, hashed = built.explain(key), xxh64_intdigest(key.encode())
        assert (hashed % 31, hashed, built.route(key)) == (built.slot(key), explained.hash, explained.owner)
        assert explained.why.startswith(f"hash % 31 = slot {hashed % 31}, which {explained.owner} took")
        assert ("envoy_maglev", "xxh64", None) == (explained.placement, explained.hasher, explained.if_owner_left)


@pytest.mark.parametrize("size", [0, 1, 4, 9, 65_536, MOST_SLOTS + 2, 5_000_011 * 2, -7, 7.0, True, "7", None])
def test_a_table_size_that_is_no_prime_is_refused(size):
    with pytest.raises(InvalidInput, match="table_size is"):
        EnvoyMaglev(["a"], table_size=size)


def test_more_hosts_than_slots_are_refused():
    with pytest.raises(InvalidInput, match="hosts is 3, expected at most table_size = 2"):
        EnvoyMaglev(["a", "b", "c"], table_size=2)


@pytest.mark.parametrize("nodes", [[Node("a", weight=1.5)], [Node(name, weight=10**9) for name in "abcde"]])
def test_weights_that_envoy_does_not_take_are_refused(nodes):
    with pytest.raises(BadWeight):
        EnvoyMaglev(nodes, table_size=7)


@pytest.mark.parametrize("nodes", [[], [Node("a", weight=0)]])
def test_no_host_is_refused(nodes):
    with pytest.raises(NoNodes):
        EnvoyMaglev(nodes, table_size=7)


def test_a_drained_host_has_no_slot():
    topology = Topology(["a", "b", Node("c", weight=0)])
    assert table_of([("a", 1), ("b", 1)], 31) == [
        EnvoyMaglev(topology, table_size=31).route(key_of_slot(31, slot)) for slot in range(31)
    ]


def test_a_maglev_is_a_value():
    built = EnvoyMaglev(["b", Node("a", weight=3)], table_size=31)
    back = pickle.loads(pickle.dumps(built))
    assert (built, hash(built), repr(built)) == (back, hash(back), repr(back))
    assert built.route_many(KEYS) == back.route_many(KEYS)
    assert built != EnvoyMaglev(["b", Node("a", weight=3)], table_size=37)
