"""The baselines of `compare`: where they put keys, what a change moves, and that nobody can route by one."""

import json
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Modulo, Node, Topology, hashers, placement
from apportion.balance.comparison import KeyTrial
from apportion.console.compare.baselines import baselines, key_ranges, random_node, single_node, static_modulo
from apportion.console.compare.trial import measured_baseline
from apportion.errors import NoNodes
from apportion.placement import catalog
from tests.console.running import run, written

KEYS = [b"key-%d" % number for number in range(3000)]
NAMES = ("key ranges", "random", "single node", "static modulo")
topologies = st.integers(1, 9).map(lambda nodes: Topology(f"n{number}" for number in range(nodes)))
many_keys = st.lists(st.binary(max_size=12), max_size=20)


def all_of(seed=1):
    """Return every baseline by name."""
    return {baseline.name: baseline for baseline in baselines(Random(seed))}


def measure(name, topology, keys=KEYS):
    """Return the row of a baseline."""
    return measured_baseline(all_of()[name], KeyTrial.of(topology, keys, hashers.get()))


def test_there_are_four_and_each_says_in_one_line_why_it_is_not_enough():
    assert NAMES == tuple(sorted(all_of())) == tuple(all_of())
    for baseline in all_of().values():
        assert 1 == len(baseline.why_not.splitlines())
        assert not baseline.why_not.endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_nobody_can_route_by_a_baseline(name):
    assert not {name, name.replace(" ", "_"), name.replace(" ", "-")} & set(placement.names())
    assert not hasattr(all_of()[name].owners, "route")


@pytest.mark.parametrize("name", NAMES)
@given(topologies, many_keys)
def test_every_key_has_one_owner_of_the_topology(name, topology, keys):
    owners = all_of()[name].owners(topology, keys)
    assert len(keys) == len(owners)
    assert set(owners) <= set(topology.ids)


@pytest.mark.parametrize("name", NAMES)
def test_a_draining_node_owns_nothing_and_no_owning_node_is_refused(name):
    topology = Topology([Node("a", weight=0), "b", "c"])
    assert "a" not in all_of()[name].owners(topology, KEYS)
    with pytest.raises(NoNodes, match="a baseline"):
        all_of()[name].owners(Topology([Node("a", weight=0)]), KEYS)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_measures_the_same(name):
    assert measure(name, Topology(["a", "b", "c", "d"])) == measure(name, Topology(["a", "b", "c", "d"]))


def test_random_forgets_where_a_key_was_and_follows_weights():
    topology, random = Topology(["a", Node("b", weight=3)]), Random(7)
    first, second = random_node(random, topology, KEYS), random_node(random, topology, KEYS)
    assert first != second
    assert pytest.approx(0.75, abs=0.03) == first.count("b") / len(KEYS)
    assert first == random_node(Random(7), topology, KEYS)
    assert first != random_node(Random(8), topology, KEYS)


@given(topologies, many_keys)
def test_static_modulo_is_the_placement_of_that_name(topology, keys):
    assert Modulo(topology).route_many(keys) == static_modulo(topology, keys)


@given(topologies, many_keys)
def test_key_ranges_are_equal_parts_of_the_first_eight_bytes(topology, keys):
    owners = []
    for key in keys:
        place = sum(Fraction(byte, 256 ** (number + 1)) for number, byte in enumerate(key[:8]))
        (owner,) = [
            node_id
            for number, node_id in enumerate(topology.ids)
            if Fraction(number, len(topology)) <= place < Fraction(number + 1, len(topology))
        ]
        owners.append(owner)
    assert owners == key_ranges(topology, keys)


@given(topologies, many_keys)
def test_key_ranges_keep_the_order_of_keys(topology, keys):
    owners = key_ranges(topology, sorted(keys))
    assert sorted(owners) == owners


@given(topologies, many_keys)
def test_a_single_node_has_all(topology, keys):
    assert [topology.ids[0]] * len(keys) == single_node(topology, keys)


def test_each_baseline_shows_the_failing_that_it_stands_for():
    topology = Topology(list("abcdefgh"))
    single, modulo, random, ranges = (
        measure(n, topology) for n in ("single node", "static modulo", "random", NAMES[0])
    )
    assert (8.0, 0.0, 0.0) == (single.max_over_mean, single.moved_on_add, single.moved_on_remove)
    assert min(modulo.stray_on_add, modulo.stray_on_remove, random.stray_on_add, random.stray_on_remove) > 0.6
    assert (8.0, True) == (ranges.max_over_mean, max(modulo.max_over_mean, random.max_over_mean) < 1.2)


@pytest.mark.slow
def test_compare_prints_baselines_only_when_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "names", lambda: ("ring",))
    written(tmp_path, "keys", "a\nb\nc\n")
    options = ("compare", "--nodes", "a,b", "--keys", "keys")
    plain, asked = (run(*options, *more, folder=tmp_path).stdout.decode() for more in ((), ("--baselines",)))
    for baseline in all_of().values():
        assert f"{baseline.name}: {baseline.why_not}." in asked.splitlines()
        assert baseline.why_not not in plain
    listed = [
        [row["placement"] for row in json.loads(run(*options, "--json", *more, folder=tmp_path).stdout)["baselines"]]
        for more in ((), ("--baselines",))
    ]
    assert [[], list(NAMES)] == listed
