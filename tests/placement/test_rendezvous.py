"""Rendezvous hashing ranks nodes by exact scores: the same ranking as logarithms of sixty digits give."""

from collections import Counter
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from apportion import Node, Rendezvous, Topology, plan
from apportion.errors import InvalidInput
from apportion.placement.rendezvous import _WeightClass
from tests import invariants, twins, worlds

KEYS = [f"tenant-{number}" for number in range(2000)]
weights = st.sampled_from([1e-6, 0.5, 1, 1, 1.000001, 2, 1e9])


def ranking(topology, key):
    """Rank the nodes of a topology for the bytes of a key, as the module's docstring says, to 60 digits."""
    data = xxh3_64_intdigest(key).to_bytes(8, "little")
    scored = []
    with localcontext(prec=60):
        for node in topology.nodes:
            name = node.id.encode()
            u = xxh3_64_intdigest(b"rendezvous/1" + len(name).to_bytes(4, "little") + name + data)
            if node.weight:
                score = -((Decimal(u + 1) / 2**64).ln()) / Decimal(str(node.weight))
                scored.append((score, -u, node.id))
    return [node_id for _, _, node_id in sorted(scored)]


@given(worlds.owning_topologies, st.binary(max_size=8))
def test_the_ranking_is_that_of_exact_logarithms(topology, key):
    expected = ranking(topology, key)
    rendezvous = Rendezvous(topology)
    assert expected[0] == rendezvous.route(key)
    domains = {node.id: node.fault_domain() for node in topology}
    for count in range(1, len(expected) + 1):
        assert twins.spread(expected, domains, count) == rendezvous.preference(key, count, spread="best-effort")


@given(st.lists(weights, min_size=1, max_size=5), st.binary(max_size=8))
def test_extreme_weights_rank_as_exact_logarithms_do(drawn, key):
    topology = Topology(Node(f"n{number}", weight=weight) for number, weight in enumerate(drawn))
    assert tuple(ranking(topology, key)) == Rendezvous(topology).preference(key, len(drawn))


@pytest.mark.slow
@given(worlds.owning_topologies, worlds.owning_topologies, st.lists(st.binary(max_size=8), min_size=1, max_size=20))
def test_any_change_of_topology_moves_only_with_cause(old, new, keys):
    invariants.keys_move_only_with_cause(Rendezvous(old), Rendezvous(new), keys)
    invariants.nothing_strays(plan(Rendezvous(old), Rendezvous(new), keys))


@given(st.integers(0, 2**64 - 1), st.integers(1, 10**15))
def test_a_score_is_the_integer_of_the_docstring(u, millionths):
    with localcontext(prec=80):
        logarithm = int(Decimal(u + 1).ln() / Decimal(2).ln() * 2**48 + Decimal("1e-40"))
    score = _WeightClass(millionths, (), ()).score(u)
    assert score in [((64 << 48) - lower << 64) // millionths for lower in (logarithm, logarithm - 1)]


def test_shares_are_proportional_to_weights():
    weights = {"a": 1, "b": 2, "c": 0.5, "d": 0, "e": 4}
    topology = Topology(Node(name, weight=weight) for name, weight in weights.items())
    keys = range(30_000)
    counts = Counter(Rendezvous(topology).route_many(keys))
    for name, weight in weights.items():
        expected = len(keys) * weight / 7.5
        assert abs(counts[name] - expected) <= 4 * expected**0.5, f"{name}: {counts[name]} of {expected}"


def test_scaling_all_weights_moves_nothing():
    names = [("a", 1), ("b", 2), ("c", 5)]
    once, thrice = (Rendezvous(Node(name, weight=weight * scale) for name, weight in names) for scale in (1, 3))
    assert once.route_many(KEYS) == thrice.route_many(KEYS)


def test_the_next_in_the_ranking_takes_over():
    rendezvous = Rendezvous(["a", "b", "c", "d"])
    for key in KEYS[:100]:
        owner, second = rendezvous.preference(key, 2)
        assert second == rendezvous.on(rendezvous.topology.without(owner)).route(key)
        assert second == rendezvous.explain(key).if_owner_left


class Flat:
    """A hash that gives every node the same rank."""

    label, bits = "flat", 64

    def __call__(self, data):
        return 2**64 - 1

    digest = __call__


def test_equal_ranks_go_to_the_smaller_id():
    assert ("a", "b", "c") == Rendezvous(["c", "b", "a"], hasher=Flat()).preference("k", 3)
    heavier = Rendezvous(["c", Node("b", weight=2), "a"], hasher=Flat())
    assert ("a", "b", "c") == heavier.preference("k", 3)
    assert "a" == heavier.route("k")


def test_there_is_no_table():
    assert None is Rendezvous(["a"]).table()


def test_a_narrow_hash_is_refused():
    with pytest.raises(InvalidInput, match="it has 16"):
        Rendezvous(["a"], hasher="crc16")
