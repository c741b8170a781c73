"""The lookout of PostgreSQL over scripted links: the watches that a look wakes, the leases that it ends, its pauses."""

import asyncio
from functools import partial

import pytest

from apportion.errors import InvalidInput, StoreClosed, StoreDenied, StoreUnavailable
from apportion.stores.postgres import lookout as lookouts
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.lookout import PostgresLookout, SeenState

TTL_SECONDS = 4.0
BEGUN = SeenState(1, 5)
AWAY = StoreUnavailable("postgresql://h/d", "no server listens")


class Clock:
    now = 100.0

    def elapsed(self):
        return self.now


class Link:
    """Answers a statement with `rows`, or with an error; notes what it was asked."""

    def __init__(self):
        self.asked, self.rows = [], {}

    async def ask(self, statement, parameters=()):
        self.asked.append((statement, parameters))
        rows = self.rows.get(statement, [])
        if isinstance(rows, Exception):
            raise rows
        return rows


class Ear:
    is_trusted = True

    def tells(self, heard, heard_tasks):
        self.heard, self.heard_tasks = heard, heard_tasks

    def distrust(self):
        self.is_trusted = False


class Leases:
    """The leases of this process."""

    def __init__(self, *ids):
        self.ids, self.forgotten = set(ids), set()
        self.shortest_seconds, self.lock_milliseconds = TTL_SECONDS, 700

    def forget(self, leases):
        self.forgotten |= set(leases)


class Scene:
    """A lookout that looks when it is told to, with watches of two ranges."""

    def __init__(self, *own, is_polled=False):
        self.watching, self.committing, self.ear, self.clock = Link(), Link(), Ear(), Clock()
        self.leases = Leases(*own)
        parts = (self.watching, self.committing, self.ear, self.leases, self.clock)
        self.lookout = PostgresLookout(*parts, is_polled=is_polled)
        self.called = []
        for name in ("_nudge", "_noticed"):
            setattr(self.lookout, name, partial(self.called.append, name))
        self.lookout._run = asyncio.Event().wait  # a look is made by hand
        self.watches = {name: self.lookout.join(name, name[:1] + b"0") for name in (b"a/", b"b/")}
        self.counts()

    def counts(self, *counters, at=BEGUN):
        """Let the store show these leases."""
        rows = [(at.incarnation, at.revision, *each) for each in counters]
        rows = rows or [(at.incarnation, at.revision, None, None, None)]
        self.watching.rows[sql.COUNTERS] = self.watching.rows[sql.LOWEST_COUNTERS] = rows

    def touched(self, *keys, at, compacted=0):
        """Let the store be at this state, and name these keys."""
        rows = [(at.incarnation, at.revision, compacted, key) for key in keys or (None,)]
        self.watching.rows[sql.TOUCHED] = rows
        self.counts(at=at)

    async def woken(self, *, after=0.0):
        """Look, so many seconds later; return whom that wakes."""
        self.clock.now += after
        self.watching.asked.clear()
        events = {name: watch.next_change() for name, watch in self.watches.items()}
        await self.lookout._look()
        return {name for name, event in events.items() if event.is_set()}

    def asked(self, *statements):
        return [(statement, parameters) for statement, parameters in self.watching.asked if statement in statements]

    def pause(self, quiet_seconds=60.0):
        return self.lookout._pause_seconds(quiet_seconds)


BOTH = {b"a/", b"b/"}


def played(story, *own, **options):
    async def main():
        async with asyncio.timeout(10):
            await story(Scene(*own, **options))

    asyncio.run(main())


async def begun(scene):
    """Let the first look find a store at revision 5."""
    scene.touched(at=BEGUN)
    await scene.woken()


def test_each_watch_counts_for_the_task_that_looks_and_a_hint_makes_it_look_at_once():
    async def story(scene):
        task = scene.lookout._task
        scene.lookout.leave(scene.watches[b"a/"])
        scene.ear.heard()
        scene.lookout.wrote()
        assert ["_nudge", "_noticed"] == scene.called
        assert task is scene.lookout._task
        scene.lookout.leave(scene.watches[b"b/"])
        assert scene.lookout._task is None
        assert task.cancelling()

    played(story)


def test_the_error_that_ended_the_task_is_raised_where_a_watch_asks_for_it():
    async def story(scene):
        scene.lookout.require_running()
        scene.lookout._task.cancel()
        scene.lookout._task = asyncio.get_running_loop().create_future()
        scene.lookout._task.set_exception(ZeroDivisionError())
        with pytest.raises(ZeroDivisionError):
            scene.lookout.require_running()

    played(story)


def test_a_look_wakes_the_watches_of_the_keys_that_have_changed_since_the_last():
    async def story(scene):
        await begun(scene)
        scene.touched(b"a/7", b"c", at=SeenState(1, 7))
        assert {b"a/"} == await scene.woken(after=10.0)
        assert [(sql.TOUCHED, {"after": 5, "most": 1000})] == scene.asked(sql.TOUCHED)
        assert set() == await scene.woken(after=0.001)
        assert {"after": 7, "most": 1000} == scene.watching.asked[0][1]

    played(story)


@pytest.mark.parametrize(
    ("at", "compacted", "woken"),
    [
        (SeenState(1, 7), 5, {b"a/"}),
        (SeenState(1, 7), 6, BOTH),
        (SeenState(2, 7), 0, BOTH),
        (SeenState(1, 4), 0, BOTH),
        (SeenState(1, 5), 0, set()),
        (SeenState(1, 5), 9, set()),
    ],
    ids=["whole", "compacted", "another life", "went back", "nothing new", "nothing new, compacted"],
)
def test_a_look_that_cannot_name_all_changes_wakes_every_watch(at, compacted, woken):
    async def story(scene):
        await begun(scene)
        scene.touched(b"a/7", at=at, compacted=compacted)
        assert woken == await scene.woken(after=10.0)

    played(story)


@pytest.mark.parametrize(("count", "woken"), [(2, {b"a/"}), (3, BOTH)])
def test_a_look_that_is_full_may_have_missed_keys_and_wakes_every_watch(count, woken, monkeypatch):
    monkeypatch.setattr(lookouts, "_MOST_KEYS", 3)

    async def story(scene):
        await begun(scene)
        scene.touched(*[b"a/7"] * count, at=SeenState(1, 9))
        assert woken == await scene.woken(after=10.0)

    played(story)


def test_a_revision_without_keys_wakes_nobody():
    async def story(scene):
        await begun(scene)
        scene.touched(at=SeenState(1, 7))
        assert set() == await scene.woken(after=10.0)

    played(story)


def test_a_write_of_this_process_wakes_its_watches_and_is_not_looked_up_where_it_follows():
    async def story(scene):
        await begun(scene)
        event = scene.watches[b"a/"].next_change()
        scene.lookout.wrote([b"a/1"], at=SeenState(1, 6))
        assert event.is_set()
        scene.touched(b"a/1", at=SeenState(1, 6))
        assert set() == await scene.woken(after=10.0)
        assert [] == scene.asked(sql.TOUCHED)
        scene.lookout.wrote([b"a/1"], at=SeenState(1, 8))  # 7 is of somebody else
        scene.touched(b"a/1", b"b/1", at=SeenState(1, 8))
        assert BOTH == await scene.woken(after=10.0)
        assert [(sql.TOUCHED, {"after": 6, "most": 1000})] == scene.asked(sql.TOUCHED)

    played(story)


def test_news_without_a_hint_take_the_trust_in_hints_away_and_news_with_one_do_not():
    async def story(scene):
        await begun(scene)
        scene.ear.is_trusted = True
        scene.touched(b"a/7", at=SeenState(1, 6))
        scene.ear.heard()
        await scene.woken(after=10.0)
        assert scene.ear.is_trusted
        scene.touched(at=SeenState(1, 6))
        await scene.woken(after=10.0)
        assert scene.ear.is_trusted, "there were no news"
        scene.touched(b"a/7", at=SeenState(1, 7))
        await scene.woken(after=10.0)
        assert not scene.ear.is_trusted

    played(story)


def test_a_lease_that_nobody_renews_is_ended_by_what_was_met_and_another_is_not():
    async def story(scene):
        await begun(scene)
        for after, renewals in ((0.0, 1), (3.9, 2), (0.1, 3)):
            assert [] == scene.committing.asked
            scene.counts((7, 3, TTL_SECONDS), (8, renewals, TTL_SECONDS), at=SeenState(1, 6))
            scene.lookout._reap_at = 0.0
            await scene.woken(after=after)
        assert [(sql.END, [1, 6, 7, 3, 700])] == scene.committing.asked

    played(story)


@pytest.mark.parametrize("forgets", ["a life", "an outage", "a time without watches"])
def test_after_a_time_in_which_nobody_could_renew_every_lease_has_its_time_once_more(forgets):
    async def story(scene):
        await begun(scene)
        scene.counts((7, 3, TTL_SECONDS))
        await scene.woken(after=1.0)
        scene.lookout._reap_at = 0.0
        if forgets == "a life":
            scene.touched(at=SeenState(2, 6))
            scene.counts((7, 3, TTL_SECONDS), at=SeenState(2, 6))
            await scene.woken()
        elif forgets == "an outage":
            scene.watching.rows[sql.TOUCHED] = AWAY
            scene.counts((7, 3, TTL_SECONDS), at=SeenState(1, 6))
            await scene.woken()
            scene.counts((7, 3, TTL_SECONDS))
        else:
            for watch in scene.watches.values():
                scene.lookout.leave(watch)
            scene.lookout.join(b"a/", b"a0")
        scene.lookout._reap_at = 0.0
        await scene.woken(after=TTL_SECONDS)
        assert [] == scene.committing.asked
        scene.lookout._reap_at = 0.0
        await scene.woken(after=TTL_SECONDS)
        assert [sql.END] == [statement for statement, _ in scene.committing.asked]

    played(story)


def test_while_one_watch_is_left_what_was_seen_of_leases_is_kept():
    async def story(scene):
        await begun(scene)
        scene.counts((7, 3, TTL_SECONDS))
        await scene.woken(after=1.0)
        scene.lookout.leave(scene.watches[b"a/"])
        scene.lookout.join(b"c/", b"c0")
        scene.lookout._reap_at = 0.0
        await scene.woken(after=TTL_SECONDS)
        assert [sql.END] == [statement for statement, _ in scene.committing.asked]

    played(story)


def test_leases_are_read_when_it_is_time_and_what_they_show_may_spare_a_look():
    async def story(scene):
        await begun(scene)
        scene.counts((7, 3, TTL_SECONDS))
        await scene.woken(after=1.0)
        assert [(sql.COUNTERS, ())] == scene.watching.asked, "nothing is new"
        await scene.woken(after=0.1)
        assert [sql.TOUCHED] == [statement for statement, _ in scene.watching.asked]
        await scene.woken(after=scene.lookout._reap_at - scene.clock.now)
        assert [sql.COUNTERS] == [statement for statement, _ in scene.watching.asked]

    played(story)


def test_among_many_leases_only_the_lowest_are_read_and_no_own_lease_is_forgotten_for_that():
    async def story(scene):
        await begun(scene)
        scene.leases.forgotten.clear()
        many = [(number, 0, TTL_SECONDS) for number in range(1, 31)]
        for renewals in (0, 1):
            scene.counts((1, renewals, TTL_SECONDS), *many[1:])
            await scene.woken(after=1.0)
            assert {99} == scene.leases.forgotten, "which has ended"
        scene.leases.forgotten.clear()
        scene.counts(*many[:3])
        scene.lookout._reap_at = 0.0
        await scene.woken(after=1.0)
        assert [(sql.LOWEST_COUNTERS, {"most": 3})] == scene.watching.asked
        assert set() == scene.leases.forgotten

    played(story, 30, 99)


@pytest.mark.parametrize("error", [AWAY, StoreDenied("s", "r", "h"), StoreClosed("s"), InvalidInput("f", 1, "2", "h")])
def test_a_store_that_is_away_is_looked_at_again_after_a_while_and_wakes_nobody(error, monkeypatch):
    paused = []

    async def sleep(seconds):
        paused.append(seconds)

    async def story(scene):
        await begun(scene)
        scene.ear.is_trusted = True
        scene.watching.rows[sql.TOUCHED] = scene.watching.rows[sql.COUNTERS] = error
        monkeypatch.setattr(lookouts.asyncio, "sleep", sleep)
        assert set() == await scene.woken(after=10.0)
        assert 0.125 <= paused[0] <= 0.25
        assert 0.25 == pytest.approx(scene.pause())

    played(story)


def test_an_error_of_ours_ends_the_looking_and_wakes_every_watch_to_learn_of_it():
    async def story(scene):
        await begun(scene)
        scene.watching.rows[sql.TOUCHED] = scene.watching.rows[sql.COUNTERS] = ZeroDivisionError()
        events = [watch.next_change() for watch in scene.watches.values()]
        with pytest.raises(ZeroDivisionError):
            await scene.woken(after=10.0)
        assert all(event.is_set() for event in events)

    played(story)


def test_a_pause_is_long_while_hints_come_and_never_longer_than_until_leases_are_read():
    async def story(scene):
        await begun(scene)
        scene.ear.is_trusted = True
        scene.lookout._reap_at = scene.clock.now + 10.0
        assert 2.0 == scene.pause()
        scene.lookout._reap_at = scene.clock.now + 0.5
        assert 0.5 == pytest.approx(scene.pause())
        scene.lookout._reap_at = scene.clock.now - 1.0
        assert 0.0 == scene.pause()
        scene.ear.is_trusted = False
        scene.lookout._reap_at = scene.clock.now + 10.0
        assert (0.06, 0.001) == (scene.pause(), scene.pause(0.0))

    played(story)


def test_a_store_that_is_polled_is_looked_at_twenty_times_in_a_time_to_live_whatever_happens():
    async def story(scene):
        await begun(scene)
        assert TTL_SECONDS / 20 == pytest.approx(scene.pause()) == pytest.approx(scene.pause(0.0))
        scene.lookout._reap_at = scene.clock.now + TTL_SECONDS / 40 + 0.001
        await scene.woken()
        assert [] == scene.asked(sql.COUNTERS)
        scene.lookout._reap_at = scene.clock.now + TTL_SECONDS / 40 - 0.001
        await scene.woken()
        assert [(sql.COUNTERS, ())] == scene.asked(sql.COUNTERS)

    played(story, is_polled=True)


def test_the_next_read_of_leases_follows_after_a_part_of_the_shortest_time_to_live():
    async def story(scene):
        await begun(scene)
        scene.counts((7, 3, TTL_SECONDS))
        await scene.woken(after=1.0)
        assert 0.9 * TTL_SECONDS / 20 <= scene.lookout._reap_at - scene.clock.now <= 1.1 * TTL_SECONDS / 20

    played(story)
