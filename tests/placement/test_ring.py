"""The ring is the one of its docstring: tokens by that formula, the first token at or after a hash owns."""

from dataclasses import FrozenInstanceError, dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from apportion import Node, Ring, Slots, Topology, balance, plan
from apportion.errors import InvalidInput, NotEnoughNodes
from apportion.placement.layouts.cassandra import Cassandra
from apportion.placement.layouts.envoy import Envoy
from apportion.placement.layouts.ketama import Ketama
from tests import invariants, twins, worlds

KEYS = [f"tenant-{number}" for number in range(500)]


class TwinRing:
    """The ring as a list of (token, id), read from its beginning for every key."""

    def __init__(self, topology, vnodes, digest=xxh3_64_intdigest):
        self.topology, self.digest, owners = topology, digest, {}
        for node in sorted(topology.nodes, key=lambda node: node.id, reverse=True):
            for number in range(self.count(node, vnodes)):
                name = node.id.encode()
                label = b"ring/1" + len(name).to_bytes(4, "little") + name + number.to_bytes(4, "little")
                owners[digest(label)] = node.id
        self.tokens = sorted(owners.items())

    @staticmethod
    def count(node, vnodes):
        wanted = vnodes * round(node.weight * 1_000_000)
        return max(1, (2 * wanted + 1_000_000) // 2_000_000) if node.weight else 0

    def walk(self, key):
        """Return the tokens in the order in which a key meets them."""
        position = self.digest(key)
        first = next((place for place, (token, _) in enumerate(self.tokens) if token >= position), 0)
        return [*self.tokens[first:], *self.tokens[:first]]

    def preference(self, key, count, level=None):
        ranking = list(dict.fromkeys(node_id for _, node_id in self.walk(key)))
        domains = {node.id: node.fault_domain(level) for node in self.topology.nodes}
        return twins.spread(ranking, domains, count)


vnodes_counts = st.integers(1, 12)


@given(worlds.owning_topologies, vnodes_counts, st.lists(st.binary(max_size=8), min_size=1, max_size=10))
def test_a_key_belongs_to_the_first_token_at_or_after_its_hash(topology, vnodes, keys):
    twin, ring = TwinRing(topology, vnodes), Ring(topology, vnodes=vnodes)
    assert [twin.walk(key)[0][1] for key in keys] == ring.route_many(keys)


@given(worlds.owning_topologies, vnodes_counts, st.binary(max_size=8), st.integers(1, 4), st.sampled_from([None, 0, 1]))
def test_preference_lists_are_the_nodes_met_on_the_way(topology, vnodes, key, count, level):
    ring = Ring(topology, vnodes=vnodes)
    eligible = [node for node in topology if node.weight > 0]
    if count > len(eligible):
        with pytest.raises(NotEnoughNodes):
            ring.preference(key, count, spread_level=level, spread="best-effort")
        return
    expected = TwinRing(topology, vnodes).preference(key, count, level)
    assert expected == ring.preference(key, count, spread_level=level, spread="best-effort")
    invariants.lists_keep_zones_apart(topology, expected, level)


@given(worlds.owning_topologies, vnodes_counts, st.binary(max_size=8))
def test_rows_of_a_table_are_preference_lists(topology, vnodes, key):
    ring = Ring(topology, vnodes=vnodes)
    for count in range(1, 1 + sum(node.weight > 0 for node in topology)):
        table = ring.table(count, spread="best-effort")
        assert ring.preference(key, count, spread="best-effort") == table.owners(xxh3_64_intdigest(key))


@given(worlds.owning_topologies, worlds.owning_topologies, vnodes_counts)
def test_any_change_of_topology_moves_only_with_cause_and_as_little_as_shares_allow(old, new, vnodes):
    change = plan(Ring(old, vnodes=vnodes), Ring(new, vnodes=vnodes))
    invariants.nothing_strays(change)
    invariants.plan_is_exact(change, Ring(old, vnodes=vnodes).table(), Ring(new, vnodes=vnodes).table())


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_removed_node_gives_only_its_own_keys_away(replicas):
    ring = Ring(["a", "b", "c", "d", "e"])
    change = plan(ring, ring.on(ring.topology.without("c")), replicas=replicas)
    assert {"c"} == {move.source for move in change.moves}
    assert change.lower_bound_ratio == change.moved_ratio
    invariants.nothing_strays(change)


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_new_node_takes_only_its_own_keys(replicas):
    ring = Ring(["a", "b", "c", "d", "e"])
    change = plan(ring, ring.on(ring.topology.add(Node("f", weight=2))), replicas=replicas)
    assert {"f"} == {move.target for move in change.moves}
    assert change.lower_bound_ratio == change.moved_ratio
    invariants.nothing_strays(change)


@pytest.mark.parametrize(
    ("weight", "vnodes", "tokens"),
    [(1, 150, 150), (0.5, 150, 75), (0.001, 150, 1), (0, 150, 0), (2.5, 3, 8), (1e-6, 1, 1)],
)
def test_a_node_has_tokens_in_proportion_to_its_weight_and_at_least_one(weight, vnodes, tokens):
    topology = Topology([Node("a", weight=weight), "b"])
    assert tokens == TwinRing.count(topology["a"], vnodes)
    owned = Ring(topology, vnodes=vnodes).table().widths()["a"]
    assert (tokens > 0) == (owned > 0)


@dataclass(frozen=True)
class Coarse:
    """A hash of so few values that tokens of different nodes collide all the time."""

    label: str = "coarse"
    bits: int = 64

    def digest(self, data):
        return xxh3_64_intdigest(data) % 13 << 60

    def __call__(self, data):
        return self.digest(data)


@given(worlds.owning_topologies, st.lists(st.binary(max_size=8), min_size=1, max_size=10))
def test_a_token_of_two_nodes_belongs_to_the_smaller_id(topology, keys):
    twin, ring = TwinRing(topology, 5, Coarse().digest), Ring(topology, vnodes=5, hasher=Coarse())
    assert [twin.walk(key)[0][1] for key in keys] == ring.route_many(keys)


@given(worlds.owning_topologies, worlds.owning_topologies)
def test_colliding_tokens_leave_nothing_behind(old, new):
    invariants.nothing_strays(plan(Ring(old, vnodes=5, hasher=Coarse()), Ring(new, vnodes=5, hasher=Coarse())))
    assert Ring(new, vnodes=5, hasher=Coarse()) == Ring(old, vnodes=5, hasher=Coarse()).on(new)


@dataclass(frozen=True)
class Edge(Coarse):
    """A hash that puts one token at the very end of the circle."""

    def digest(self, data):
        return 2**64 - 1 if data[-4:] == bytes(4) else xxh3_64_intdigest(data)


def test_a_token_on_the_last_position_ends_the_circle():
    ring = Ring(["a", "b"], vnodes=2, hasher=Edge())
    twin = TwinRing(Topology(["a", "b"]), 2, Edge().digest)
    assert 2**64 - 1 == twin.tokens[-1][0]
    assert [twin.walk(key.encode())[0][1] for key in KEYS] == ring.route_many(KEYS)
    assert twin.tokens[-1][1:] == ring.table().owners(2**64 - 1)


@pytest.mark.parametrize("names", [["only"], ["a", "b"], ["a", "b", "c", "d"]])
def test_an_explanation_names_the_first_token_at_or_after_the_hash(names):
    ring, twin = Ring(names, vnodes=20), TwinRing(Topology(names), 20)
    for key in KEYS[:200]:
        token, owner = twin.walk(key.encode())[0]
        explained = ring.explain(key)
        named = f"token {token:#018x}" if token >= explained.hash else "the first token, after the circle's end"
        assert f"first token at or after the hash: {named}, of {owner}" == explained.why


def test_an_explanation_lists_who_comes_next_in_other_zones():
    topology = Topology([Node("a", zone=("eu",)), Node("b", zone=("eu",)), Node("c", zone=("us",))])
    ring = Ring(topology)
    for key in KEYS[:50]:
        explained = ring.explain(key)
        assert ring.preference(key, 3, spread="best-effort") == (explained.owner, *explained.next)


def test_shares_follow_weights_within_the_spread_of_the_tokens():
    topology = Topology([Node("a", weight=1), Node("b", weight=2), Node("c", weight=3)])
    widths = Ring(topology, vnodes=2000).table().widths()
    for node_id, share in (("a", 1 / 6), ("b", 2 / 6), ("c", 3 / 6)):
        assert abs(widths[node_id] / 2**64 - share) < 0.1 * share


@settings(max_examples=30)
@given(st.permutations(["a", "b", "é", "節点"]))
def test_the_order_of_the_nodes_does_not_matter(names):
    assert Ring(["a", "b", "é", "節点"]).table() == Ring(names).table()


def test_rings_with_other_vnodes_or_hashers_are_not_equal():
    assert Ring(["a"]) != Ring(["a"], vnodes=149)
    assert Ring(["a"]) != Ring(["a"], hasher="md5")


def test_labels_of_different_nodes_never_run_together():
    digests = {"a1": Ring(["a1"], vnodes=12), "a": Ring(["a"], vnodes=12)}
    both = Ring(["a1", "a"], vnodes=12).table()
    assert 24 >= len(both.starts) > 10
    assert digests["a1"].table() != digests["a"].table()


@pytest.mark.parametrize(
    ("placement", "again"),
    [
        (Ring(["a", "b"]), (["c"],)),
        (Slots(balance.slots(Topology(["a", "b"]), count=16)), (balance.slots(Topology(["c"]), count=8),)),
        (Ketama(["a", "b"]), (["c"],)),
        (Envoy(["a", "b"]), (["c"],)),
        (Cassandra(["a", "b"], tokens={"a": [1], "b": [2]}), (["c"],)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_was_made_refuses_to_be_made_again_and_stays_as_it_is(placement, again):
    before = placement.route_many(KEYS), repr(placement), placement.table()
    options = {"tokens": {"c": [3]}} if isinstance(placement, Cassandra) else {}
    with pytest.raises(FrozenInstanceError, match="never changes"):
        placement.__init__(*again, **options)
    assert before == (placement.route_many(KEYS), repr(placement), placement.table())


def test_a_large_ring_moved_on_is_the_ring_built_anew():
    fleet = Topology([f"n{number:02d}" for number in range(60)])
    ring = Ring(fleet, vnodes=20)
    for nexts in (
        fleet.add("n30a"),
        fleet.without("n07"),
        fleet.without(*fleet.ids[:9]),
        fleet.reweight("n31", 3.0),
        fleet.without("n00", "n59").reweight("n20", 0.5).add("a", "z"),
        Topology(fleet.ids),
    ):
        assert Ring(nexts, vnodes=20).table() == ring.on(nexts).table()


@pytest.mark.parametrize("vnodes", [0, -1, 2**24 + 1, 10**9, 1.0, True, "150", None])
def test_bad_vnodes_are_refused(vnodes):
    with pytest.raises(InvalidInput, match="vnodes is"):
        Ring(["a"], vnodes=vnodes)


def test_too_many_tokens_are_refused_before_any_is_made():
    with pytest.raises(InvalidInput, match="at most MAX_TOKENS = 16777216"):
        Ring([Node("a", weight=1e9), "b"])
