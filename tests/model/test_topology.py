"""A topology is sorted, never changes, and cannot hold an invalid node."""

import pickle
from dataclasses import FrozenInstanceError
from itertools import permutations
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Node, Topology
from apportion.errors import BadWeight, DuplicateNode, InvalidInput, UnknownNode
from apportion.model.topology import MAX_NODES, check_name, check_names
from tests import worlds


@given(st.permutations(worlds.NAMES))
def test_nodes_are_sorted_by_id_whatever_order_they_come_in(names):
    topology = Topology(names)
    assert tuple(sorted(worlds.NAMES)) == topology.ids
    assert Topology(worlds.NAMES) == topology
    assert Topology(worlds.NAMES).epoch == topology.epoch


@given(worlds.topologies)
def test_an_index_refers_to_the_order_of_the_nodes(topology):
    assert list(topology) == [topology.nodes[topology.index(node.id)] for node in topology]
    assert list(topology.nodes) == [topology[node_id] for node_id in topology.ids]


def test_a_string_becomes_a_plain_node():
    assert (Node("a"),) == Topology(["a"]).nodes
    assert ((), 1.0) == (Node("a").zone, Node("a").weight)


def test_a_mapping_gives_each_node_its_weight():
    assert Topology([Node("a"), Node("b", weight=9), Node("c", weight=0)]) == Topology({"b": 9, "a": 1.0, "c": 0})
    assert Topology([Node("a", weight=2)]) == Topology(MappingProxyType({"a": 2}))
    for weights, field in (({"a": True}, "weight of node 'a'"), ({"a": {"weight": 2}}, "weight"), ({1: 1}, "node id")):
        with pytest.raises(InvalidInput, match=field):
            Topology(weights)
    with pytest.raises(InvalidInput, match="at most MAX_NODES"):
        Topology(dict.fromkeys(map(str, range(MAX_NODES + 1)), 1))


def test_a_change_makes_the_next_topology_and_leaves_this_one():
    topology = Topology(["a", "b"], cluster="orders", number=7)
    for changed in (topology.add("c"), topology.without("a"), topology.reweight("a", 2), topology.drain("b")):
        assert (8, "orders") == (changed.number, changed.cluster)
        assert topology != changed
    assert Topology(["a", "b"], cluster="orders") == topology
    assert 7 == topology.number


def test_a_topology_cannot_be_assigned_to():
    with pytest.raises(FrozenInstanceError):
        Topology(["a"]).nodes = ()
    with pytest.raises(FrozenInstanceError):
        Node("a").weight = 2


def test_reweight_and_drain_keep_the_zone():
    topology = Topology([Node("a", zone=("eu", "r1")), "b"])
    assert Node("a", zone=("eu", "r1"), weight=3) == topology.reweight("a", 3)["a"]
    assert Node("a", zone=("eu", "r1"), weight=0) == topology.drain("a")["a"]


def test_equality_is_cluster_and_nodes_whatever_the_number():
    assert Topology(["a"], number=1) == Topology(["a"], number=9)
    assert hash(Topology(["a"], number=1)) == hash(Topology(["a"], number=9))
    assert Topology(["a"]) != Topology(["a"], cluster="orders")
    assert Topology(["a"]) != Topology([Node("a", weight=2)])


def test_every_part_of_a_topology_is_in_its_digest():
    different = [
        Topology(["a", "b"]),
        Topology(["a"]),
        Topology(["ab"]),
        Topology(["a", "b"], cluster="x"),
        Topology([Node("a", zone=("b",))]),
        Topology([Node("a", zone=("b", "c"))]),
        Topology([Node("a", zone=("b",)), "c"]),
        Topology([Node("a", weight=2), "b"]),
        Topology(["a", Node("b", weight=2)]),
        Topology(["a", Node("b", weight=0)]),
    ]
    assert len(different) == len({topology.epoch.digest for topology in different})


def test_the_epoch_carries_the_number():
    assert 7 == Topology(["a"], number=7).epoch.number
    assert Topology(["a"], number=7).epoch != Topology(["a"], number=8).epoch


def test_add_and_without_undo_each_other():
    topology = Topology(["a", Node("b", weight=2)])
    assert topology == topology.add("c").without("c")
    assert topology == topology.without("b").add(Node("b", weight=2))


def test_several_nodes_change_in_one_step():
    topology = Topology(["a", "b", "c"])
    assert (2, ("c",)) == (topology.without("a", "b").number, topology.without("a", "b").ids)
    assert (2, ("a", "b", "c", "d", "e")) == (topology.add("e", "d").number, topology.add("e", "d").ids)
    assert [0, 0, 1] == [node.weight for node in topology.drain("a", "b")]


def test_a_duplicate_node_is_refused_by_its_id():
    for build in (lambda: Topology(["a", "b", "a"]), lambda: Topology(["a"]).add(Node("a", weight=2))):
        with pytest.raises(DuplicateNode, match="node id is 'a'"):
            build()


def test_an_unknown_node_is_refused_and_the_nearest_named():
    topology = Topology(["db-01", "db-02"])
    for ask in (topology.index, topology.without, topology.drain, lambda node_id: topology.reweight(node_id, 1)):
        with pytest.raises(UnknownNode, match="Did you mean 'db-01'") as caught:
            ask("db01")
        assert "db-01" == caught.value.nearest


def test_an_emptied_topology_exists_but_holds_nobody():
    assert (0, ()) == (len(Topology(["a"]).without("a")), Topology().ids)
    assert "a" not in Topology()


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0, 0), (-0.0, 0), (1, 1_000_000), (2.5, 2_500_000), (1e-6, 1), (1e9, 10**15), (0.1 + 0.2, 300_000)],
)
def test_weights_are_kept_in_millionths(given, kept):
    assert kept == Node("a", weight=given).millionths
    assert kept / 1_000_000 == Node("a", weight=given).weight


@given(st.integers(1, 10**15))
def test_a_weight_of_whole_millionths_is_kept_exactly(millionths):
    assert millionths == Node("a", weight=millionths / 1_000_000).millionths


@pytest.mark.parametrize("weight", [-1, 9e-7, 1.1e9, 10**400, float("nan"), float("inf"), True, "1", None, 1j])
def test_a_bad_weight_is_refused_with_the_node_named(weight):
    with pytest.raises(BadWeight, match="weight of node 'a' is"):
        Node("a", weight=weight)


@pytest.mark.parametrize("name", ["", " a", "a ", "a\n", "a\tb", "\x00", "\u200fa", "\ud800", "x" * 256, "é" * 128, 5])
def test_a_bad_name_is_refused_wherever_a_name_stands(name):
    for build, field in (
        (lambda: Node(name), "node id"),
        (lambda: Node("a", zone=(name,)), "zone level"),
        (lambda: Topology(["a"], cluster=name or None), "cluster"),
    ):
        with pytest.raises(InvalidInput, match=f"^{field} is"):
            build()


@pytest.mark.parametrize("zone", ["eu", b"eu", None, 5, {"eu"}])
def test_a_zone_is_a_tuple_of_names(zone):
    with pytest.raises(InvalidInput, match="zone"):
        Node("a", zone=zone)


def test_a_zone_has_at_most_eight_levels():
    assert 8 == len(Node("a", zone=tuple("abcdefgh")).zone)
    with pytest.raises(InvalidInput, match="zone levels is 9, expected at most 8"):
        Node("a", zone=tuple("abcdefghi"))


def test_a_list_of_zone_levels_becomes_a_tuple():
    assert ("eu", "r1") == Node("a", zone=["eu", "r1"]).zone


def test_two_nodes_share_a_fault_domain_when_their_whole_paths_are_equal():
    one, other = Node("a", zone=("eu", "r1")), Node("b", zone=("eu", "r2"))
    assert one.fault_domain() != other.fault_domain()
    assert one.fault_domain(0) == other.fault_domain(0)
    assert one.fault_domain(1) != other.fault_domain(1)


def test_a_node_without_a_zone_is_a_fault_domain_by_itself():
    domains = {Node("a").fault_domain(), Node("b").fault_domain(), Node("c", zone=("a",)).fault_domain()}
    assert 3 == len(domains)
    assert Node("a").fault_domain() == Node("a").fault_domain(0)


@pytest.mark.parametrize("number", [-1, 2**63, True, 1.0, "1", None])
def test_a_bad_number_is_refused(number):
    with pytest.raises(InvalidInput, match="epoch number is"):
        Topology(["a"], number=number)


@pytest.mark.parametrize("nodes", ["abc", b"abc", 5, None, Node("a")])
def test_nodes_come_in_an_iterable(nodes):
    with pytest.raises(InvalidInput, match="nodes is"):
        Topology(nodes)


@given(worlds.topologies)
def test_a_topology_survives_pickling(topology):
    back = pickle.loads(pickle.dumps(topology))
    assert (topology, hash(topology), topology.epoch) == (back, hash(back), back.epoch)


def test_a_topology_shows_zones_and_draining_nodes():
    topology = Topology([Node("a", zone=("eu",)), Node("b", zone=("eu",), weight=0), "c"])
    assert f"Topology(3 nodes in 1 zone, 1 without one, 1 draining, epoch {topology.epoch})" == repr(topology)
    assert ("c",) == topology.zoneless


def test_a_topology_without_zones_says_so():
    topology = Topology(["a", "b", "c"])
    assert f"Topology(3 nodes, no zones, epoch {topology.epoch})" == repr(topology)


def test_any_order_of_changes_leads_to_the_same_topology():
    changes = (lambda t: t.add("c"), lambda t: t.without("a"), lambda t: t.reweight("b", 3))
    results = set()
    for order in permutations(changes):
        topology = Topology(["a", "b"])
        for change in order:
            topology = change(topology)
        results.add((topology, topology.epoch))
    assert 1 == len(results)


@given(st.lists(st.text(max_size=4) | st.sampled_from(["a", "b-1", "", " a", "é", "a\n"]) | st.integers(), max_size=5))
def test_many_names_are_checked_as_one_by_one(names):
    def outcome(check):
        try:
            return check()
        except InvalidInput as error:
            return str(error)

    expected = outcome(lambda: [check_name("id", name) for name in names])
    assert expected == outcome(lambda: check_names("id", names))


@pytest.mark.parametrize("weight", [np.int64(2), np.uint8(2), np.float16(2), np.float32(2), np.float64(2)])
def test_a_number_of_numpy_is_the_weight_of_its_python_value(weight):
    assert Node("a", weight=2) == Node("a", weight=weight)
    assert type(Topology({"a": weight})["a"].weight) is float
