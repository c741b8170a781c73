"""Maglev's table is the one of its docstring: nodes take turns, shares are even, and plans say what strays."""

import json
import pickle
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from apportion import Node, Topology, decode, encode, plan
from apportion.errors import InvalidInput, NoNodes, NotEnoughNodes
from apportion.model.table import Table
from apportion.placement.maglev import Maglev
from tests import invariants, twins, worlds

VECTORS = json.loads((Path(__file__).parent / "vectors" / "maglev.json").read_text())["tables"]
KEYS = [f"tenant-{number}" for number in range(500)]
sizes = st.sampled_from([13, 31, 101])


def twin_entries(topology, size, digest=xxh3_64_intdigest):
    """Return the id that takes each entry, turn by turn and round by round, in fractions."""
    nodes = [node for node in topology.nodes if node.weight]
    prefers, turns, entries, number = {}, Counter(), [None] * size, 0
    for node in nodes:
        name = node.id.encode()
        label = b"maglev/1" + len(name).to_bytes(4, "little") + name
        offset = digest(label + (0).to_bytes(4, "little")) * size >> 64
        skip = 1 + (digest(label + (1).to_bytes(4, "little")) * (size - 1) >> 64)
        prefers[node.id] = [(offset + step * skip) % size for step in range(size)]
    largest = max(Fraction(str(node.weight)) for node in nodes)
    while None in entries:
        number += 1
        for node in nodes:
            if None in entries and turns[node.id] < number * Fraction(str(node.weight)) / largest:
                entries[next(place for place in prefers[node.id] if entries[place] is None)] = node.id
                turns[node.id] += 1
    return entries


def of(maglev):
    """Return the owner of each entry."""
    size, entries = maglev.table_size, []
    for key_range, (owner,) in maglev.table().ranges():
        first, after = (bound * size >> 64 for bound in (key_range.start, key_range.end))
        assert -(-first * 2**64 // size) == key_range.start, "a stretch begins inside an entry"
        entries += [owner] * (after - first)
    return entries


@settings(max_examples=50)
@given(worlds.owning_topologies, sizes)
def test_entries_are_taken_as_the_dumb_twin_takes_them(topology, size):
    assert twin_entries(topology, size) == of(Maglev(topology, table_size=size))


@settings(max_examples=50)
@given(worlds.owning_topologies, sizes, worlds.keys)
def test_a_key_belongs_to_the_entry_that_its_hash_leads_to(topology, size, key):
    maglev = Maglev(topology, table_size=size)
    explained = maglev.explain(key)
    assert of(maglev)[explained.hash * size >> 64] == explained.owner == maglev.route(key)
    assert maglev.table().range_at(explained.hash) == explained.range


@settings(max_examples=50)
@given(worlds.owning_topologies, sizes, st.binary(max_size=8), st.sampled_from([None, 0, 1]))
def test_preference_lists_are_the_nodes_met_in_the_table(topology, size, key, level):
    maglev, entries = Maglev(topology, table_size=size), twin_entries(topology, size)
    entry = xxh3_64_intdigest(key) * size >> 64
    ranking = list(dict.fromkeys([*entries[entry:], *entries[:entry]]))
    domains = {node.id: node.fault_domain(level) for node in topology}
    assert {node.id for node in topology if node.weight} == set(ranking)
    for count in range(1, len(ranking) + 1):
        options = {"spread_level": level, "spread": "best-effort"}
        assert twins.spread(ranking, domains, count) == maglev.preference(key, count, **options)
        assert maglev.preference(key, count, **options) == maglev.table(count, **options).owners(xxh3_64_intdigest(key))
    with pytest.raises(NotEnoughNodes):
        maglev.preference(key, len(ranking) + 1, spread="best-effort")


def test_tables_are_those_of_every_release_before():
    for vector in VECTORS:
        nodes = [Node(node_id, weight=weight) for node_id, weight in vector["nodes"]]
        assert vector["entries"] == of(Maglev(nodes, table_size=vector["table_size"], hasher=vector["hasher"]))


@settings(max_examples=20)
@given(st.integers(1, 60))
def test_with_equal_weights_entries_differ_by_one_at_most(nodes):
    counts = Counter(of(Maglev([f"n{number}" for number in range(nodes)], table_size=499))).values()
    assert (nodes, True) == (len(counts), max(counts) - min(counts) <= 1)


@settings(max_examples=30)
@given(st.lists(st.sampled_from([1e-6, 0.3, 0.5, 1, 2, 3.75, 7, 1e9]), min_size=1, max_size=8))
def test_after_some_rounds_entries_are_the_weights_times_the_rounds_rounded_up(weights):
    topology = Topology(Node(f"n{number}", weight=weight) for number, weight in enumerate(weights))
    counts = Counter(of(Maglev(topology, table_size=499)))
    exact = [Fraction(node.millionths, max(each.millionths for each in topology)) for node in topology]
    taken = [counts[node.id] for node in topology]
    assert min(taken) >= 1
    most = max(taken)  # the heaviest takes a turn in each round, but for the last, which may end before it
    assert any(
        all(
            ceil((rounds - 1) * share) <= count <= ceil(rounds * share)
            for share, count in zip(exact, taken, strict=True)
        )
        for rounds in (most, most + 1)
    )


def test_shares_follow_weights_and_a_drained_node_has_none():
    widths = Maglev([Node("a", weight=0.5), "b", Node("c", weight=3), Node("d", weight=0)]).table().widths()
    assert 0 == widths["d"]
    for node_id, share in (("a", 0.5 / 4.5), ("b", 1 / 4.5), ("c", 3 / 4.5)):
        assert abs(widths[node_id] / 2**64 - share) < 0.0001


def test_a_plan_says_exactly_what_strays():
    old = Maglev([f"n{number}" for number in range(10)], table_size=1009)
    new = old.on(old.topology.without("n3"))
    change = plan(old, new)
    invariants.plan_is_exact(change, old.table(), new.table())
    strays = sum(was not in (now, "n3") for was, now in zip(of(old), of(new), strict=True))
    assert 0 < strays < 1009 / 10
    assert abs(strays / 1009 - change.stray_ratio) < 1e-12


@pytest.mark.parametrize(("nodes", "size", "limit"), [(10, 1009, 1.4), (10, 6007, 1.15), (60, 6007, 2.7)])
def test_a_change_moves_more_than_the_bound_and_the_less_the_larger_the_table(nodes, size, limit):
    old = Maglev([f"n{number}" for number in range(nodes)], table_size=size)
    change = plan(old, old.on(old.topology.without("n7")))
    assert old.entries_per_node == size // nodes >= 100
    assert change.lower_bound_ratio < change.moved_ratio < limit / nodes
    assert 0 < change.stray_ratio < 0.04


def test_every_way_of_asking_gives_the_same_answer():
    maglev = Maglev(
        [Node("a", zone=("r1",)), Node("b", zone=("r1",), weight=2), Node("c", zone=("r2",))], table_size=997
    )
    routed = [maglev.route(key) for key in KEYS]
    assert routed == maglev.route_many(iter(KEYS)) == [maglev.preference(key, 1)[0] for key in KEYS]
    assert routed == [maglev.topology.ids[index] for index in maglev.route_indexes(KEYS)]
    for key in KEYS[:50]:
        lists = [maglev.preference(key, count, spread="best-effort") for count in (1, 2, 3)]
        assert all(longer[:-1] == shorter for shorter, longer in pairwise(lists))
        assert maglev.preference(key, 2) == lists[1]
        assert maglev.explain(key).next == lists[2][1:]


def test_it_comes_back_from_pickles_and_its_table_from_bytes():
    maglev = Maglev(["a", "b"], table_size=13, hasher="murmur3")
    back = pickle.loads(pickle.dumps(maglev))
    assert (maglev, hash(maglev), repr(maglev)) == (back, hash(back), repr(back))
    assert maglev.route_many(KEYS) == back.route_many(KEYS)
    assert maglev.table() == decode(encode(maglev.table()), Table)
    assert maglev != Maglev(["a", "b"], table_size=17, hasher="murmur3")
    assert maglev != Maglev(["a", "b"], table_size=13)
    assert "Maglev(Topology(2 nodes, no zones" in repr(maglev)


@pytest.mark.parametrize("size", [0, 1, -7, 4, 65_536, 65_535, 2**24 + 43, 10**30, 13.0, True, "13", None])
def test_a_size_that_is_no_prime_is_refused(size):
    with pytest.raises(InvalidInput, match=r"table_size is .* a prime number") as caught:
        Maglev(["a"], table_size=size)
    assert "655373" in caught.value.hint


def test_more_nodes_than_entries_are_refused_and_as_many_own_one_each():
    names = [f"n{number}" for number in range(14)]
    with pytest.raises(InvalidInput, match="nodes of the table is 14, expected at most table_size = 13"):
        Maglev(names, table_size=13)
    assert set(names[:13]) == set(of(Maglev(names[:13], table_size=13)))


def test_no_owning_node_and_a_narrow_hash_are_refused():
    with pytest.raises(NoNodes):
        Maglev([Node("a", weight=0)])
    with pytest.raises(InvalidInput, match="it has 16"):
        Maglev(["a"], hasher="crc16")


def test_a_node_of_no_weight_is_not_counted_among_those_that_own_entries():
    assert 1009 // 2 == Maglev(["a", "b", Node("c", weight=0)], table_size=1009).entries_per_node
