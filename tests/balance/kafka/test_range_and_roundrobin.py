"""`kafka.range` and `kafka.roundrobin` beside kafka-python, and what the client in Python gets wrong."""

from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import balance
from apportion.balance.kafka import Subscription
from tests.balance.kafka.groups import case, check_valid

kafka_range = pytest.importorskip("kafka.coordinator.assignors.range").RangePartitionAssignor
kafka_roundrobin = pytest.importorskip("kafka.coordinator.assignors.roundrobin").RoundRobinPartitionAssignor

SEEDS = st.integers(0, 2**32)


def theirs(assignor, topics, members):
    """Return what kafka-python answers, partitions by member."""
    cluster = SimpleNamespace(
        partitions_for_topic=lambda topic: set(range(topics[topic])) if topics.get(topic) else None
    )
    asked = [
        SimpleNamespace(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=SimpleNamespace(topics=list(member.topics)),
        )
        for member in members
    ]
    return {
        member_id: tuple(sorted((topic, number) for topic, numbers in given.assigned_partitions for number in numbers))
        for member_id, given in assignor.assign(cluster, asked).items()
    }


@settings(deadline=None)
@given(SEEDS)
def test_range_is_kafka_pythons_where_static_members_come_first(seed):
    asked = case(Random(seed), racks=False)
    members = sorted(asked.members, key=lambda member: member.group_instance_id is None)
    ours = asked.given("kafka.range")
    check_valid(asked, ours)
    assert theirs(kafka_range, asked.topics, members) == ours.by_member


@settings(deadline=None)
@given(SEEDS)
def test_roundrobin_is_kafka_pythons_where_all_want_the_same(seed):
    """Elsewhere kafka-python 3.0 raises KeyError: it looks for a member by its static id and its own."""
    asked = case(Random(seed), equal=True, racks=False)
    members = sorted(asked.members, key=lambda member: member.group_instance_id is None)
    ours = asked.given("kafka.roundrobin")
    check_valid(asked, ours)
    assert theirs(kafka_roundrobin, asked.topics, members) == ours.by_member


@settings(deadline=None)
@given(SEEDS)
def test_roundrobin_deals_each_partition_to_the_next_who_wants_it(seed):
    asked = case(Random(seed))
    ours = asked.given("kafka.roundrobin")
    check_valid(asked, ours)
    circle = sorted(
        asked.members,
        key=lambda member: (member.group_instance_id is None, member.group_instance_id or member.member_id),
    )
    for partition, owner in ours.by_partition.items():
        while partition[0] not in circle[0].topics:
            circle.append(circle.pop(0))
        assert owner == circle[0].member_id
        circle.append(circle.pop(0))


@settings(deadline=None)
@given(SEEDS)
def test_racks_change_no_quota_of_range(seed):
    asked = case(Random(seed), racks=True)
    ours, plain = asked.given("kafka.range"), balance.get("kafka.range")(asked.topics, asked.members)
    check_valid(asked, ours)
    for topic, count in asked.topics.items():
        wanting = [member.member_id for member in asked.members if topic in member.topics]
        held = [sum(topic == each for each, _ in ours.by_member[member_id]) for member_id in wanting]
        assert sorted(held) == sorted(sum(topic == each for each, _ in plain.by_member[each_id]) for each_id in wanting)
        assert not held or set(held) <= {count // len(held), -(-count // len(held))}


def test_interleaved_static_members_keep_their_partitions():
    """kafka-python 3.0 loses those of s1: it groups what it has not sorted."""
    members = [
        Subscription("x", topics=["t"], group_instance_id="s1"),
        Subscription("y", topics=["t"]),
        Subscription("z", topics=["t"], group_instance_id="s3"),
    ]
    ours = balance.get("kafka.range")({"t": 6}, members).by_member
    assert {"x": [0, 1], "y": [4, 5], "z": [2, 3]} == {
        member: [number for _, number in ours[member]] for member in ours
    }
    assert () == theirs(kafka_range, {"t": 6}, members)["x"]


def test_static_members_come_by_their_static_ids():
    members = [
        Subscription("a", topics=["t"], group_instance_id="s2"),
        Subscription("b", topics=["t"], group_instance_id="s1"),
        Subscription("0", topics=["t"]),
    ]
    assert {"b": 0, "a": 1, "0": 2} == owners("kafka.range", members)
    assert {"b": 0, "a": 1, "0": 2} == owners("kafka.roundrobin", members)


def owners(name, members):
    """Return the one partition of three that each member gets."""
    return {member: row[0][1] for member, row in balance.get(name)({"t": 3}, members).by_member.items()}


def test_topics_of_as_many_partitions_stay_together_within_racks():
    racks = {(topic, number): [f"r{2 - number}"] for topic in "tu" for number in range(2)}
    members = [Subscription(f"c{number}", topics=["t", "u"], rack=f"r{number + 1}") for number in range(2)]
    ours = balance.get("kafka.range")({"t": 2, "u": 2}, members, racks=racks)
    assert {"c0": (("t", 1), ("u", 1)), "c1": (("t", 0), ("u", 0))} == ours.by_member
    racks[("u", 0)], racks[("u", 1)] = ["r1"], ["r2"]
    ours = balance.get("kafka.range")({"t": 2, "u": 2}, members, racks=racks)
    assert {"c0": (("t", 0), ("u", 0)), "c1": (("t", 1), ("u", 1))} == ours.by_member


def test_a_topic_on_its_own_goes_by_racks_within_the_quota():
    racks = {("t", number): ["r1" if number < 3 else "r2"] for number in range(4)}
    members = [Subscription("a", topics=["t"], rack="r2"), Subscription("b", topics=["t"], rack="r1")]
    ours = balance.get("kafka.range")({"t": 4}, members, racks=racks)
    assert {"a": (("t", 2), ("t", 3)), "b": (("t", 0), ("t", 1))} == ours.by_member
