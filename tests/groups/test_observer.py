"""The events of a member, in stories on an SQLite file and in the simulated world; and observers that misbehave."""

import asyncio
import threading
from datetime import timedelta

import pytest

import apportion
from apportion import sync
from apportion.errors import InvalidInput
from apportion.groups import (
    AskedAgain,
    Damaged,
    Delayed,
    Departed,
    Gained,
    GaveUp,
    HandedOver,
    HandlerFailed,
    Joined,
    Lost,
    SessionBegan,
    SessionEnded,
    TookOver,
    Unguarded,
)
from apportion.groups.view.keys import GroupKeys
from apportion.sim import World
from apportion.stores import Absent, Put
from tests.groups.test_driver import plays, until_serving, written
from tests.tables.sample import handle

URL, TTL, AT_ONCE = "sqlite:///work.db", timedelta(seconds=2), timedelta(0)
DRAIN, LIVE = GroupKeys(group="mailers").drain("zoe"), GroupKeys(group="g").live


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/work.db"


@pytest.fixture
def world():
    with World(5) as world:
        yield world


def kinds(events):
    return [type(each) for each in events]


def of(kind, events):
    return [each for each in events if type(each) is kind]


def takes_part(world, name, *, heard=None, work=None, **options):
    """Let a process take part for ever; its events are put into `heard`."""
    given = {"partitions": 2, "member_id": name, "lease_ttl": TTL, "settle": AT_ONCE} | options
    observer = None if heard is None else heard.append

    async def live():
        async with apportion.open_group(URL, "mailers", observer=observer, **given) as group:
            if work is not None:
                await work(group)
            async for _ in group.changes():
                pass

    return world.spawn(name, live())


def go_on(world, seconds):
    world.run(until=world.now + seconds)


def test_a_member_on_a_file_joins_gains_gives_away_and_departs(url):
    heard, threads = [], set()

    def observer(event):
        heard.append(event)
        threads.add(threading.current_thread())

    options = {"partitions": 2, "settle": AT_ONCE}
    with sync.open_group(url, "g", member_id="a", observer=observer, **options) as first:
        first.wait_until_settled()
        session = first.members()["a"].session
        with sync.open_group(url, "g", member_id="b", **options) as second:
            second.wait_until_settled()
    began = [SessionBegan, Joined, Gained, Gained, Lost, HandedOver]
    assert began == kinds(heard)[:6]
    assert [SessionEnded, Departed] == kinds(heard)[-2:]
    assert {("g", "a")} == {(each.group, each.member_id) for each in heard}
    assert session == heard[1].session
    assert [(0, 1, "nobody owned it"), (1, 1, "nobody owned it")] == [
        (each.partition, each.epoch, each.why) for each in heard[2:4]
    ]
    assert (heard[4].partition, False, "b") == (heard[5].partition, heard[4].is_at_once, heard[5].receiver)
    assert [each.at for each in heard] == sorted(each.at for each in heard)
    assert threading.current_thread() not in threads
    assert 1 == len(threads)
    assert (None, False) == (heard[-2].error, heard[-2].is_final)


def test_at_a_gain_the_partition_can_be_held_and_at_a_loss_it_cannot(url):
    seen, groups = [], []

    def look(event):
        if groups and isinstance(event, Gained | Lost):
            seen.append((type(event), event.partition in groups[0].owned))

    options = {"partitions": 2, "settle": AT_ONCE}
    with sync.open_group(url, "g", member_id="a", observer=look, **options) as group:
        group.wait_until_settled()
        groups.append(group)
        with sync.open_group(url, "g", member_id="b", **options) as other:
            other.wait_until_settled()
        group.wait_until_settled()
    assert [(Lost, False), (Gained, True), (Lost, False), (Lost, False)] == seen


def test_a_handler_that_fails_and_work_without_a_guard_are_told(url):
    heard, options = [], {"partitions": 2, "settle": AT_ONCE}

    def fails_once(partition, token):
        if not of(HandlerFailed, heard):
            raise OSError("no disk")
        if partition == 1:
            group.leave()

    with sync.open_group(url, "g", member_id="a", observer=heard.append, **options) as group:
        group.wait_until_settled()
        group.serve(on_gained=fails_once)
    failed = of(HandlerFailed, heard)
    assert {("no disk", 0.1)} == {(str(each.error), each.seconds) for each in failed}
    assert {0, 1} >= {each.partition for each in failed}
    first, last = of(Unguarded, heard)
    assert (1, (0, 1)) == (len(first.partitions), last.partitions)
    assert [Unguarded, Departed] == kinds(heard)[-2:]


def test_an_owner_that_dies_is_taken_over_and_the_time_without_an_owner_is_told(world):
    heard = []
    takes_part(world, "a", heard=heard)
    takes_part(world, "b")
    go_on(world, 5.0)
    heard.clear()
    world.kill("b")
    go_on(world, 6.0)
    assert [TookOver, Gained] == kinds(heard)
    assert ("b", heard[1].partition) == (heard[0].owner, heard[0].partition)
    assert 0.0 <= heard[0].orphan_seconds < 1.0
    assert "its owner's session is over" == heard[1].why


def test_work_that_makes_no_progress_costs_the_session_and_the_member_joins_anew(world):
    heard = []

    async def stuck(group):
        await group.wait_until_settled()
        _, hold = group._participation.holdings.enter(1)
        heard.append(hold)

    takes_part(world, "a", heard=heard, work=stuck, progress_deadline=timedelta(seconds=3))
    go_on(world, 4.0)
    (hold,) = [each for each in heard if type(each).__name__ == "Hold"]
    heard.remove(hold)
    assert [SessionBegan, Joined, Gained, Gained, GaveUp, Lost, Lost] == kinds(heard)[:7]
    assert "stuck: work on partition 1 makes no progress" == heard[4].why
    assert [True, True] == [each.is_at_once for each in heard[5:7]]
    go_on(world, 6.0)
    assert [SessionEnded, SessionBegan] == kinds(heard)[7:9]


def test_a_partition_whose_owners_died_waits_and_the_wait_is_told_once(world):
    heard = []
    for name in "bcd":
        takes_part(world, name, partitions=1)
        go_on(world, 4.0)
        world.kill(name)
    takes_part(world, "a", heard=heard, partitions=1)
    go_on(world, 5.0)
    (delayed,) = of(Delayed, heard)
    assert (0, 3) == (delayed.partition, delayed.deaths)
    assert 0.0 < delayed.seconds <= 1.0
    assert [Delayed, TookOver, Gained] == kinds(heard)[-3:]
    assert heard[-1].at >= delayed.at + delayed.seconds


def test_a_partition_in_quarantine_waits_without_end(world):
    heard = []
    for name in "bc":
        takes_part(world, name, partitions=1, quarantine_after=2)
        go_on(world, 4.0)
        world.kill(name)
    takes_part(world, "a", heard=heard, partitions=1, quarantine_after=2)
    go_on(world, 20.0)
    assert [(0, 2, None)] == [(each.partition, each.deaths, each.seconds) for each in of(Delayed, heard)]
    assert [] == of(Gained, heard)


def test_a_damaged_record_is_told_with_its_key(world):
    heard = []

    async def damage():
        store = await apportion.stores.connect(URL)
        await store.commit(when=[Absent(key=DRAIN)], puts=[Put(key=DRAIN, value=b"?")])

    takes_part(world, "a", heard=heard)
    go_on(world, 3.0)
    world.spawn("b", damage())
    go_on(world, 3.0)
    (damaged,) = of(Damaged, heard)
    assert DRAIN == damaged.key
    assert damaged.problem


def test_a_store_that_denies_is_asked_again_and_each_reason_is_told_once():
    heard = []

    async def story(store, driver, running):
        await until_serving(driver)
        store.denied = True
        for number in range(3):
            before = store.errors
            await written(handle(store.shared), f"{LIVE}hint/{number}", b"")
            while store.errors == before:  # the watch hears of it, and is denied
                await asyncio.sleep(0.01)

    plays(story, observer=heard.append)
    (again,) = of(AskedAgain, heard)
    assert "this user lacks rights on it" in again.why


def test_an_error_that_ends_a_session_and_one_that_ends_the_member_are_told(url):
    ended, final = [], []

    async def story(store, driver, running):
        await until_serving(driver)
        driver.parts.inbox.hear(ZeroDivisionError("planted"))
        while driver.statistics.sessions < 2:
            await driver.turn()

    plays(story, observer=ended.append)
    assert [("planted", False), ("None", False)] == [
        (str(each.error), each.is_final) for each in of(SessionEnded, ended)
    ]
    with sync.open_group(url, "g", partitions=2), pytest.raises(InvalidInput, match="partitions"):
        sync.open_group(url, "g", partitions=3, observer=final.append).__enter__()
    assert [SessionEnded, Departed] == kinds(final)
    assert (True, InvalidInput) == (final[0].is_final, type(final[0].error))


def test_an_observer_that_raises_costs_no_session_no_event_and_one_log_line_each(url, caplog):
    heard = []

    def broken(event):
        heard.append(event)
        raise ValueError("planted")

    with sync.open_group(url, "g", partitions=2, settle=AT_ONCE, observer=broken) as group:
        group.wait_until_settled()
        with group.hold(1):
            pass
        counted = group.statistics
    assert (1, 2, 2) == (counted.sessions, counted.gained, counted.lost)
    assert Departed is kinds(heard)[-1]
    lines = [each.getMessage() for each in caplog.records if each.name == "apportion.group"]
    lines = [line for line in lines if "observer" in line]
    assert [f"failed on {kind.__name__}" for kind in kinds(heard)] == [
        line[line.index("failed on") :] for line in lines
    ]


def test_an_observer_may_let_its_member_leave(url):
    groups = []

    def observer(event):
        if groups:
            groups[0].leave()

    options = {"partitions": 2, "settle": AT_ONCE}
    with sync.open_group(url, "g", member_id="a", observer=observer, **options) as group:
        group.wait_until_settled()
        groups.append(group)
        with sync.open_group(url, "g", member_id="b", **options):  # takes one partition, which is an event
            for _ in group.changes():
                pass


@pytest.mark.parametrize("module", [apportion, sync], ids=["async", "sync"])
@pytest.mark.parametrize("call", ["open_group", "leader"])
@pytest.mark.parametrize("observer", [3, lambda: None], ids=["no function", "no parameter"])
def test_an_object_that_cannot_be_an_observer_is_refused_by_the_call(module, call, observer, url):
    options = {"partitions": 2} if call == "open_group" else {}
    with pytest.raises(InvalidInput, match="observer") as caught:
        getattr(module, call)(url, "g", observer=observer, **options)
    assert "open_group(…, observer=log)" in caught.value.hint


def test_the_observer_of_a_leader_is_told_that_it_has_gained_the_one_partition(url):
    heard = []
    with sync.leader(url, "boss", observer=heard.append) as election:
        election.wait_until_elected()
    assert [0] == [each.partition for each in of(Gained, heard)]
