"""Choose-k ranks by uniform shuffles that grow by insertion: equal shares, no stray move, one answer by every way."""

import json
import pickle
from collections import Counter
from importlib import import_module
from itertools import count, pairwise, permutations
from math import factorial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from apportion import Node, Topology, plan
from apportion.errors import BadWeight, DuplicateNode, InvalidInput, NoNodes, NotEnoughNodes
from apportion.placement.choose_k import ChooseK
from tests import invariants, twins, worlds

VECTORS = json.loads((Path(__file__).parent / "vectors" / "choose_k.json").read_text())
KEYS = [f"tenant-{number}" for number in range(400)]
ids = st.lists(worlds.node_ids, min_size=1, max_size=9, unique=True)


def shuffled(level, place, data, digest=xxh3_64_intdigest):
    """Return the whole shuffle of the numbers under a place of the tree, as two lists merged draw by draw."""
    if level == 0:
        return [place]
    left, right = (shuffled(level - 1, 2 * place + side, data, digest) for side in (0, 1))
    drawn, prefix = [], b"choose-k/1" + level.to_bytes(4, "little") + place.to_bytes(4, "little") + data
    while left or right:
        u = digest(prefix + len(drawn).to_bytes(4, "little"))
        side = right if u * (len(left) + len(right)) >> 64 >= len(left) else left
        drawn.append(side.pop(0))
    return drawn


def ranking(order, live, key, digest=xxh3_64_intdigest):
    """Return the live ids in the order of the key's shuffle of all numbers."""
    level = 0
    while 2**level < len(order):
        level += 1
    numbers = shuffled(level, 0, digest(key).to_bytes(8, "little"), digest)
    return [order[number] for number in numbers if number < len(order) and order[number] in live]


@settings(max_examples=50)
@given(ids, st.data(), st.binary(max_size=8))
def test_lists_are_the_live_nodes_of_the_whole_shuffle(names, data, key):
    live = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    placed, expected = ChooseK(Topology(live), order=names), ranking(names, live, key)
    assert (tuple(names), expected[0]) == (placed.order, placed.route(key))
    assert [tuple(expected[:count]) for count in range(1, len(live) + 1)] == [
        placed.preference(key, count) for count in range(1, len(live) + 1)
    ]


def test_owners_are_those_of_every_release_before():
    for vector in VECTORS["cases"]:
        placed = ChooseK(Topology(vector["live"]), order=vector["order"])
        assert vector["lists"] == {key: list(placed.preference(key, 3)) for key in vector["lists"]}


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_every_order_of_the_nodes_is_equally_likely(nodes):
    names, keys = "abcd"[:nodes], range(6000)
    placed = ChooseK(list(names))
    counts = Counter("".join(placed.preference(key, nodes)) for key in keys)
    expected = len(keys) / factorial(nodes)
    squares = sum((counts["".join(order)] - expected) ** 2 / expected for order in permutations(names))
    assert squares < factorial(nodes) + 5 * (2 * factorial(nodes)) ** 0.5


@pytest.mark.parametrize(("nodes", "gone"), [(5, 0), (8, 5), (33, 12), (40, 0)])
def test_shares_are_equal_whoever_is_gone(nodes, gone):
    names = [f"n{number:02}" for number in range(nodes)]
    live = sorted(Random(nodes).sample(names, nodes - gone))
    keys = range(4000)
    counts = Counter(ChooseK(Topology(live), order=names).route_many(keys))
    expected = len(keys) / len(live)
    assert sum((counts[name] - expected) ** 2 / expected for name in live) < len(live) + 5 * (2 * len(live)) ** 0.5


@settings(max_examples=50)
@given(ids, st.data(), st.binary(max_size=8))
def test_a_further_number_only_comes_in_between(names, data, key):
    fewer = names[: data.draw(st.integers(1, len(names)))]
    assert ranking(fewer, fewer, key) == [name for name in ranking(names, names, key) if name in fewer]
    longer = ChooseK(names).preference(key, len(names))
    assert ChooseK(fewer).preference(key, len(fewer)) == tuple(name for name in longer if name in fewer)


@settings(max_examples=50)
@given(ids, ids, ids, st.lists(st.binary(max_size=8), min_size=1, max_size=20))
def test_any_change_of_nodes_moves_only_with_cause(first, second, third, keys):
    placed = ChooseK(first)
    for names in (second, third, first):
        after = placed.on(Topology(names))
        invariants.keys_move_only_with_cause(placed, after, keys)
        invariants.nothing_strays(plan(placed, after, keys))
        placed = after


@settings(max_examples=50)
@given(ids, st.data(), st.binary(max_size=8))
def test_lists_of_replicas_move_only_with_cause_too(names, data, key):
    placed = ChooseK([*names, "new"])
    gone = data.draw(st.sampled_from(names))
    before = [name for name in placed.preference(key, len(names) + 1) if name != gone]
    assert before == list(placed.on(placed.topology.without(gone)).preference(key, len(names)))


@settings(max_examples=40)
@given(ids, st.randoms(use_true_random=False))
def test_the_same_live_nodes_give_the_same_answers_whatever_happened_before(names, random):
    start = ChooseK(names)
    live = sorted(random.sample(names, random.randint(1, len(names))))
    placed = start
    for _ in range(6):
        placed = placed.on(Topology(random.sample(names, random.randint(1, len(names)))))
    placed = placed.on(Topology(live))
    assert start.on(Topology(live)) == placed == ChooseK(Topology(live), order=names)
    assert start.on(Topology(live)).route_many(KEYS[:20]) == placed.route_many(KEYS[:20])


def test_a_returning_node_finds_its_number_and_a_new_one_takes_the_lowest_vacant():
    placed = ChooseK(["a", "b", "c", "d"])
    without = placed.on(placed.topology.without("b", "c"))
    assert (("a", "b", "c", "d"), placed) == (without.order, without.on(placed.topology))
    assert ("a", "e", "c", "d") == without.on(without.topology.add("e")).order
    assert ("a", "e", "c", "d") == without.on(without.topology.add("c", "e")).order
    assert ("a", "e", "f", "d", "g") == without.on(without.topology.add("g", "f", "e")).order
    assert ("a", "b", "c", "d", "e") == placed.on(placed.topology.add("e")).order


def test_a_draining_node_keeps_its_number():
    placed = ChooseK(["a", "b", "c"])
    drained = placed.on(placed.topology.drain("b"))
    assert ({"a", "c"}, ("a", "b", "c", "d")) == (
        set(drained.route_many(KEYS)), drained.on(drained.topology.add("d")).order,
    )  # fmt: skip
    assert placed.route_many(KEYS) == drained.on(drained.topology.reweight("b", 1)).route_many(KEYS)


def test_the_next_in_the_ranking_takes_over():
    placed = ChooseK(["a", "b", "c", "d", "e"])
    for key in KEYS[:60]:
        owner, second = placed.preference(key, 2)
        assert second == placed.on(placed.topology.without(owner)).route(key) == placed.explain(key).if_owner_left


def test_zones_are_kept_apart_in_preference_lists():
    topology = Topology(Node(name, zone=(zone,)) for name, zone in zip("abcdef", "xxyyzz", strict=True))
    placed, domains = ChooseK(topology), {node.id: node.fault_domain() for node in topology}
    for key in KEYS[:30]:
        ranked = ranking(topology.ids, topology.ids, key.encode())
        lists = [placed.preference(key, count, spread="best-effort") for count in range(1, 7)]
        assert [twins.spread(ranked, domains, count) for count in range(1, 7)] == lists
        assert all(longer[:-1] == shorter for shorter, longer in pairwise(lists))
        with pytest.raises(NotEnoughNodes):
            placed.preference(key, 4)


@pytest.mark.parametrize(("numbers", "live"), [(64, 64), (64, 32), (64, 6), (40, 20)])
def test_a_lookup_draws_as_often_as_promised(numbers, live):
    names = [f"n{number:02}" for number in range(numbers)]
    placed = ChooseK(Topology(Random(live).sample(names, live)), order=names)
    draws = [int(placed.explain(key).why.split()[1]) for key in KEYS]
    expected = 1 + (64 - live) / (live + 1)
    assert abs(sum(draws) / len(draws) - expected) <= 0.25 * expected - 0.25


def test_the_order_given_is_kept_and_a_topology_has_its_own():
    assert ("b", "a") == ChooseK(iter(["b", "a"])).order
    assert ("a", "b") == ChooseK(Topology(["b", "a"])).order
    assert ChooseK(["b", "a"]).route_many(KEYS) != ChooseK(["a", "b"]).route_many(KEYS)
    assert ("x", "b", "a") == ChooseK(["a", "b", "x"], order=["x", "b"]).order
    assert ("a", "b") == ChooseK(["a", "b"], order=["x", "b"]).order
    with pytest.raises(InvalidInput, match="nodes in an order"):
        ChooseK({"a", "b"})


def test_it_comes_back_from_pickles_with_its_order_and_has_no_table():
    placed = ChooseK(["d", "a", "c"], hasher="murmur3")
    placed = placed.on(placed.topology.without("a"))
    back = pickle.loads(pickle.dumps(placed))
    assert (placed, hash(placed), repr(placed), placed.order) == (back, hash(back), repr(back), back.order)
    assert placed.route_many(KEYS) == back.route_many(KEYS)
    assert None is placed.table()
    assert placed != ChooseK(["d", "c"], hasher="murmur3")


@pytest.mark.parametrize(
    ("order", "error"),
    [
        ("ab", InvalidInput),
        ({"a"}, InvalidInput),
        (7, InvalidInput),
        (["a", "a"], DuplicateNode),
        (["a", 1], InvalidInput),
    ],
    ids=["a str", "a set", "an int", "twice", "no name"],
)
def test_a_bad_order_is_refused(order, error):
    with pytest.raises(error):
        ChooseK(["a"], order=order)


def test_unequal_weights_no_nodes_and_a_narrow_hash_are_refused():
    with pytest.raises(BadWeight):
        ChooseK(["a", Node("b", weight=2)])
    with pytest.raises(NoNodes):
        ChooseK([Node("a", weight=0)])
    with pytest.raises(InvalidInput, match="it has 16"):
        ChooseK(["a"], hasher="crc16")
    with pytest.raises(InvalidInput, match="at most MAX_NODES"):
        ChooseK(["a"], order=map(str, range(100_001)))


def test_of_an_order_without_end_one_id_more_than_the_cap_is_read(monkeypatch):
    monkeypatch.setattr(import_module("apportion.placement.choose_k"), "MAX_NODES", 4)
    numbers = count()
    with pytest.raises(InvalidInput, match="order is 5, expected at most MAX_NODES = 4"):
        ChooseK(["a"], order=map(str, numbers))
    assert 5 == next(numbers)
