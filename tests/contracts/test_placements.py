"""Every placement of the catalog keeps the promises of its spec, and what the protocol says of all placements."""

import pickle
from dataclasses import fields, replace
from functools import cache, partial
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Assignment, Node, Topology, placement
from apportion.errors import InvalidInput, NoNodes, NotEnoughNodes, UnknownOption
from apportion.placement import PlacementSpec
from apportion.placement.layouts.ketama import Ketama
from tests import worlds
from tests.contracts import promises
from tests.contracts.promises import NODES, built_of
from tests.contracts.samples import TEXT_ONLY, follow, key_of, keys_of, position, start, unit_of

SPECS = {name: placement.get(name) for name in placement.names()}
# A second layout of a name of the catalog: all but its name is checked.
LIBMEMCACHED = replace(SPECS["ketama"], build=partial(Ketama, layout="libmemcached"))
ALL = {**SPECS, "ketama-libmemcached": LIBMEMCACHED}


def each(specs):
    """Run a test on each of some specs."""
    return pytest.mark.parametrize("spec", specs.values(), ids=specs)


def those(condition):
    """Return the specs of which something is true."""
    return {name: spec for name, spec in ALL.items() if condition(spec)}


EACH = each(ALL)
EACH_ON_A_TOPOLOGY = each(those(lambda spec: spec.takes == "topology"))
# Others are slow to build or to ask with 65 537 nodes (one deals slots in turns); the buffer is made in one place.
QUICK = those(lambda spec: spec.takes == "topology" and spec.lookup in ("O(1)", "O(log nodes)"))
EACH_QUICK_ONE = pytest.mark.parametrize(
    "spec",
    [
        pytest.param(spec, id=name, marks=() if name == "jump" else pytest.mark.slow)
        for name, spec in QUICK.items()
        if name != "envoy_maglev"
    ],
)
UUIDS = [UUID(int=number << 80 | number) for number in range(50)]
INTS = [0, 1, -1, 2**63 - 1, -(2**63), *range(2, 50)]


@each(SPECS)
@pytest.mark.parametrize("check", promises.CHECKS.values(), ids=promises.CHECKS)
def test_a_placement_keeps_its_promise(spec, check):
    check(spec)


@pytest.mark.parametrize("field", sorted(set(promises.CHECKS) - {"name"}))
def test_the_other_layout_of_ketama_keeps_the_same_promises(field):
    promises.CHECKS[field](LIBMEMCACHED)


def test_every_field_of_a_spec_has_a_check():
    assert {field.name for field in fields(PlacementSpec)} == set(promises.CHECKS)


def test_the_placements_of_this_release_are_in_the_catalog():
    assert {"jump", "modulo", "rendezvous", "ring", "slots"} <= set(placement.names())


@each(those(lambda spec: spec.takes == "topology" and spec.name != "cassandra"))
def test_a_mapping_of_weights_makes_the_placement_of_nodes_with_these_weights(spec):
    weights = {node_id: unit_of(spec) * (1 + 2 * spec.weighted * (node_id == "b")) for node_id in NODES.ids}
    listed = Topology(Node(node_id, weight=weight) for node_id, weight in weights.items())
    assert listed == spec(weights).topology
    assert start(spec, listed).route_many(keys_of(spec)) == spec(weights).route_many(keys_of(spec))


@each(those(lambda spec: spec.name not in TEXT_ONLY))
@settings(max_examples=50)
@given(st.lists(worlds.keys, max_size=10))
def test_every_way_of_asking_gives_the_same_answer(spec, keys):
    _asked_in_every_way(built_of(spec), keys)


@each(those(lambda spec: spec.name in TEXT_ONLY))
@settings(max_examples=50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=10))
def test_every_way_of_asking_for_text_gives_the_same_answer(spec, names):
    _asked_in_every_way(built_of(spec), [key_of(spec, name) for name in names])


def _asked_in_every_way(built, keys):
    routed = [built.route(key) for key in keys]
    assert routed == built.route_many(keys)
    assert routed == [built.topology.ids[index] for index in built.route_indexes(keys)]
    assert routed == [built.preference(key, 1)[0] for key in keys]
    assert routed[:5] == [built.explain(key).owner for key in keys[:5]]  # which lays some circles anew


@EACH
def test_a_scalar_of_numpy_has_the_answer_of_its_python_value(spec):
    built, keys = built_of(spec), keys_of(spec)[:50]
    scalars = [*map(np.str_, keys[:25]), *(np.bytes_(key.encode()) for key in keys[25:])]
    if spec.name not in TEXT_ONLY:
        keys, scalars = [*keys, *INTS], [*scalars, *map(np.int64, INTS)]
    with pytest.raises(InvalidInput, match="str"):
        built.route(np.float64(1))
    _asked_in_every_way(built, scalars)
    assert built.route_many(keys) == built.route_many(scalars)


@EACH
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_str_is_its_utf_8_bytes(spec, text):
    built, key = built_of(spec), key_of(spec, text)
    assert built.route(key) == built.route(key.encode())


@each(those(lambda spec: spec.name not in TEXT_ONLY))
def test_a_uuid_is_its_36_characters_and_an_int_its_8_bytes(spec):
    built = built_of(spec)
    assert built.route_many(map(str, UUIDS)) == built.route_many(UUIDS)
    data = [number.to_bytes(8, "little", signed=True) for number in INTS]
    assert built.route_many(data) == built.route_many(INTS)


@each(those(lambda spec: spec.name in TEXT_ONLY))
def test_what_reads_text_alone_refuses_ints(spec):
    for number in INTS:
        with pytest.raises(InvalidInput, match=r"^key is"):
            built_of(spec).route(number)


@EACH
def test_moving_on_leaves_the_old_placement_as_it_was(spec):
    built, keys = start(spec, NODES), keys_of(spec)
    before = (built.route_many(keys), built.topology, built.topology.number, hash(built), repr(built))
    newer = follow(spec, built, NODES.add("f"))
    assert before == (built.route_many(keys), built.topology, built.topology.number, hash(built), repr(built))
    assert (2, NODES.add("f")) == (newer.topology.number, newer.topology)
    assert newer != built


@EACH_ON_A_TOPOLOGY
def test_moving_on_is_the_same_as_building_anew(spec):
    built = start(spec, NODES)
    assert spec(NODES.add("f")) == built.on(NODES.add("f"))
    assert spec(NODES.add("f")).route_many(keys_of(spec)) == built.on(NODES.add("f")).route_many(keys_of(spec))


@EACH_ON_A_TOPOLOGY
def test_the_order_of_the_nodes_does_not_matter_unless_it_is_kept(spec):
    names = ["d", "a", "c", "b"]
    routed, of_sorted = (spec(order).route_many(keys_of(spec)) for order in (names, sorted(names)))
    assert hasattr(start(spec, NODES), "order") == (routed != of_sorted)


@EACH
def test_placements_are_equal_when_their_answers_must_be(spec):
    one, other = start(spec, NODES), start(spec, NODES)
    assert (one, hash(one)) == (other, hash(other))
    assert one != start(spec, Topology(NODES.without("e")))
    assert one != "ring"


@EACH
def test_a_placement_survives_pickling(spec):
    _survives_pickling(spec, start(spec, NODES))


@each(those(lambda spec: spec.takes_hasher))
@pytest.mark.parametrize("hasher", ["murmur3", "sha-256"])
def test_a_placement_survives_pickling_with_another_hasher(spec, hasher):
    built = start(spec, NODES)
    _survives_pickling(spec, spec(built.assignment if spec.takes == "assignment" else NODES, hasher=hasher))


def _survives_pickling(spec, built):
    back = pickle.loads(pickle.dumps(built))
    assert (built, hash(built), repr(built)) == (back, hash(back), repr(back))
    assert built.route_many(keys_of(spec)) == back.route_many(keys_of(spec))
    assert follow(spec, built, NODES.add("f")) == follow(spec, back, NODES.add("f"))


@each(SPECS)
def test_a_subclass_with_more_methods_stays_one_where_it_is_moved_pickled_and_shown(spec):
    kind = type(built_of(spec))
    mine = type("Mine", (kind,), {"__module__": __name__, "shout": lambda self, key: self.route(key).upper()})
    built = start(replace(spec, build=mine), NODES)
    globals()["Mine"] = mine  # pickles name a class by its module
    key = keys_of(spec)[0]
    for each in (built, built.on(NODES), pickle.loads(pickle.dumps(built))):
        assert built_of(spec).route(key).upper() == each.shout(key)
        assert repr(each).startswith("Mine(")


@EACH
def test_a_placement_shows_its_topology_and_hasher_in_one_line(spec):
    built = start(spec, NODES)
    shown = repr(built)
    assert "Topology(5 nodes in 5 zones" in shown
    assert built.explain(keys_of(spec)[0]).hasher in shown
    assert shown.isprintable()


@EACH
def test_explanations_agree_with_the_answers(spec):
    built = built_of(spec)
    without = cache(lambda owner: built.on(built.topology.without(owner)))
    for key in keys_of(spec)[:50]:
        explained = built.explain(key)
        assert (key, built.route(key)) == (explained.key, explained.owner)
        assert 7 == len(str(explained).splitlines())
        if explained.if_owner_left is not None:
            assert explained.if_owner_left == without(explained.owner).route(key)


@EACH
def test_a_drained_node_owns_nothing(spec):
    built = follow(spec, start(spec, NODES), NODES.drain("e"))
    assert {"a", "b", "c", "d"} == set(built.route_many(keys_of(spec)))
    assert "e" in built.topology


@EACH_ON_A_TOPOLOGY
@pytest.mark.parametrize("topology", [Topology(), Topology([Node("a", weight=0)])], ids=["empty", "drained"])
def test_no_owning_node_is_refused(spec, topology):
    with pytest.raises(NoNodes):
        spec(topology)


@EACH
@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1", None])
def test_a_bad_count_is_refused(spec, count):
    for ask in (
        lambda: built_of(spec).preference(key_of(spec, "k"), count),
        lambda: built_of(spec).table(count),
    ):
        with pytest.raises(InvalidInput, match="count of nodes is"):
            ask()


@EACH
def test_more_replicas_than_nodes_are_refused(spec):
    for ask in (built_of(spec).table, lambda count: built_of(spec).preference(key_of(spec, "k"), count)):
        with pytest.raises(NotEnoughNodes, match="6 replicas wanted"):
            ask(6)


@EACH
def test_a_misspelt_option_names_the_nearest(spec):
    with pytest.raises(UnknownOption, match="Did you mean 'strict'"):
        built_of(spec).preference(key_of(spec, "k"), 1, spread="strickt")


@EACH
@pytest.mark.parametrize("level", [-1, 8, True, "0", 1.0])
def test_a_bad_level_is_refused(spec, level):
    with pytest.raises(InvalidInput, match="spread_level is"):
        built_of(spec).preference(key_of(spec, "k"), 1, spread_level=level)


@EACH_QUICK_ONE
def test_an_index_above_65535_needs_the_wider_buffer(spec):
    built = spec(f"n{number:05}" for number in range(2**16 + 1))
    indexes = built.route_indexes(keys_of(spec))
    assert 4 == indexes.itemsize
    assert built.route_many(keys_of(spec)) == [built.topology.ids[index] for index in indexes]


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
    built, good = built_of(spec), key_of(spec, "good")
    assert built.route(good) in NODES
    questions = (
        built.route,
        built.explain,
        lambda key: built.route_many([good, key]),
        lambda key: built.route_indexes([good, key]),
        lambda key: built.preference(key, 1),
    )
    for question in questions:
        with pytest.raises(InvalidInput, match=r"^key is ") as caught:
            question(key)
        assert "key" == caught.value.field
        assert len(str(caught.value)) < 300


ODD_KEYS = ["a", "a\0", "é", "e\u0301", 1, "1", -1, "x" * 65_536, b"x" * 65_535]


@each(those(lambda spec: spec.name not in TEXT_ONLY))
def test_odd_keys_that_mean_something_are_routed(spec):
    built = built_of(spec)
    assert built.route("") == built.route(b"")
    assert built.route("plain") == built.route(Hostile("plain"))
    assert set(built.route_many(ODD_KEYS)) <= set(NODES.ids)


@each(those(lambda spec: spec.takes_hasher))
def test_odd_keys_are_distinct_wherever_the_hash_is_wide_enough(spec):
    assert len(ODD_KEYS) == len({built_of(spec).explain(key).hash for key in ODD_KEYS})


def test_slots_of_several_owners_rank_as_the_assignment_does():
    assignment = Assignment(topology=NODES, rows=((0, 1, 2), (3, 4, 0)))
    slots = placement.get("slots")(assignment)
    for key in keys_of(SPECS["slots"])[:20]:
        assert assignment[slots.slot(key)] == slots.preference(key, 3)
        assert slots.preference(key, 3)[:2] == slots.preference(key, 2)
        assert slots.table(3).owners(position(slots, key)) == slots.preference(key, 3)
