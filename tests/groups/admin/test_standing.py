"""The stuck step of a partition: each cause has its words and what helps."""

import pytest

from apportion.groups.admin.standing import remarks, standing, state_of
from apportion.groups.view.records import Target
from tests.console.grouping import found

A, B, LIGHT = ("a", 10, 1), ("b", 11, 1), ("b", 11, 0)
PAUSED = Target(generation=3, digest="d", owners=("a",) * 4, is_paused=True)
STEPS = [
    ("settled", {"there": [A], "own": [(0, "a", 10, 0)], "target": "aaaa"}, "owned", ""),
    ("quarantined", {"there": [A], "own": [(0, "b", 9, 2)], "target": "aaaa", "quarantine_after": 3}, "quarantined",
     "quarantined: 3 sessions in a row ended while they owned it, each within a minute"),
    ("crash loop", {"there": [A], "own": [(0, "b", 9, 3)], "target": "aaaa"}, "crash-looping",
     "crash-looping: 4 sessions in a row ended while they owned it, each within a minute; "
     "the next try comes within 2 s"),
    ("no member", {"own": [(0, "a", 10, 0)]}, "orphaned", "no target yet: no live member"),
    ("no target", {"there": [A]}, "unowned", "no target yet; there is no controller now"),
    ("draining", {"there": [A, B], "drains": "a", "own": [(0, "a", 10, 0)], "target": "bbbb"}, "owned",
     "waiting for a, which drains, to release it; then it goes to b"),
    ("let go", {"there": [A, B], "own": [(0, "a", 10, 0)], "target": "bbbb"}, "owned",
     "waiting for a to release it; then it goes to b"),
    ("receiver gone", {"there": [A], "own": [(0, "a", 10, 0)], "target": "bbbb"}, "owned",
     "then it goes to nobody: b, which the target names, is absent"),
    ("nobody may", {"there": [LIGHT], "leader": "b", "target": [None] * 4}, "unowned",
     "the target names no owner: no member had a weight above 0"),
    ("let go to nobody", {"there": [A], "own": [(0, "a", 10, 0)], "target": [None] * 4}, "owned",
     "goes to nobody: no member has a weight above 0"),
    ("static away", {"there": [A], "statics": [B], "leader": "a", "target": "bbbb"}, "unowned",
     "waiting for b, an absent member that the target names: the controller keeps the place of a static member"
     " for 60 s"),
    ("no controller", {"there": [A], "own": [(0, "b", 9, 0)], "target": "bbbb"}, "orphaned",
     "the controller writes a target without it; there is no controller now"),
    ("claim", {"there": [A], "target": "aaaa"}, "unowned", "waiting for a to claim it"),
    ("takeover", {"there": [A], "own": [(0, "b", 9, 0)], "target": "aaaa"}, "orphaned",
     "waiting for a to take it over: session 9 of b has ended"),
    ("own earlier session", {"there": [A], "own": [(0, "a", 9, 0)], "target": "aaaa"}, "orphaned",
     "from its own earlier session 9"),
    ("paused, owned", {"there": [A], "own": [(0, "a", 10, 0)], "target": PAUSED, "mode": "eager"}, "owned",
     "the target is paused (eager mode): a must give up"),
    ("paused, another", {"there": [A], "own": [(1, "a", 10, 0)], "target": PAUSED, "mode": "eager"}, "unowned",
     "all members give up their partitions, then the next target names owners; there is no controller now"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "state", "words"), [step[1:] for step in STEPS], ids=[step[0] for step in STEPS])
def test_every_cause_has_its_words(facts, state, words):
    group = found(**facts)
    stands = standing(group, 0)
    assert state == state_of(group, 0) == stands.state
    if words:
        assert words in stands.step
    else:
        assert ("", "") == (stands.step, stands.advice)


def test_what_helps_is_named():
    quarantined = found(there=[A], own=[(0, "b", 9, 2)], target="aaaa", quarantine_after=3)
    assert "apportion group release URL mailers 0" in standing(quarantined, 0).advice
    away = found(there=[A], statics=[B], target="bbbb")
    assert "apportion group forget URL mailers b" in standing(away, 0).advice


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "no live member"),
        ({"there": [A], "target": "aaaa"}, "no controller"),
        ({"there": [LIGHT], "leader": "b", "target": [None] * 4}, "every member drains or has weight 0"),
        ({"there": [A], "drains": "a", "leader": "a", "target": "aaaa"}, "every member drains or has weight 0"),
        ({"there": [A], "leader": "a"}, "no target yet"),
        ({"there": [A], "leader": "a", "target": PAUSED, "mode": "eager"}, "the target is paused"),
        ({"there": [A, ("c", 70, 1)], "leader": "a", "target": "aaaa"}, "before the newest member came"),
        ({"there": [A], "leader": "a", "target": Target(generation=2, digest="", owners=("a",) * 4)}, "throttle"),
    ],
)
def test_what_holds_up_the_whole_group_is_remarked(facts, words):
    (remark,) = remarks(found(**facts))
    assert words in remark


def test_a_group_that_is_well_has_no_remark():
    assert [] == list(remarks(found(there=[A], leader="a", target="aaaa")))
