"""What cannot be asked of the balancer is refused at once, with what was wrong, what was expected and the way out."""

from importlib import import_module
from itertools import count
from time import process_time

import pytest

from apportion import Assignment, Node, Ring, Topology, balance
from apportion.balance import Resource, arguments
from apportion.errors import BadWeight, InvalidInput, NoNodes, NotEnoughNodes, UnknownNode, UnknownOption

SOLVER = import_module("apportion.balance.optimal")
ABC = Topology(["a", "b", "c"])
BEFORE = Assignment(topology=ABC, rows=((0,), (1,)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 0}, "replicas is 0, expected an int of at least 1"),
        ({"replicas": -2}, "replicas is -2, expected"),
        ({"replicas": True}, "replicas is True, expected"),
        ({"replicas": 1.5}, "replicas is 1.5, expected"),
        ({"replicas": None}, "replicas is None, expected"),
        ({"partitions": 0}, r"partitions is 0, expected 1 \.\. 16777216 of them"),
        ({"partitions": -1}, "partitions is -1, expected"),
        ({"partitions": True}, "partitions is True, expected"),
        ({"partitions": 2**24 + 1}, "partitions is 16777217, expected"),
        ({"partitions": 2.0}, "partitions is 2.0, expected a count, or an iterable of ids"),
        ({"partitions": None}, "partitions is None, expected a count"),
        ({"partitions": "orders"}, "partitions is 'orders', expected a count.*\n.*in a list"),
        ({"partitions": []}, "partitions is 0, expected"),
        ({"partitions": ["a", ""]}, "partition id is '', expected 1"),
        ({"partitions": ["a", None]}, "partition id is None, expected a str"),
        ({"partitions": [True]}, "partition id is True, expected a str"),
        ({"partitions": [b"a"]}, "partition id is b'a', expected a str"),
        ({"partitions": [10**5000]}, "partition id is an int of 16610 bits, expected a str"),
        ({"partitions": ["a", 1, "1"]}, "partition id is '1', expected each once"),
        ({"topology": ["a"]}, "topology is a list, expected a Topology"),
        ({"topology": None}, "topology is None, expected a Topology"),
        ({"previous": {"0": ("a",)}}, "previous is a dict, expected an Assignment"),
        ({"previous": Ring(["a"])}, "previous is a Ring, expected an Assignment"),
        ({"topology": Topology(["a"], cluster="x"), "previous": BEFORE}, "cluster of previous is '', expected 'x'"),
        ({"live": "a"}, "live is 'a', expected an iterable of node ids"),
        ({"live": 3}, "live is 3, expected an iterable"),
        ({"live": ["a", ""]}, "node id is '', expected one of a, b, c"),
        ({"live": ["a", None]}, "node id is None, expected one of"),
        ({"live": ["a", ["b"]]}, "node id is a list, expected one of"),
        ({"spread_level": -1}, r"spread_level is -1, expected an int in 0 \.\. 7"),
        ({"spread_level": 8, "previous": BEFORE}, "spread_level is 8, expected"),
        ({"spread": "stric"}, "spread is 'stric', expected one of best-effort, strict.*\n.*'strict'"),
        ({"sizes": [1]}, r"sizes is '1 of them', expected 2, one per partition"),
        ({"sizes": [1, 2, 3]}, "sizes is '3 of them', expected 2"),
        ({"sizes": 7}, "sizes is 7, expected a mapping of ids to bytes, or a list"),
        ({"sizes": "12"}, "sizes is '12', expected a mapping"),
        ({"sizes": iter([1, 2])}, "sizes is a list_iterator, expected a mapping"),
        ({"sizes": {"0": 1}}, "sizes is \"without '1'\", expected one for each partition"),
        ({"sizes": {"0": 1, "1": 1, "x": 1}}, "sizes is 'x', expected ids of partitions"),
        ({"sizes": {"0": 1, "1": 1, 1: 1}}, "sizes is 'one id twice', expected ids of partitions, each once"),
        ({"sizes": {"0": 1, 10**5000: 1}}, "sizes is"),
        ({"sizes": [1, -1]}, r"size of a partition is -1, expected bytes, 0 \.\."),
        ({"sizes": [1, float("nan")]}, "size of a partition is nan"),
        ({"sizes": [1, 2**63]}, "size of a partition is 9223372036854775808"),
        ({"sizes": [1, True]}, "size of a partition is True"),
        ({"sizes": [1, [2]]}, "size of a partition is a list"),
    ],
)
def test_what_cannot_be_asked_for_is_named_with_what_was_expected_and_what_to_do(options, message):
    with pytest.raises(InvalidInput, match=message) as raised:
        balance.optimal(**{"partitions": 2, "replicas": 1, "topology": ABC, **options})
    assert raised.value.hint


@pytest.mark.parametrize("partitions", [4, list("pqrs")], ids=["a count", "ids"])
def test_as_many_partitions_as_the_cap_are_assigned_and_one_more_is_refused(partitions, monkeypatch):
    monkeypatch.setattr(arguments, "MAX_PARTITIONS", 4)
    assert 4 == len(balance.optimal(partitions, 1, ABC).rows)
    with pytest.raises(InvalidInput, match="partitions is 5, expected"):
        balance.optimal(5 if partitions == 4 else [*partitions, "t"], 1, ABC)


@pytest.mark.parametrize("topology", [Topology(), Topology([Node("a", weight=0), Node("b", weight=0)])])
def test_no_node_that_may_own_is_refused(topology):
    with pytest.raises(NoNodes, match="an assignment needs a node with a weight above 0 and the topology has none"):
        balance.optimal(2, 1, topology)


@pytest.mark.parametrize("live", [[], iter(()), ["d"]])
def test_nobody_up_that_may_own_is_refused_and_it_is_live_that_is_named(live):
    with pytest.raises(NoNodes, match="weight above 0 and live has none"):
        balance.optimal(2, 1, ABC.add(Node("d", weight=0)), live=live)


def test_an_unknown_node_in_live_is_refused_with_the_nearest_known():
    with pytest.raises(UnknownNode, match=r"(?s)node id is 'db-1', .*'db-01'"):
        balance.optimal(2, 1, Topology(["db-01", "db-02"]), live=["db-01", "db-1"])


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), 1e308, -0.5, 1e-7, True, "1", None])
def test_a_node_of_such_a_weight_cannot_even_be_made(weight):
    with pytest.raises(BadWeight, match="weight of node 'a' is"):
        Node("a", weight=weight)


def test_more_replicas_than_nodes_or_zones_are_refused_by_the_first_rule_that_cannot_hold():
    with pytest.raises(
        NotEnoughNodes, match=r"(?s)4 replicas wanted on distinct nodes, 3 eligible .a, b, c.*Add nodes"
    ):
        balance.optimal(2, 4, ABC)
    zoned = Topology(Node(node_id, zone=("x",)) for node_id in "abc")
    with pytest.raises(NotEnoughNodes, match=r"(?s)2 replicas wanted in distinct zones, 1 eligible.*best-effort"):
        balance.optimal(2, 2, zoned)
    with pytest.raises(NotEnoughNodes, match="3 replicas wanted on distinct nodes, 2 eligible"):
        balance.optimal(2, 3, ABC, live=["a", "b"])
    with pytest.raises(NotEnoughNodes, match="on distinct nodes, 2 eligible"):
        balance.optimal(2, 3, ABC.drain("c"))


def test_far_more_replicas_than_nodes_are_as_many_as_there_are_by_best_effort():
    assert {"0": "3 of 1000000000 replicas"} == balance.optimal(1, 10**9, ABC, spread="best-effort").degraded


def test_an_unknown_way_to_spread_names_the_nearest():
    with pytest.raises(UnknownOption) as raised:
        balance.optimal(2, 1, ABC, spread="best_effort")
    assert "best-effort" == raised.value.nearest


def test_an_id_may_be_an_int_of_64_bits_and_no_longer_one():
    assert {str(2**64 - 1)} == set(balance.optimal([2**64 - 1], 1, ABC).preference_lists)
    with pytest.raises(InvalidInput, match=f"partition id is {2**64}"):
        balance.optimal([2**64], 1, ABC)


def test_ids_without_end_are_refused_at_the_cap(monkeypatch):
    monkeypatch.setattr(arguments, "MAX_PARTITIONS", 1000)
    with pytest.raises(InvalidInput, match="partitions is 1001, expected"):
        balance.optimal(count(), 1, ABC)


def test_an_id_twice_among_very_many_is_found_at_once():
    begin = process_time()
    with pytest.raises(InvalidInput, match="partition id is '99999', expected each once"):
        balance.optimal([*range(100_000), 99_999], 1, ABC)
    with pytest.raises(InvalidInput, match="sizes is 'x'"):
        balance.optimal(50_000, 1, ABC, sizes={**dict.fromkeys(range(50_000), 1), "x": 1})
    assert process_time() - begin < 30, "a search of all for each takes minutes"


def test_bad_sizes_are_refused_before_anything_is_worked_out(monkeypatch):
    monkeypatch.delattr(SOLVER, "place")
    with pytest.raises(InvalidInput, match="size of a partition is -1"):
        balance.optimal(1, 1, ABC, sizes=[-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resources": None}, "resources is None, expected a mapping of names to Resource"),
        ({"resources": {"a": (2, 1)}}, "resources is a dict, expected a mapping"),
        ({"resources": {"": Resource(2, 1)}}, "resource is '', expected"),
        ({"resources": {"a": Resource(2, 1), 1: Resource(2, 1)}}, "resource is 1, expected a str"),
        ({"previous": {"b": BEFORE}}, "previous is 'b', expected a resource that is asked for"),
        ({"previous": 5}, "previous is 5, expected a mapping"),
        ({"previous": {"a": 5}}, "previous is 5, expected an Assignment"),
        ({"live": "abc"}, "live is 'abc', expected an iterable of node ids"),
        ({"live": 3}, "live is 3, expected an iterable"),
        ({"topology": ["a"]}, "topology is a list"),
    ],
)
def test_what_cannot_be_asked_for_of_several_resources_is_refused_as_well(options, message):
    with pytest.raises(InvalidInput, match=message):
        balance.optimal_resources(**{"resources": {"a": Resource(2, 1)}, "topology": ABC, **options})


def test_a_live_that_can_be_read_once_serves_all_resources():
    resources = {"a": Resource(2, 1), "b": Resource(2, 1)}
    placed = balance.optimal_resources(resources, ABC, live=iter(["a", "b"]))
    assert [("c",), ("c",)] == [each.down for each in placed.values()]


@pytest.mark.slow
def test_a_hundred_thousand_nodes_take_seconds():
    many = Topology(Node(f"n{number:06}", zone=(f"z{number % 7}",)) for number in range(100_000))
    begin = process_time()
    before = balance.optimal(10, 3, many)
    after = balance.optimal(10, 3, many, previous=before, live=many.ids[1:])
    balance.verify(after, previous=before)
    alone = Topology(many.ids)
    balance.verify(balance.optimal(10, 100, alone))
    assert process_time() - begin < 120
