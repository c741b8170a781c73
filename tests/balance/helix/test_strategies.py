"""What holds for each of Helix's strategies, whatever the cluster, and what does not depend on how it is asked."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Node, Topology, balance
from apportion.balance.api import GroupView
from apportion.balance.helix import auto, crush, crushed, multiround
from apportion.errors import NotEnoughNodes
from tests.balance.helix.clusters import MODELS, WEIGHTS, clusters
from tests.balance.helix_cases import ONE_HASH, ours, with_one_hash

ZONED = (crush, crushed, multiround)
NAMES = ["helix.auto", "helix.crush", "helix.crushed", "helix.multiround"]
THREE_ZONES = Topology(Node(f"n{number}", zone=(f"z{number % 3}",)) for number in range(9))


def lists_of(strategy, cluster, **options):
    """Return the lists of a strategy; none when it refuses more replicas than zones."""
    try:
        return dict(strategy(**cluster.asked(), **options).preference_lists)
    except NotEnoughNodes:
        assert strategy is multiround
        return {}


@pytest.mark.parametrize("strategy", ZONED)
@given(cluster=clusters())
def test_nodes_of_a_list_are_live_and_weigh_and_stand_in_distinct_zones(strategy, cluster):
    for nodes in lists_of(strategy, cluster).values():
        assert len(nodes) <= cluster.replicas
        assert {*nodes} <= {*cluster.live}
        assert all(cluster.topology[node].weight for node in nodes)
        assert len(nodes) == len({cluster.zone_of(node) for node in nodes})


@given(cluster=clusters())
def test_auto_fills_every_list_from_the_live_nodes_as_far_as_there_are_some(cluster):
    for nodes in lists_of(auto, cluster).values():
        assert {*nodes} <= {*cluster.live}
        assert min(cluster.replicas, len(cluster.live)) == len(nodes) == len({*nodes})


@given(cluster=clusters(), model=st.sampled_from(MODELS))
def test_multiround_fills_every_list_while_there_are_live_zones(cluster, model):
    zones = {cluster.zone_of(node) for node in cluster.live if cluster.topology[node].weight}
    lists = lists_of(multiround, cluster, model=model)
    assert (len(zones) >= cluster.replicas) == bool(lists)
    assert all(cluster.replicas == len(nodes) for nodes in lists.values())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [auto, *ZONED])
@given(cluster=clusters(), data=st.data())
def test_the_order_of_nodes_does_not_matter_and_that_of_the_answer_is_as_asked(strategy, cluster, data):
    lists = lists_of(strategy, cluster)
    assert not lists or list(cluster.partitions) == list(lists)
    shuffled = data.draw(st.permutations(cluster.topology.nodes))
    asked = cluster.asked() | {"topology": Topology(shuffled), "live": data.draw(st.permutations(cluster.live))}
    assert not lists or lists == strategy(**asked).preference_lists


@given(cluster=clusters(), resource=st.text("abc", min_size=1, max_size=3))
def test_crush_looks_at_each_partition_alone(cluster, resource):
    alone = [crush(**cluster.asked(resource) | {"partitions": [name]}) for name in cluster.partitions]
    assert lists_of(crush, cluster) == {name: nodes for each in alone for name, nodes in each.preference_lists.items()}


@given(cluster=clusters(weights=[1], most_partitions=30))
def test_crushed_is_crush_when_more_replicas_than_zones_are_asked_for(cluster):
    zones = {cluster.zone_of(node.id) for node in cluster.topology}
    if cluster.replicas > len(zones):
        assert lists_of(crush, cluster) == lists_of(crushed, cluster)


@pytest.mark.parametrize("weights", [[1], [1, 2, 3], WEIGHTS])
def test_crushed_holds_shares_by_weight_while_all_are_live(weights):
    topology = Topology(
        Node(f"n{number}", zone=(f"z{number % 5}",), weight=weights[number // 5 % len(weights)]) for number in range(30)
    )
    lists = crushed("orders", [f"orders_{number}" for number in range(600)], 2, topology).preference_lists
    loads = Counter(node for nodes in lists.values() for node in nodes)
    total = sum(node.weight for node in topology)
    for node in topology:
        assert abs(loads[node.id] - 1200 * node.weight / total) <= 3


@pytest.mark.parametrize("zones", ONE_HASH)
def test_of_two_nodes_of_one_hash_crushed_gives_what_moves_to_the_later_as_helix(zones):
    assert ONE_HASH[zones].split() == [node for (node,) in ours(with_one_hash(zones)).values()]


def test_auto_keeps_what_is_there_and_fills_what_a_dead_node_held():
    topology = Topology(["a", "b", "c", "d"])
    before = auto("orders", 12, 2, topology).preference_lists
    current = {name: {nodes[0]: "MASTER", nodes[1]: "SLAVE"} for name, nodes in before.items()}
    assert before == auto("orders", 12, 2, topology, previous=current).preference_lists
    after = auto("orders", 12, 2, topology, live=["a", "b", "c"], previous=current).preference_lists
    for name, nodes in before.items():
        assert {*nodes} - {"d"} <= {*after[name]}
        assert 2 == len(after[name])
    assert [8, 8, 8] == sorted(Counter(node for nodes in after.values() for node in nodes).values())


def test_auto_leaves_out_what_is_not_asked_for_and_holds_a_limit():
    topology = Topology(["a", "b"])
    stale = {"gone": {"a": "MASTER"}, "0": {"unknown": "MASTER", "b": "MASTER"}}
    lists = auto("orders", 2, 1, topology, previous=stale).preference_lists
    assert {"0": ("b",), "1": ("a",)} == lists
    limited = auto("orders", 6, 1, topology, most_per_node=2)
    assert [2, 2] == sorted(Counter(node for nodes in limited.preference_lists.values() for node in nodes).values())
    assert 2 == len(limited.short)


def test_what_is_short_is_said():
    answer = crush("orders", 4, 4, THREE_ZONES)
    assert {3} == {len(nodes) for nodes in answer.preference_lists.values()}
    assert ("0", "1", "2", "3") == answer.short
    assert () == crush("orders", 4, 3, THREE_ZONES).short


def test_multiround_says_how_many_zones_are_live():
    with pytest.raises(NotEnoughNodes, match=r"3 replicas wanted in distinct live zones, 2 eligible \(z1, z2\)"):
        multiround("orders", 4, 3, THREE_ZONES, live=["n1", "n2", "n4"])


def test_the_catalog_lists_the_four():
    assert {*NAMES} <= {*balance.names()}
    for name in NAMES:
        spec = balance.get(name)
        assert "resource" == spec.takes
        assert spec.assign is getattr(balance.helix, name.removeprefix("helix."))


@pytest.mark.parametrize("name", NAMES)
def test_a_group_gets_an_owner_for_each_partition(name):
    topology = THREE_ZONES.drain("n4")
    before = balance.optimal(40, 1, topology.add("n9"))
    view = GroupView(name="mailers", partitions=40, topology=topology, previous=before)
    owners = balance.get(name).owners(view)
    assert 40 == len(owners)
    assert {*owners} <= {*topology.ids} - {"n4"}
    assert owners == balance.get(name).owners(view)


def test_auto_moves_few_partitions_of_a_group():
    before = balance.optimal(40, 1, THREE_ZONES)
    view = GroupView(name="mailers", partitions=40, topology=THREE_ZONES, previous=before)
    owners = balance.get("helix.auto").owners(view)
    assert [before[str(number)][0] for number in range(40)] == list(owners)


def test_answers_do_not_depend_on_the_seed_of_hashes():
    script = (
        "from apportion import Node, Topology, balance\n"
        "topology = Topology(Node(f'n{n}', zone=(f'z{n % 4}',), weight=1 + n % 3) for n in range(12))\n"
        "ids = [f'p{n}' for n in range(60)]\n"
        f"for name in {NAMES}:\n"
        "    answer = balance.get(name)('r', ids, 3, topology, live=[f'n{n}' for n in range(11)])\n"
        "    print(dict(answer.preference_lists))\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"}
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=environment | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert 1 == len(outputs)
