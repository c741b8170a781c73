"""The story of a group: who lost what to whom, and why."""

from dataclasses import replace

import pytest

from apportion.groups.admin.history import Story, listed
from apportion.groups.view.records import OwnershipRecord, Target, encoded, encoded_target
from apportion.stores.api import Event, StoreChange
from tests.console.grouping import _record, found

A, B = ("a", 10, 1), ("b", 11, 1)
MINE = OwnershipRecord(owner="a", session=10, epoch=7)


def story_of(**facts):
    group = found(**facts)
    return Story(group.view, dict.fromkeys(facts.get("drains", ()), b"drained"))


def owns(partition, ownership):
    return Event(key=f"live/mailers/own/{partition}", value=encoded(ownership))


def told(story, *events, revision=101):
    return [line.text for line in story.tell(StoreChange(revision=revision, events=events))]


def gone(name):
    return Event(key=f"live/mailers/{name}", value=None)


TO_B = replace(MINE, owner="b", session=11, epoch=8)
WAYS = [
    ("claim", {"there": [A]}, replace(MINE, epoch=1), "nobody -> a: partition 0 (claim: nobody owned it)"),
    ("given", {"there": [A, B], "own": [(0, "a", 10, 0)], "target": "bbbb"}, TO_B, "a -> b: partition 0 (target 3)"),
    ("drained", {"there": [A, B], "drains": "a", "own": [(0, "a", 10, 0)], "target": "bbbb"}, TO_B,
     "a -> b: partition 0 (drain: an operator drains it)"),
    ("to nobody", {"there": [A], "own": [(0, "a", 10, 0)], "target": [None] * 4},
     OwnershipRecord(epoch=8), "a -> nobody: partition 0 (target 3)"),
    ("takeover", {"there": [B], "own": [(0, "a", 10, 0)]}, TO_B,
     "a -> b: partition 0 (takeover: its session had ended)"),
    ("restart", {"there": [("a", 12, 1)], "own": [(0, "a", 10, 0)]}, replace(MINE, session=12, epoch=8),
     "a -> a: partition 0 (takeover: its earlier session 10 ended)"),
    ("released", {"there": [B], "own": [(0, "a", 10, 2)]}, OwnershipRecord(epoch=8),
     "a -> nobody: partition 0 (released: its next owner does not wait)"),
    ("renumbered", {"there": [A], "own": [(0, "a", 10, 0)]}, replace(MINE, epoch=8),
     "a -> a: partition 0 (a new epoch: the owner had begun to release it, and keeps it)"),
    ("absolved", {"there": [A], "own": [(0, None, 0, 3)]}, OwnershipRecord(epoch=7),
     "nobody -> nobody: partition 0 (its deaths are forgiven: it was served for 60 s, or released)"),
    ("not kept", {"there": [A]}, MINE, "nobody -> a: partition 0 (the store does not keep its earlier owner)"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "after", "text"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS])
def test_every_way_of_a_partition_is_told_with_its_why(facts, after, text):
    assert [text] == told(story_of(**facts), owns(0, after))


def test_partitions_that_go_the_same_way_in_one_commit_share_a_line():
    story = story_of(there=[A, B], own=[(0, "a", 10, 0), (1, "a", 10, 0), (2, "b", 11, 0)], target="bbba")
    back = OwnershipRecord(owner="a", session=10, epoch=8)
    assert ["a -> b: 2 partitions 0, 1 (target 3)", "b -> a: partition 2 (target 3)"] == told(
        story, owns(0, TO_B), owns(1, TO_B), owns(2, back)
    )


def test_a_lease_that_ends_takes_all_of_the_member_with_it():
    story = story_of(there=[A, B], drains="a", own=[(0, "a", 10, 0)], leader="a")
    assert ["no controller: a is gone", "a is gone (session 10): its lease ended"] == told(
        story, gone("controller"), gone("drain/a"), gone("member/a")
    )
    assert ["a -> b: partition 0 (takeover: its lease ended)"] == told(story, owns(0, TO_B), revision=102)


def test_a_withdrawn_drain_is_told_and_explains_no_later_move():
    story = story_of(there=[A, B], drains="a", own=[(0, "a", 10, 0)], target="bbbb")
    withdrawn = "a is no longer asked for its partitions: an operator withdrew the drain"
    assert [withdrawn] == told(story, gone("drain/a"))
    assert ["a -> b: partition 0 (target 3)"] == told(story, owns(0, TO_B), revision=102)


def test_a_member_that_leaves_is_not_said_to_have_died():
    freed = owns(1, OwnershipRecord(epoch=8))
    for own, more in (([], []), ([], [gone("drain/a")]), ([(1, "a", 10, 0)], [gone("drain/a"), freed])):
        story = story_of(there=[A], drains="a", own=own)
        assert "a is gone (session 10): it left" == told(story, *more, gone("member/a"))[0]
    static = story_of(there=[A], statics=[A])
    left = Event(key="live/mailers/static/a", value=encoded(replace(_record(1), left_session=10)))
    assert ["a is gone (session 10): it left"] == told(static, gone("member/a"), left)


def test_a_member_whose_lease_ends_while_it_leaves_is_said_to_have_died():
    story = story_of(there=[A], drains="a", own=[(1, "a", 10, 0)])
    assert ["a is gone (session 10): its lease ended"] == told(story, gone("drain/a"), gone("member/a"))


def test_what_began_before_the_history_is_not_guessed():
    story = Story(found(there=[B], own=[(0, "a", 10, 0)]).view, unknown_until=20)
    assert ["a -> b: partition 0 (the store does not keep the end of the session before)"] == told(story, owns(0, TO_B))


def test_members_controllers_and_targets_are_told():
    story = story_of(there=[A], target="aaaa", mode="eager")
    joined = Event(key="live/mailers/member/b", value=encoded(_record(1)), lease=5)
    assert ["b joined (session 101)"] == told(story, joined)
    asked = Event(key="live/mailers/drain/b", value=b"leaves", lease=1)
    assert ["b is asked for all its partitions: it leaves"] == told(story, asked, revision=102)
    chosen = Event(key="live/mailers/controller", value=b"a 10", lease=1)
    assert ["a is controller (term 103)"] == told(story, chosen, revision=103)
    for revision, paused, digest, text in (
        (104, False, "d", "target 4: 2 of 4 partitions change owner"),
        (105, False, "", "target 4: 0 of 4 partitions change owner, as a step to a later target"),
        (106, True, "d", "target 4: paused, all members release everything first (eager mode)"),
    ):
        target = Target(generation=4, digest=digest, owners=tuple("aabb"), is_paused=paused)
        assert [text] == told(story, Event(key="live/mailers/target", value=encoded_target(target)), revision=revision)
    assert ["static member b is forgotten"] == told(story, gone("static/b"), revision=107)


def test_many_partitions_are_cut_and_counted():
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 88 more" == listed(tuple(range(100)))


def test_an_epoch_that_went_back_is_told_as_damage_and_not_as_a_move():
    story = story_of(there=[A, B], own=[(0, "a", 10, 0)])
    told(story, owns(0, replace(TO_B, epoch=50)))
    (line,) = told(story, owns(0, replace(TO_B, epoch=3)), revision=102)
    assert line.startswith("own/0 is damaged: ")
