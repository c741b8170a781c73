"""Intake: a record that cannot be right is set aside, and costs nothing but itself."""

from dataclasses import fields, replace

import pytest

from apportion.groups.settled import is_at_rest
from apportion.groups.view import records
from apportion.groups.view.intake import IntakeChanges
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, encoded, encoded_target
from apportion.groups.view.view import View
from apportion.groups.view.went_back import lacking_in
from apportion.stores.api import Absent, Event, Item, Scan, StoreChange, Unchanged
from tests.groups.malformed import CONTROLLER, DRAIN, GOOD_OWN, GOOD_TARGET, MEMBER, OWN, TARGET

KEYS = GroupKeys(group="g")


class Shelf:
    """A store of one group, and a view of it that hears of each write."""

    def __init__(self, partitions=3):
        self.view, self.items, self.revision = View(KEYS, GroupRecord(partitions=partitions)), {}, 10
        self.put(KEYS.member("a"), encoded(MemberRecord(nonce="a")), lease=1)

    def put(self, key, value, lease=None):
        self.revision += 1
        self.items[key] = Item(key=key, value=value, revision=self.revision, lease=lease)
        event = Event(key=key, value=value, lease=lease)
        return self.view.apply(StoreChange(revision=self.revision, events=(event,)), float(self.revision))

    def drop(self, key):
        self.revision += 1
        del self.items[key]
        change = StoreChange(revision=self.revision, events=(Event(key=key, value=None),))
        return self.view.apply(change, float(self.revision))

    def scan(self):
        return Scan(items=tuple(self.items.values()), revision=self.revision, incarnation=self.view.incarnation)


def test_an_ownership_record_is_news_of_its_partition_alone():
    touched = Shelf().put(KEYS.own(1), encoded(GOOD_OWN))
    assert ({1}, False, False, []) == (touched.partitions, touched.members, touched.target, touched.damaged)


@pytest.mark.parametrize("value", OWN.values(), ids=OWN)
def test_a_damaged_partition_has_no_owner_and_gets_none(value):
    shelf = Shelf()
    shelf.put(KEYS.own(1), encoded(GOOD_OWN))
    shelf.put(KEYS.own(2), encoded(GOOD_OWN))
    touched = shelf.put(KEYS.own(1), value)
    assert ({1}, [KEYS.own(1)]) == (touched.partitions, [each.key for each in touched.damaged])
    assert OwnershipRecord(epoch=7) == shelf.view.owned(1).ownership
    assert shelf.view.is_damaged(1)
    assert GOOD_OWN == shelf.view.owned(2).ownership
    assert IntakeChanges() == shelf.view.load(shelf.scan(), 99.0), "it is told once"


@pytest.mark.parametrize(
    "after",
    [
        OwnershipRecord(epoch=6),
        OwnershipRecord(owner="b", session=4, epoch=7),
        OwnershipRecord(owner="a", session=3, epoch=7),
    ],
)
def test_an_epoch_that_was_given_before_is_damage_in_a_newer_record(after):
    shelf = Shelf()
    shelf.put(KEYS.own(1), encoded(GOOD_OWN))
    shelf.put(KEYS.own(1), encoded(after))
    assert "which was seen before" in shelf.view.damaged[KEYS.own(1)].problem
    shelf.put(KEYS.own(1), encoded(OwnershipRecord(epoch=shelf.revision)))
    assert {} == shelf.view.damaged, "a repair writes the revision of the store"


def test_the_good_record_that_is_put_back_is_taken():
    shelf = Shelf()
    for value in (encoded(GOOD_OWN), b"?", encoded(GOOD_OWN)):
        shelf.put(KEYS.own(1), value)
    assert ({}, GOOD_OWN) == (shelf.view.damaged, shelf.view.owned(1).ownership)


def test_after_damage_no_other_session_gets_an_epoch_that_was_given():
    shelf = Shelf()
    for value in (encoded(GOOD_OWN), b"?", encoded(OwnershipRecord(owner="b", session=3, epoch=7))):
        shelf.put(KEYS.own(1), value)
    assert "which was seen before" in shelf.view.damaged[KEYS.own(1)].problem


def test_an_ownership_record_that_was_deleted_is_damage_to_those_who_saw_it():
    shelf = Shelf()
    shelf.put(KEYS.own(1), encoded(GOOD_OWN))
    assert [KEYS.own(1)] == [each.key for each in shelf.drop(KEYS.own(1)).damaged]
    assert IntakeChanges() == shelf.view.load(shelf.scan(), 99.0)
    assert Absent(key=KEYS.own(1)) == shelf.view.as_seen(KEYS.own(1))
    shelf.put(KEYS.own(1), encoded(OwnershipRecord(owner="b", session=4, epoch=1)))
    assert shelf.view.is_damaged(1), "its epochs begin anew"
    assert Unchanged(key=KEYS.own(1), revision=shelf.revision) == shelf.view.as_seen(KEYS.own(1))
    assert [KEYS.own(1)] == [each.key for each in shelf.drop(KEYS.own(1)).damaged]
    assert Absent(key=KEYS.own(1)) == shelf.view.as_seen(KEYS.own(1))
    assert IntakeChanges() == shelf.view.load(shelf.scan(), 99.0), "it is told once"


@pytest.mark.parametrize("value", MEMBER.values(), ids=MEMBER)
def test_a_damaged_member_gets_nothing_and_its_session_lasts_as_long_as_its_lease(value):
    shelf = Shelf()
    session = shelf.view.session("a")
    for _ in range(2):
        shelf.put(KEYS.member("a"), value, lease=1)
        assert {KEYS.member("a")} == set(shelf.view.damaged)
        assert (0, session) == (shelf.view.members["a"].record.weight, shelf.view.session("a"))
        assert {} == shelf.view.gone
    for lease in (2, None):
        shelf.put(KEYS.member("a"), value, lease=lease)
        assert (shelf.revision, float(shelf.revision)) == (shelf.view.session("a"), shelf.view.gone.popitem()[1])
    assert Unchanged(key=KEYS.member("a"), revision=shelf.revision) == shelf.view.as_seen(KEYS.member("a"))
    shelf.put(KEYS.static("a"), value)
    assert {} == shelf.view.statics
    assert Unchanged(key=KEYS.static("a"), revision=shelf.revision) == shelf.view.as_seen(KEYS.static("a"))
    for key in (KEYS.member("a"), KEYS.static("a")):
        shelf.drop(key)
        assert Absent(key=key) == shelf.view.as_seen(key)
    assert ({}, {}) == (shelf.view.damaged, shelf.view.members)


@pytest.mark.parametrize("value", TARGET.values(), ids=TARGET)
def test_in_the_place_of_a_damaged_target_the_one_before_stays(value):
    shelf = Shelf()
    shelf.put(KEYS.target, encoded_target(GOOD_TARGET))
    shelf.put(KEYS.target, value)
    assert ({KEYS.target}, GOOD_TARGET) == (set(shelf.view.damaged), shelf.view.target)
    assert Unchanged(key=KEYS.target, revision=shelf.revision) == shelf.view.as_seen(KEYS.target)
    assert not is_at_rest(shelf.view)
    shelf.drop(KEYS.target)
    assert (Absent(key=KEYS.target), GOOD_TARGET) == (shelf.view.as_seen(KEYS.target), shelf.view.target)


def test_a_view_is_at_the_newest_revision_that_it_was_shown():
    shelf = Shelf()
    assert shelf.revision == shelf.view.revision
    shelf.view.apply(StoreChange(revision=3, events=()), 99.0)
    assert shelf.revision == shelf.view.revision


def test_in_another_life_of_the_store_nothing_of_the_life_before_is_wanted():
    shelf = Shelf()
    shelf.put(KEYS.target, encoded_target(GOOD_TARGET))
    assert shelf.view.wanted("a")
    shelf.view.load(Scan(items=(), revision=1, incarnation=shelf.view.incarnation + 1), 99.0)
    assert (None, frozenset(), {}) == (shelf.view.target, shelf.view.wanted("a"), dict(shelf.view.members))


PAUSED = [
    (GroupRecord(partitions=3), True),
    (GroupRecord(partitions=3, mode="eager"), False),
    (None, False),
]


@pytest.mark.parametrize(("settings", "is_damaged"), PAUSED, ids=["cooperative", "eager", "unknown"])
def test_a_paused_target_is_damage_in_a_group_that_never_pauses(settings, is_damaged):
    view, paused = View(KEYS, settings), encoded_target(replace(GOOD_TARGET, is_paused=True))
    view.load(Scan(items=(Item(key=KEYS.target, value=paused, revision=9),), revision=9, incarnation=1), 0.0)
    assert is_damaged == (KEYS.target in view.damaged)


@pytest.mark.parametrize("value", CONTROLLER.values(), ids=CONTROLLER)
def test_a_damaged_controller_is_none_and_may_be_followed(value):
    shelf = Shelf()
    shelf.put(KEYS.controller, b"a 11", lease=1)
    assert shelf.view.is_led
    shelf.put(KEYS.controller, value, lease=1)
    assert (None, False) == (shelf.view.leading, shelf.view.is_led)
    assert Unchanged(key=KEYS.controller, revision=shelf.revision) == shelf.view.as_seen(KEYS.controller)


@pytest.mark.parametrize("value", DRAIN.values(), ids=DRAIN)
def test_a_damaged_request_to_leave_is_not_heard(value):
    shelf = Shelf()
    shelf.put(KEYS.drain("a"), b"drained", lease=1)
    assert {"a"} == set(shelf.view.drains)
    shelf.put(KEYS.drain("a"), value, lease=1)
    assert ({}, {KEYS.drain("a")}) == (shelf.view.drains, set(shelf.view.damaged))
    assert Unchanged(key=KEYS.drain("a"), revision=shelf.revision) == shelf.view.as_seen(KEYS.drain("a"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEYS.member("b"), encoded(MemberRecord(nonce="b"))),
        (KEYS.controller, b"a 11"),
        (KEYS.drain("a"), b"drained"),
    ],
)
def test_what_would_never_go_without_a_lease_is_damaged(key, value):
    shelf = Shelf()
    shelf.put(key, value)
    assert {key} == set(shelf.view.damaged)
    shelf.put(key, value, lease=1)
    assert {} == shelf.view.damaged


@pytest.mark.parametrize("name", ["own/abc", "own/-1", "own/3", "own/01", "own/", "member/", "member/a/b", "static/\n"])
def test_a_key_that_no_release_writes_is_passed_over(name):
    shelf = Shelf()
    assert IntakeChanges() == shelf.put(KEYS.live + name, b"\xff", lease=1)
    assert ({}, {}, {"a"}) == (shelf.view.damaged, shelf.view.own, set(shelf.view.members))


def test_each_field_of_a_record_has_a_reader():
    for kind in (GroupRecord, MemberRecord, OwnershipRecord):
        assert {each.name for each in fields(kind)} == set(records._READERS[kind][0])


def test_a_store_without_any_write_has_not_gone_back_when_it_is_read_again():
    view, scan = View(KEYS), Scan(items=(), revision=0, incarnation=1)
    view.load(scan, 0.0)
    assert lacking_in(scan, view) is None
