"""The controller: who campaigns when, and which target is written."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.balance import catalog
from apportion.errors import InvalidInput
from apportion.groups.controller import controller
from apportion.groups.controller.arrivals import STILL_SECONDS
from apportion.groups.controller.controller import TURN_SECONDS, Controller, assigned
from apportion.groups.log import log
from apportion.groups.opening import Options
from apportion.groups.settled import is_at_rest, knows_all
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import (
    GroupRecord,
    MemberRecord,
    OwnershipRecord,
    Target,
    encoded,
    encoded_target,
    led_by,
)
from apportion.groups.view.view import View
from apportion.model.topology import Node
from apportion.stores.api import Absent, Item, Scan, Unchanged

KEYS = GroupKeys(group="g")


class Stage:
    """A view that tests write into."""

    def __init__(self, *members, group=None, me="a", throttle=None, settle=0.0, **options):
        self.group = group or GroupRecord(partitions=6)
        self.items, self.revision = {}, 0
        self.view = View(KEYS, self.group)
        for member in members:
            self.put(KEYS.member(member), encoded(MemberRecord(nonce=member, **options)), lease=1)
        own = MemberRecord(nonce="")
        given = Options(
            group="g", record=self.group, member_id=me, member=own, throttle=throttle, settle_seconds=settle
        )
        self.controller = Controller(self.view, given, log)

    def put(self, key, value, lease=None):
        self.revision += 1
        self.items[key] = Item(key=key, value=value, revision=self.revision, lease=lease)
        self.load()

    def drop(self, key):
        self.revision += 1
        del self.items[key]
        self.load()

    def load(self, now=0.0):
        self.view.load(Scan(items=tuple(self.items.values()), revision=self.revision, incarnation=1), now)

    def own(self, **owners):
        for partition, owner in owners.items():
            session = self.items[KEYS.member(owner)].revision
            own = OwnershipRecord(owner=owner, session=session, epoch=1)
            self.put(KEYS.own(int(partition[1:])), encoded(own))

    def lead(self):
        write = self.controller.look(0.0)
        self.put(write.put.key, write.put.value, lease=write.put.lease)
        self.controller.answered(True, 0.0)

    def write(self, now=0.0):
        """Let the controller write what it wants, until it wants nothing more; return the targets."""
        written = []
        while (write := self.controller.look(now)) is not None:
            self.put(write.put.key, write.put.value)
            self.controller.answered(True, now)
            written.append(write.target)
        return written


def test_the_first_in_order_stands_at_once_and_the_others_in_their_turn():
    stage = Stage("a", "b", "c", me="c")
    assert None is stage.controller.look(5.0)
    assert pytest.approx(5.0 + 2 * TURN_SECONDS) == stage.controller.wakes_at()
    assert None is stage.controller.look(5.0 + 1.9 * TURN_SECONDS)
    write = stage.controller.look(5.0 + 2 * TURN_SECONDS)
    assert (Absent(key=KEYS.controller), Unchanged(key=KEYS.member("c"), revision=3)) == write.when
    assert (KEYS.controller, 1) == (write.put.key, write.put.lease)


def test_nobody_stands_while_there_is_a_controller_nor_without_a_session():
    stage = Stage("a", "b")
    stage.put(KEYS.controller, b"b 2", lease=1)
    assert (None, None) == (stage.controller.look(0.0), stage.controller.term)
    assert None is Stage("b", me="a").controller.look(0.0)


def test_a_controller_of_a_former_session_is_none():
    stage = Stage("a")
    stage.put(KEYS.controller, b"a 99", lease=1)
    assert None is stage.controller.term


def test_the_record_of_a_controller_that_is_gone_has_two_seconds_to_go_before_a_member_writes_its_own_in_its_place():
    stage = Stage("a")
    stage.put(KEYS.controller, b"b 99", lease=1)
    assert (None, None) == (stage.controller.look(5.0), stage.controller.look(6.9))
    assert 7.0 == stage.controller.wakes_at()
    there = stage.view.as_seen(KEYS.controller)
    assert (there, Unchanged(key=KEYS.member("a"), revision=1)) == stage.controller.look(7.0).when


def test_a_target_is_written_under_the_term_and_not_again():
    stage = Stage("a", "b")
    stage.lead()
    write = stage.controller.look(0.0)
    assert (Unchanged(key=KEYS.controller, revision=3), Absent(key=KEYS.target)) == write.when
    assert {"a": 3, "b": 3} == {owner: write.target.owners.count(owner) for owner in "ab"}
    assert None is stage.controller.look(0.0), "one write at a time"
    stage.put(write.put.key, write.put.value)
    stage.controller.answered(True, 0.0)
    assert [] == stage.write()


def test_a_write_that_failed_is_tried_again_at_once_and_then_after_pauses():
    stage, now, tried = Stage("a"), 5.0, []
    for _ in range(4):
        assert None is not stage.controller.look(now)
        stage.controller.answered(False, now)
        tried.append(now)
        now = stage.controller.wakes_at()
        assert now == tried[-1] or None is stage.controller.look(now - 0.01)
    assert [5.0, 5.0, 5.0 + controller.AGAIN_SECONDS, 5.0 + 2 * controller.AGAIN_SECONDS] == tried
    assert None is not stage.controller.look(now)
    stage.controller.answered(True, now)
    assert now == stage.controller.wakes_at()


def test_a_group_is_at_rest_only_once_the_target_knows_all_that_may_own():
    stage = Stage("a")
    stage.lead()
    write = stage.controller.look(0.0)
    stage.put(
        KEYS.member("b"), encoded(MemberRecord(nonce="b")), lease=2
    )  # while the controller's commit is on its way
    stage.put(write.put.key, write.put.value)
    stage.own(**{f"p{partition}": "a" for partition in range(6)})
    assert (False, False) == (knows_all(stage.view, write.target), is_at_rest(stage.view))
    stage.put(KEYS.drain("b"), b"drained", lease=2)
    assert is_at_rest(stage.view)


def test_members_that_get_nothing_are_known_in_each_of_their_lives():
    stage = Stage("a", "b", "c", group=GroupRecord(partitions=2))
    stage.lead()
    [target] = stage.write()
    [idle] = target.idle
    assert {"a", "b", "c"} == {*target.owners, idle}
    stage.own(p0=target.owners[0], p1=target.owners[1])
    stage.drop(KEYS.member(idle))
    stage.put(KEYS.member(idle), encoded(MemberRecord(nonce="another life")), lease=3)
    assert ([], True) == (stage.write(), is_at_rest(stage.view))


def test_a_member_that_leaves_moves_only_what_it_had():
    stage = Stage("a", "b", "c")
    stage.lead()
    [before] = stage.write()
    stage.drop(KEYS.member("b"))
    [after] = stage.write()
    assert {partition for partition in range(6) if before.owners[partition] == "b"} == {
        partition for partition in range(6) if before.owners[partition] != after.owners[partition]
    }
    assert before.generation + 1 == after.generation


def test_a_member_that_drains_gets_nothing_and_the_last_leaves_nobody():
    stage = Stage("a", "b")
    stage.lead()
    stage.write()
    stage.put(KEYS.drain("b"), b"drained", lease=1)
    assert ("a",) * 6 == stage.write()[-1].owners
    stage.put(KEYS.drain("a"), b"drained", lease=1)
    assert (None,) * 6 == stage.write()[-1].owners


def test_a_static_member_keeps_its_partitions_for_its_grace_on_the_controllers_clock():
    stage = Stage("a", "b", grace_seconds=60.0)
    for member in "ab":
        stage.put(KEYS.static(member), stage.items[KEYS.member(member)].value)
    stage.lead()
    stage.write()
    stage.drop(KEYS.member("b"))
    assert ([], 160.0) == (stage.write(now=100.0), stage.controller.wakes_at())
    assert [] == stage.write(now=159.9)
    assert ("a",) * 6 == stage.write(now=160.0)[-1].owners


def test_a_grace_begins_anew_for_a_member_that_came_back_while_another_was_the_controller():
    stage = Stage("a", "b", grace_seconds=60.0)
    for member in "ab":
        stage.put(KEYS.static(member), stage.items[KEYS.member(member)].value)
    stage.lead()
    stage.write()
    there = stage.items[KEYS.member("b")].value
    stage.drop(KEYS.member("b"))
    assert [] == stage.write(now=10.0)
    stage.put(KEYS.member("b"), there, lease=2)
    stage.put(KEYS.controller, led_by("b", stage.revision).encode(), lease=2)
    assert None is stage.controller.look(20.0)
    stage.drop(KEYS.member("b"))
    stage.drop(KEYS.controller)
    write = stage.controller.look(100.0)
    stage.put(write.put.key, write.put.value, lease=write.put.lease)
    stage.controller.answered(True, 100.0)
    assert ([], 160.0) == (stage.write(now=100.0), stage.controller.wakes_at())


def test_a_throttle_moves_in_steps_that_end_at_the_same_target():
    stage = Stage("a", throttle=1)
    stage.lead()
    stage.write()
    stage.own(**{f"p{partition}": "a" for partition in range(6)})
    stage.put(KEYS.member("b"), encoded(MemberRecord(nonce="b")), lease=1)
    seen = []
    for _ in range(3):
        [step] = stage.write()
        moved = [partition for partition, owner in enumerate(step.owners) if owner == "b"]
        seen.append(len(moved))
        stage.own(**{f"p{partition}": "b" for partition in moved})
    assert ([1, 2, 3], []) == (seen, stage.write())
    assert stage.view.target.digest


def test_eager_mode_writes_a_pause_and_waits_until_nobody_owns_anything():
    stage = Stage("a", group=GroupRecord(partitions=6, mode="eager"))
    stage.lead()
    stage.write()
    stage.own(**{f"p{partition}": "a" for partition in range(6)})
    stage.put(KEYS.member("b"), encoded(MemberRecord(nonce="b")), lease=1)
    [pause] = stage.write()
    assert (True, None) == (pause.is_paused, pause.owner(0))
    for partition in range(6):
        stage.put(KEYS.own(partition), encoded(OwnershipRecord(epoch=2)))
    [after] = stage.write()
    assert (3, False) == (after.owners.count("a"), after.is_paused)


@given(st.lists(st.sets(st.sampled_from("abcdefgh")), min_size=2, max_size=6), st.integers(1, 40))
def test_any_members_get_even_loads_and_the_fewest_moves(histories, partitions):
    group, before = GroupRecord(partitions=partitions), None
    for members in histories:
        owners = assigned("g", group, tuple(Node(each) for each in sorted(members)), before)
        loads = [owners.count(each) for each in members]
        assert max(loads, default=0) - min(loads, default=0) <= 1
        assert (set(owners) == {None}) == (not members)
        if before is not None and members:
            stays = sum(old == new for old, new in zip(before.owners, owners, strict=True))
            share, rest = divmod(partitions, len(members))
            had = sorted((before.owners.count(each) for each in members), reverse=True)
            assert stays == sum(min(load, share + (place < rest)) for place, load in enumerate(had))
        before = Target(generation=1, digest="", owners=owners)


def test_a_target_is_read_back_as_it_was_written():
    target = Target(generation=2, digest="d", owners=("b", None, "a", "b", "a", "b"), is_paused=True)
    stage = Stage("a", group=GroupRecord(partitions=6, mode="eager"))
    stage.put(KEYS.target, encoded_target(target))
    assert target == stage.view.target


@pytest.mark.parametrize("mode", ["cooperative", "eager"])
def test_what_the_balancer_refuses_leaves_the_target_as_it_is_and_is_told_once(monkeypatch, caplog, mode):
    stage, asked = Stage("a", "b", group=GroupRecord(partitions=6, mode=mode)), []
    stage.lead()
    (target,) = stage.write()
    stage.own(p0="a", p1="b")

    def refuse(name, group, nodes, before):
        asked.append([node.id for node in nodes])
        raise InvalidInput("weight", 0.5, "another", "Take another.")

    monkeypatch.setattr(controller, "assigned", refuse)
    stage.put(KEYS.member("c"), encoded(MemberRecord(nonce="c")), lease=1)
    assert [[], []] == [stage.write(), stage.write()]
    assert [["a", "b", "c"]] == asked
    assert target == stage.view.target
    assert 1 == caplog.text.count("keeps the target as it is: weight is 0.5")


@pytest.mark.parametrize("count", [5, 7])
def test_a_balancer_with_more_or_fewer_owners_than_partitions_is_refused(monkeypatch, caplog, count):
    spec = replace(catalog.get("optimal"), name="odd", owners=lambda view: ("a",) * count)
    monkeypatch.setattr(catalog, "_foreign", lambda: {"odd": spec})
    stage = Stage("a", group=GroupRecord(partitions=6, balancer="odd"))
    stage.lead()
    assert [] == stage.write()
    assert (
        f"keeps the target as it is: number of owners by balancer odd is {count}, expected one per partition, 6"
        in caplog.text
    )


def test_a_member_that_comes_into_a_still_group_gets_its_share_at_once():
    stage = Stage("a", settle=2.0)
    stage.lead()
    stage.write()
    stage.own(p0="a", p1="a")
    stage.put(KEYS.member("b"), encoded(MemberRecord(nonce="b")), lease=1)
    [target] = stage.write(now=STILL_SECONDS)
    assert ({"a": 3, "b": 3}, True) == (Counter(target.owners), bool(target.digest))


def test_while_members_keep_coming_nothing_moves_and_then_all_at_once():
    stage = Stage("a", settle=2.0)
    stage.lead()
    stage.write()
    for number, name in enumerate("bcdef"):
        stage.put(KEYS.member(name), encoded(MemberRecord(nonce=name)), lease=1)
        assert [] == stage.write(now=1.0 + number)
        assert number + 3.0 == stage.controller.wakes_at()
        assert not is_at_rest(stage.view)
    [target] = stage.write(now=7.0)
    assert ("abcdef", True) == ("".join(sorted(target.owners)), bool(target.digest))


def test_members_that_never_stop_coming_are_levelled_half_a_minute_after_the_first():
    stage, levelled = Stage("a", settle=2.0), []
    stage.lead()
    stage.write()
    for number in range(1, 70):
        stage.put(KEYS.member(f"m{number}"), encoded(MemberRecord(nonce="n")), lease=1)
        levelled += [number] if stage.write(now=number) else []
    assert [30, 30 + 31] == levelled


@pytest.mark.parametrize("how", ["gone", "drains"])
def test_while_members_keep_coming_only_the_partitions_of_a_member_that_goes_are_given(how):
    stage = Stage("a", "b", settle=2.0)
    stage.lead()
    [before] = stage.write()
    stage.own(**{f"p{each}": owner for each, owner in enumerate(before.owners)})
    for name in "cd":
        stage.put(KEYS.member(name), encoded(MemberRecord(nonce=name)), lease=1)
    if how == "gone":
        stage.drop(KEYS.member("b"))
    else:
        stage.put(KEYS.drain("b"), b"leaves", lease=1)
    [step] = stage.write(now=1.0)
    moved = {old for old, new in zip(before.owners, step.owners, strict=True) if old != new}
    assert ({"b"}, "") == (moved, step.digest)
    assert not is_at_rest(stage.view)
    [last] = stage.write(now=3.0)
    assert ({"a": 2, "c": 2, "d": 2}, True) == (Counter(last.owners), bool(last.digest))


def test_a_group_that_starts_gives_all_to_those_that_are_there():
    stage = Stage("a", "b", settle=2.0)
    stage.lead()
    [target] = stage.write()
    assert ({"a": 3, "b": 3}, True) == (Counter(target.owners), bool(target.digest))


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_target_that_is_written_anew_has_a_generation_above_all_that_nobody_can_read(is_gone):
    stage = Stage("a")
    stage.lead()
    stage.write()
    stage.revision += 7  # targets of another controller, whose last was written over
    stage.put(KEYS.target, b"?")
    if is_gone:
        stage.drop(KEYS.target)
    assert [stage.revision + 1] == [each.generation for each in stage.write()]
