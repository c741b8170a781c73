"""Reasons: in words, the first thing that must pass before a partition is held, a member is in, or one is out."""

from types import SimpleNamespace

import pytest

from apportion.groups import reasons
from apportion.groups.reasons import joins_after, leaves_after, not_owned
from apportion.groups.view.intake import LiveMember
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, encoded
from apportion.groups.view.view import View
from apportion.stores import Item, Scan

KEYS = GroupKeys(group="g")


def driver(*owners, works_on=None, is_current=True, quarantine_after=None, **items):
    """Return what is asked of a driver of member a: `owners` are those of partitions 0, 1, ..."""
    view = View(KEYS, GroupRecord(partitions=9, quarantine_after=quarantine_after))
    found = [
        Item(
            key=KEYS.own(each),
            value=encoded(OwnershipRecord(owner=owner, session=0 if owner is None else 7, epoch=1)),
            revision=9,
        )
        for each, owner in enumerate(owners)
    ]
    found += [Item(key=KEYS.own(int(name[1:])), value=value, revision=9) for name, value in items.items()]
    view.load(Scan(items=tuple(found), revision=9, incarnation=1), 0.0)
    oldest = None if works_on is None else (0.0, works_on)
    return SimpleNamespace(
        view=view,
        holdings=SimpleNamespace(is_current=is_current, oldest=lambda: oldest),
        options=SimpleNamespace(group="g", member_id="a"),
    )


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (driver("a", "b", "a", works_on=1), "the work on partition 1 to end"),
        (driver("a", "b", "a"), "the hand-over of partitions 0, 2"),
        (driver(*"aaaaa"), "the hand-over of partitions 0, 1, 2, 3, 4"),
        (driver(*"aaaaaa"), "the hand-over of 6 partitions (0, 1, 2, 3, 4, …)"),
        (driver("b", None), "the store to answer"),
    ],
)
def test_a_leaver_waits_for_open_work_then_for_a_hand_over_then_for_the_store(seen, expected):
    assert expected == leaves_after(seen)


def test_a_newcomer_waits_for_a_session_of_its_id_or_for_the_store():
    seen = driver()
    assert "the store to answer" == joins_after(seen)
    seen.view.members["a"] = LiveMember(session=4, record=MemberRecord(nonce="n"), lease=1, since=0.0)
    assert "session 4 of the same id to end" == joins_after(seen)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (driver("b", is_current=False), "the store has not confirmed our session in time"),
        (driver("b"), "b owns it"),
        (driver(None), "nobody owns it"),
        (driver(), "nobody owns it"),
        (driver(p0=b"{}"), "its record is damaged; repair it with: apportion group repair URL g"),
    ],
)
def test_a_partition_is_not_held_for_one_reason(seen, expected):
    assert expected == not_owned(seen, 0)


@pytest.mark.parametrize(
    ("quarantine_after", "now", "expected"),
    [
        (None, 1.5, "4 sessions in a row ended while they owned it; next try in 0.5 s"),
        (None, 2.0, "b owns it"),
        (4, 1e6, "4 sessions in a row ended while they owned it; it is in quarantine"),
        (5, 0.0, "4 sessions in a row ended while they owned it; next try in 2.0 s"),
    ],
)
def test_a_partition_under_which_sessions_ended_waits_or_is_in_quarantine(monkeypatch, quarantine_after, now, expected):
    monkeypatch.setattr(reasons, "clock_here", lambda: SimpleNamespace(elapsed=lambda: now))
    deadly = encoded(OwnershipRecord(owner="b", session=7, epoch=3, ended=(4, 5, 6)))
    assert expected == not_owned(driver(p0=deadly, quarantine_after=quarantine_after), 0)
