"""One handle of a PostgreSQL store over scripted links: its requests, and its view of each answer."""

import asyncio
from dataclasses import replace

import pytest

from apportion.errors import Compacted, LeaseLost, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.stores import Absent, Committed, Put, Refused, Unchanged, Unknown
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres import store as postgres_stores
from apportion.stores.postgres.leases import Leases
from apportion.stores.postgres.lookout import SeenState
from apportion.stores.postgres.store import CAPABILITIES, PostgresStore
from apportion.stores.postgres.wire import PostgresNoReply
from apportion.stores.watchers import Watchers
from tests.stores.test_postgres_door import SERVER

BOTH = {"when": [Unchanged(key="a", revision=3), Absent(key="b")], "puts": [Put(key="b", value=b"2", lease=7)]}


class Link:
    """Answers in turn from `given`; notes each request, and whether it was allowed."""

    def __init__(self):
        self.given, self.asked, self.round_trip_seconds = [], [], 0.01

    async def ask(self, statement, parameters=(), *, allowed):
        self.asked.append((statement, parameters))
        allowed()
        while not self.given:
            await asyncio.sleep(0)
        answer = self.given.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    send = ask


class Lookout(Watchers):
    """Notes each write."""

    def __init__(self):
        super().__init__()
        self.written, self.error = [], None

    def wrote(self, keys=None, *, at=None):
        self.written.append((keys, at))

    def require_running(self):
        if self.error is not None:
            raise self.error


class Links:
    """The links of a process, that are its own."""

    def __init__(self):
        self.committing, self.watching, self.lookout, self.leases = Link(), Link(), Lookout(), Leases()
        self.door, self.ours, self.doubts, self.given_back = self, True, 0, 0
        self.name = "postgresql://h/d"

    def doubt(self):
        self.doubts += 1

    async def give_back(self):
        self.given_back += 1


class Clock:
    now = 0.0

    def elapsed(self):
        return self.now


def played(story, server=SERVER, **links):
    async def main():
        made = Links()
        for name, value in links.items():
            setattr(made.committing, name, value)
        store = PostgresStore(made, server, SeenState(1, 5), "crawl", Clock())
        async with asyncio.timeout(10):
            await story(made, store)

    asyncio.run(main())


def history(revision, *events, incarnation=1, compacted=0):
    """Rows of a look at the history: revision, key, value."""
    rows = [(at, b"crawl/" + key, value, None) for at, key, value in events] or [(None,) * 4]
    return [(incarnation, revision, compacted, *row) for row in rows]


def items(revision, *keys, incarnation=1):
    rows = [(False, b"crawl/" + key, b"v", 3, None) for key in keys] or [(None,) * 5]
    return [(incarnation, revision, 0, *row) for row in rows]


def test_a_commit_sends_what_the_handle_knows_and_wakes_the_watches_of_its_keys():
    async def story(links, store):
        links.committing.given = [[("done", 1, 6, None)], [("done", 1, 9, None)]]
        assert Committed(revision=6) == await store.commit(**BOTH, deletes=["a"])
        keys, values = [b"crawl/a", b"crawl/b"], [[3, None], [b"crawl/b"], [b"2"], [7], [b"crawl/a"], 4000]
        assert (sql.COMMIT, [1, 5, keys, *values]) == links.committing.asked[0]
        assert Committed(revision=9) == await store.commit(**BOTH)
        assert [1, 6] == links.committing.asked[1][1][:2]
        written = [([b"crawl/b", b"crawl/a"], SeenState(1, 6)), ([b"crawl/b"], SeenState(1, 9))]
        assert written == links.lookout.written

    played(story)


def test_a_commit_that_was_refused_or_lost_its_lease_wakes_nobody_and_one_without_a_reply_everybody():
    async def story(links, store):
        links.committing.given = [[("refused", 1, 8, None)], [("lease lost", 1, 9, 7)], PostgresNoReply("it broke")]
        assert Refused(revision=8) == await store.commit(**BOTH)
        with pytest.raises(LeaseLost) as caught:
            await store.commit(**BOTH)
        assert (7, []) == (caught.value.lease, links.lookout.written)
        assert Unknown(reason="it broke") == await store.commit(**BOTH)
        assert [(None, None)] == links.lookout.written
        assert [1, 9] == links.committing.asked[2][1][:2]

    played(story)


@pytest.mark.parametrize("verdict", ["went back", "moved"])
def test_a_write_into_another_life_does_nothing_and_doubts_the_server(verdict):
    async def story(links, store):
        links.committing.given = [[(verdict, 2, 3, None)], [(verdict, 2, 3)], [(verdict, 2, 3)]]
        links.watching.given = [[(verdict, 2, 3, None)]]
        calls = (store.commit(**BOTH), store.grant(ttl_seconds=4), store.revoke(7), store.renew([7]))
        for call in calls:
            with pytest.raises(StoreWentBack, match="it is at revision 3 of incarnation 2"):
                await call
        assert (4, [], set()) == (links.doubts, links.lookout.written, set(links.leases.ids))
        assert (1, 5) == store._known()

    played(story)


def test_what_a_write_met_is_kept_where_it_is_newer_and_of_the_same_life():
    async def story(links, store):
        for met, known in (((1, 4), (1, 5)), ((2, 9), (1, 5)), ((1, 7), (1, 7))):
            links.watching.given = [[("done", *met, [7])]]
            await store.renew([7])
            assert known == store._known()

    played(story)


def test_leases_that_a_process_holds_are_counted_as_they_come_and_go():
    async def story(links, store):
        links.committing.given = [[("done", 1, 5)]] * 3
        one, two = [await store.grant(ttl_seconds=ttl) for ttl in (4, 8)]
        assert ({one.id, two.id}, 4.0, 4.0) == (
            set(links.leases.ids),
            one.ttl_seconds,
            links.leases.shortest_seconds,
        )
        assert [(sql.GRANT, [1, 5, one.id, 4.0, 4000]), (sql.GRANT, [1, 5, two.id, 8.0, 800])] == links.committing.asked
        links.watching.given = [[("done", 1, 5, [two.id])], [("done", 1, 5, None)]]
        assert frozenset({two.id}) == await store.renew([two.id, one.id])
        assert (sql.RENEW, [1, 5, sorted([one.id, two.id])]) == links.watching.asked[0]
        assert {two.id} == set(links.leases.ids)
        await store.revoke(two.id)
        assert (sql.END, [1, 5, two.id, None, 1600]) == links.committing.asked[2]
        assert (set(), [(None, None)]) == (set(links.leases.ids), links.lookout.written)
        assert frozenset() == await store.renew([one.id])

    played(story)


def test_a_scan_accepts_whatever_the_store_is_now():
    async def story(links, store):
        for incarnation, revision in ((1, 4), (1, 8), (2, 3)):
            links.committing.given = [items(revision, b"a", b"b", incarnation=incarnation)]
            scan = await store.scan("")
            assert ["a", "b"] == [each.key for each in scan.items]
            assert (incarnation, revision) == (scan.incarnation, scan.revision) == store._known()
        assert (b"crawl/", b"crawl0") == tuple(links.committing.asked[0][1][name] for name in ("start", "end"))

    played(story)


def test_a_scan_takes_no_newer_revision_back_that_a_write_met_meanwhile():
    async def story(links, store):
        scanning = asyncio.create_task(store.scan(""))
        await asyncio.sleep(0)
        links.watching.given = [[("done", 1, 9, [7])]]
        await store.renew([7])
        links.committing.given = [items(7)]
        assert 7 == (await scanning).revision
        assert (1, 9) == store._known()

    played(story)


def test_a_scan_that_takes_longer_than_half_a_minute_is_given_up(monkeypatch):
    monkeypatch.setattr("apportion.stores.postgres.scan.PORTION_ITEMS", 1)

    async def story(links, store):
        links.committing.given = [items(5, b"a"), items(5, b"b"), items(5)]
        ask = links.committing.ask

        async def slow(*asked, **options):
            store._clock.now += 14.0
            return await ask(*asked, **options)

        links.committing.ask = slow
        assert ["a", "b"] == [each.key for each in (await store.scan("")).items[:2]]
        links.committing.given = [items(5, b"a"), items(5, b"b"), items(5, b"c"), items(5)]
        with pytest.raises(StoreUnavailable, match="took longer than 30 s"):
            await store.scan("")

    played(story)


def test_a_watch_shows_whole_revisions_and_waits_for_its_own_changes_alone():
    async def story(links, store):
        events = [(6, b"a", b"1"), (6, b"b", None), (7, b"a", b"2")]
        links.watching.given = [history(7, *events)]
        watch = store.watch("", after=5)
        shown = [await anext(watch) for _ in range(2)]
        assert [(6, ["a", "b"]), (7, ["a"])] == [(each.revision, [one.key for one in each.events]) for each in shown]
        assert [b"1", None] == [one.value for one in shown[0].events]
        asked = {"after": 5, "start": b"crawl/", "end": b"crawl0", "most": 64}
        assert [(sql.HISTORY, asked)] == links.watching.asked
        waiting = asyncio.create_task(anext(watch))
        for _ in range(9):
            await asyncio.sleep(0)
        assert 1 == len(links.watching.asked), "nothing more until it is woken"
        links.watching.given = [history(9), history(11, (11, b"c", b""))]
        links.lookout.wake()
        while len(links.watching.asked) < 2:
            await asyncio.sleep(0)
        for _ in range(9):
            await asyncio.sleep(0)
        links.lookout.wake([b"crawl/c"])
        assert 11 == (await waiting).revision
        assert [5, 7, 9] == [each["after"] for _, each in links.watching.asked]
        await watch.aclose()
        assert (True, set()) == (links.lookout.is_empty, store._watchers)

    played(story)


def test_a_watch_reads_on_at_once_while_there_is_more_than_it_takes_at_a_time(monkeypatch):
    monkeypatch.setattr(postgres_stores, "_EVENTS_AT_A_TIME", 2)

    async def story(links, store):
        links.watching.given = [history(9, (6, b"a", b""), (7, b"b", b"")), history(9, (8, b"c", b""))]
        watch = store.watch("", after=5)
        assert [6, 7, 8] == [(await anext(watch)).revision for _ in range(3)]
        assert [5, 7] == [each["after"] for _, each in links.watching.asked]
        await watch.aclose()

    played(story)


@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        (history(9, incarnation=2), StoreWentBack, "revision 5 of incarnation 1"),
        (history(4), StoreWentBack, "it is at revision 4 of incarnation 1"),
        (history(9, compacted=6), Compacted, "after revision 5"),
    ],
)
def test_a_watch_that_cannot_go_on_says_why(rows, error, says):
    async def story(links, store):
        links.watching.given = [rows]
        with pytest.raises(error, match=says):
            await anext(store.watch("", after=5))
        assert links.lookout.is_empty

    played(story)


def test_a_watch_whose_history_is_just_kept_goes_on_and_one_of_its_life_does_not_take_the_next():
    async def story(links, store):
        links.watching.given = [history(9, (6, b"a", b""), compacted=5)]
        watch = store.watch("", after=5)
        assert 6 == (await anext(watch)).revision
        links.committing.given = [items(3, incarnation=2)]
        await store.scan("")
        links.watching.given = [history(9, incarnation=2)]
        links.lookout.wake()
        with pytest.raises(StoreWentBack):
            await anext(watch)

    played(story)


@pytest.mark.parametrize("error", [StoreUnavailable("s", "away"), StoreDenied("s", "no", "hint")])
def test_a_watch_of_a_store_that_is_away_asks_again_after_a_while(error, monkeypatch):
    paused, sleep = [], asyncio.sleep

    async def pass_by(seconds):
        paused.append(seconds) if seconds else None
        await sleep(0)

    async def story(links, store):
        monkeypatch.setattr(postgres_stores.asyncio, "sleep", pass_by)
        links.watching.given = [error, error, history(6, (6, b"a", b""))]
        watch = store.watch("", after=5)
        assert 6 == (await anext(watch)).revision
        assert (2, True) == (len(paused), all(0.125 <= each <= 0.25 for each in paused))
        await watch.aclose()

    played(story)


def test_an_error_that_ended_the_lookout_ends_the_watch():
    async def story(links, store):
        links.lookout.error = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            await anext(store.watch("", after=5))

    played(story)


def test_a_closed_handle_ends_its_watches_gives_its_links_back_once_and_asks_nothing():
    async def story(links, store):
        links.watching.given = [history(5)]
        waiting = asyncio.create_task(anext(store.watch("", after=5), None))
        for _ in range(9):
            await asyncio.sleep(0)
        await store.close()
        await store.close()
        assert (None, 1) == (await waiting, links.given_back)
        for call in (store.scan(""), store.commit(**BOTH), store.renew([1]), anext(store.watch("", after=5))):
            with pytest.raises(StoreClosed):
                await call

    played(story)


def test_a_link_that_is_closed_under_an_open_handle_is_told_to_its_watch():
    async def story(links, store):
        links.watching.given = [StoreClosed("s")]
        with pytest.raises(StoreClosed):
            await anext(store.watch("", after=5))

    played(story)


def test_a_forked_child_asks_nothing_and_gives_nothing_back():
    async def story(links, store):
        links.ours = False
        with pytest.raises(StoreClosed, match="forked"):
            await store.scan("")
        await store.close()
        assert (0, False) == (links.given_back, store._closed)

    played(story)


@pytest.mark.parametrize(
    ("round_trip_seconds", "least"), [(0.01, 0.5), (0.5 / 30, 0.5), (0.1, 3.0), (float("inf"), float("inf"))]
)
def test_a_lease_lives_at_least_for_thirty_round_trips(round_trip_seconds, least):
    async def story(links, store):
        assert least == pytest.approx(store.capabilities().min_ttl_seconds, abs=0.01)

    played(story, round_trip_seconds=round_trip_seconds)


def test_a_server_that_does_not_flush_promises_neither_durability_nor_tokens():
    async def well(links, store):
        assert CAPABILITIES == store.capabilities()

    async def unsafe(links, store):
        assert replace(CAPABILITIES, durable=False, fencing=False) == store.capabilities()

    played(well)
    played(unsafe, server=replace(SERVER, fsync=False))
