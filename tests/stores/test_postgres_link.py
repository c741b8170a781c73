"""A link to a PostgreSQL server, over a door that is scripted: when it connects, looks, admits, and lets go."""

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import psycopg
import pytest

from apportion.errors import StoreClosed, StoreUnavailable
from apportion.runtime.endings import uncancelled
from apportion.stores.postgres import link as links
from apportion.stores.postgres.door import Server
from apportion.stores.postgres.link import PostgresLink
from apportion.stores.postgres.wire import PostgresNoReply

SERVER = Server(
    version=16,
    pooled=False,
    standby=False,
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    synchronous_standby_names="",
    fingerprint="7/1",
    encrypted=True,
    local=False,
    round_trip_seconds=0.5,
)


class Connection:
    """A connection that is whole until it is lost."""

    closed = is_lost = False

    async def close(self):
        self.closed = self.is_lost = True


class Door:
    """Notes what is asked of it in `told`; `fails` holds the errors of the next calls of a name."""

    name = "postgresql://h/d"

    def __init__(self):
        self.told, self.fails, self.made = [], {}, []
        self.server = SERVER
        self.seconds = set()
        self.gate = asyncio.Event()
        self.gate.set()

    def _called(self, name, seconds):
        self.told.append(name)
        self.seconds.add(seconds)
        if self.fails.get(name):
            raise self.fails[name].pop(0)

    async def connect(self, *, seconds):
        self._called("connect", seconds)
        self.made.append(Connection())
        return self.made[-1]

    async def look(self, connection, *, seconds):
        self._called("look", seconds)
        assert connection is self.made[-1]
        return self.server

    async def admit(self, connection, server, *, seconds):
        self._called("admit", seconds)

    async def run(self, connection, statement, parameters, *, seconds):
        await self.gate.wait()
        self._called(statement, seconds)
        assert connection is self.made[-1]
        return [(statement, *parameters)]


class Ear:
    """Notes what a link does with an ear."""

    def __init__(self):
        self.told = []

    async def begin(self, connection):
        self.told.append("begin")

    def listen(self, connection):
        self.told.append("listen")

    def rest(self, connection):
        self.told.append("rest")

    def distrust(self):
        self.told.append("distrust")


@pytest.fixture(autouse=True)
def whole(monkeypatch):
    monkeypatch.setattr(links, "is_lost", lambda connection: connection.is_lost)


def played(story, **options):
    """Run a story of a door and a link."""

    async def main():
        door = Door()
        link = PostgresLink(door, **options)
        async with asyncio.timeout(10):
            await story(door, link)
            await link.close()
        assert all(each.closed for each in door.made)

    asyncio.run(main())


@asynccontextmanager
async def busy(door, link, *statements):
    """Within: the statements wait for an answer, in this order."""
    door.gate.clear()
    asked = [asyncio.create_task(link.send(each)) for each in statements]
    while not link._turn.locked():
        await asyncio.sleep(0)
    yield asked
    door.gate.set()


def test_a_connection_is_opened_looked_at_and_admitted_once_and_serves_every_statement():
    async def story(door, link):
        assert [("a", 1)] == await link.send("a", (1,))
        assert [("b",)] == await link.ask("b")
        assert ["connect", "look", "admit", "a", "b"] == door.told
        assert {3.0} == door.seconds
        assert SERVER == link.server

    played(story, patience=lambda: 3.0)


def test_a_connection_that_was_lost_is_closed_and_another_one_opened():
    async def story(door, link):
        await link.send("a")
        door.made[0].is_lost = True
        await link.send("b")
        assert door.made[0].closed
        assert ["connect", "look", "admit", "a", "connect", "look", "admit", "b"] == door.told

    played(story)


@pytest.mark.parametrize("name", ["look", "admit"])
def test_a_new_connection_that_is_not_admitted_is_closed_and_serves_no_statement(name):
    async def story(door, link):
        door.fails = {name: [StoreUnavailable("postgresql://h/d", "the server is a standby")]}
        with pytest.raises(StoreUnavailable, match="standby"):
            await link.send("a")
        assert ([True], None) == ([each.closed for each in door.made], link.server)
        assert [("b",)] == await link.send("b")
        assert 2 == len(door.made)

    played(story)


def test_a_server_that_turns_out_to_be_another_is_admitted_or_left():
    async def story(door, link):
        await link.send("a")
        door.server = replace(SERVER, fingerprint="7/2")
        assert door.server == await link.open()
        assert ["look", "admit"] == door.told[4:6]
        door.server = replace(SERVER, fingerprint="7/3")
        door.fails = {"admit": [StoreUnavailable("postgresql://h/d", "the server is a standby")]}
        with pytest.raises(StoreUnavailable, match="standby"):
            await link.open()
        assert door.made[0].closed
        assert "7/2" == link.server.fingerprint
        await link.send("b")
        assert 2 == len(door.made)

    played(story)


def test_a_server_in_doubt_is_looked_at_and_admitted_before_the_next_statement_and_then_no_more():
    async def story(door, link):
        await link.send("a")
        link.doubt()
        await link.send("b")
        await link.send("c")
        assert ["connect", "look", "admit", "a", "look", "admit", "b", "c"] == door.told

    played(story)


def test_behind_a_pooler_the_server_is_looked_at_every_two_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(links, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def story(door, link):
        door.server = replace(SERVER, pooled=True)
        for at in (100.0, 101.9, 102.0, 103.9, 104.0):
            now[0] = at
            await link.send(f"{at}")
        assert ["100.0", "101.9", "look", "102.0", "103.9", "look", "104.0"] == door.told[3:]

    played(story)


def test_a_server_without_a_pooler_is_not_looked_at_again(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(links, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def story(door, link):
        await link.send("a")
        now[0] = 1000.0
        await link.send("b")
        assert ["a", "b"] == door.told[3:]

    played(story)


def test_a_statement_that_may_be_done_twice_is_sent_once_more_and_then_given_up():
    async def story(door, link):
        door.fails = {"a": [PostgresNoReply("broke")], "b": [PostgresNoReply("broke"), PostgresNoReply("broke again")]}
        assert [("a",)] == await link.ask("a")
        with pytest.raises(StoreUnavailable, match="broke again"):
            await link.ask("b")
        assert ["a", "a", "b", "b"] == door.told[3:]
        door.fails = {"c": [PostgresNoReply("broke")]}
        with pytest.raises(PostgresNoReply):
            await link.send("c")

    played(story)


def test_no_reply_while_connecting_means_that_no_statement_was_sent():
    async def story(door, link):
        door.fails = {"admit": [PostgresNoReply("broke")]}
        with pytest.raises(StoreUnavailable, match="broke"):
            await link.send("a")

    played(story)


def test_a_statement_that_waits_for_its_turn_is_asked_again_whether_it_may_be_sent():
    def refuse():
        raise StoreClosed("postgresql://h/d")

    async def story(door, link):
        async with busy(door, link, "a") as asked:
            waiting = asyncio.create_task(link.send("b", allowed=refuse))
        await asked[0]
        with pytest.raises(StoreClosed):
            await waiting
        assert ["a"] == door.told[3:]

    played(story)


def test_a_statement_behind_one_that_waits_has_a_bound_too(monkeypatch):
    monkeypatch.setattr(links, "REQUEST_SECONDS", 0.05)

    async def story(door, link):
        async with busy(door, link, "a", "b", "c") as asked:
            heard = await asyncio.gather(*asked[1:], return_exceptions=True)
            assert [StoreUnavailable] * 2 == [type(each) for each in heard]
        await asked[0]

    played(story)


def test_a_statement_that_waits_too_long_for_its_turn_is_surely_not_sent(monkeypatch):
    monkeypatch.setattr(links, "REQUEST_SECONDS", 0.01)

    async def story(door, link):
        async with busy(door, link, "a") as asked:
            with pytest.raises(StoreUnavailable, match="requests before this one"):
                await link.send("b")
        await asked[0]
        assert [("c",)] == await link.send("c")
        assert ["a", "c"] == door.told[3:]

    played(story)


def test_a_caller_that_is_cancelled_leaves_its_statement_running_and_nothing_is_said_of_its_error(caplog):
    async def story(door, link):
        door.fails = {"a": [PostgresNoReply("broke")]}
        async with busy(door, link, "a") as asked:
            asked[0].cancel()
        await link.send("b")
        assert ["a", "b"] == door.told[3:]

    played(story)
    assert [] == caplog.records


def test_a_caller_that_nobody_cancels_sends_without_a_task_of_its_own():
    async def story(door, link):
        async def _ask():
            sent.append((await link.send("a"), len(asyncio.all_tasks())))

        sent, before = [], len(asyncio.all_tasks())
        await uncancelled(_ask())
        assert [([("a",)], before + 1)] == sent

    played(story)


def test_a_closed_link_takes_no_statement_and_lets_none_that_waits_through(monkeypatch):
    cut = []
    monkeypatch.setattr(links, "cut", cut.append)

    async def story(door, link):
        async with busy(door, link, "a", "b") as asked:
            closing = asyncio.create_task(link.close())
            while not cut:
                await asyncio.sleep(0)
        await closing
        assert [door.made[0]] == cut
        assert [("a",)] == await asked[0]
        with pytest.raises(StoreClosed):
            await asked[1]
        with pytest.raises(StoreClosed):
            await link.send("c")
        with pytest.raises(StoreClosed):
            await link.open()
        assert ["a"] == door.told[3:]

    played(story)


def test_a_forked_child_sends_nothing_and_does_not_wait_for_what_its_parent_was_sending():
    async def story(door, link):
        async with busy(door, link, "a") as asked:
            with pytest.MonkeyPatch.context() as child:
                child.setattr(os, "getpid", lambda: -1)
                with pytest.raises(StoreClosed, match="forked"):
                    await asyncio.wait_for(link.open(), 1)
                with pytest.raises(StoreClosed, match="forked"):
                    link.send("b").send(None)  # at its first step: a child has no event loop
                assert not link.ours
        await asked[0]
        assert ["a"] == door.told[3:]

    played(story)


def test_a_link_that_nobody_uses_is_closed_without_being_cut(monkeypatch):
    monkeypatch.setattr(links, "cut", pytest.fail)

    async def story(door, link):
        await link.send("a")

    played(story)


def test_a_connection_that_fails_to_close_is_let_go_all_the_same():
    async def story(door, link):
        await link.send("a")
        first, whole = door.made[0], door.made[0].close

        async def close():
            await whole()
            raise psycopg.OperationalError("it is gone")

        first.close = close

    played(story)


def test_a_link_that_rests_gives_its_connection_back_and_not_before():
    async def story(door, link):
        await link.send("a")
        first = link._resting
        await link.send("b")
        assert link._resting is first, "one timer, however many statements"
        link._rested()
        assert (link._connection, first is link._resting) == (door.made[0], False), "it was used a moment ago"
        assert 3600 == pytest.approx(link._resting.when() - asyncio.get_running_loop().time(), abs=10)
        link._resting.cancel()
        link._used_at = links.time.monotonic() - 3599.0
        link._rested()
        assert (link._connection, first is link._resting) == (door.made[0], False)
        link._resting.cancel()
        async with busy(door, link, "c") as asked:
            link._used_at = links.time.monotonic() - 3601.0
            link._rested()
            left = link._resting.when() - asyncio.get_running_loop().time()
            assert 1 == pytest.approx(left, abs=0.5), "it does not rest: it is asked again"
            link._resting.cancel()
        await asked[0]
        link._used_at = links.time.monotonic() - 3601.0
        link._rested()
        assert link._resting is None
        while not door.made[0].closed:
            await asyncio.sleep(0)
        await link.send("d")
        assert (2, False) == (len(door.made), link._resting.cancelled())
        await link.close()
        assert link._resting.cancelled()

    played(story, rest_seconds=3600.0)


def test_without_a_bound_on_its_rest_a_connection_stays():
    async def story(door, link):
        await link.send("a")
        assert link._resting is None

    played(story)


def test_a_far_server_is_measured_eight_times_more_and_the_shortest_round_trip_kept():
    async def story(door, link):
        trips = [0.9, 0.9, 0.3, 0.2, 0.4, 0.3, 0.3, 0.3, 0.3, 0.1, 0.01]
        look = door.look

        async def measured(connection, *, seconds):
            server = await look(connection, seconds=seconds)
            return replace(server, round_trip_seconds=trips.pop(0))

        door.look = measured
        await link.open()
        assert (0.1, [0.01]) == (link.round_trip_seconds, trips)

    played(story)


def test_a_near_server_is_measured_until_one_round_trip_is_short():
    async def story(door, link):
        door.server = replace(SERVER, round_trip_seconds=0.004)
        await link.open()
        assert (["connect", "look", "admit", "look"], 0.004) == (door.told, link.round_trip_seconds)

    played(story)


@pytest.mark.parametrize(
    ("pooled", "begun"),
    [(False, ["begin", "listen", "rest", "listen"]), (True, ["listen", "rest", "listen"])],
)
def test_an_ear_hears_between_statements_but_begins_only_without_a_pooler(pooled, begun):
    async def story(door, link):
        door.server = replace(SERVER, pooled=pooled)
        await link.send("a")
        await link.send("b")
        ear = link._ear
        assert begun == ear.told
        await link.close()
        assert ["rest", "distrust"] == ear.told[len(begun) :]

    played(story, ear=Ear())
