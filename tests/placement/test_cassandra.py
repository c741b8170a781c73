"""Cassandra's ring and strategies give the replica lists that Cassandra gives, and exact plans between them."""

import json
import pickle
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from apportion import Node, Topology, plan
from apportion.errors import BadWeight, CannotPlace, InvalidInput, NoNodes, NotEnoughNodes, UnknownNode, UnknownOption
from apportion.placement.layouts.cassandra import Cassandra, NetworkTopologyStrategy, SimpleStrategy, replicas_of, token
from tests import invariants
from tests.placement import cassandra_twins as twins

VECTORS = json.loads((Path(__file__).parent / "vectors" / "cassandra_replicas.json").read_text())["clusters"]
KEYS = [f"tenant-{number}é" for number in range(300)]
CLUSTERS = twins.clusters(seed=1, count=220)
HALF = 2**63

RACKS = Topology(
    Node(f"{name}-{number}", zone=(name, f"rack{number % racks}"))
    for name, nodes, racks in (("ams", 4, 2), ("bos", 3, 3))
    for number in range(nodes)
)
TOKENS = {node.id: (place * 10**18, -place * 10**17 - 1) for place, node in enumerate(RACKS)}
BOTH = NetworkTopologyStrategy({"ams": 3, "bos": 2})


def ring(strategy=BOTH, topology=RACKS, **more):
    """Return the cluster above, with the tokens of the nodes that are in the topology."""
    tokens = {node_id: own for node_id, own in {**TOKENS, **more}.items() if node_id in topology}
    return Cassandra(topology, tokens=tokens, strategy=strategy)


def test_replicas_are_those_that_cassandra_gave():
    for cluster in VECTORS:
        ids = {number: f"127.0.0.{number}" for number, *_ in cluster["nodes"]}
        nodes = Topology(Node(ids[number], zone=(name, rack)) for number, name, rack, _ in cluster["nodes"])
        tokens = {ids[number]: own for number, _, _, own in cluster["nodes"]}
        network = Cassandra(nodes, tokens=tokens, strategy=NetworkTopologyStrategy(cluster["network"])).replica_table()
        simple = Cassandra(nodes, tokens=tokens, strategy=SimpleStrategy(cluster["simple"])).replica_table()
        for asked, by_network, by_simple in cluster["asked"]:
            assert tuple(ids[number] for number in by_network) == network.owners(asked + HALF)
            assert tuple(ids[number] for number in by_simple) == simple.owners(asked + HALF)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_replicas_are_those_of_the_dumb_twin(seed):
    for cluster in CLUSTERS[seed::4]:
        network = Cassandra(cluster.topology, tokens=cluster.tokens, strategy=cluster.network).replica_table()
        simple = Cassandra(cluster.topology, tokens=cluster.tokens, strategy=cluster.simple).replica_table()
        for asked in cluster.asked:
            expected = twins.network_replicas(asked, cluster.tokens, cluster.racks, cluster.wanted)
            assert expected == network.owners(asked + HALF)
            expected = twins.simple_replicas(asked, cluster.tokens, cluster.simple.replicas)
            assert expected == simple.owners(asked + HALF)


def test_the_random_clusters_have_racks_fewer_equal_and_more_than_replicas():
    kinds = [
        (count > racks) - (count < racks)
        for cluster in CLUSTERS
        for name, count in cluster.wanted.items()
        for racks in [len({rack for rack in cluster.racks.values() if rack[0] == name})]
    ]
    assert all(kinds.count(kind) >= 50 for kind in (-1, 0, 1)), [kinds.count(kind) for kind in (-1, 0, 1)]
    assert sum(len(cluster.asked) for cluster in CLUSTERS) >= 20_000


def test_the_walk_of_a_single_token_is_the_table():
    for cluster in CLUSTERS[:20]:
        for strategy in (cluster.network, cluster.simple):
            options = {"tokens": cluster.tokens, "strategy": strategy}
            table = Cassandra(cluster.topology, **options).replica_table()
            for asked in cluster.asked[::7]:
                assert table.owners(asked + HALF) == replicas_of(asked, nodes=cluster.topology, **options)


def test_a_node_owns_up_to_and_with_its_token():
    cluster = Cassandra(["a", "b"], tokens={"a": [token("x")], "b": [token("x") - 1]})
    assert ("a", "b") == (cluster.route("x"), cluster.table().owners(token("x") - 1 + HALF)[0])
    assert "b" == cluster.table().owners(token("x") + 1 + HALF)[0]


@pytest.mark.parametrize("end", [-(2**63), 2**63 - 1])
def test_a_token_at_the_end_of_the_ring_owns_what_is_its(end):
    cluster = Cassandra(["a", "b"], tokens={"a": [end], "b": [0]})
    owners = {value: cluster.table().owners(value + HALF)[0] for value in (-(2**63), -(2**63) + 1, 0, 1, 2**63 - 1)}
    assert owners == {value: replicas_of(value, nodes=["a", "b"], tokens=cluster.tokens)[0] for value in owners} | {
        end: "a"
    }


def test_every_way_of_asking_names_the_replicas_in_one_order():
    cluster = ring()
    for key in KEYS:
        replicas = cluster.replicas(key)
        assert 5 == cluster.replica_count == len(replicas)
        assert replicas == replicas_of(token(key), nodes=RACKS, tokens=TOKENS, strategy=BOTH)
        assert [replicas[:count] for count in range(1, 6)] == [cluster.preference(key, count) for count in range(1, 6)]
        assert cluster.table(4).owners(token(key) + HALF) == replicas[:4]
        explained = cluster.explain(key)
        assert (replicas[0], replicas[1:], token(key) + HALF) == (explained.owner, explained.next, explained.hash)
        assert f"token {token(key)}; " in explained.why
        assert explained.if_owner_left == cluster.on(RACKS.without(replicas[0])).route(key)
    assert [cluster.replicas(key)[0] for key in KEYS] == cluster.route_many(KEYS)


def test_an_explanation_names_the_token_that_a_key_falls_to():
    cluster = Cassandra(["a", "b"], tokens={"a": [token("x") + 5, token("x") - 5], "b": [token("x") + 9]})
    assert f"first token at or after it: {token('x') + 5}, of a" in cluster.explain("x").why
    after = Cassandra(["a"], tokens={"a": [token("x") - 1]})
    assert "first token at or after it: the first of the ring, after its end, of a" in after.explain("x").why
    assert after.explain("x").if_owner_left is None


def test_a_datacenter_without_replicas_is_passed_over():
    cluster = ring(NetworkTopologyStrategy({"bos": 2, "ams": 0}))
    assert {"bos"} == {cluster.topology[owner].zone[0] for key in KEYS for owner in cluster.replicas(key)}
    assert cluster.route_many(KEYS) == [cluster.replicas(key)[0] for key in KEYS]
    assert cluster.route_many(KEYS) == ring(NetworkTopologyStrategy({"bos": 1})).route_many(KEYS)


def test_replicas_that_have_no_node_are_reported_and_the_others_placed():
    cluster = ring(NetworkTopologyStrategy({"ams": 6, "bos": 3}))
    assert (7, {"ams": 2}) == (cluster.replica_count, cluster.missing)
    assert all(set(RACKS.ids) == set(cluster.replicas(key)) for key in KEYS[:20])
    assert "missing={'ams': 2}" in repr(cluster)
    assert "2 too few in ams" in cluster.explain("k").why
    with pytest.raises(NotEnoughNodes, match="8 replicas wanted"):
        cluster.preference("k", 8)
    assert ({}, {"cluster": 3}) == (ring().missing, ring(SimpleStrategy(10)).missing)


def test_a_list_longer_than_the_strategy_makes_is_refused():
    for ask in (lambda: ring().preference("k", 6), lambda: ring().table(6)):
        with pytest.raises(NotEnoughNodes, match="6 replicas wanted from a strategy that places 5, 5 eligible"):
            ask()


def test_a_new_node_takes_replicas_from_others_and_moves_none_between_them():
    random = Random(5)
    for cluster in CLUSTERS[:60]:
        whole = Cassandra(cluster.topology, tokens=cluster.tokens, strategy=cluster.network)
        for node_id in random.sample(cluster.topology.ids, 2) if len(cluster.topology) > 1 else ():
            try:
                smaller = whole.on(cluster.topology.without(node_id))
            except CannotPlace:
                continue
            change = plan(smaller.replica_table(), whole.replica_table())
            invariants.plan_is_exact(change, smaller.replica_table(), whole.replica_table())
            assert {node_id} >= {move.target for move in change.moves if move.target}
            leaders = plan(smaller, whole)
            invariants.nothing_strays(leaders)


def test_a_plan_with_replicas_is_exact():
    old = ring()
    tokens = {**TOKENS, "ams-9": (123456789,)}
    new = Cassandra(RACKS.add(Node("ams-9", zone=("ams", "rack1"))), tokens=tokens, strategy=BOTH)
    change = plan(old, new, replicas=5)
    assert change == plan(old.replica_table(), new.replica_table())
    invariants.plan_is_exact(change, old.table(5), new.table(5))
    assert (True, {"ams-9"}, 0.0) == (change.exact, {move.target for move in change.moves}, change.stray_ratio)
    assert 0 < change.moved_ratio == change.lower_bound_ratio
    for key in KEYS:
        moved = any(token(key) + HALF in each.item for each in change.changes)
        assert moved == (old.replicas(key) != new.replicas(key))


def test_a_plan_of_another_strategy_makes_copies_and_moves_nothing_else():
    fewer, more = ring(NetworkTopologyStrategy({"ams": 3})), ring()
    change = plan(fewer.replica_table(), more.replica_table())
    assert {None} == {move.source for move in change.moves}
    assert {"bos"} == {RACKS[move.target].zone[0] for move in change.moves}
    assert 2 / 5 == change.moved_ratio


def test_moving_on_keeps_the_tokens_and_building_anew_gives_the_same():
    smaller = RACKS.without("ams-0")
    moved = ring().on(smaller)
    assert ring(topology=smaller) == moved
    assert {node_id: tuple(sorted(TOKENS[node_id])) for node_id in smaller.ids} == moved.tokens


def test_a_draining_node_holds_nothing_and_comes_back_with_its_tokens():
    drained = ring().on(RACKS.drain("bos-1"))
    assert "bos-1" not in {owner for key in KEYS for owner in drained.replicas(key)}
    assert ring().on(RACKS.without("bos-1")).route_many(KEYS) == drained.route_many(KEYS)
    assert ring() == drained.on(RACKS)
    assert drained == drained.on(drained.topology.add(Node("new", weight=0)).without("new"))


def test_a_new_node_is_refused_until_its_tokens_are_known():
    with pytest.raises(
        CannotPlace, match=r"(?s)tokens of new node 'ams-9' are not known.*tokens=\{\*\*old\.tokens, 'ams-9'"
    ):
        ring().on(RACKS.add(Node("ams-9", zone=("ams", "rack1"))))
    assert "ams-9" in ring().on(RACKS.add(Node("ams-9", zone=("ams", "rack1"), weight=0))).topology


def test_a_datacenter_does_not_lose_its_last_node():
    with pytest.raises(CannotPlace, match=r"(?s)no node of datacenter 'bos'.*a strategy for the other datacenters"):
        ring().on(RACKS.without("bos-0", "bos-1", "bos-2"))
    with pytest.raises(CannotPlace, match=r"no node of datacenter 'bos'"):
        ring().on(RACKS.drain("bos-0", "bos-1", "bos-2"))
    rest = RACKS.without("bos-0", "bos-1", "bos-2")
    for strategy in (SimpleStrategy(2), NetworkTopologyStrategy({"ams": 2, "bos": 0})):
        assert ring(strategy, rest) == ring(strategy).on(rest)


@pytest.mark.parametrize("zone", [(), ("ams",), ("ams", "rack1", "shelf")])
def test_a_node_without_datacenter_or_rack_is_refused_where_they_count(zone):
    nodes = RACKS.add(Node("ams-9", zone=zone))
    with pytest.raises(InvalidInput, match=r"zone of node 'ams-9' is .*, expected a datacenter and a rack"):
        ring(topology=nodes, **{"ams-9": [5]})
    assert 8 == len(ring(SimpleStrategy(3), nodes, **{"ams-9": [5]}).topology)


@pytest.mark.parametrize("count", [1, 3])
def test_an_unknown_datacenter_is_refused(count):
    with pytest.raises(UnknownOption, match=r"(?s)datacenter is 'asm', expected one of ams, bos.*Did you mean 'ams'"):
        ring(NetworkTopologyStrategy({"asm": count}))


@pytest.mark.parametrize("count", [0, -1, True, "3", "3/1", 3.0, None])
def test_replicas_that_are_no_count_are_refused(count):
    with pytest.raises(InvalidInput, match="replicas of SimpleStrategy is"):
        SimpleStrategy(count)
    if count != 0:
        with pytest.raises(InvalidInput, match="replicas in dc1 is"):
            NetworkTopologyStrategy({"dc1": count})


@pytest.mark.parametrize("replicas", [{}, None, 3, [("dc1", 3)], {"dc1": 0}, {"": 3}, {5: 3}])
def test_a_strategy_without_replicas_or_datacenters_is_refused(replicas):
    with pytest.raises(InvalidInput, match=r"replicas of NetworkTopologyStrategy is|datacenter is"):
        NetworkTopologyStrategy(replicas)


@pytest.mark.parametrize("strategy", [3, "SimpleStrategy", SimpleStrategy, None, {"dc1": 3}])
def test_what_is_no_strategy_is_refused(strategy):
    with pytest.raises(InvalidInput, match="strategy is"):
        ring(strategy)


@pytest.mark.parametrize("partitioner", ["random", "byteordered"])
def test_a_partitioner_without_a_table_points_to_the_walk(partitioner):
    with pytest.raises(
        InvalidInput, match=rf"(?s)fit into a table.*replicas_of\(token\(key, partitioner='{partitioner}'"
    ):
        Cassandra(["a"], tokens={"a": [1]}, partitioner=partitioner)


def test_a_misspelt_partitioner_names_the_nearest():
    with pytest.raises(UnknownOption, match="Did you mean 'murmur3'"):
        Cassandra(["a"], tokens={"a": [1]}, partitioner="murmur")


def test_the_walk_takes_the_tokens_of_any_partitioner():
    numbers = {"a": [2**126], "b": [2**127], "c": [0]}
    expected = {-1: "ca", 0: "ca", 1: "ab", 2**126: "ab", 2**126 + 1: "bc", 2**127: "bc"}
    options = {"nodes": ["a", "b", "c"], "tokens": numbers, "strategy": SimpleStrategy(2), "partitioner": "random"}
    assert expected == {value: "".join(replicas_of(value, **options)) for value in expected}
    words = {"a": [b""], "b": [b"m"]}
    assert ["a", "b", "b", "a"] == [
        replicas_of(value, nodes=["a", "b"], tokens=words, partitioner="byteordered")[0]
        for value in (b"", b"a", b"m", b"n")
    ]


@pytest.mark.parametrize(
    ("value", "partitioner"), [(2**63, "murmur3"), (-2, "random"), ("k", "byteordered"), (-1.0, "random")]
)
def test_what_is_no_token_is_not_walked_from(value, partitioner):
    with pytest.raises(InvalidInput, match="token is"):
        replicas_of(value, nodes=["a"], tokens={"a": [1]}, partitioner=partitioner)


def test_weights_are_refused_and_nobody_is_too():
    with pytest.raises(BadWeight, match="weight of node 'b'"):
        Cassandra(["a", Node("b", weight=2)], tokens={"a": [1], "b": [2]})
    for nodes in ([], [Node("a", weight=0)]):
        with pytest.raises(NoNodes):
            Cassandra(nodes, tokens={})


def test_tokens_of_nobody_are_refused():
    with pytest.raises(UnknownNode):
        Cassandra(["a"], tokens={"a": [1], "b": [2]})


def test_a_cluster_survives_pickling_and_is_equal_when_its_answers_are():
    back = pickle.loads(pickle.dumps(ring()))
    assert (ring(), hash(ring()), repr(ring())) == (back, hash(back), repr(back))
    assert ring().replica_table() == back.replica_table()
    others = [ring(SimpleStrategy(5)), ring(topology=RACKS.without("ams-0")), ring(**{"ams-0": [77]})]
    assert [False] * 3 == [ring() == other for other in others]
    same = NetworkTopologyStrategy({"bos": 2, "ams": 3})
    assert (BOTH, hash(BOTH), BOTH) == (same, hash(same), pickle.loads(pickle.dumps(BOTH)))


def test_a_cluster_shows_its_size_and_strategy_in_one_line():
    assert f"Cassandra({RACKS!r}, 14 tokens, {BOTH!r}, hasher='cassandra-murmur3')" == repr(ring())


def test_the_empty_key_falls_to_the_first_token():
    first = min((value, node_id) for node_id, own in TOKENS.items() for value in own)[1]
    assert first == ring().route("") == ring().route(b"")


def test_neighbouring_stretches_differ():
    rows = ring().replica_table().rows
    assert all(left != right for left, right in pairwise(rows))
