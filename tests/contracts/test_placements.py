"""Every placement of the catalog keeps the promises of its spec, and what the protocol says of all placements."""

import pickle
from dataclasses import fields
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Assignment, Node, Topology, placement
from apportion.errors import InvalidInput, NoNodes, NotEnoughNodes, UnknownOption
from apportion.placement import PlacementSpec
from tests import worlds
from tests.contracts import promises
from tests.contracts.promises import KEYS, NODES, follow, start

ALL = [placement.get(name) for name in placement.names()]
# Layouts of other systems prescribe their hash, and often whole weights; what is listed explicitly has no topology
# alone to be built on. Both keep their promises in tests of their own, beside the systems they follow.
SPECS = [spec for spec in ALL if spec.takes_hasher and spec.takes != "explicit"]


def each(specs):
    """Run a test on each of some specs."""
    return pytest.mark.parametrize("spec", specs, ids=[spec.name for spec in specs])


EACH = each(SPECS)
EACH_ON_A_TOPOLOGY = each([spec for spec in SPECS if spec.takes == "topology"])
# The others are slow to build or to ask with 65 537 nodes; the buffer is made in one place.
EACH_QUICK_ONE = each([spec for spec in SPECS if spec.lookup in ("O(1)", "O(log nodes)")])
UUIDS = [UUID(int=number << 80 | number) for number in range(50)]
INTS = [0, 1, -1, 2**63 - 1, -(2**63), *range(2, 50)]


@EACH
@pytest.mark.parametrize("check", promises.CHECKS.values(), ids=promises.CHECKS)
def test_a_placement_keeps_its_promise(spec, check):
    check(spec)


@each([spec for spec in ALL if spec not in SPECS])
@pytest.mark.parametrize("field", ["name", "source"])
def test_a_layout_of_another_system_is_in_the_catalog_and_has_its_page(spec, field):
    promises.CHECKS[field](spec)


def test_every_field_of_a_spec_has_a_check():
    assert {field.name for field in fields(PlacementSpec)} == set(promises.CHECKS)


def test_the_placements_of_this_release_are_in_the_catalog():
    assert {"jump", "modulo", "rendezvous", "ring", "slots"} <= set(placement.names())


@EACH
@settings(max_examples=50)
@given(st.lists(worlds.keys, max_size=10))
def test_every_way_of_asking_gives_the_same_answer(spec, keys):
    built = _BUILT[spec.name]
    routed = [built.route(key) for key in keys]
    assert routed == built.route_many(keys)
    assert routed == [built.topology.ids[index] for index in built.route_indexes(keys)]
    assert routed == [built.preference(key, 1)[0] for key in keys]
    assert routed == [built.explain(key).owner for key in keys]


_BUILT = {spec.name: start(spec, NODES) for spec in SPECS}


@EACH
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_str_is_its_utf_8_bytes(spec, text):
    built = _BUILT[spec.name]
    assert built.route(text) == built.route(text.encode())


@EACH
def test_a_uuid_is_its_36_characters_and_an_int_its_8_bytes(spec):
    built = _BUILT[spec.name]
    assert built.route_many(map(str, UUIDS)) == built.route_many(UUIDS)
    data = [number.to_bytes(8, "little", signed=True) for number in INTS]
    assert built.route_many(data) == built.route_many(INTS)


@EACH
def test_moving_on_leaves_the_old_placement_as_it_was(spec):
    built = start(spec, NODES)
    before = (built.route_many(KEYS), built.topology, built.topology.number, hash(built), repr(built))
    newer = follow(spec, built, NODES.add("f"))
    assert before == (built.route_many(KEYS), built.topology, built.topology.number, hash(built), repr(built))
    assert (2, NODES.add("f")) == (newer.topology.number, newer.topology)
    assert newer != built


@EACH_ON_A_TOPOLOGY
def test_moving_on_is_the_same_as_building_anew(spec):
    built = start(spec, NODES)
    assert spec(NODES.add("f")) == built.on(NODES.add("f"))
    assert spec(NODES.add("f")).route_many(KEYS) == built.on(NODES.add("f")).route_many(KEYS)


@EACH_ON_A_TOPOLOGY
def test_the_order_of_the_nodes_does_not_matter_unless_it_is_kept(spec):
    names = ["d", "a", "c", "b"]
    if hasattr(start(spec, NODES), "order"):
        assert spec(names).route_many(KEYS) != spec(sorted(names)).route_many(KEYS)
    else:
        assert spec(names).route_many(KEYS) == spec(sorted(names)).route_many(KEYS)


@EACH
def test_placements_are_equal_when_their_answers_must_be(spec):
    one, other = start(spec, NODES), start(spec, NODES)
    assert (one, hash(one)) == (other, hash(other))
    assert one != start(spec, NODES.without("e"))
    assert one != "ring"


@EACH
@pytest.mark.parametrize("hasher", ["xxh3-64", "murmur3", "sha-256"])
def test_a_placement_survives_pickling(spec, hasher):
    built = start(spec, NODES)
    built = spec(built.assignment if spec.takes == "assignment" else NODES, hasher=hasher)
    back = pickle.loads(pickle.dumps(built))
    assert (built, hash(built), repr(built)) == (back, hash(back), repr(back))
    assert built.route_many(KEYS) == back.route_many(KEYS)
    assert follow(spec, built, NODES.add("f")) == follow(spec, back, NODES.add("f"))


@EACH
def test_a_placement_shows_its_topology_and_hasher_in_one_line(spec):
    shown = repr(start(spec, NODES))
    assert ["Topology(5 nodes in 5 zones", "hasher='xxh3-64'", True] == [
        part for part in ("Topology(5 nodes in 5 zones", "hasher='xxh3-64'") if part in shown
    ] + [shown.isprintable()]


@EACH
def test_explanations_agree_with_the_answers(spec):
    built = _BUILT[spec.name]
    for key in KEYS[:50]:
        explained = built.explain(key)
        assert (key, built.route(key), "xxh3-64") == (explained.key, explained.owner, explained.hasher)
        assert 7 == len(str(explained).splitlines())
        if explained.if_owner_left is not None:
            rest = built.topology.without(explained.owner)
            assert explained.if_owner_left == built.on(rest).route(key)


@EACH
def test_a_drained_node_owns_nothing(spec):
    built = follow(spec, start(spec, NODES), NODES.drain("e"))
    assert {"a", "b", "c", "d"} == set(built.route_many(KEYS))
    assert "e" in built.topology


@EACH
def test_one_node_owns_everything(spec):
    built = start(spec, Topology(["only"]))
    assert {"only"} == set(built.route_many(KEYS))
    assert ("only",) == built.preference("k", 1)


@EACH_ON_A_TOPOLOGY
@pytest.mark.parametrize("topology", [Topology(), Topology([Node("a", weight=0)])], ids=["empty", "drained"])
def test_no_owning_node_is_refused(spec, topology):
    with pytest.raises(NoNodes):
        spec(topology)


@EACH
@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1", None])
def test_a_bad_count_is_refused(spec, count):
    for ask in (lambda: _BUILT[spec.name].preference("k", count), lambda: _BUILT[spec.name].table(count)):
        with pytest.raises(InvalidInput, match="count of nodes is"):
            ask()


@EACH
def test_more_replicas_than_nodes_are_refused(spec):
    for ask in (_BUILT[spec.name].table, lambda count: _BUILT[spec.name].preference("k", count)):
        with pytest.raises(NotEnoughNodes, match="6 replicas wanted"):
            ask(6)


@EACH
def test_a_misspelt_option_names_the_nearest(spec):
    with pytest.raises(UnknownOption, match="Did you mean 'strict'"):
        _BUILT[spec.name].preference("k", 1, spread="strickt")


@EACH
@pytest.mark.parametrize("level", [-1, 8, True, "0", 1.0])
def test_a_bad_level_is_refused(spec, level):
    with pytest.raises(InvalidInput, match="spread_level is"):
        _BUILT[spec.name].preference("k", 1, spread_level=level)


@EACH_QUICK_ONE
def test_an_index_above_65535_needs_the_wider_buffer(spec):
    built = spec(f"n{number:05}" for number in range(2**16 + 1))
    indexes = built.route_indexes(KEYS)
    assert 4 == indexes.itemsize
    assert built.route_many(KEYS) == [built.topology.ids[index] for index in indexes]


class Hostile(str):
    """A string that lies about what it is."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __len__(self):
        return 1

    def encode(self, *_):
        return b"something else"


class Nameless:
    """An object whose `str` differs from one process to the next."""


BAD_KEYS = {
    "4 half a surrogate": "\ud800",
    "4 half a surrogate in a long key": "\ud800" * 20_000,
    "6 64 KiB and one": b"x" * 65_537,
    "6 64 KiB and one character": "x" * 65_537,
    "6 64 KiB and one byte of two-byte letters": "é" * 32_769,
    "6 1 MiB": "x" * 2**20,
    "7 True": True,
    "7 1.0": 1.0,
    "8 -0.0": -0.0,
    "8 NaN": float("nan"),
    "9 a bytearray": bytearray(b"k"),
    "9 a memoryview": memoryview(b"k"),
    "10 a long string that says it is short": Hostile("x" * 65_537),
    "11 2**63": 2**63,
    "11 -2**63 - 1": -(2**63) - 1,
    "11 5000 digits": 10**5000,
    "12 an object": Nameless(),
    "12 None": None,
    "12 a tuple": ("a", 1),
    "12 a class": Nameless,
}


@EACH
@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_a_bad_key_is_refused_by_every_question(spec, key):
    built = _BUILT[spec.name]
    questions = (
        built.route,
        built.explain,
        lambda key: built.route_many(["good", key]),
        lambda key: built.route_indexes(["good", key]),
        lambda key: built.preference(key, 1),
    )
    for question in questions:
        with pytest.raises(InvalidInput, match=r"^key is ") as caught:
            question(key)
        assert "key" == caught.value.field
        assert len(str(caught.value)) < 300


@EACH
def test_odd_keys_that_mean_something_are_routed(spec):
    built = _BUILT[spec.name]
    assert built.route("") == built.route(b"")
    assert built.route("plain") == built.route(Hostile("plain"))
    distinct = ["a", "a\0", "é", "e\u0301", 1, "1", -1, "x" * 65_536, b"x" * 65_535]
    hashes = {built.explain(key).hash for key in distinct}
    assert len(distinct) == len(hashes)


def test_slots_of_several_owners_rank_as_the_assignment_does():
    assignment = Assignment(topology=NODES, rows=((0, 1, 2), (3, 4, 0)))
    slots = placement.get("slots")(assignment)
    for key in KEYS[:20]:
        assert assignment[slots.slot(key)] == slots.preference(key, 3)
        assert slots.preference(key, 3)[:2] == slots.preference(key, 2)
        assert slots.table(3).owners(slots.explain(key).hash) == slots.preference(key, 3)
