"""The large groups of Kafka's own suite: their expected results, and that they are found at all. Kafka allows 30 to 90
s.
"""

from random import Random

import pytest

from apportion import balance
from apportion.balance.kafka import Subscription
from tests.balance.kafka.groups import Case, check_no_swaps, check_valid, moves


def group(topics, members, wants=None):
    """Return a group with members that want all topics, or those of `wants` by their number."""
    wants = wants or (lambda number: topics)
    named = [Subscription(f"consumer{number:04}", topics=wants(number)) for number in range(members)]
    return Case(topics=topics, members=named)


def loads(assigned):
    """Return how many each member has."""
    return sorted(len(row) for row in assigned.by_member.values())


def left(asked, before, name="kafka.sticky"):
    """Return the assignment after one member left; no other may have lost anything."""
    after_one = asked.after(before, gone=[asked.members[5].member_id])
    after = after_one.given(name)
    check_valid(after_one, after)
    assert 0 == moves(after_one, after)
    return after


@pytest.mark.slow
def test_a_million_partitions_for_two_thousand_members():
    asked = group({f"topic{number:03}": 2000 for number in range(500)}, 2000)
    before = asked.given("kafka.sticky")
    assert {500} == set(loads(before))
    after = left(asked, before)
    assert [500] * 1499 + [501] * 500 == loads(after)


@pytest.mark.slow
def test_a_million_partitions_and_one_member_that_wants_less():
    topics = {f"topic{number:03}": 2000 for number in range(500)}
    asked = group(topics, 2000, lambda number: topics if number else sorted(topics)[:-1])
    before = asked.given("kafka.sticky")
    assert [500] * 2000 == loads(before)
    assert [500] * 1499 + [501] * 500 == loads(left(asked, before))


@pytest.mark.slow
def test_a_hundred_thousand_partitions_for_two_hundred_members():
    asked = group({f"topic{number:03}": 2000 for number in range(50)}, 200)
    before = asked.given("kafka.sticky")
    check_valid(asked, before)
    assert {500} == set(loads(before))
    assert [502] * 97 + [503] * 102 == loads(left(asked, before))


def test_two_sets_of_members_that_share_no_topic():
    topics = {f"topic{number:03}": 40 for number in range(100)}
    first, second = sorted(topics)[:50], sorted(topics)[50:]
    asked = group(topics, 100, lambda number: second if number % 2 else first)
    before = asked.given("kafka.sticky")
    check_valid(asked, before)
    assert {40} == set(loads(before))
    after = left(asked, before)
    assert [40] * 59 + [41] * 40 == loads(after)


@pytest.mark.parametrize("seed", range(3))
def test_members_of_random_topics_of_whom_a_quarter_leaves(seed):
    random = Random(seed)
    topics = {f"topic{number:02}": random.randint(1, 10) for number in range(40)}
    asked = group(topics, 200, lambda _: random.sample(sorted(topics), random.randint(1, 20)))
    before = asked.given("kafka.sticky")
    gone = [member.member_id for member in random.sample(asked.members, 50)]
    asked = asked.after(before, gone=gone)
    after = asked.given("kafka.sticky")
    check_valid(asked, after)
    check_no_swaps(before.by_partition, after)


def test_racks_of_a_large_group():
    topics = {f"topic{number:02}": 200 for number in range(20)}
    members = [Subscription(f"consumer{number:03}", topics=topics, rack=f"rack{number % 5}") for number in range(100)]
    racks = {(topic, number): [f"rack{number % 5}"] for topic in topics for number in range(200)}
    assigned = balance.get("kafka.sticky")(topics, members, racks=racks)
    assert {40} == set(loads(assigned))
    at = {member.member_id: member.rack for member in members}
    assert all([at[owner]] == racks[partition] for partition, owner in assigned.by_partition.items())
