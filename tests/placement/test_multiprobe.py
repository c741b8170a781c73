"""Multi-probe hashing gives a key to the token that any of its probes is nearest before, and caps only the peak."""

import json
import pickle
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from apportion import Node, Topology, plan
from apportion.errors import BadWeight, InvalidInput, NoNodes, NotEnoughNodes
from apportion.placement.multiprobe import MultiProbe
from tests import invariants, twins, worlds

VECTORS = json.loads((Path(__file__).parent / "vectors" / "multiprobe.json").read_text())
KEYS = [f"tenant-{number}" for number in range(500)]
ids = st.lists(worlds.node_ids, min_size=1, max_size=8, unique=True)
probe_counts = st.integers(1, 30)


def ranking(names, key, probes=21, digest=xxh3_64_intdigest):
    """Return the ids in order of the least clockwise distance from any probe of the key, then by probe and id."""
    data, ranked = digest(key).to_bytes(8, "little"), []
    for name in names:
        token = digest(b"multiprobe/1" + len(name.encode()).to_bytes(4, "little") + name.encode())
        distances = []
        for number in range(probes):
            probe = digest(b"multiprobe/1" + (0).to_bytes(4, "little") + data + number.to_bytes(4, "little"))
            distances.append(((token - probe) % 2**64, number))
        ranked.append((*min(distances), name))
    return [name for _, _, name in sorted(ranked)]


@settings(max_examples=50)
@given(ids, probe_counts, st.lists(st.binary(max_size=8), min_size=1, max_size=5))
def test_a_key_belongs_to_the_token_that_any_probe_is_nearest_before(names, probes, keys):
    placed = MultiProbe(names, probes=probes)
    assert [ranking(names, key, probes)[0] for key in keys] == placed.route_many(keys)
    assert [placed.explain(key).owner for key in keys] == placed.route_many(keys)


@settings(max_examples=50)
@given(ids, probe_counts, st.binary(max_size=8))
def test_preference_lists_are_in_order_of_distance(names, probes, key):
    placed, expected = MultiProbe(names, probes=probes), ranking(names, key, probes)
    assert [tuple(expected[:count]) for count in range(1, len(names) + 1)] == [
        placed.preference(key, count) for count in range(1, len(names) + 1)
    ]


def test_zones_are_kept_apart_in_preference_lists():
    topology = Topology(Node(name, zone=(zone,)) for name, zone in zip("abcdef", "xxyyzz", strict=True))
    placed = MultiProbe(topology)
    domains = {node.id: node.fault_domain() for node in topology}
    for key in KEYS[:50]:
        ranked = ranking(topology.ids, key.encode())
        for count in range(1, 7):
            assert twins.spread(ranked, domains, count) == placed.preference(key, count, spread="best-effort")
        with pytest.raises(NotEnoughNodes):
            placed.preference(key, 4)


def test_owners_are_those_of_every_release_before():
    placed = MultiProbe(VECTORS["nodes"])
    assert VECTORS["owners"] == {key: placed.route(key) for key in VECTORS["owners"]}
    assert VECTORS["lists"] == {key: list(placed.preference(key, 4)) for key in VECTORS["lists"]}


@settings(max_examples=50)
@given(ids, ids, st.lists(st.binary(max_size=8), min_size=1, max_size=20))
def test_any_change_of_nodes_moves_only_with_cause(old, new, keys):
    before, after = MultiProbe(old), MultiProbe(new)
    invariants.keys_move_only_with_cause(before, after, keys)
    invariants.nothing_strays(plan(before, after, keys))
    assert after == before.on(Topology(new))


def test_the_next_in_the_ranking_takes_over():
    placed = MultiProbe(["a", "b", "c", "d"])
    for key in KEYS[:100]:
        owner, second = placed.preference(key, 2)
        assert second == placed.on(placed.topology.without(owner)).route(key) == placed.explain(key).if_owner_left


@dataclass(frozen=True)
class Coarse:
    """A hash of so few values that tokens and probes meet all the time, at the ends of the circle too."""

    label: str = "coarse"
    bits: int = 64

    def digest(self, data):
        return (0, 1, 2**63, 2**64 - 1)[xxh3_64_intdigest(data) % 4]

    def __call__(self, data):
        return self.digest(data)


@settings(max_examples=50)
@given(ids, st.binary(max_size=8))
def test_a_token_of_two_nodes_belongs_to_the_smaller_id_and_then_to_the_other(names, key):
    placed, expected = MultiProbe(names, hasher=Coarse()), ranking(names, key, digest=Coarse().digest)
    assert (tuple(expected), expected[0]) == (placed.preference(key, len(names)), placed.route(key))


@settings(max_examples=50)
@given(ids, probe_counts)
def test_shares_are_those_of_many_keys(names, probes):
    placed, keys = MultiProbe(names, probes=probes), range(300)
    counts, shares = Counter(placed.route_many(keys)), placed.shares()
    assert sorted(names) == list(shares)
    assert abs(sum(shares.values()) - 1) < 1e-9
    for name, share in shares.items():
        assert abs(counts[name] - len(keys) * share) <= 5 * (len(keys) * share * (1 - share)) ** 0.5 + 1


def test_shares_of_one_probe_are_the_gaps_between_tokens():
    placed = MultiProbe(["a", "b", "c"], probes=1)
    label = {name: b"multiprobe/1\x01\0\0\0" + name.encode() for name in "abc"}
    tokens = sorted((xxh3_64_intdigest(label[name]), name) for name in "abc")
    for (before, _), (token, name) in pairwise([tokens[-1], *tokens]):
        assert abs((token - before) % 2**64 / 2**64 - placed.shares()[name]) < 1e-12


def test_shared_tokens_leave_the_larger_id_without_a_share():
    assert {"a": 1, "b": 0} == MultiProbe(["b", "a"], hasher=Flat()).shares()
    assert {"a"} == set(MultiProbe(["b", "a"], hasher=Flat()).route_many(KEYS))


class Flat(Coarse):
    """A hash of one value."""

    def digest(self, data):
        return 7


def test_probes_cap_the_peak_and_leave_the_low_end_nearly_idle():
    fleets = {
        nodes: [MultiProbe([f"{fleet}-{number}" for number in range(nodes)]).shares() for fleet in range(20)]
        for nodes in (10, 100, 1000)
    }
    peak = {nodes: max(max(each.values()) * nodes for each in shares) for nodes, shares in fleets.items()}
    low = {nodes: median(min(each.values()) * nodes for each in shares) for nodes, shares in fleets.items()}
    assert peak[100] < 1.12
    assert peak[1000] < 1.08
    assert low[1000] < 0.03 < low[100] < 0.25 < low[10]


def test_unequal_weights_are_refused_and_a_draining_node_owns_nothing():
    with pytest.raises(BadWeight, match=r"weight of node 'b' is 2\.0, expected 1, like 'a'"):
        MultiProbe(["a", Node("b", weight=2)])
    with pytest.raises(NoNodes):
        MultiProbe([Node("a", weight=0)])
    drained = MultiProbe([Node("a", weight=0), "b", "c"])
    assert ({"b", "c"}, 0) == (set(drained.route_many(KEYS)), drained.shares()["a"])
    assert drained.route_many(KEYS) == MultiProbe(["b", "c"]).route_many(KEYS)


def test_it_comes_back_from_pickles_and_has_no_table():
    placed = MultiProbe(["a", "b"], probes=3, hasher="md5")
    back = pickle.loads(pickle.dumps(placed))
    assert (placed, hash(placed), repr(placed)) == (back, hash(back), repr(back))
    assert placed.route_many(KEYS) == back.route_many(KEYS)
    assert None is placed.table()
    assert placed != MultiProbe(["a", "b"], probes=4, hasher="md5")


@pytest.mark.parametrize("probes", [0, -1, 1025, 1.0, True, "21", None])
def test_bad_probes_are_refused(probes):
    with pytest.raises(InvalidInput, match="probes is"):
        MultiProbe(["a"], probes=probes)


def test_a_narrow_hash_is_refused():
    with pytest.raises(InvalidInput, match="it has 16"):
        MultiProbe(["a"], hasher="crc16")
