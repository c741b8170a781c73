"""The driver: a member's view, and all later news, belong to one life of the store."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from apportion.errors import BadSnapshot, Compacted, Conflict, InvalidInput, StoreDenied, StoreUnavailable
from apportion.groups.driver import Driver
from apportion.groups.life.parts import MemberParts
from apportion.groups.opening import Options
from apportion.groups.session import Sessions
from apportion.groups.unanswered_commits import Commit
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, encoded
from apportion.runtime.clock import SystemClock
from apportion.stores import Absent, Committed, Put, Unchanged
from tests.tables.sample import handle, memory

KEYS = GroupKeys(group="g")
OPTIONS = Options(group="g", record=GroupRecord(partitions=2), member_id="a", member=MemberRecord(nonce=""))


class RestoredAfter:
    """A handle with a store that is set back to a copy after it scanned a prefix, and with watches that begin late."""

    def __init__(self, shared, prefix, copy):
        self._inner, self._shared, self._prefix, self._copy = handle(shared), shared, prefix, copy

    async def scan(self, prefix):
        scan = await self._inner.scan(prefix)
        if prefix == self._prefix and self._copy is not None:
            self._shared.ledger, self._copy = self._copy, None
        return scan

    async def watch(self, prefix, *, after):
        await asyncio.sleep(0.05)
        async for change in self._inner.watch(prefix, after=after):
            yield change

    def __getattr__(self, name):
        return getattr(self._inner, name)


async def written(store, key, value):
    assert isinstance(await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=value)]), Committed)


@pytest.mark.parametrize("prefix", [KEYS.record, KEYS.live])
def test_a_view_is_of_the_life_of_the_store_that_is_watched(prefix):
    async def main():
        shared, copy = memory(), memory(incarnation=2)
        await written(handle(shared), KEYS.member("ghost"), encoded(MemberRecord(nonce="x")))
        for number in range(9):  # the life after is further on, so that nothing goes back but what is held
            await written(handle(copy), f"other/{number}", b"")
        driver = Driver(
            RestoredAfter(shared, prefix, copy.ledger), Sessions(handle(shared), SystemClock()), SystemClock(), OPTIONS
        )
        running = asyncio.ensure_future(driver.run())
        async with asyncio.timeout(5):
            while len(list(driver.member.serving)) < 2 or driver.view.incarnation < 2:
                await driver.turn()
        assert (2, {"a"}) == (driver.view.incarnation, set(driver.view.members))
        assert [1, 1] == [driver.view.owned(each).ownership.epoch for each in range(2)]  # nothing was owned before
        driver.leave()
        await running

    asyncio.run(main())


class Troubled:
    """A handle that raises an error in the place of some calls: the next few, or all while it is set."""

    def __init__(self, shared):
        self._inner, self.shared, self.commits, self.errors = handle(shared), shared, [], 0
        self.publishes, self.denied, self.away, self.scans = [], False, 0, 0

    async def scan(self, prefix):
        self.scans += 1
        self._check()
        return await self._inner.scan(prefix)

    async def commit(self, **asked):
        self._check()
        for errors, part in ((self.commits, "/own/"), (self.publishes, "table/")):
            if errors and any(part in put.key for put in asked["puts"]):
                self.errors += 1
                raise errors.pop()
        return await self._inner.commit(**asked)

    async def watch(self, prefix, *, after):
        async for change in self._inner.watch(prefix, after=after):
            self._check()
            yield change

    def _check(self):
        if self.away:
            self.away -= 1
            raise StoreUnavailable("a store", "it is away")
        if self.denied:
            self.errors += 1
            raise StoreDenied("a store", "this user lacks rights on it", "Grant them.")

    def __getattr__(self, name):
        return getattr(self._inner, name)


def plays(story, **more):
    """Play a story with one driver on a store that may be troubled."""

    async def main():
        shared = memory()
        store = Troubled(shared)
        clock = SystemClock()
        driver = Driver(store, Sessions(handle(shared), clock), clock, replace(OPTIONS, **more))
        running = asyncio.ensure_future(driver.run())
        async with asyncio.timeout(10):
            await story(store, driver, running)
            driver.leave()
            store.denied = False
            await running

    asyncio.run(main())


async def until_serving(driver, count=2):
    while len(list(driver.member.serving)) < count:
        await driver.turn()


@pytest.mark.parametrize(
    "error",
    [
        StoreDenied("a store", "this user lacks rights on it", "Grant them."),
        StoreUnavailable("a store", "it is away"),
        Compacted(1, 2),
        InvalidInput("commit", "too large", "one within the limits", "Take fewer."),
        BadSnapshot("record", b"", "one that is right", "Mend it."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_commit_that_fails_by_whatever_error_is_asked_for_again(error):
    async def story(store, driver, running):
        store.commits.append(error)
        await until_serving(driver)
        assert (1, 1) == (store.errors, driver.statistics.sessions)

    plays(story)


@pytest.mark.parametrize(
    "error", [StoreUnavailable("a store", "it is away"), Conflict("It did not hold.", "Read again."), Compacted(1, 2)]
)
def test_owners_that_could_not_be_published_are_published_a_moment_later_in_the_same_session(error):
    async def story(store, driver, running):
        store.publishes.append(error)
        while not [item for item in (await store.scan("table/g/")).items if item.key == "table/g/head"]:
            await asyncio.sleep(0.01)
        assert (1, 1) == (store.errors, driver.statistics.sessions)

    plays(story)


def test_rights_that_are_revoked_for_a_moment_cost_neither_member_nor_session():
    async def story(store, driver, running):
        await until_serving(driver)
        store.denied, before = True, store.errors
        await written(handle(store.shared), f"{KEYS.live}hint/x", b"")  # the watch hears of it, and is denied
        while store.errors == before:
            await asyncio.sleep(0.01)
        store.denied = False
        await written(handle(store.shared), f"{KEYS.live}hint/y", b"")
        await until_serving(driver)
        assert (1, False) == (driver.statistics.sessions, running.done())

    plays(story)


def test_a_first_session_that_is_denied_is_told_at_once():
    async def main():
        shared = memory()
        store = Troubled(shared)
        store.denied = True
        driver = Driver(store, Sessions(handle(shared), SystemClock()), SystemClock(), OPTIONS)
        with pytest.raises(StoreDenied):
            await driver.run()

    asyncio.run(main())


def test_lives_that_come_to_nothing_are_half_a_second_apart_then_twice_as_long_up_to_two(monkeypatch):
    pauses, sleep = [], asyncio.sleep

    async def paused(seconds, *result):
        pauses.append(seconds)
        await sleep(0, *result)

    async def main():
        shared = memory()
        store = Troubled(shared)
        store.away = 5
        driver = Driver(store, Sessions(handle(shared), SystemClock()), SystemClock(), OPTIONS)
        running = asyncio.ensure_future(driver.run())
        async with asyncio.timeout(10):
            await until_serving(driver)
            driver.leave()
            await running

    monkeypatch.setattr(asyncio, "sleep", paused)
    asyncio.run(main())
    assert [0.5, 1.0, 2.0, 2.0, 2.0] == pauses[:5]


def test_a_task_that_nobody_awaits_ends_the_session_when_it_raises_and_the_member_lives_on(caplog):
    async def story(store, driver, running):
        await until_serving(driver)
        store.commits.append(ZeroDivisionError("planted"))
        commit = Commit(batch=99, moves=(), when=(), puts=(Put(key=KEYS.own(0), value=b""),))
        driver.life.commits.begin(driver.life.commits.commit(commit))
        while driver.statistics.sessions < 2:
            await driver.turn()
        await until_serving(driver)

    plays(story)
    assert "ZeroDivisionError: planted" in caplog.text


def test_the_controller_is_asked_when_it_wants_to_be_though_nothing_has_changed(monkeypatch):
    looks = []

    async def story(store, driver, running):
        def look(now):
            looks.append((now, driver.controller.wakes_at()))
            patched.setattr(driver.controller, "wakes_at", lambda: now + 0.01)

        await until_serving(driver)
        with monkeypatch.context() as patched:
            patched.setattr(driver.controller, "look", look)
            driver.parts.inbox.hear(None)
            while len(looks) < 4:
                await driver.turn()

    plays(story, ttl_seconds=60.0)
    assert all(wanted <= now for now, wanted in looks[1:4])


def test_a_life_ends_after_all_that_it_began_and_owns_nothing_meanwhile():
    told = []

    async def slow(driver):
        try:
            told.append(driver.holdings.get(0) is None)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            told.append(driver.holdings.get(0) is None)
            await asyncio.sleep(0.02)
            told.append((driver.statistics.sessions, driver.member.me.session > 0))

    async def story(store, driver, running):
        await until_serving(driver)
        driver.life.commits.begin(slow(driver))
        await asyncio.sleep(0)
        driver.parts.inbox.hear(ZeroDivisionError("planted"))
        while driver.statistics.sessions < 2:
            await driver.turn()

    plays(story)
    assert [False, True, (1, True)] == told


def test_a_member_names_its_former_sessions_in_the_life_of_the_store_that_they_were_of():
    async def story(store, driver, running):
        sessions = []
        for count in (1, 2, 3):
            while not driver.member.me.session:
                await driver.turn()
            assert tuple(sessions) == driver.view.members["a"].record.former
            sessions.append(driver.member.me.session)
            driver.parts.inbox.hear(ZeroDivisionError("planted"))
            while driver.statistics.sessions == count:
                await driver.turn()
        while not driver.member.me.session:
            await driver.turn()
        store.shared.ledger = memory(incarnation=2).ledger
        store.shared.changed()
        while driver.view.incarnation < 2 or not driver.member.me.session:
            await driver.turn()
        assert () == driver.view.members["a"].record.former

    plays(story)


def test_another_number_of_partitions_is_final():
    async def main():
        shared = memory()
        await written(handle(shared), KEYS.record, encoded(GroupRecord(partitions=3)))
        driver = Driver(handle(shared), Sessions(handle(shared), SystemClock()), SystemClock(), OPTIONS)
        with pytest.raises(InvalidInput, match="partitions of group g is 2"):
            await driver.run()

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(12))
def test_a_member_that_is_given_up_while_it_ends_leaves_nothing_in_a_session_that_others_use(turns):
    async def main():
        shared, clock = memory(), SystemClock()
        sessions, other = Sessions(handle(shared), clock), replace(OPTIONS, group="h")
        drivers = [Driver(handle(shared), sessions, clock, options) for options in (OPTIONS, other)]
        first, second = (asyncio.ensure_future(each.run()) for each in drivers)
        async with asyncio.timeout(10):
            for each in drivers:
                while not each.member.me.session:
                    await each.turn()
            sessions_before = drivers[0].statistics.sessions
            second.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
            second.cancel()
            await asyncio.wait([second])
            while (await handle(shared).scan("live/h/member/")).items:
                await asyncio.sleep(0.01)
            assert (sessions_before, {"a"}) == (drivers[0].statistics.sessions, set(drivers[0].view.members))
            drivers[0].leave()
            await first

    asyncio.run(main())


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_member_whose_record_is_damaged_keeps_its_lease_until_its_work_has_ended(is_shared):
    """Others take nothing from it meanwhile, and it joins again when nothing goes on; its other groups lose nothing."""

    async def main():
        shared, clock = memory(), SystemClock()
        store, sessions, other = handle(shared), Sessions(handle(shared), clock), replace(OPTIONS, group="h")
        drivers = [Driver(handle(shared), sessions, clock, each) for each in (other, OPTIONS)[not is_shared :]]
        running = [asyncio.ensure_future(each.run()) for each in drivers]
        async with asyncio.timeout(10):
            for each in drivers:
                while len(each.holdings) < 2:
                    await each.turn()
            _, hold = drivers[-1].holdings.enter(1)
            session = drivers[-1].member.me.session
            [item] = (await store.scan(KEYS.member("a"))).items
            when = [Unchanged(key=item.key, revision=item.revision)]
            damaged = await store.commit(when=when, puts=[Put(key=item.key, value=b"{}", lease=item.lease)])
            while drivers[-1].member.me.session:
                await drivers[-1].turn()
            for _ in range(200):
                await asyncio.sleep(0)
            [there] = (await store.scan(KEYS.member("a"))).items
            assert (damaged.revision, item.lease) == (there.revision, there.lease)
            for kept in sessions._newest.values():
                kept._confirm(clock.elapsed())
            assert not drivers[-1].holdings.is_current  # the life is over, though its lease is renewed
            drivers[-1].holdings.leave(hold)
            while drivers[-1].member.me.session in (0, session) or len(drivers[-1].holdings) < 2:
                await drivers[-1].turn()
            [there] = (await store.scan(KEYS.member("a"))).items
            assert is_shared == (there.lease == item.lease)
            assert not is_shared or (2, 1) == (len(drivers[0].holdings), drivers[0].statistics.sessions)
            for each in drivers:
                each.leave()
            await asyncio.gather(*running)

    asyncio.run(main())


@pytest.mark.parametrize(("operations", "width"), [(1, 1), (4, 1), (5, 1), (6, 1), (7, 2), (127, 42), (1_000, 333)])
def test_a_commit_has_as_many_moves_as_fit_beside_the_compare_of_the_members_own_record(operations, width):
    async def parts():
        store = SimpleNamespace(capabilities=lambda: SimpleNamespace(max_operations=operations))
        return MemberParts(store, SystemClock(), OPTIONS)

    assert width == asyncio.run(parts()).width
