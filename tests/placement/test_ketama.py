"""Ketama is the circle of its docstring, and gives the answers of libmemcached and of libketama."""

import json
import pickle
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Node, Topology, plan
from apportion.errors import BadWeight, InvalidInput, NoNodes, NotEnoughNodes, UnknownOption
from apportion.placement.layouts.ketama import HASHER, SPEC, Ketama, _libketama_groups, _libmemcached_groups, first_word
from tests import worlds
from tests.placement import layout_twins as twins

VECTORS = json.loads((Path(__file__).parent / "vectors" / "ketama.json").read_text(encoding="utf-8"))
KEYS = [f"tenant-{number}" for number in range(300)]
LAYOUTS = ("libketama", "libmemcached")
GROUPS = {"libketama": twins.libketama_groups, "libmemcached": twins.libmemcached_groups}

weights = st.one_of(st.integers(1, 4), st.sampled_from([64, 128, 256, 1024, 10**9]), st.integers(1, 10**9))
weight_lists = st.lists(weights, min_size=1, max_size=40)


def servers(listed):
    """Return a topology of (id, weight) pairs."""
    return Topology([Node(node_id, weight=weight) for node_id, weight in listed])


def numbered(listed):
    """Return a topology with weights only, of servers on a port of their own."""
    return servers((f"h{number:03}:9000", weight) for number, weight in enumerate(listed))


def groups_of(placement):
    """Return the groups of each server, in the order of ids."""
    return [len(list(placement._tokens_of(index))) // 4 for index in range(len(placement.topology))]


@settings(max_examples=60)
@given(st.sampled_from(LAYOUTS), weight_lists)
def test_groups_are_rounded_as_single_precision_rounds(layout, listed):
    assert GROUPS[layout](listed) == groups_of(Ketama(numbered(listed), layout=layout))


@settings(max_examples=100)
@given(st.fractions(Fraction(1, 2), 10**6, max_denominator=10**9))
def test_the_small_addition_of_libmemcached_changes_no_group(steps):
    single = twins.rounded(steps, 24)
    added = twins.rounded(twins.rounded(single + Fraction(1e-10), 53), 24)
    assert single.__floor__() == added.__floor__()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_servers_have_39_groups_where_single_precision_falls_short(layout):
    rule = {"libketama": _libketama_groups, "libmemcached": _libmemcached_groups}[layout]
    short = [count for count in range(1, 251) if set(rule([1] * count)) != {40}]
    assert VECTORS["39 groups"][layout] == short
    assert [39] * 61 == groups_of(Ketama(numbered([1] * 61), layout=layout))


@settings(max_examples=40)
@given(st.sampled_from(LAYOUTS), st.lists(weights, min_size=1, max_size=5), st.lists(worlds.keys, min_size=1))
def test_a_key_belongs_to_the_first_point_at_or_after_its_hash(layout, listed, keys):
    pairs = [(f"h{number}:9000", weight) for number, weight in enumerate(listed)]
    points = twins.ketama_points(pairs, [node_id for node_id, _ in pairs], GROUPS[layout](listed))
    expected = [twins.owner_of(points, twins.ketama_hash(_bytes(key))) for key in keys]
    assert expected == Ketama(servers(pairs), layout=layout).route_many(keys)


def _bytes(key):
    return key if isinstance(key, bytes) else str(key).encode()


@pytest.mark.parametrize("case", VECTORS["libmemcached"], ids=lambda case: case["name"])
def test_the_answers_of_libmemcached_are_ours(case):
    placement = Ketama(servers(case["servers"]), layout="libmemcached")
    keys = [bytes.fromhex(key) for key, _ in case["owners"]]
    assert [case["servers"][owner][0] for _, owner in case["owners"]] == placement.route_many(keys)


@pytest.mark.parametrize("case", VECTORS["libketama"], ids=lambda case: case["name"])
def test_the_answers_of_libketama_are_ours(case):
    placement = Ketama(servers(case["servers"]))
    keys = [bytes.fromhex(key) for key, _ in case["owners"]]
    assert [case["servers"][owner][0] for _, owner in case["owners"]] == placement.route_many(keys)


@pytest.mark.parametrize(
    ("node_id", "name"),
    [
        ("h1:11211", "h1"),
        ("h1", "h1"),
        ("h1:11212", "h1:11212"),
        ("h1:0080", "h1:80"),
        ("[::1]:11211", "[::1]"),
        ("::1:11212", "::1:11212"),
        ("/run/m.sock", "/run/m.sock:0"),
    ],
)
def test_libmemcached_hashes_a_server_without_its_own_port(node_id, name):
    points = twins.ketama_points([(node_id, 1)], [name], [40])
    placement = Ketama([node_id], layout="libmemcached")
    assert sorted((point + 1 << 32) - 1 for point, _ in points) == sorted(placement._tokens_of(0))


def test_libketama_hashes_the_address_as_it_is_written():
    points = twins.ketama_points([("h1:11211", 1)], ["h1:11211"], [40])
    assert {(point + 1 << 32) - 1 for point, _ in points} == set(Ketama(["h1:11211"])._tokens_of(0))


@pytest.mark.parametrize(
    "node_id", ["h1:", "h1:0", "h1:65536", "h1:x", ":11211", "::1", "h1:\u0661", "h1:999999", "a:1:"]
)
def test_a_server_that_libmemcached_cannot_have_is_refused(node_id):
    with pytest.raises(InvalidInput, match="node id is"):
        Ketama([node_id], layout="libmemcached")


@pytest.mark.parametrize("pair", [("h1", "h1:11211"), ("h1:80", "h1:080")])
def test_two_spellings_of_one_server_are_refused(pair):
    with pytest.raises(InvalidInput, match="can tell from"):
        Ketama(pair, layout="libmemcached")
    assert 2 == len(Ketama(pair).table().widths())


def test_a_shared_point_belongs_to_the_smaller_id():
    tokens = {0: [7], 1: [7, 2**63], 2: [7]}
    placement = _Stub(["b", "a", "c"], tokens)
    assert ({7: ("a",)}, ("b",)) == ({7: placement.table().owners(7)}, placement.table().owners(2**63))


class _Stub(Ketama):
    """A layout whose tokens are told."""

    def __init__(self, nodes, tokens):
        object.__setattr__(self, "_told", tokens)
        Ketama.__init__(self, nodes)

    def _tokens_of(self, index):
        return self._told[index]


def test_a_server_too_light_for_a_point_owns_nothing_and_no_list_names_it():
    topology = Topology([Node("big:1", weight=4096), Node("mid:1", weight=4096), Node("tiny:1", weight=64)])
    placement = Ketama(topology)
    assert [59, 59, 0] == groups_of(placement)
    assert {"big:1", "mid:1"} == set(placement.route_many(KEYS))
    assert {"big:1", "mid:1"} == set(placement.preference("k", 2))
    for ask in (lambda: placement.preference("k", 3), lambda: placement.table(3)):
        with pytest.raises(NotEnoughNodes, match=r"2 eligible \(big:1, mid:1\)"):
            ask()
    assert all(len(placement.explain(key).next) == 1 for key in KEYS[:20])


def test_rows_of_a_table_are_preference_lists():
    placement = Ketama(["a:1", "b:1", "c:1"], layout="libmemcached")
    table = placement.table(3)
    for key in KEYS:
        assert placement.preference(key, 3) == table.owners(first_word(key.encode()) << 32)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_explanation_tells_who_would_own_the_key_without_its_owner(layout):
    placement = Ketama(servers([("a:1", 3), ("b:1", 1), ("c:1", 2)]), layout=layout)
    for key in KEYS[:50]:
        explained = placement.explain(key)
        rest = placement.on(placement.topology.without(explained.owner))
        assert (placement.route(key), rest.route(key)) == (explained.owner, explained.if_owner_left)
        assert (HASHER.label, first_word(key.encode())) == (explained.hasher, explained.hash)
    assert None is Ketama(["only:1"], layout=layout).explain("k").if_owner_left


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_weighted_change_moves_keys_between_servers_that_stay(layout):
    placement = Ketama(numbered([1] * 20), layout=layout)
    change = plan(placement, placement.on(placement.topology.add(Node("new:1", weight=10))))
    assert (False, True) == (SPEC.minimal_disruption, change.stray_ratio > 0.03)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_drained_server_is_as_good_as_gone(layout):
    placement = Ketama(["a:1", "b:1", "c:1"], layout=layout)
    drained, gone = (placement.on(change) for change in (placement.topology.drain("b:1"), Topology(["a:1", "c:1"])))
    assert gone.route_many(KEYS) == drained.route_many(KEYS)


@pytest.mark.parametrize("weight", [0.5, 1.25, 10**9 - 0.5])
def test_a_fractional_weight_is_refused(weight):
    with pytest.raises(BadWeight, match="a whole number, as libketama has it"):
        Ketama([Node("a:1", weight=weight), "b:1"])


@pytest.mark.parametrize("layout", ["ketama", "KETAMA_WEIGHTED", "", None, 1, ["libketama"]])
def test_an_unknown_layout_is_refused(layout):
    with pytest.raises(UnknownOption, match="one of libketama, libmemcached"):
        Ketama(["a:1"], layout=layout)


@pytest.mark.parametrize("nodes", [[], [Node("a:1", weight=0)]])
def test_no_server_is_refused(nodes):
    with pytest.raises(NoNodes):
        Ketama(nodes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_ketama_is_a_value(layout):
    placement = Ketama(["a:1", "b:1"], layout=layout)
    back = pickle.loads(pickle.dumps(placement))
    assert (placement, hash(placement), repr(placement)) == (back, hash(back), repr(back))
    assert placement.route_many(KEYS) == back.route_many(KEYS)
    assert layout in repr(placement)
    assert Ketama(["a:1", "b:1"], layout=LAYOUTS[layout == LAYOUTS[0]]) != placement
    assert (HASHER, 32) == (pickle.loads(pickle.dumps(HASHER)), HASHER.bits)
