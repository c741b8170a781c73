"""A key with an exception is where the exception says; every other key is where the base puts it."""

import pickle
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Jump, Node, Rendezvous, Ring, Slots, Topology, balance, handover, plan
from apportion.errors import CannotPlace, InvalidInput, NotEnoughNodes, UnknownNode
from apportion.placement import directory as module
from apportion.placement.composite import Composite
from apportion.placement.directory import SPEC, Directory
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.lists import Lists
from tests import invariants, twins, worlds

ABCDE = Topology(Node(name, zone=(name,)) for name in "abcde")
RING = Ring(ABCDE, vnodes=8)
DIRECTORY = Directory(RING, exceptions={"vip": "e", b"raw": "a"})
KEYS = [f"tenant-{number}" for number in range(500)]
FEW = settings(max_examples=25)


@FEW
@given(st.dictionaries(worlds.keys, st.sampled_from("abcde"), max_size=5), st.lists(worlds.keys, max_size=8))
def test_an_exception_counts_for_its_key_and_no_other(exceptions, others):
    nodes = {key_bytes(key): node_id for key, node_id in exceptions.items()}
    if len(nodes) < len(exceptions):
        with pytest.raises(InvalidInput, match="each key once"):
            Directory(RING, exceptions=exceptions)
        return
    directory, asked = Directory(RING, exceptions=exceptions), [*exceptions, *others]
    expected = [nodes[key_bytes(key)] if key_bytes(key) in nodes else RING.route(key) for key in asked]
    assert expected == directory.route_many(asked) == directory.route_many(iter(asked))
    assert expected == [ABCDE.ids[index] for index in directory.route_indexes(asked)]
    assert expected == [directory.preference(key, 1)[0] for key in asked]
    assert expected == [directory.explain(key).owner for key in asked]


def test_a_list_is_the_exception_and_then_the_list_of_the_base_without_it():
    for key in KEYS[:50]:
        whole = RING.preference(key, 5)
        for node_id in "abcde":
            directory = Directory(RING, exceptions={key: node_id})
            expected = (node_id, *(each for each in whole if each != node_id))
            assert [expected[:count] for count in range(1, 6)] == [directory.preference(key, n) for n in range(1, 6)]


@FEW
@given(worlds.owning_topologies, worlds.keys, st.data())
def test_lists_keep_zones_apart_as_the_dumb_twin_does(topology, key, data):
    owning = [node.id for node in topology if node.weight]
    node_id, level = data.draw(st.sampled_from(owning)), data.draw(st.sampled_from([None, 0, 1]))
    base = Rendezvous(topology)
    directory = Directory(base, exceptions={key: node_id})
    listed = base.preference(key, len(owning), spread_level=level, spread="best-effort")
    ranking = [topology.index(each) for each in (node_id, *(each for each in listed if each != node_id))]
    domains = [node.fault_domain(level) for node in topology]
    for count in range(1, len(owning) + 1):
        expected = tuple(topology.ids[index] for index in twins.spread(ranking, domains, count))
        assert expected == directory.preference(key, count, spread_level=level, spread="best-effort")
        if count <= len({domains[topology.index(each)] for each in owning}):
            assert expected == directory.preference(key, count, spread_level=level)
            invariants.lists_keep_zones_apart(topology, expected, level)
        else:
            with pytest.raises(NotEnoughNodes, match="in distinct zones"):
                directory.preference(key, count, spread_level=level)


def test_a_base_that_ranks_nobody_still_comes_second():
    directory = Directory(Jump(ABCDE), exceptions={"vip": "e"})
    owner = Jump(ABCDE).route("vip")
    assert "e" != owner
    assert ("e", owner) == directory.preference("vip", 2)
    with pytest.raises(NotEnoughNodes, match="from Jump"):
        directory.preference("vip", 3)
    assert (owner,) == directory.explain("vip").next


def test_a_key_that_the_base_has_no_node_for_can_have_an_exception():
    lists = Lists(ABCDE, values={"a": ["de"]})
    directory = Directory(lists, exceptions={"jp": "b"})
    assert ["a", "b"] == directory.route_many(["de", "jp"])
    assert "the base has no node for it" in directory.explain("jp").why
    with pytest.raises(CannotPlace, match="'us' is in no list"):
        directory.route("us")
    by_time = Directory(Composite(RING), exceptions={"vip": "b"})
    assert ("b", ()) == (by_time.route("vip"), by_time.explain("vip").next)
    assert RING.preference("x", 4)[1] == by_time.route("x|86400")


def test_an_explanation_says_that_it_is_an_exception_and_what_the_base_would_do():
    explained = DIRECTORY.explain("vip")
    assert f"an exception gives the key to e (the base would take {RING.route('vip')})" in explained.why
    assert ("e", "directory", "exact-bytes", None) == (
        explained.owner,
        explained.placement,
        explained.hasher,
        explained.if_owner_left,
    )
    assert DIRECTORY.preference("vip", 3)[1:] == explained.next
    assert 7 == len(str(explained).splitlines())


def test_an_explanation_of_any_other_key_is_that_of_the_base():
    for key in KEYS[:100]:
        explained, by_base = DIRECTORY.explain(key), RING.explain(key)
        assert explained.why.startswith(f"no exception; {by_base.why}")
        assert (by_base.hash, by_base.range, by_base.next) == (explained.hash, explained.range, explained.next)
        if explained.if_owner_left is None:
            assert explained.owner in ("a", "e")
            assert f"before {explained.owner} can leave, give its exceptions away" in explained.why
        else:
            rest = ABCDE.without(explained.owner)
            assert explained.if_owner_left == DIRECTORY.on(rest).route(key)
    assert {True, False} == {DIRECTORY.explain(key).if_owner_left is None for key in KEYS[:100]}


def test_on_moves_the_base_and_keeps_the_exceptions():
    bigger = DIRECTORY.on(ABCDE.add("f").without("c"))
    base = RING.on(ABCDE.add("f").without("c"))
    assert ["e", "a"] == bigger.route_many(["vip", "raw"])
    assert base.route_many(KEYS) == bigger.route_many(KEYS)
    assert (base, DIRECTORY.exceptions, base.topology) == (bigger.base, bigger.exceptions, bigger.topology)
    assert Directory(base, exceptions={"raw": "a", "vip": "e"}) == bigger


@pytest.mark.parametrize("change", [ABCDE.without("e"), ABCDE.drain("e")], ids=["without", "drain"])
def test_on_refuses_to_go_on_without_a_node_that_has_an_exception(change):
    with pytest.raises(CannotPlace, match="the exception b'vip' would have no node without 'e'") as caught:
        DIRECTORY.on(change)
    assert "without_exception(key)" in caught.value.hint
    with pytest.raises(CannotPlace, match="the exception b'a' and 2 more would have no node"):
        Directory(RING, exceptions={"b": "e", "a": "e", "c": "e", "d": "d"}).on(change)
    assert "e" not in DIRECTORY.without_exception("vip").on(change).route_many(["vip", *KEYS])


def test_only_keys_with_a_cause_move_when_the_base_moves():
    for topology in (ABCDE.add("f"), ABCDE.without("c"), ABCDE.drain("b"), ABCDE.reweight("d", 3)):
        new = DIRECTORY.on(topology)
        invariants.keys_move_only_with_cause(DIRECTORY, new, [*KEYS, "vip", "raw"])
        invariants.nothing_strays(plan(DIRECTORY, new, [*KEYS, "vip", "raw"]))


def test_one_exception_more_or_less_moves_one_key():
    asked = ["vip", "raw", *KEYS]
    more = DIRECTORY.with_exception(KEYS[0], "c" if RING.route(KEYS[0]) != "c" else "d")
    assert [KEYS[0]] == [move.item for move in plan(DIRECTORY, more, asked).moves]
    assert DIRECTORY == more.without_exception(KEYS[0].encode())
    elsewhere = DIRECTORY.with_exception(b"vip", "b")
    assert ("b", "e") == (elsewhere.route("vip"), DIRECTORY.route("vip"))
    assert ("b", "e") == handover(DIRECTORY, elsewhere, "vip").both
    assert 2 == len(elsewhere.exceptions)
    assert RING.route_many(asked) == DIRECTORY.without_exception("vip").without_exception("raw").route_many(asked)


def test_what_cannot_become_an_exception_is_refused():
    with pytest.raises(InvalidInput, match="key is 'none', expected one that has an exception"):
        DIRECTORY.without_exception("none")
    with pytest.raises(UnknownNode, match="'z'"):
        DIRECTORY.with_exception("vip", "z")
    with pytest.raises(InvalidInput, match="key is None"):
        DIRECTORY.with_exception(None, "a")
    drained = Directory(RING.on(ABCDE.drain("d")), exceptions={})
    with pytest.raises(CannotPlace, match="the exception 'k' is given to 'd', which drains"):
        drained.with_exception("k", "d")
    with pytest.raises(CannotPlace, match="which drains"):
        Directory(drained, exceptions={"k": "d"})


@pytest.mark.parametrize("base", [None, "ring", ABCDE, RING.table(), Ring, 5], ids=lambda each: type(each).__name__)
def test_what_is_no_placement_is_no_base(base):
    with pytest.raises(InvalidInput, match="base is"):
        Directory(base, exceptions={})


@pytest.mark.parametrize(
    ("exceptions", "error", "fault"),
    [
        (None, InvalidInput, "exceptions is None, expected a mapping"),
        ([("vip", "a")], InvalidInput, "exceptions is a list"),
        ({"vip": "z"}, UnknownNode, "'z'"),
        ({"vip": None}, UnknownNode, "node id is None"),
        ({"vip": ["a"]}, UnknownNode, "node id is a list"),
        ({None: "a"}, InvalidInput, "key is None"),
        ({1.5: "a"}, InvalidInput, "key is 1.5"),
        ({"vip": "a", b"vip": "a"}, InvalidInput, "each key once"),
        ({UUID(int=0): "a", str(UUID(int=0)): "b"}, InvalidInput, "each key once"),
    ],
)
def test_what_makes_no_exceptions_is_refused(exceptions, error, fault):
    with pytest.raises(error, match=fault):
        Directory(RING, exceptions=exceptions)


def test_too_many_exceptions_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_EXCEPTIONS", 2)
    with pytest.raises(InvalidInput, match="exceptions is 3, expected at most MAX_EXCEPTIONS = 2"):
        Directory(RING, exceptions={"x": "a", "y": "a", "z": "a"})
    with pytest.raises(InvalidInput, match="at most MAX_EXCEPTIONS = 2"):
        DIRECTORY.with_exception("third", "a")
    assert 2 == len(DIRECTORY.with_exception("vip", "a").exceptions)


def test_a_directory_has_no_table():
    assert None is DIRECTORY.table()
    with pytest.raises(NotEnoughNodes):
        DIRECTORY.table(6)
    with pytest.raises(InvalidInput, match="Directory has no table"):
        plan(DIRECTORY, DIRECTORY)


def test_directories_lie_over_any_base_and_each_other():
    slots = Slots(balance.slots(ABCDE, count=64))
    inner = Directory(slots, exceptions={"vip": "a", "x": "b"})
    outer = Directory(inner, exceptions={"vip": "c"})
    assert ["c", "b"] == outer.route_many(["vip", "x"])
    assert slots.route_many(KEYS) == outer.route_many(KEYS)
    assert ("c", "a") == outer.preference("vip", 2)


@pytest.mark.parametrize("base", [RING, Rendezvous(ABCDE), Jump(ABCDE)], ids=lambda each: type(each).__name__)
def test_a_directory_survives_pickling(base):
    directory = Directory(base, exceptions={"vip": "e", 7: "b", b"\xff": "c"})
    back = pickle.loads(pickle.dumps(directory))
    assert (directory, hash(directory), repr(directory)) == (back, hash(back), repr(back))
    assert directory.route_many(["vip", 7, *KEYS]) == back.route_many(["vip", 7, *KEYS])
    assert f"Directory({base!r}, 3 exceptions)" == repr(directory)


def test_directories_are_equal_when_base_and_exceptions_are():
    assert DIRECTORY == Directory(Ring(ABCDE, vnodes=8), exceptions={"raw": "a", b"vip": "e"})
    assert DIRECTORY != Directory(RING, exceptions={"raw": "a", "vip": "d"})
    assert DIRECTORY != Directory(Ring(ABCDE, vnodes=9), exceptions={"raw": "a", "vip": "e"})
    assert DIRECTORY != RING


def test_the_spec_says_what_a_directory_is():
    assert ("directory", Directory, "explicit", False) == (SPEC.name, SPEC.build, SPEC.takes, SPEC.tabular)
    assert 5 == len(DIRECTORY.preference("vip", 5))
