"""`kafka.optimal`: the least sum of squares, then the fewest moves; by brute force, and by the solver HiGHS."""

from collections import Counter
from itertools import product
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

from apportion import balance
from apportion.balance.kafka import Subscription
from tests.balance.kafka.groups import Case, case, check_balanced, check_valid, moves, squares


def small(random):
    """Return a group so small that every answer can be tried."""
    topics = {name: random.randint(0, 3) for name in "tuv"[: random.randint(1, 3)]}
    ids = [f"c{number}" for number in range(random.randint(1, 4))]
    owned = {member_id: [] for member_id in ids}
    for topic, count in topics.items():
        for number in range(count):
            owned[random.choice(ids)] += [(topic, number)] * random.randint(0, 1)
    members = [
        Subscription(member_id, topics=random.sample(sorted(topics), random.randint(0, len(topics))), owned=claims)
        for member_id, claims in owned.items()
    ]
    return Case(topics=topics, members=members)


def best(asked):
    """Return the least sum of squares that any answer has, and of those the fewest moves."""
    wants = {member.member_id: member.topics for member in asked.members}
    owners = {partition: member.member_id for member in asked.members for partition in member.owned}
    partitions = [(topic, number) for topic, count in asked.topics.items() for number in range(count)]
    takers = [[member_id for member_id in wants if topic in wants[member_id]] for topic, _ in partitions]
    partitions = [partition for partition, possible in zip(partitions, takers, strict=True) if possible]
    return min(
        (
            sum(load**2 for load in Counter(answer).values()),
            sum(owners.get(partition, owner) != owner for partition, owner in zip(partitions, answer, strict=True)),
        )
        for answer in product(*filter(None, takers))
    )


def test_no_answer_is_better_in_any_small_group():
    for seed in range(150):
        asked = small(Random(seed))
        if sum(asked.topics.values()) > 6:
            continue
        assigned = asked.given("kafka.optimal")
        check_valid(asked, assigned)
        assert best(asked) == (squares(assigned), moves(asked, assigned)), seed


def test_whatever_is_claimed_answers_are_valid_and_no_less_even_than_sticky_s():
    for seed in range(300):
        asked = case(Random(seed))
        assigned, sticky = asked.given("kafka.optimal"), asked.given("kafka.sticky")
        check_valid(asked, assigned)
        check_balanced(asked, assigned)
        assert squares(assigned) <= squares(sticky), seed


def middling(random):
    """Return a group of thirty members whose topics differ, in which some have come and gone since."""
    topics = {f"t{number}": random.randint(1, 10) for number in range(12)}
    members = [
        Subscription(f"c{number}", topics=random.sample(sorted(topics), random.randint(1, 8))) for number in range(30)
    ]
    asked = Case(topics=topics, members=members[: random.randint(15, 30)])
    before = asked.given(random.choice(["kafka.roundrobin", "kafka.sticky", "kafka.optimal"]))
    gone = {member.member_id for member in random.sample(asked.members, 5)}
    return asked.after(before, gone=gone, new=members[len(asked.members) :])


def solved(asked):
    """Return the least sum of squares and then moves as a linear program finds them.

    x[t, c, own] counts the partitions of topic t at member c, up to as many as it owned of them for nothing and more
    for 1 each; y[c, k] is whether c has more than k of them, for 2 k + 1. All is integral, for it is a flow.
    """
    topics, members = [topic for topic, count in asked.topics.items() if count], asked.members
    wanted = [(topic, place) for topic in topics for place, each in enumerate(members) if topic in each.topics]
    most = sum(asked.topics.values())
    supplies = {topic: asked.topics[topic] for topic in topics if any(topic == each for each, _ in wanted)}
    units = [(place, step) for place in range(len(members)) for step in range(min(most, 40))]
    heavy = most + 1
    cost = [0] * len(wanted) + [1] * len(wanted) + [heavy * (2 * step + 1) for _, step in units]
    kept = [sum(topic == each for each, _ in members[place].owned) for topic, place in wanted]
    bounds = [(0, own) for own in kept] + [(0, None)] * len(wanted) + [(0, 1)] * len(units)
    rows = lil_matrix((len(supplies) + len(members), len(cost)))
    numbers = {topic: row for row, topic in enumerate(supplies)}
    for column, (topic, place) in enumerate(wanted):
        for own in (column, column + len(wanted)):
            rows[numbers[topic], own] = 1
            rows[len(supplies) + place, own] = 1
    for column, (place, _) in enumerate(units):
        rows[len(supplies) + place, 2 * len(wanted) + column] = -1
    right = np.array([*supplies.values(), *[0] * len(members)])
    found = linprog(cost, A_eq=rows.tocsr(), b_eq=right, bounds=bounds, method="highs")
    assert found.success
    return divmod(round(found.fun), heavy)


@pytest.mark.parametrize("seed", range(12))
def test_highs_finds_no_better_answer_in_a_middling_group(seed):
    asked = middling(Random(seed))
    assigned = asked.given("kafka.optimal")
    check_valid(asked, assigned)
    owners = {partition for member in asked.members for partition in member.owned}
    new = sum(partition not in owners for partition in assigned.by_partition)
    lost = sum(
        partition in assigned.by_partition and partition[0] not in member.topics
        for member in asked.members
        for partition in member.owned
    )
    assert 0 == lost
    assert solved(asked) == (squares(assigned), moves(asked, assigned) + new)


def test_chains_that_sticky_does_not_see_are_found():
    """One gives to a second, who gives to a third: no two of them differ by more than one, the ends by two."""
    owned = [("t", 0), ("t", 1), ("t", 2)], [("u", 0), ("u", 1)], [("v", 0)]
    topics = ["t"], ["t", "u"], ["u", "v"]
    members = [Subscription(f"c{place}", topics=topics[place], owned=owned[place], generation=1) for place in range(3)]
    asked = Case(topics={"t": 3, "u": 2, "v": 1}, members=members)
    assert {3, 2, 1} == {len(row) for row in asked.given("kafka.sticky").by_member.values()}
    assigned = asked.given("kafka.optimal")
    assert {2} == {len(row) for row in assigned.by_member.values()}
    assert 2 == moves(asked, assigned)


def test_racks_are_checked_and_change_nothing():
    members = [Subscription("a", topics=["t"], rack="r1"), Subscription("b", topics=["t"], rack="r2")]
    plain = balance.get("kafka.optimal")({"t": 4}, members)
    assert plain.rows == balance.get("kafka.optimal")({"t": 4}, members, racks={("t", 0): ["r2"]}).rows
