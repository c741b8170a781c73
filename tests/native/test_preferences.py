"""Preference lists on a circle in the twin are those of the rule, walking around the reference of the circle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Node, Ring, hashers
from apportion.errors import ApportionError, InvalidInput, NotEnoughNodes, UnknownOption
from apportion.placement.layouts.envoy import Envoy
from apportion.placement.layouts.ketama import Ketama
from apportion.placement.layouts.nginx import Nginx
from tests import worlds
from tests.native.comparing import answered_by_the_twin, laid_reference, needs_twin, reference_ring
from tests.native.test_router import KEYS

pytestmark = needs_twin


@given(worlds.owning_topologies, st.integers(1, 6), st.integers(1, 4), st.sampled_from([None, 0, 1]))
def test_preference_lists_of_the_twin_are_those_of_the_rule(topology, vnodes, count, level):
    ring, reference = Ring(topology, vnodes=vnodes), reference_ring(topology, vnodes, hashers.get())
    for key in KEYS[:8]:
        expected = _listed(reference.preference, key, count, level)
        with answered_by_the_twin(1 if isinstance(expected, tuple) and level is None else 0):
            assert expected == _listed(ring.preference, key, count, level)


def _listed(preference, key, count, level):
    try:
        return preference(key, count, spread_level=level, spread="strict")
    except ApportionError as error:
        return str(error)


@given(worlds.owning_topologies, st.integers(1, 6), st.integers(1, 4), st.sampled_from(["strict", "best-effort"]))
def test_many_preference_lists_are_those_of_each_key(topology, vnodes, count, spread):
    ring, reference = Ring(topology, vnodes=vnodes), reference_ring(topology, vnodes, hashers.get())
    try:
        expected = reference.preference_many(KEYS, count, spread=spread)
    except NotEnoughNodes:
        with answered_by_the_twin(0), pytest.raises(NotEnoughNodes):
            ring.preference_many(KEYS, count, spread=spread)
    else:
        with answered_by_the_twin(3 * len(KEYS)):
            assert expected == ring.preference_many(KEYS, count, spread=spread)
            assert expected == [ring.preference(key, count, spread=spread) for key in KEYS]
            assert expected == ring.preference_many(KEYS, count, spread=spread, threads=3)


def test_lists_in_which_zones_are_used_again_are_the_twins():
    nodes = [Node(f"n{number}", zone=(f"z{number % 3}",), weight=number % 4) for number in range(12)]
    ring, counts = Ring(nodes), range(1, 10)
    reference = reference_ring(ring.topology, 150, hashers.get())
    expected = [reference.preference(key, count, spread="best-effort") for key in KEYS for count in counts]
    with answered_by_the_twin(len(expected)):
        assert expected == [ring.preference(key, count, spread="best-effort") for key in KEYS for count in counts]


@given(
    st.sampled_from([Ketama, Nginx, Envoy]),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from("xyz")), min_size=1, max_size=7),
    st.integers(1, 4),
    st.sampled_from(["strict", "best-effort"]),
)
def test_lists_of_the_layouts_of_others_are_the_twins(layout, servers, count, spread):
    nodes = [Node(f"10.0.0.{number}:80", weight=weight, zone=(zone,)) for number, (weight, zone) in enumerate(servers)]
    placement = layout(nodes)
    reference = laid_reference(placement, placement._reachable)
    try:
        expected = reference.preference_many(KEYS, count, spread=spread)
    except NotEnoughNodes:
        with answered_by_the_twin(0), pytest.raises(NotEnoughNodes):
            placement.preference_many(KEYS, count, spread=spread)
    else:
        with answered_by_the_twin(2 * len(KEYS)):
            assert expected == placement.preference_many(KEYS, count, spread=spread)
            assert expected == [placement.preference(key, count, spread=spread) for key in KEYS]


def test_a_server_without_a_token_is_in_no_list_of_the_twins():
    placement = Ketama([Node("heavy:1", weight=1000), Node("other:1", weight=1000), Node("light:1", weight=1)])
    assert ["light:1"] == [node.id for node in placement._reachable if not node.weight]
    with answered_by_the_twin(1):
        assert {"heavy:1", "other:1"} == set(placement.preference("k", 2))
    with answered_by_the_twin(0), pytest.raises(NotEnoughNodes):
        placement.preference("k", 3)


@pytest.mark.parametrize("count", [True, 1.0, "2", None, 0, -1, 2**31, 2**32, 2**63, 2**64])
def test_a_count_that_is_none_is_refused_as_by_the_reference(count):
    ring = Ring(["a", "b", "c"])
    with pytest.raises((InvalidInput, NotEnoughNodes, UnknownOption)) as by_twin:
        ring.preference("k", count)
    with pytest.raises((InvalidInput, NotEnoughNodes, UnknownOption)) as by_rule:
        reference_ring(ring.topology, 150, hashers.get()).preference("k", count)
    assert str(by_rule.value) == str(by_twin.value)


@pytest.mark.parametrize("spread", [None, "loose", 1, b"strict"])
def test_an_unknown_spread_is_refused(spread):
    with pytest.raises(UnknownOption, match="spread is"):
        Ring(["a", "b"]).preference("k", 2, spread=spread)
    with pytest.raises(UnknownOption, match="spread is"):
        Ring(["a", "b"]).preference_many(["k"], 2, spread=spread)
