"""What Helix's strategies refuse, by errors that say what is wrong; and odd input that they take."""

import pytest

from apportion import Node, Topology
from apportion.balance.helix import auto, crush, crushed, multiround
from apportion.errors import BadWeight, InvalidInput, NoNodes, UnknownNode, UnknownOption

STRATEGIES = [auto, crush, crushed, multiround]
TOPOLOGY = Topology([Node(f"n{number}", zone=(f"z{number % 3}",)) for number in range(6)])
GOOD = {"resource": "orders", "partitions": 4, "replicas": 2, "topology": TOPOLOGY}

REFUSED = [
    ({"resource": ""}, InvalidInput, "resource is ''"),
    ({"resource": 7}, InvalidInput, "resource is 7"),
    ({"partitions": 0}, InvalidInput, "partitions is 0"),
    ({"partitions": -1}, InvalidInput, "partitions is -1"),
    ({"partitions": 2**24 + 1}, InvalidInput, "partitions is 16777217"),
    ({"partitions": True}, InvalidInput, "partitions is True"),
    ({"partitions": []}, InvalidInput, "partitions is 0"),
    ({"partitions": "orders_0"}, InvalidInput, "Put a single id in a list"),
    ({"partitions": None}, InvalidInput, "partitions is None"),
    ({"partitions": ["a", "b", "a"]}, InvalidInput, "partition id is 'a', expected each once"),
    ({"partitions": ["1", 1]}, InvalidInput, "partition id is '1', expected each once"),
    ({"partitions": ["a", ""]}, InvalidInput, "partition id is ''"),
    ({"partitions": ["a\n"]}, InvalidInput, "partition id is 'a\\\\n'"),
    ({"partitions": ["\ud800"]}, InvalidInput, "partition id is '\\\\ud800'"),
    ({"partitions": [1.5]}, InvalidInput, "partition id is 1.5"),
    ({"replicas": 0}, InvalidInput, "replicas is 0"),
    ({"replicas": 2.0}, InvalidInput, "replicas is 2.0"),
    ({"replicas": 100_001}, InvalidInput, "replicas is 100001, expected at most MAX_NODES = 100000"),
    ({"topology": ["a"]}, InvalidInput, "topology is a list"),
    ({"topology": Topology()}, NoNodes, "resource 'orders' needs a node"),
    ({"topology": Topology([Node("a", weight=0)])}, NoNodes, "the topology has none"),
    ({"topology": Topology([Node("a", weight=1e-4)])}, BadWeight, "weight of node 'a' is 0.0001"),
    ({"topology": Topology([Node("a", weight=3e6)])}, BadWeight, "weight of node 'a' is 3000000.0"),
    ({"topology": Topology(["a", Node("b", zone=("a",))])}, InvalidInput, "name of a zone is 'a'"),
    (
        {"topology": Topology([Node("a", zone=("x", "y")), Node("b", zone=("x/y",))])},
        InvalidInput,
        "name of a zone is 'x/y'",
    ),
    ({"live": []}, NoNodes, "live has none"),
    ({"live": ["n1", "n9"]}, UnknownNode, "node id is 'n9'"),
    ({"live": "n1"}, InvalidInput, "Put a single id in a list"),
    ({"live": 3}, InvalidInput, "live is 3"),
    ({"topology": TOPOLOGY.drain("n1"), "live": ["n1"]}, NoNodes, "live has none"),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("changed", "error", "text"), REFUSED)
def test_what_cannot_be_meant_is_refused(strategy, changed, error, text):
    with pytest.raises(error, match=text.replace("(", r"\(")):
        strategy(**GOOD | changed)


@pytest.mark.parametrize("strategy", [auto, multiround])
@pytest.mark.parametrize("model", ["MasterSlaves", "", None, 3])
def test_an_unknown_model_names_the_known_ones(strategy, model):
    with pytest.raises(InvalidInput, match="OnlineOffline"):
        strategy(**GOOD, model=model)


@pytest.mark.parametrize("previous", [[], {"0": ["n1"]}, "n1"])
def test_a_current_mapping_has_states(previous):
    with pytest.raises(InvalidInput, match="previous"):
        auto(**GOOD, previous=previous)


def test_a_current_mapping_may_name_partitions_by_number():
    given = {"0": {"n5": "MASTER"}, "3": {"n2": "SLAVE"}}
    by_number = {int(name): nodes for name, nodes in given.items()}
    kept = auto(**GOOD, previous=given)
    assert kept == auto(**GOOD, previous=by_number) != auto(**GOOD)


@pytest.mark.parametrize(
    ("previous", "text"),
    [
        ({1.5: {"n1": "MASTER"}}, "partition id is 1.5"),
        ({True: {"n1": "MASTER"}}, "partition id is True"),
        ({0: {"n1": "MASTER"}, "0": {"n2": "MASTER"}}, "partition id is '0', expected each once"),
        ({"0": {"n1": "LEADER"}}, "state of MasterSlave is 'LEADER'"),
        ({"9": {"n9": None}}, "state of MasterSlave is None"),
    ],
)
def test_a_current_mapping_names_partitions_and_states(previous, text):
    with pytest.raises(InvalidInput, match=text):
        auto(**GOOD, previous=previous)


@pytest.mark.parametrize("most", [0, -1, 1.5, True])
def test_a_limit_of_a_node_is_at_least_one(most):
    with pytest.raises(InvalidInput, match="most_per_node"):
        auto(**GOOD, most_per_node=most)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_names_of_one_hash_and_beyond_16_bits_are_taken(strategy):
    names = ["Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB", "naïve", "\N{GRINNING FACE}", "\uff21"]
    topology = Topology(Node(name, zone=(f"z{place % 3}",)) for place, name in enumerate(names))
    lists = strategy("\N{GRINNING FACE}", names, 3, topology).preference_lists
    assert names == list(lists)
    assert {3} == {len({*nodes}) for nodes in lists.values()}


def test_partitions_of_one_hash_have_one_list_under_crush():
    lists = crush("orders", ["Aa", "BB"], 3, TOPOLOGY).preference_lists
    assert lists["Aa"] == lists["BB"]


@pytest.mark.parametrize("strategy", [crush, crushed, multiround])
def test_a_node_without_weight_gets_nothing_and_one_without_a_zone_is_its_own(strategy):
    topology = Topology([Node("a", zone=("x",)), Node("b", zone=("x",)), Node("c"), Node("d", weight=0)])
    for nodes in strategy("orders", 30, 2, topology).preference_lists.values():
        assert "d" not in nodes
        assert {*nodes} in ({"a", "c"}, {"b", "c"})


def test_an_option_that_is_unknown_names_the_nearest():
    with pytest.raises(UnknownOption) as caught:
        auto(**GOOD, model="MasterSlav")
    assert "MasterSlave" == caught.value.nearest
