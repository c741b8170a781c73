"""Salted keys are told apart and can be raised; popular keys are read from any of their nodes, each as likely."""

import json
import pickle
from collections import Counter
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Jump, Node, Rendezvous, Ring, Topology
from apportion.errors import CannotPlace, InvalidInput, NotEnoughNodes
from apportion.placement.hotkeys import MAX_SALTS, PopularKeys, popular_of, salt, salted
from apportion.placement.keys.key_bytes import key_bytes
from tests import worlds

VECTORS = json.loads((Path(__file__).parent / "vectors" / "hotkeys.json").read_text())
ABCDE = Topology(["a", "b", "c", "d", "e"])
RING = Ring(ABCDE, vnodes=8)
FEW = settings(max_examples=30)


class Drawn:
    """A random source that draws one number, and keeps what it was asked for."""

    def __init__(self, number):
        self.number, self.stops = number, []

    def randrange(self, stop, /):
        self.stops.append(stop)
        return self.number


@pytest.mark.parametrize("vector", VECTORS["salted"].values(), ids=VECTORS["salted"])
def test_salted_keys_are_fixed_for_ever(vector):
    expected = tuple(map(bytes.fromhex, vector["salted"]))
    assert expected == salted(bytes.fromhex(vector["key"]), VECTORS["salts"])


def test_salted_keys_of_a_text_are_texts():
    assert ["é", "é\x1fsalt1"] == [each.decode() for each in salted("é", 2)]
    assert salted("é", 9) == salted("é".encode(), 9)
    assert salted(-1, 3) == salted(b"\xff" * 8, 3)


@FEW
@given(worlds.keys, st.integers(1, 50), st.integers(1, 50))
def test_fewer_salts_are_the_beginning_of_more_and_one_is_the_key(key, fewer, more):
    fewer, more = sorted([fewer, more])
    assert salted(key, fewer) == salted(key, more)[:fewer]
    assert (key_bytes(key),) == salted(key, 1)
    assert more == len(set(salted(key, more)))


@FEW
@given(st.sets(st.text("a\x1fslt01", max_size=8), min_size=2, max_size=20))
def test_no_two_keys_have_a_salted_key_in_common(keys):
    owners = {}
    for key in keys:
        with suppress(InvalidInput):  # it is salted already
            owners.update({each: {*owners.get(each, ()), key} for each in salted(key, 12)})
    assert [] == [found for found in owners.values() if len(found) > 1]


@pytest.mark.parametrize("key", ["a\x1fsalt1", b"\x1fsalt0", "a\x1fsalt1\x1fsalt22", *salted("x", 3)[1:]])
def test_a_salted_key_is_not_salted_again(key):
    for make in (lambda key: salted(key, 2), lambda key: salt(key, 2, Random(1))):
        with pytest.raises(InvalidInput, match="one that is not salted yet"):
            make(key)


@pytest.mark.parametrize("key", ["a\x1fsalt", "a\x1fsalt1x", "asalt1", "a\x1fsalt1\n", "a\x1fsalt-1"])
def test_a_key_that_only_looks_salted_is_salted(key):
    assert 3 == len(salted(key, 3))


@FEW
@given(worlds.keys, st.integers(1, 60))
def test_every_salt_is_drawn_for_one_number(key, salts):
    sources = [Drawn(number) for number in range(salts)]
    assert salted(key, salts) == tuple(salt(key, salts, source) for source in sources)
    assert [[salts]] * salts == [source.stops for source in sources]


def test_salts_are_drawn_alike():
    random = Random(42)
    counts = Counter(salt("views", 8, random) for _ in range(8000))
    assert set(salted("views", 8)) == set(counts)
    assert all(abs(count - 1000) < 6 * 1000**0.5 for count in counts.values()), counts


@pytest.mark.parametrize("salts", [0, -1, MAX_SALTS + 1, True, 2.0, "2", None])
def test_what_is_no_number_of_salts_is_refused(salts):
    with pytest.raises(InvalidInput, match="salts is"):
        salted("k", salts)
    with pytest.raises(InvalidInput, match="salts is"):
        salt("k", salts, Random(1))
    assert MAX_SALTS == len(salted("k", MAX_SALTS))


def test_a_key_that_would_be_too_long_salted_is_refused():
    assert 65_536 == len(salted("x" * 65_530, 10)[9])
    with pytest.raises(InvalidInput, match="65536 bytes"):
        salted("x" * 65_530, 11)
    with pytest.raises(InvalidInput, match="65536 bytes"):
        salt("x" * 65_530, 11, Drawn(0))


@pytest.mark.parametrize("key", [None, True, 1.5, "\ud800", bytearray(b"k")])
def test_what_is_no_key_is_refused(key):
    popular = PopularKeys(RING, popular={})
    for ask in (
        lambda key: salted(key, 2),
        lambda key: salt(key, 2, Random(1)),
        popular.nodes,
        lambda key: popular.route(key, Random(1)),
    ):
        with pytest.raises(InvalidInput, match="key is"):
            ask(key)


@pytest.mark.parametrize("number", [-1, 2, 1.0, None, True])
def test_a_source_that_draws_nonsense_is_refused(number):
    with pytest.raises(InvalidInput, match=r"rng.randrange"):
        salt("k", 2, Drawn(number))
    with pytest.raises(InvalidInput, match=r"rng.randrange"):
        PopularKeys(RING, popular={"k": 2}).route("k", Drawn(number))


@FEW
@given(st.dictionaries(st.text(max_size=3), st.integers(1, 5), max_size=5), worlds.keys)
def test_nodes_of_a_popular_key_are_the_beginning_of_its_list(popular, other):
    keys = PopularKeys(RING, popular=popular)
    for key in [*popular, other]:
        count = {key_bytes(each): number for each, number in popular.items()}.get(key_bytes(key), 1)
        assert RING.preference(key, count) == keys.nodes(key)
        assert RING.route(key) == keys.nodes(key)[0]


@FEW
@given(worlds.keys, st.integers(2, 5))
def test_each_node_of_a_popular_key_is_drawn_for_one_number(key, count):
    keys = PopularKeys(RING, popular={key: count})
    sources = [Drawn(number) for number in range(count)]
    assert keys.nodes(key) == tuple(keys.route(key, source) for source in sources)
    assert [[count]] * count == [source.stops for source in sources]


def test_nothing_is_drawn_for_a_key_on_one_node():
    source = Drawn(None)
    assert RING.route("other") == PopularKeys(RING, popular={"news": 3}).route("other", source)
    assert [] == source.stops


def test_nodes_of_a_popular_key_are_routed_to_alike():
    keys, random = PopularKeys(RING, popular={"news": 4}), Random(7)
    counts = Counter(keys.route("news", random) for _ in range(4000))
    assert set(keys.nodes("news")) == set(counts)
    assert all(abs(count - 1000) < 6 * 1000**0.5 for count in counts.values()), counts


def test_zones_are_used_again_unless_they_are_to_be_distinct():
    topology = Topology(Node(f"n{number}", zone=(f"z{number % 2}",)) for number in range(4))
    keys = PopularKeys(Rendezvous(topology), popular={"news": 4})
    assert set(topology.ids) == set(keys.nodes("news"))
    assert {"z0", "z1"} == {topology[node_id].zone[0] for node_id in keys.nodes("news")[:2]}
    with pytest.raises(NotEnoughNodes, match="in distinct zones"):
        PopularKeys(Rendezvous(topology), popular={"news": 3}, spread="strict")


def test_more_nodes_than_there_are_is_refused_when_built():
    with pytest.raises(NotEnoughNodes, match="6 replicas wanted"):
        PopularKeys(RING, popular={"news": 6})
    with pytest.raises(NotEnoughNodes, match="from Jump"):
        PopularKeys(Jump(ABCDE), popular={"news": 2})
    with pytest.raises(NotEnoughNodes):
        PopularKeys(RING, popular={"news": 5}).on(ABCDE.without("a"))


def test_on_changes_the_nodes_of_a_popular_key_only_as_the_base_does():
    keys = PopularKeys(RING, popular={f"k{number}": 3 for number in range(50)})
    bigger = keys.on(ABCDE.add("f"))
    assert PopularKeys(RING.on(ABCDE.add("f")), popular=dict(keys.popular)) == bigger
    assert (ABCDE, ABCDE.add("f")) == (keys.topology, bigger.topology)
    for key, _ in keys.popular:
        assert set(bigger.nodes(key)) - set(keys.nodes(key)) <= {"f"}


@pytest.mark.parametrize(
    ("popular", "fault"),
    [
        (None, "popular is None"),
        ([("news", 2)], "popular is a list"),
        ({"news": 0}, "nodes of 'news' is 0"),
        ({"news": True}, "nodes of 'news' is True"),
        ({"news": 2.0}, "nodes of 'news' is 2.0"),
        ({None: 2}, "key is None"),
        ({"news": 2, b"news": 2}, "each key once"),
    ],
)
def test_what_names_no_popular_keys_is_refused(popular, fault):
    with pytest.raises(InvalidInput, match=fault):
        PopularKeys(RING, popular=popular)


@pytest.mark.parametrize("base", [None, ABCDE, RING.table(), Ring], ids=lambda each: type(each).__name__)
def test_what_is_no_placement_is_no_base(base):
    with pytest.raises(InvalidInput, match="base is"):
        PopularKeys(base, popular={})


def test_popular_keys_survive_pickling():
    keys = PopularKeys(RING, popular={"news": 3, 7: 2, UUID(int=3): 1}, spread="strict")
    back = pickle.loads(pickle.dumps(keys))
    assert (keys, hash(keys), repr(keys)) == (back, hash(back), repr(back))
    assert keys.nodes("news") == back.nodes("news")
    assert keys != PopularKeys(RING, popular={"news": 3})


def popular_twin(counts, total, nodes, capacity):
    """Try one node, then two, and so on, in exact fractions."""
    needs = {}
    for key, count in counts.items():
        needed = 1
        while Fraction(count, needed) + Fraction(total - count, nodes) > capacity:
            needed += 1
        if needed > 1:
            needs[key] = needed
    return needs


@FEW
@given(
    st.dictionaries(worlds.keys, st.integers(0, 1000), max_size=6), st.integers(1, 3000), st.integers(1, 12), st.data()
)
def test_popular_keys_need_what_the_dumb_twin_finds_by_trying(counts, further, nodes, data):
    counts = {key: count for key, count in counts.items() if [*map(key_bytes, counts)].count(key_bytes(key)) == 1}
    total = sum(counts.values()) + further
    capacity = data.draw(st.integers(-(-total // nodes), 2 * total))
    needs = popular_of(counts, total=total, nodes=nodes, capacity=capacity)
    assert popular_twin(counts, total, nodes, capacity) == needs
    assert all(2 <= need <= nodes for need in needs.values())
    assert sorted(needs, key=lambda key: (-counts[key], key_bytes(key))) == list(needs)


def test_what_popular_of_finds_is_what_popular_keys_take():
    needs = popular_of({"news": 600, "cats": 150, "dogs": 50}, total=1000, nodes=5, capacity=250)
    assert {"news": 4, "cats": 2} == needs
    assert 4 == len(PopularKeys(RING, popular=needs).nodes("news"))


def test_more_requests_than_all_nodes_bear_are_refused():
    with pytest.raises(CannotPlace, match="1001 requests are more than 5 nodes can serve, at 200 each") as caught:
        popular_of({"news": 600}, total=1001, nodes=5, capacity=200)
    assert "no placement can help" in caught.value.hint
    assert {"news": 5} == popular_of({"news": 600}, total=1000, nodes=5, capacity=200)


@pytest.mark.parametrize(
    ("counts", "options", "fault"),
    [
        (None, {}, "counts is None"),
        ([("k", 1)], {}, "counts is a list"),
        ({"k": -1}, {}, "count of 'k' is -1"),
        ({"k": 101}, {}, "count of 'k' is 101, expected an int in 0 .. 100, the total"),
        ({"k": 1.0}, {}, "count of 'k' is 1.0"),
        ({None: 1}, {}, "key is None"),
        ({"k": 1, b"k": 1}, {}, "each key once"),
        ({}, {"total": 0}, "total is 0"),
        ({}, {"nodes": True}, "nodes is True"),
        ({}, {"capacity": 1.5}, "capacity is 1.5"),
    ],
)
def test_counts_that_make_no_sense_are_refused(counts, options, fault):
    with pytest.raises(InvalidInput, match=fault):
        popular_of(counts, **{"total": 100, "nodes": 5, "capacity": 100, **options})
