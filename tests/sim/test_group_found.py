"""The faults that seeds have found in the shipped files of groups, each repeated in a few lines."""

import asyncio
from dataclasses import replace

import pytest

from apportion.errors import DuplicateMember, NotOwner
from apportion.groups.controller.controller import Controller
from apportion.groups.driver import Driver
from apportion.groups.holdings import GroupChange
from apportion.groups.log import log
from apportion.groups.member import Admitted, MemberMachine
from apportion.groups.membership import Options
from apportion.groups.session import Sessions
from apportion.groups.unanswered_commits import Commit
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, Target, encoded, encoded_target
from apportion.groups.view.view import View
from apportion.groups.view.went_back import lacking_in
from apportion.sim import World
from apportion.stores import Item, Scan

KEYS = GroupKeys(group="g")


@pytest.fixture
def world():
    with World(1) as made:
        yield made


def options(member_id, **more):
    record = GroupRecord(partitions=2)
    member = MemberRecord(nonce="")
    return Options(group="g", record=record, member_id=member_id, member=member, ttl_seconds=2.0, **more)


def takes_part(world, process, member_id=None, **more):
    """Start a driver in a process of its own; return it once it is there."""
    made = []

    async def run():
        clock = world.clock(process)
        sessions = Sessions(world.store(process), clock)
        made.append(Driver(world.store(process), sessions, clock, options(member_id or process, **more)))
        await made[0].run()

    world.spawn(process, run())
    world.run(until=world.now + 0.001)
    return made[0]


def held(driver, world):
    """Return the partitions that a driver holds, as its process sees them."""

    async def look():
        return set(driver.holdings)

    return world.run(look())


def items(world):
    return world.checker.history.items


def scan(*pairs, incarnation=1, first=1):
    found = [
        Item(key=key, value=value, revision=revision, lease=None if KEYS.own(0)[:-1] in key else 7)
        for revision, (key, value) in enumerate(pairs, start=first)
    ]
    return Scan(items=tuple(found), revision=len(found), incarnation=incarnation)


def owns(owner, session, epoch):
    return encoded(OwnershipRecord(owner=owner, session=session, epoch=epoch))


def test_a_member_comes_back_in_another_life_of_the_store(world):
    """Seed 8: it asked for a lease before it had scanned, and a store that went back refuses that for ever."""
    driver = takes_part(world, "a")
    world.run(until=1.0)
    copy = world.backing.save()
    world.run(until=2.0)
    world.restore(copy, "is restored")
    world.run(until=12.0)
    assert {0, 1} == held(driver, world)
    assert 2 == driver.view.incarnation


def test_a_view_forgets_what_another_life_of_the_store_held():
    """Found by reading: a write with a task that ended with the session was awaited for ever after."""
    view = View(KEYS, GroupRecord(partitions=2))
    view.load(scan((KEYS.own(0), owns("a", 1, 9)), first=9), 0.0)
    view.load(scan((KEYS.own(0), owns("b", 2, 9)), first=9, incarnation=2), 1.0)
    assert "b" == view.owned(0).ownership.owner


def test_a_key_of_a_kind_that_a_later_release_writes_is_passed_over():
    """Found by a member of another release: whatever was no member was taken for the controller, or was no text."""
    view = View(KEYS, GroupRecord(partitions=2))
    view.load(scan((KEYS.controller, b"a 1"), (f"{KEYS.live}hint/b", b"\xff\x00")), 0.0)
    assert ("a 1", 1) == (view.leading.holder, view.leading.term)


def test_what_becomes_quiet_between_two_lives_is_heard(world):
    """Seed 2: the inbox was emptied when a life began, and a partition stayed to be drained for ever."""
    driver = takes_part(world, "a")
    world.run(until=1.0)
    _, hold = driver.holdings.enter(0)
    world.troubles.away_until = 6.0
    world.run(until=5.9)
    driver.holdings.leave(hold)
    world.run(until=12.0)
    assert {0, 1} == held(driver, world)


@pytest.mark.slow
def test_who_waits_for_its_predecessor_is_no_controller(world):
    """Seed 4: a second process of one id took the session that is there for its own, and wrote targets in its term."""
    takes_part(world, "a", settle_seconds=0.0)
    world.run(until=1.0)
    before = items(world)[KEYS.target].revision
    second = takes_part(world, "a2", member_id="a", settle_seconds=0.0)
    world.run(until=2.0)
    assert second.controller.term is not None, "it would be the controller, by its view alone"
    takes_part(world, "b", settle_seconds=0.0)
    world.run(until=2.9)
    history = world.checker.history
    assert items(world)[KEYS.target].revision > before
    assert {"a"} == {
        attempt.asked.process
        for attempt in history.attempts.values()
        if any(put.key == KEYS.target for put in attempt.asked.puts)
    }


def test_a_hold_that_outlives_its_drain_costs_no_more_steps_than_it_takes(world):
    """Seed 1: once the time to drain was over the driver woke without a pause until the hold had ended."""
    first = takes_part(world, "a", drain_seconds=0.5)
    world.run(until=1.0)
    holds = [first.holdings.enter(partition)[1] for partition in (0, 1)]
    takes_part(world, "b")
    before = world.loop.steps
    world.run(until=3.0)
    assert world.loop.steps - before < 1_000
    for hold in holds:
        first.holdings.leave(hold)
    world.run(until=5.0)
    assert 1 == len(held(first, world))


def test_work_of_an_old_session_does_not_end_the_next(world):
    """Seed 508: work that outlived its drain let one session after another expire."""
    driver = takes_part(world, "a", drain_seconds=0.5)
    world.run(until=1.0)
    _, hold = driver.holdings.enter(0)
    world.partition("a", "store", 4.0)
    world.run(until=12.0)
    assert KEYS.member("a") not in items(world), "it joins again once its old work has ended"
    driver.holdings.leave(hold)
    world.run(until=14.0)
    session = items(world)[KEYS.member("a")].revision
    world.run(until=24.0)
    assert session == items(world)[KEYS.member("a")].revision
    assert {0, 1} == held(driver, world)


def test_who_leaves_by_force_cannot_be_entered_any_more(world):
    """Seed 822: its record was deleted, others could take over, and a hold could still begin."""
    driver = takes_part(world, "a", drain_seconds=0.5)
    world.run(until=1.0)
    driver.holdings.enter(0)
    driver.leave()
    while KEYS.member("a") in items(world):
        world.run(until=world.now + 0.0005)
    for partition in (0, 1):
        with pytest.raises(NotOwner):
            driver.holdings.enter(partition)
    assert world.now < 5.0


def test_who_leaves_after_its_deadline_gives_up_what_a_late_renewal_would_bring_back(world):
    """Seed 10745: past the deadline nothing was withdrawn, and then a renewal that had been on its way came."""
    driver = takes_part(world, "a", drain_seconds=0.5)
    world.run(until=1.0)
    driver.leave()
    world.run(until=1.001)
    world.partition("store", "a", 3.0, one_way=True)
    world.run(until=3.45)
    assert set() == held(driver, world)
    while KEYS.member("a") in items(world):
        world.run(until=world.now + 0.01)
    driver.holdings.deadline = float("inf")
    assert set() == held(driver, world)


def test_work_is_cancelled_at_the_deadline_of_a_member_that_is_cut_off(world):
    driver, cancelled = takes_part(world, "a"), []
    world.run(until=1.0)
    driver.holdings.enter(0, cancel=lambda: cancelled.append(world.now))
    world.partition("a", "store", 60.0)
    world.run(until=2.0)
    deadline, began = driver.holdings.deadline, world.clock("a").elapsed() - world.now
    world.run(until=10.0)
    assert pytest.approx(deadline - began, abs=0.01) == cancelled[0]


@pytest.mark.slow
def test_a_controller_does_not_wait_for_an_answer_of_an_old_session(world):
    """Found by reading: a write whose task had ended with the session was waited for ever after."""
    driver = takes_part(world, "a")
    world.run(until=1.0)
    takes_part(world, "b")
    while not driver.controller._is_waiting:
        world.run(until=world.now + 0.0002)
    world.partition("a", "store", 4.0)
    world.kill("b")
    world.run(until=12.0)
    assert not driver.controller._is_waiting
    assert {0, 1} == held(driver, world)


def test_a_paused_target_is_ended_though_its_owners_are_those_of_before():
    """Seed 107: with a throttle a step that led to the owners of before was no news, and the group stayed paused."""
    group = GroupRecord(partitions=1, mode="eager")
    view, given = View(KEYS, group), replace(options("a"), record=group, throttle=1)
    record = encoded(MemberRecord(nonce="x"))
    paused = encoded_target(Target(generation=3, digest="", owners=("a",), is_paused=True))
    view.load(scan((KEYS.member("a"), record), (KEYS.controller, b"a 1"), (KEYS.target, paused)), 0.0)
    write = Controller(view, given, log).look(1.0)
    assert (("a",), False) == (write.target.owners, write.target.is_paused)
    assert write.target.digest


def test_what_others_gave_us_before_we_knew_of_our_session_is_given_on():
    """Seed 125: it was not wanted any more, was never looked at, and stayed ours on paper."""
    view = View(KEYS, GroupRecord(partitions=2))
    record = encoded(MemberRecord(nonce="x"))
    target = encoded_target(Target(generation=1, digest="d", owners=("b", "b")))
    pairs = [(KEYS.member("a"), record), (KEYS.member("b"), record), (KEYS.target, target)]
    view.load(scan(*pairs, (KEYS.own(0), owns("a", 1, 3))), 0.0)
    (commit,) = MemberMachine(view, "a", width=5).step(Admitted(session=1), 1.0)
    assert isinstance(commit, Commit)
    assert [KEYS.own(0)] == [put.key for put in commit.puts]


def test_a_driver_runs_in_the_world_that_users_get(world):
    one, two = takes_part(world, "a"), takes_part(world, "b")
    world.run(until=2.0)
    assert 1 == len(held(one, world)) == len(held(two, world))
    world.pause("a", 4.0)
    world.run(until=5.5)
    assert {0, 1} == held(two, world)
    assert set() == held(one, world)
    two.leave()
    world.run(until=9.0)
    assert {0, 1} == held(one, world)


@pytest.mark.parametrize(
    ("found", "revision", "is_back"),
    [
        (("a", 1, 3), 9, False),
        (("a", 1, 3), 8, False),
        (("b", 2, 4), 12, False),
        (("a", 1, 2), 5, True),
        (("b", 2, 2), 12, False),
        (("b", 2, 3), 12, False),
        (None, 12, True),
    ],
)
def test_a_store_that_went_back_and_on_is_known_by_its_ownership_records(found, revision, is_back):
    """Found by a real restore: other groups wrote until the store was past the revision that had been seen."""
    view = View(KEYS, GroupRecord(partitions=2))
    view.load(scan((KEYS.own(0), owns("a", 1, 3)), first=8), 0.0)
    again = replace(scan(*([] if found is None else [(KEYS.own(0), owns(*found))]), first=revision), revision=20)
    assert is_back == (lacking_in(again, view) is not None)
    assert None is lacking_in(replace(again, incarnation=2), view)
    view.load(again, 1.0)
    assert (found in [("b", 2, 2), ("b", 2, 3)]) <= view.is_damaged(0), "a newer record at an epoch that was given"


def test_who_waits_for_changes_hears_of_gains_once_a_session_that_lapsed_goes_on(world):
    """Found by twenty real processes under load: gains were told while nothing could be held, and never again."""
    driver, told = takes_part(world, "a"), []
    world.run(until=1.0)
    driver.holdings.consume()

    async def wait():
        driver.holdings.deadline = float("-inf")
        driver.parts.inbox.hear(None)  # it looks, and sees that it has no deadline to wait for
        await driver.turn()
        assert None is driver.holdings.next_change()
        await driver.turn()
        told.append(driver.holdings.next_change())

    world.spawn("a", wait())
    world.run(until=2.0)
    assert [GroupChange(gained=(0, 1), lost=())] == told


def test_a_member_that_ends_while_the_store_refuses_it_leaves_nothing_in_the_session_it_shared(world):
    """Seed 4442: the refusal left its part in the session, and with it a record that nobody could take away."""
    there = []

    async def run():
        clock = world.clock("a")
        sessions = Sessions(world.store("a"), clock)
        for group in ("g", "h"):
            driver = Driver(world.store("a"), sessions, clock, replace(options("a"), group=group))
            there.append(asyncio.create_task(driver.run()))
        await asyncio.sleep(60.0)

    world.spawn("a", run())
    world.run(until=1.0)
    lease = items(world)[KEYS.member("a")].lease
    world.troubles.deny("a", 1.5)
    there[0].cancel()
    world.run(until=6.0)
    assert KEYS.member("a") not in items(world)
    other = items(world)[GroupKeys(group="h").member("a")]
    assert lease != other.lease


def test_a_newcomer_that_is_cut_off_while_its_predecessor_ends_joins_after_the_outage(world):
    """Found in the world of keys: the newcomer took the last news before the outage for the state of the store."""
    takes_part(world, "a")
    world.run(until=1.0)
    world.kill("a")
    second = takes_part(world, "a2", member_id="a")
    world.run(until=1.5)
    world.partition("a2", "store", 6.0)
    world.run(until=7.0)
    assert set() == held(second, world)
    world.run(until=12.0)
    assert {0, 1} == held(second, world)


def test_a_member_waits_for_its_own_earlier_session_however_often_the_store_lets_it_live_again(world):
    """Found in the world of keys: a member took its own earlier session for another process, and ended."""
    first = takes_part(world, "a")
    world.run(until=1.0)
    copy = world.backing.save()
    world.restore(copy, "is restored")
    for second in range(1, 9):
        world.backing.rearm()
        world.run(until=1.0 + second)
    assert set() == held(first, world)
    world.run(until=14.0)
    assert {0, 1} == held(first, world)


def test_a_predecessor_that_lives_on_ends_the_newcomer_soon_after_its_patience(world):
    takes_part(world, "a")
    world.run(until=1.0)
    takes_part(world, "a2", member_id="a")
    with pytest.raises(DuplicateMember, match="'a' is there already"):
        world.run(until=6.0)
    assert 4.0 < world.now < 4.5  # a time to live and a second, by a clock that may be a little slow


def test_two_members_of_one_id_in_one_process_are_not_taken_for_one(world):
    """They share a lease, so a lease tells a member nothing about records that it has not written."""
    sessions = []

    async def run():
        clock, store = world.clock("a"), world.store("a")
        if not sessions:
            sessions.append(Sessions(store, clock))
        await Driver(world.store("a"), sessions[0], clock, options("a")).run()

    world.spawn("a", run())
    world.run(until=1.0)
    world.spawn("a", run())
    with pytest.raises(DuplicateMember, match="'a' is there already"):
        world.run(until=6.0)
