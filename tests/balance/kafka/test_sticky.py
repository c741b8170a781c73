"""`kafka.sticky` and `kafka.cooperative`: valid, balanced, sticky, and right about former owners."""

import os
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import balance
from apportion.balance.kafka import Subscription
from tests.balance.kafka.groups import (
    Case,
    case,
    changed,
    check_balanced,
    check_no_swaps,
    check_valid,
    moves,
    squares,
)

SEEDS = st.integers(0, 2**32)
T5 = {"t": 5}


def member(member_id, owned=(), **fields):
    """Return a member that wants t, and owns partitions of it by their numbers."""
    fields = {"topics": ["t"], "generation": 1} | fields
    return Subscription(member_id, owned=[("t", number) for number in owned], **fields)


def numbers(assigned):
    """Return the numbers of the partitions of each member."""
    return {member_id: [number for _, number in row] for member_id, row in assigned.by_member.items()}


def sticky(topics, *members, **options):
    """Return the numbers of each member."""
    return numbers(balance.get("kafka.sticky")(topics, members, **options))


@settings(deadline=None)
@given(SEEDS)
def test_answers_are_valid_and_balanced_whatever_is_claimed(seed):
    asked = case(Random(seed))
    assigned = asked.given("kafka.sticky")
    check_valid(asked, assigned)
    check_balanced(asked, assigned)


@settings(deadline=None)
@given(SEEDS)
def test_members_come_and_go_and_nobody_swaps_or_moves_what_could_stay(seed):
    random = Random(seed)
    asked = case(random, claims="right", racks=False)
    before = asked.given("kafka.sticky")
    ids = [each.member_id for each in asked.members]
    gone = random.sample(ids, random.randint(0, len(ids) - 1))
    new = [Subscription("new", topics=random.choice(asked.members).topics)] * random.randint(0, 1)
    asked = asked.after(before, gone=gone, new=new)
    after = asked.given("kafka.sticky")
    check_valid(asked, after)
    check_balanced(asked, after)
    check_no_swaps(before.by_partition, after)
    if not new:
        assert 0 == moves(asked, after) or len({frozenset(each.topics) for each in asked.members}) > 1
    if new and not gone and len({frozenset(each.topics) for each in asked.members}) == 1:
        assert len(after.by_member["new"]) == moves(asked, after)


@settings(deadline=None)
@given(SEEDS)
def test_what_is_balanced_already_stays_as_it_is(seed):
    asked = case(Random(seed), racks=False)
    once = asked.given("kafka.sticky")
    assert once.by_member == asked.after(once).given("kafka.sticky").by_member


@settings(deadline=None)
@given(SEEDS)
def test_where_all_want_the_same_no_other_answer_moves_fewer(seed):
    asked = case(Random(seed), equal=True, claims="right", racks=False)
    assigned, optimal = asked.given("kafka.sticky"), asked.given("kafka.optimal")
    assert squares(optimal) == squares(assigned)
    assert moves(asked, optimal) == moves(asked, assigned)


@settings(deadline=None)
@given(SEEDS)
def test_the_order_of_members_topics_and_claims_says_nothing(seed):
    random = Random(seed)
    asked = case(random)
    shuffled = [
        changed(
            each,
            topics=random.sample(each.topics, len(each.topics)),
            owned=random.sample(each.owned, len(each.owned)),
        )
        for each in asked.members
    ]
    topics = dict(random.sample(sorted(asked.topics.items()), len(asked.topics)))
    for name in ("kafka.range", "kafka.roundrobin", "kafka.optimal"):
        again = Case(topics=topics, members=random.sample(shuffled, len(shuffled)), racks=asked.racks)
        assert asked.given(name).by_member == again.given(name).by_member
    for name in ("kafka.sticky", "kafka.cooperative"):
        # Members with ids in one bucket of the hash map stay in the order they have: there it does say something.
        again = Case(topics=topics, members=shuffled, racks=asked.racks)
        assert asked.given(name).by_member == again.given(name).by_member


@settings(deadline=None)
@given(SEEDS)
def test_cooperative_withholds_what_moves_from_an_owner_that_is_there_and_nothing_else(seed):
    asked = case(Random(seed), claims="right")
    final, first = asked.given("kafka.sticky"), asked.given("kafka.cooperative")
    check_valid(asked, first)
    owners = {partition: each.member_id for each in asked.members for partition in each.owned}
    moving = {
        partition: (owners[partition], owner)
        for partition, owner in final.by_partition.items()
        if owners.get(partition, owner) != owner
    }
    assert moving == first.withheld
    assert {**first.by_partition, **{partition: to for partition, (_, to) in moving.items()}} == final.by_partition


@settings(deadline=None)
@given(SEEDS)
def test_cooperative_gives_the_rest_in_the_second_round_and_then_rests(seed):
    asked = case(Random(seed), claims="right", racks=False)
    first = asked.given("kafka.cooperative")
    second = asked.after(first).given("kafka.cooperative")
    assert {} == second.withheld
    assert set(first.by_partition.items()) <= set(second.by_partition.items())
    assert second.by_member == asked.after(second, generation=3).given("kafka.cooperative").by_member


def test_a_newer_generation_is_right():
    old, new = member("a", [0, 1, 2], generation=3), member("b", [2, 3, 4], generation=4)
    assert {"a": [0, 1], "b": [2, 3, 4]} == sticky(T5, old, new)
    assert {"a": [0, 1, 2], "b": [3, 4]} == sticky(T5, changed(old, generation=5), new)


def test_no_generation_is_older_than_any():
    assert {"a": [0, 1], "b": [2, 3, 4]} == sticky(T5, member("a", [0, 1, 2], generation=-1), member("b", [2, 3, 4]))


def test_what_two_claim_in_one_generation_is_neither_s():
    a, b = member("a", [0, 1, 2]), member("b", [2, 3])
    found = balance.get("kafka.cooperative")({"t": 4}, [a, b])
    assert {"a": [0, 1], "b": [3]} == numbers(found)
    assert {("t", 2): ("a", "b")} == found.withheld
    found = balance.get("kafka.cooperative")({"t": 4}, [member("a", [2]), member("b", [0, 1, 2])])
    assert {("t", 2): ("b", "a")} == found.withheld


def test_what_one_member_claims_twice_is_not_its_own():
    assert {("t", 0): ("a", "a")} == balance.get("kafka.cooperative")({"t": 1}, [member("a", [0, 0])]).withheld


def test_a_third_newer_claim_of_what_two_contest_counts_where_subscriptions_differ():
    members = [member("a", [0]), member("b", [0]), member("c", [0], generation=2), member("d", topics=["u"])]
    assert [("t", 0)] == list(balance.get("kafka.sticky")({"t": 1, "u": 1}, members).by_member["c"])


def test_an_older_owner_gets_its_partition_back_where_members_must_give():
    heavy = member("a", [0, 1, 2, 3], generation=2)
    members = [heavy, member("b", generation=2), member("c", [0], generation=1), member("d", topics=["u"])]
    assert {"a": [2, 3], "b": [1], "c": [0], "d": [0]} == sticky({"t": 4, "u": 1}, *members)
    members[2] = member("c", generation=1)
    assert {"a": [2, 3], "b": [0], "c": [1], "d": [0]} == sticky({"t": 4, "u": 1}, *members)


def test_of_older_owners_the_latest_gets_its_partition_back():
    older = [member("y", [0], generation=1), member("z", [0], generation=2)]
    for pair in (older, older[::-1]):
        members = [member("a", [0, 1, 2, 3], generation=3), *pair, member("d", topics=["u"], generation=3)]
        assert {"a": [2, 3], "z": [0], "y": [1], "d": [0]} == sticky({"t": 4, "u": 1}, *members)


def test_a_rack_gives_nobody_one_more_than_the_rest_where_all_who_may_have_that_have_it():
    members = [member("a", [0], rack="r1"), member("b", [1, 2], rack="r2"), member("c", rack="r2")]
    racks = {("t", number): ["r2" if number in (1, 2) else "r1"] for number in range(4)}
    assert {"a": [0], "b": [1, 2], "c": [3]} == sticky({"t": 4}, *members, racks=racks)


def test_nobody_gets_a_topic_that_it_does_not_want_any_more():
    """Java gives it to an older owner that changed its mind, and to members that want no topic at all."""
    heavy = Subscription("a", topics=["t"], owned=[("t", number) for number in range(5)], generation=2)
    light = Subscription("b", topics=["u"], owned=[("t", 4)], generation=1)
    assert {"a": [0, 1, 2, 3, 4], "b": [0]} == sticky({"t": 5, "u": 1}, heavy, light)
    assert {"a": [0, 1, 2, 3, 4], "b": []} == sticky(T5, heavy, Subscription("b", topics=[]))
    assert {"a": [0, 1, 2, 3, 4], "0": []} == sticky(T5, heavy, Subscription("0", topics=[]))


def test_claims_of_partitions_that_are_not_there_are_passed_over():
    odd = Subscription("a", topics=["t"], owned=[("t", 5), ("gone", 0), ("t", 1)], generation=1)
    assert {"a": [1, 2, 4], "b": [0, 3]} == sticky(T5, odd, member("b", [0]))


def test_a_shrunk_and_a_new_topic():
    assert {"a": [0], "b": [1]} == sticky({"t": 2}, member("a", [0, 2, 4]), member("b", [1, 3]))
    assigned = balance.get("kafka.sticky")({"t": 2, "u": 2}, [member("a", [0, 1], topics=["t", "u"]), member("b")])
    assert {"a": 2, "b": 2} == {member_id: len(row) for member_id, row in assigned.by_member.items()}


def test_low_numbers_are_kept_first_then_the_first_topics():
    owned = [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1), ("u", 2)]
    rich = Subscription("a", topics=["t", "u"], owned=owned, generation=1)
    assigned = balance.get("kafka.sticky")({"t": 3, "u": 3}, [rich, Subscription("b", topics=["t", "u"])])
    assert (("t", 0), ("t", 1), ("u", 0)) == assigned.by_member["a"]


def test_a_member_lets_go_what_lies_in_another_rack():
    racks = {("t", 0): ["r1"], ("t", 1): ["r2"], ("t", 2): ["r1"], ("t", 3): ["r2"]}
    members = [member("a", [1, 3], rack="r1"), member("b", [0, 2], rack="r2")]
    assert {"a": [0, 2], "b": [1, 3]} == sticky({"t": 4}, *members, racks=racks)
    assert {"a": [1, 3], "b": [0, 2]} == sticky({"t": 4}, *members)
    everywhere = {partition: ["r1", "r2"] for partition in racks}
    assert {"a": [1, 3], "b": [0, 2]} == sticky({"t": 4}, *members, racks=everywhere)


def test_balance_comes_before_racks():
    racks = {("t", number): ["r1" if number < 4 else "r2"] for number in range(5)}
    found = sticky(T5, member("a", rack="r1"), member("b", rack="r3"), racks=racks)
    assert {"a": 3, "b": 2} == {member_id: len(row) for member_id, row in found.items()}


@pytest.mark.parametrize("seed", ["0", "1"])
def test_answers_are_the_same_in_every_process(seed):
    code = (
        "from random import Random; from tests.balance.kafka.groups import case;"
        "names = ['sticky', 'cooperative', 'range', 'roundrobin', 'optimal'];"
        "print([case(Random(seed)).given('kafka.' + name).by_member for seed in range(40) for name in names])"
    )
    environment = os.environ | {"PYTHONHASHSEED": seed}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    names = ["sticky", "cooperative", "range", "roundrobin", "optimal"]
    expected = [case(Random(seed)).given(f"kafka.{name}").by_member for seed in range(40) for name in names]
    assert f"{expected}\n" == printed.stdout
