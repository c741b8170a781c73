"""The ring of Envoy is the one of its docstring, and has the points that Envoy's own tests expect."""

import json
import pickle
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Node, Topology, hashers, plan
from apportion.errors import BadWeight, InvalidInput, NoNodes, NotEnoughNodes, UnknownOption
from apportion.placement.layouts.envoy import LARGEST_RING, SPEC, Envoy, murmur_hash_2
from tests import worlds
from tests.placement import layout_twins as twins

VECTORS = json.loads((Path(__file__).parent / "vectors" / "envoy.json").read_text(encoding="utf-8"))
KEYS = [f"tenant-{number}" for number in range(300)]

weights = st.one_of(st.integers(1, 4), st.sampled_from([100, 1000, 10**9]), st.integers(1, 10**6))
hosts = st.lists(st.tuples(worlds.node_ids, weights), min_size=1, max_size=7, unique_by=lambda host: host[0])
sizes = st.one_of(st.integers(1, 40), st.sampled_from([100, 256, 300]))


def ring(listed, **options):
    """Return the ring of (id, weight) pairs."""
    return Envoy([Node(node_id, weight=weight) for node_id, weight in listed], **options)


def points_of(built):
    """Return (point, id) of all points, sorted."""
    ids = built.topology.ids
    return sorted((token, ids[index]) for index in range(len(ids)) for token in built._tokens_of(index))


@given(hosts, sizes, sizes)
def test_points_are_those_of_exact_doubles(listed, one, other):
    minimum, maximum = sorted((one, other))
    if sum(weight for _, weight in listed) > 2**32 - 1:
        return
    expected = sorted(twins.envoy_points(listed, minimum, maximum))
    assert expected == points_of(ring(listed, minimum_ring_size=minimum, maximum_ring_size=maximum))


@settings(max_examples=40)
@given(hosts, st.lists(st.binary(max_size=8), min_size=1, max_size=10), st.integers(1, 50))
def test_a_key_belongs_to_the_first_point_at_or_after_its_hash(listed, keys, size):
    if sum(weight for _, weight in listed) > 2**32 - 1:
        return
    built = ring(listed, minimum_ring_size=size, maximum_ring_size=size)
    points = twins.envoy_points(listed, size, size)
    assert [twins.owner_of(points, twins.xxh64_intdigest(key)) for key in keys] == built.route_many(keys)


@pytest.mark.parametrize("case", VECTORS["rings"], ids=lambda case: case["name"])
def test_the_rings_of_envoys_tests_are_ours(case):
    built = ring(case["hosts"], **case["options"])
    assert sorted((point, host) for point, host in case["points"]) == points_of(built)


@pytest.mark.parametrize("case", VECTORS["owners"], ids=lambda case: case["name"])
def test_the_owners_in_envoys_tests_are_ours(case):
    built = ring(case["hosts"], **case["options"])
    assert [host for _, host in case["owners"]] == [built.table().owners(hashed)[0] for hashed, _ in case["owners"]]


@pytest.mark.parametrize("case", VECTORS["counts"], ids=lambda case: case["name"])
def test_the_counts_of_envoys_tests_are_ours(case):
    table, hashes = ring(case["hosts"], **case["options"]).table(), case["hashes"]
    counts = Counter(table.owners(number * ((2**64 - 1) // hashes))[0] for number in range(hashes))
    assert case["counts"] == counts


def test_every_128th_of_many_light_hosts_has_a_point_in_envoys_order():
    listed = [(f"127.0.0.1:{port}", 1 if port else 127 * 1023) for port in range(1024)]
    built = ring(listed, minimum_ring_size=1024, maximum_ring_size=1024)
    counts = Counter(host for _, host in points_of(built))
    light = [f"127.0.0.1:{port}" for port in (1, *range(128, 1024, 128))]
    assert {"127.0.0.1:0": 1016, **dict.fromkeys(light, 1)} == counts
    expected = VECTORS["every 128th"]
    assert [host for _, host in expected] == [built.table().owners(hashed)[0] for hashed, _ in expected]


@pytest.mark.parametrize(("text", "hashed"), VECTORS["murmur_hash_2"])
def test_murmur_hash_2_is_that_of_the_gnu_library(text, hashed):
    assert hashed == f"{murmur_hash_2(bytes.fromhex(text)):016x}"


def test_points_of_murmur_hash_2_are_made_like_those_of_xx_hash():
    listed = [("a", 1), ("b", 3)]
    built = ring(listed, minimum_ring_size=7, maximum_ring_size=7, hash_function="murmur-hash-2")
    assert sorted(twins.envoy_points(listed, 7, 7, murmur_hash_2)) == points_of(built)
    assert hashers.get("xxh64")(b"k") == built.explain("k").hash


def test_the_order_of_the_hosts_tells_who_gets_the_odd_point():
    options = {"minimum_ring_size": 3, "maximum_ring_size": 3}
    one, other = Envoy(["b", "a"], **options), Envoy(["a", "b"], **options)
    assert ([2, 1], [1, 2]) == tuple([len(list(built._tokens_of(index))) for index in (1, 0)] for built in (one, other))
    assert (("b", "a"), False) == (one.hosts, one == other)
    assert other == Envoy(Topology(["b", "a"]), **options)


def test_hosts_that_stay_keep_their_order_and_new_ones_follow_by_id():
    built = Envoy(["d", "b", "c"])
    assert ("d", "c", "a", "e") == built.on(Topology(["e", "a", "c", "d"])).hosts
    assert ("d", "c") == built.on(built.topology.drain("b")).hosts


def test_a_host_without_a_point_owns_nothing_and_no_list_names_it():
    built = Envoy([f"127.0.0.1:{port}" for port in range(90, 94)], minimum_ring_size=2, maximum_ring_size=2)
    with_points = {host for _, host in points_of(built)}
    assert (2, with_points) == (len(with_points), set(built.route_many(KEYS)))
    assert with_points == set(built.preference("k", 2))
    with pytest.raises(NotEnoughNodes, match="2 eligible"):
        built.preference("k", 3)


def test_one_host_more_moves_keys_between_hosts_that_stay():
    built = Envoy(["a", "b", "c"])
    change = plan(built, built.on(built.topology.add("d")))
    assert (False, True) == (SPEC.minimal_disruption, change.stray_ratio > 0)


def test_an_explanation_tells_who_would_own_the_key_without_its_owner():
    built = ring([("a", 3), ("b", 1), ("c", 2)])
    for key in KEYS[:30]:
        explained = built.explain(key)
        rest = built.on(built.topology.without(explained.owner))
        assert (built.route(key), rest.route(key)) == (explained.owner, explained.if_owner_left)
        assert ("envoy", "xxh64") == (explained.placement, explained.hasher)


@pytest.mark.parametrize("option", ["minimum_ring_size", "maximum_ring_size"])
@pytest.mark.parametrize("size", [0, -1, LARGEST_RING + 1, 1.0, True, "1024", None])
def test_a_bad_ring_size_is_refused(option, size):
    with pytest.raises(InvalidInput, match=f"{option} is"):
        Envoy(["a"], **{option: size})


def test_a_minimum_above_the_maximum_is_refused():
    with pytest.raises(InvalidInput, match="minimum_ring_size is 20, expected at most maximum_ring_size, 10"):
        Envoy(["a"], minimum_ring_size=20, maximum_ring_size=10)


@pytest.mark.parametrize("name", ["xxhash", "XX_HASH", "", None, ["xx-hash"]])
def test_an_unknown_hash_function_is_refused(name):
    with pytest.raises(UnknownOption, match="hash_function is"):
        Envoy(["a"], hash_function=name)


def test_a_set_of_nodes_is_refused():
    with pytest.raises(InvalidInput, match="nodes in an order"):
        Envoy({"a", "b"})


def test_an_iterator_of_more_nodes_than_a_topology_holds_is_refused_and_not_cut(monkeypatch):
    for module in (import_module("apportion.model.topology"), import_module("apportion.placement.shapes.ordered")):
        monkeypatch.setattr(module, "MAX_NODES", 4)
    assert 4 == len(Envoy(iter("abcd"), minimum_ring_size=4).hosts)
    with pytest.raises(InvalidInput, match="at most MAX_NODES = 4"):
        Envoy(iter("abcde"), minimum_ring_size=4)


@pytest.mark.parametrize("nodes", [[Node("a", weight=1.5)], [Node(name, weight=10**9) for name in "abcde"]])
def test_weights_that_envoy_does_not_take_are_refused(nodes):
    with pytest.raises(BadWeight):
        Envoy(nodes)


@pytest.mark.parametrize("nodes", [[], [Node("a", weight=0)]])
def test_no_host_is_refused(nodes):
    with pytest.raises(NoNodes):
        Envoy(nodes)


def test_an_envoy_is_a_value():
    built = Envoy(iter(["b", Node("a", weight=3)]), minimum_ring_size=9, maximum_ring_size=11)
    back = pickle.loads(pickle.dumps(built))
    assert (built, hash(built), repr(built)) == (back, hash(back), repr(back))
    assert (built.hosts, built.route_many(KEYS)) == (back.hosts, back.route_many(KEYS))
    assert "minimum_ring_size=9, maximum_ring_size=11, hash_function='xx-hash'" in repr(built)
