"""The assignors as a group of this library asks them, and in the catalog."""

import pytest

from apportion import Node, Topology, balance
from apportion.balance.api import GroupView

NAMES = ("kafka.cooperative", "kafka.optimal", "kafka.range", "kafka.roundrobin", "kafka.sticky")


def test_the_catalog_has_them():
    assert set(NAMES) <= set(balance.names())
    for name in NAMES:
        spec = balance.get(name)
        assert (name, "subscriptions", False, False) == (spec.name, spec.takes, spec.weighted, spec.zoned)


@pytest.mark.parametrize("name", NAMES)
def test_a_group_is_shared_evenly_by_those_of_a_weight(name):
    topology = Topology([Node("a", weight=3), "b", Node("c", weight=0), "d"])
    owners = balance.get(name).owners(GroupView(name="mail", partitions=11, topology=topology))
    assert 11 == len(owners)
    assert [3, 4, 4] == sorted(map(owners.count, "abd"))


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_s_promise_of_movement_holds_where_one_leaves_or_joins(name):
    spec, topology = balance.get(name), Topology(list("abcdef"))
    before = balance.optimal(60, 1, topology)
    moved = []
    for changed, needed in ((topology.without("c"), 10), (topology.add("g"), 60 // 7)):
        view = GroupView(name="mail", partitions=60, topology=changed, previous=before)
        owners = spec.owners(view)
        loads = [owners.count(node.id) for node in changed]
        assert max(loads) - min(loads) <= 1
        was = [holders[0] for holders in before.preference_lists.values()]
        moved.append(sum(old != new for old, new in zip(was, owners, strict=True)) == needed)
    assert spec.minimal_movement == all(moved)


@pytest.mark.parametrize("name", ["kafka.sticky", "kafka.cooperative", "kafka.optimal"])
def test_a_group_of_another_size_keeps_what_is_left(name):
    before = balance.optimal(10, 1, Topology(["a", "b"]))
    view = GroupView(name="mail", partitions=4, topology=Topology(["a", "b"]), previous=before)
    owners = balance.get(name).owners(view)
    was = [holders[0] for holders in before.preference_lists.values()]
    assert 2 == owners.count("a")
    assert abs(was[:4].count("a") - 2) == sum(old != new for old, new in zip(was, owners, strict=False))


def test_a_result_names_partitions_by_topic_and_number():
    members = [balance.kafka.Subscription(each, topics=["u", "t"]) for each in ("b", "a")]
    assigned = balance.get("kafka.sticky")(topics={"u": 1, "t": 2}, members=members)
    assert {"a": (("t", 0), ("u", 0)), "b": (("t", 1),)} == assigned.by_member
    assert ["a", "b"] == list(assigned.by_member)
    assert [(("t", 0), "a"), (("t", 1), "b"), (("u", 0), "a")] == list(assigned.by_partition.items())
    assert {} == assigned.withheld
