"""Isolation: partitions whose owners died together part, and no member gets more or less for it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.groups.controller.isolation import isolated
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, Target, encoded, encoded_target
from apportion.groups.view.view import View
from apportion.stores import Item, Scan

KEYS = GroupKeys(group="g")


def viewed(owners, deaths, *, before=None, gone=90, died="gone"):
    """Return a view: `owners` are those of the records, None for a session that is gone, `deaths` say how many died."""
    names = sorted({owner for owner in owners if owner})
    items = [Item(key=KEYS.member(each), value=encoded(MemberRecord(nonce=each)), revision=at, lease=1)
             for at, each in enumerate(names, start=1)]  # fmt: skip
    sessions = {each.key: each.revision for each in items}
    for partition, (owner, count) in enumerate(zip(owners, deaths, strict=True)):
        session = gone if owner is None else sessions[KEYS.member(owner)]
        listed = tuple(range(50, 50 + count - (owner is None and count > 0)))
        record = OwnershipRecord(owner=owner or died, session=session, epoch=1, ended=listed)
        items.append(Item(key=KEYS.own(partition), value=encoded(record), revision=100 + partition))
    if before is not None:
        target = Target(generation=1, digest="d", owners=before)
        items.append(Item(key=KEYS.target, value=encoded_target(target), revision=99))
    view = View(KEYS, GroupRecord(partitions=len(owners)))
    view.load(Scan(items=tuple(items), revision=500, incarnation=1), 0.0)
    return view


def test_partitions_that_died_together_twice_go_to_different_members():
    view = viewed([None] * 4 + ["a", "b"], [3, 3, 1, 1, 0, 0])
    after = isolated(tuple("aabbab"), view)
    assert after[0] != after[1]
    assert Counter("aabbab") == Counter(after)


def test_one_death_says_nothing():
    view = viewed([None] * 4 + ["a", "b"], [1, 1, 1, 1, 0, 0])
    assert tuple("aabbab") == isolated(tuple("aabbab"), view)


def test_partitions_without_an_owner_are_exchanged_before_those_that_are_served():
    view = viewed([None, None, None, "a", "b"], [3, 3, 1, 0, 0])
    after = isolated(tuple("aabab"), view)
    assert ("a", "b") == after[3:]
    assert {"a", "b"} == {*after[:2]}


def test_what_moves_anyway_is_exchanged_before_what_would_stay():
    view = viewed([None, None, "b", "a"], [3, 3, 0, 0], before=tuple("aaba"))
    after = isolated(tuple("aabb"), view)
    assert ("b", "a") == after[2:]  # partition 3 was to go to b, and need not move at all
    assert {"a", "b"} == {*after[:2]}


def test_suspects_part_though_the_member_under_which_they_died_is_back():
    view = viewed([None, None, "a", "b"], [3, 3, 0, 0], died="a")
    assert {"a", "b"} == {*isolated(tuple("aabb"), view)[:2]}


def test_a_lone_suspect_goes_to_another_member_after_each_death_and_moves_nothing_that_is_served():
    homes = []
    for session in (90, 91, 92):
        view = viewed([None, None, None, "a", "b", "c"], [3, 1, 1, 0, 0, 0], gone=session)
        after = isolated(tuple("abcabc"), view)
        assert ("a", "b", "c") == after[3:]
        homes.append(after[0])
    assert ["a", "b", "c"] == sorted(homes)


def test_a_crowd_of_suspects_is_left_as_the_balancer_spread_it():
    view = viewed([None] * 40 + ["a", "b"], [3] * 40 + [0, 0])
    owners = tuple("a" * 20 + "b" * 20 + "ab")
    assert owners == isolated(owners, view)


@pytest.mark.parametrize("members", [2, 3, 5])
@given(data=st.data())
def test_no_member_gets_more_or_less_and_suspects_part_where_they_can(members, data):
    names = [chr(ord("a") + each) for each in range(members)]
    size = data.draw(st.integers(members, 24))
    plan = tuple(data.draw(st.sampled_from(names)) for _ in range(size))
    owned = [data.draw(st.sampled_from([None, each])) for each in plan]
    owned[:members] = names  # that each is a member
    deaths = [0 if owner else data.draw(st.integers(0, 5)) for owner in owned]
    after = isolated(plan, viewed(owned, deaths, before=plan))
    assert Counter(plan) == Counter(after)
    suspects = [each for each in range(size) if owned[each] is None and deaths[each] >= 2]
    if 0 < len(suspects) <= 16:
        burdens, loads = Counter(), Counter(after)
        for each in suspects:
            burdens[after[each]] += 1 << deaths[each]
            loads[after[each]] -= 1
        heaviest = max(suspects, key=deaths.__getitem__)
        beside, weight = burdens.pop(after[heaviest]) - (1 << deaths[heaviest]), 1 << deaths[heaviest]
        assert all(beside - burdens[each] < weight for each in names if each != after[heaviest] and loads[each])


def test_a_heavy_suspect_goes_where_no_other_is_also_among_those_that_are_served():
    view = viewed([None, None, "a", "b", "c"], [5, 1, 3, 0, 0], gone=90)
    assert tuple("baabc") == isolated(tuple("ababc"), view)


def test_a_newcomer_gets_partitions_under_which_no_session_ended():
    view = viewed(["a", "a", "a", "b"], [3, 0, 0, 0], before=tuple("aaab"))
    assert tuple("aabb") == isolated(tuple("baab"), view)


def test_what_must_move_moves_whatever_ended_under_it():
    view = viewed(["a", "a", "b"], [3, 2, 0], before=tuple("aab"))
    assert tuple("bbb") == isolated(tuple("bbb"), view)
