"""The Redis store before a server that is scripted: what it sends, and what it makes of each answer."""

import asyncio
import os
import ssl
from contextlib import asynccontextmanager
from hashlib import sha1
from itertools import count

import pytest
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import OutOfMemoryError, ReadOnlyError
from redis.exceptions import TimeoutError as ClientTimeout

from apportion.errors import InvalidInput, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import SystemClock
from apportion.stores import Absent, Committed, Put, Unknown
from apportion.stores.catalog import parsed_url
from apportion.stores.redis import link as links
from apportion.stores.redis import scripts
from apportion.stores.redis import store as redis_stores
from apportion.stores.redis.administration import RedisAdministration
from apportion.stores.redis.link import RedisLink, Unanswered, _reason, _where
from apportion.stores.redis.store import RedisStore

INFO = b"redis_version:7.2.4\r\nrun_id:r1\r\nmaster_replid:m1\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"
ENTERED = [b"ok", 5, 7]
SILENT, ENDS = object(), object()


class No(Exception):
    """An answer that is an error, by its text."""


class Server:
    """Answers a command by its name with `answers`; a function is called with the words."""

    def __init__(self, answers):
        self.answers = {b"INFO": INFO, b"EVAL": ENTERED, b"CLIENT": b"OK", b"SELECT": b"OK", **answers}
        self.asked, self.open = [], 0

    async def serve(self, reader, writer):
        self.open += 1
        try:
            while words := await self._words(reader):
                self.asked.append(words)
                answer = self.answers.get(words[0], No("ERR unknown command"))
                answer = answer(words) if callable(answer) else answer
                if answer is ENDS:
                    break
                if answer is not SILENT:
                    writer.write(_written(answer))
        finally:
            self.open -= 1
            writer.close()

    async def _words(self, reader):
        try:
            count = int((await reader.readline())[1:])
            sized = [await reader.readexactly(int((await reader.readline())[1:]) + 2) for _ in range(count)]
        except (ValueError, asyncio.IncompleteReadError, ConnectionError):
            return []  # the client has hung up
        return [word[:-2] for word in sized]

    def named(self, name):
        """The commands of a name, in order."""
        return [words for words in self.asked if words[0] == name]


def _written(answer):
    if isinstance(answer, No):
        return f"-{answer}\r\n".encode()
    if isinstance(answer, int):
        return b":%d\r\n" % answer
    if isinstance(answer, list):
        return b"*%d\r\n%s" % (len(answer), b"".join(map(_written, answer)))
    return b"$-1\r\n" if answer is None else b"$%d\r\n%s\r\n" % (len(answer), answer)


@asynccontextmanager
async def serving(**answers):
    """Within: a server, and its URL."""
    server = Server({name.encode(): answer for name, answer in answers.items()})
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield server, parsed_url(f"redis://127.0.0.1:{port}/0?namespace=crawl")
    finally:
        listening.close()


def played(story, *, greets=True, **answers):
    """Run a story of a server and a link to it."""

    async def main():
        async with asyncio.timeout(10), serving(**answers) as (server, url):
            link = RedisLink(url, greets=greets)
            try:
                await story(server, link)
            finally:
                await link.aclose()
            while server.open:
                await asyncio.sleep(0)

    asyncio.run(main())


def told(story, clock=None, **answers):
    """Run a story of a server and a handle."""

    async def main(server, link):
        store = RedisStore(link, "crawl", clock or SystemClock())
        await store.begin()
        await story(server, store)
        await store.close()

    played(main, **answers)


def once(*answers):
    """Give these answers in turn; the last stays."""
    left = list(answers)

    def answer(words):
        found = left.pop(0) if len(left) > 1 else left[0]
        return found(words) if callable(found) else found

    return answer


def test_every_new_connection_looks_at_the_server_and_tells_it_who_it_is():
    async def story(server, link):
        assert [b"ok", 5, 7] == [b"ok", *(await link.run("script", "a", 1))[1:]]
        assert b"there" == await link.ask("HGET", "a", "b")
        assert 1 == len(server.named(b"INFO"))
        (greeting,) = server.named(b"EVAL")
        names = [b"%d" % len(scripts.NAMES), *(name.encode() for name in scripts.NAMES)]
        assert [scripts.ENTER.encode(), *names, b"r1/m1"] == greeting[1:]
        (asked,) = server.named(b"EVALSHA")
        assert [*names, b"r1/m1", b"a", b"1"] == asked[2:]

    played(story, EVALSHA=ENTERED, HGET=b"there")


def test_a_link_that_only_looks_greets_nobody():
    async def story(server, link):
        await link.ask("PING")
        assert ([], []) == (server.named(b"INFO"), server.named(b"EVAL"))

    played(story, greets=False, PING=b"PONG")


def test_a_script_that_the_server_forgot_is_sent_whole():
    async def story(server, link):
        reply = await link.run("my script", 7)
        assert ["ok", 1] == reply
        assert [b"my script", b"r1/m1", b"7"] == [server.named(b"EVAL")[-1][at] for at in (1, -2, -1)]

    played(story, EVALSHA=No("NOSCRIPT No matching script."), EVAL=once(ENTERED, [b"ok", 1]))


@pytest.mark.parametrize(
    ("info", "entered", "error", "says"),
    [
        (INFO.replace(b"7.2.4", b"6.0.9"), ENTERED, InvalidInput, "Upgrade the server"),
        (INFO + b"master_host:elsewhere\r\n", ENTERED, StoreUnavailable, "replica"),
        (INFO, [b"format", b"9"], InvalidInput, "Use the release of apportion that wrote this format"),
    ],
)
def test_a_server_that_is_refused_is_left_at_once(info, entered, error, says):
    async def story(server, link):
        with pytest.raises(error, match=says):
            await link.ask("PING")
        while server.open:
            await asyncio.sleep(0)
        assert [] == server.named(b"PING")

    played(story, INFO=info, EVAL=entered, PING=b"PONG")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'", StoreUnavailable),
        ("READONLY You can't write against a read only replica.", StoreUnavailable),
        ("MISCONF Redis is configured to save RDB snapshots", StoreUnavailable),
        ("NOREPLICAS Not enough good replicas to write.", StoreUnavailable),
        ("BUSY Redis is busy running a script.", StoreUnavailable),
        ("NOPERM this user has no permissions", StoreDenied),
        ("WRONGPASS invalid username-password pair", StoreDenied),
        ("ERR something else", Unanswered),
    ],
)
def test_an_answer_that_is_an_error_says_whether_anything_may_have_happened(said, error):
    async def story(server, link):
        with pytest.raises(StoreUnavailable if error is not StoreDenied else StoreDenied) as caught:
            await link.ask("SET", "a", "b")
        assert error is type(caught.value)
        assert 1 == len(server.named(b"SET"))

    played(story, SET=No(said))


def test_a_connection_that_ends_without_an_answer_leaves_open_whether_it_happened_and_is_not_used_again():
    async def story(server, link):
        with pytest.raises(Unanswered):
            await link.ask("SET", "a")
        assert 1 == len(server.named(b"SET"))
        assert b"PONG" == await link.ask("PING")

    played(story, SET=ENDS, PING=b"PONG")


def test_silence_is_noticed_within_a_quarter_of_the_shortest_lease_and_resting_connections_go_too(monkeypatch):
    async def story(server, link):
        for ttl_seconds, patience in ((60.0, 2.5), (4.0, 1.0), (8.0, 1.0), (0.08, 0.02)):
            link.granted(ttl_seconds)
            assert patience == link._patience_seconds
        await asyncio.gather(link.ask("PING"), link.ask("PING"))
        assert 2 == server.open
        with pytest.raises(Unanswered, match="no answer in time"):
            await link.ask("SET", "a")
        while server.open:
            await asyncio.sleep(0)
        assert b"PONG" == await link.ask("PING")

    played(story, SET=SILENT, PING=b"PONG")


def test_a_server_may_wait_before_it_answers_for_as_long_as_it_was_told():
    async def story(server, link):
        link.granted(0.08)
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(Unanswered):
            await link.ask("XREAD", within=0.1)
        assert 0.12 <= loop.time() - began < 1.0

    played(story, XREAD=SILENT)


@pytest.mark.parametrize("silent", ["INFO", "EVAL"])
def test_a_server_that_does_not_greet_back_in_time_was_sent_nothing(silent, monkeypatch):
    monkeypatch.setattr(links, "CONNECT_SECONDS", 0.02)

    async def story(server, link):
        with pytest.raises(StoreUnavailable, match="no answer in time") as caught:
            await link.ask("SET", "a")
        assert StoreUnavailable is type(caught.value)
        assert [] == server.named(b"SET")

    played(story, **{silent: SILENT})


def test_a_link_that_is_closed_or_crossed_a_fork_sends_nothing(monkeypatch):
    async def story(server, link):
        with pytest.MonkeyPatch.context() as child:
            child.setattr(os, "getpid", lambda: -1)
            with pytest.raises(StoreClosed, match="forked"):
                await link.ask("PING")
            await link.aclose()
        assert b"PONG" == await link.ask("PING")
        await link.aclose()
        await link.aclose()
        with pytest.raises(StoreClosed):
            await link.ask("PING")
        assert 1 == len(server.named(b"PING"))

    played(story, PING=b"PONG")


def test_a_request_whose_link_is_closed_meanwhile_ends_as_one_of_a_closed_link():
    async def story(server, link):
        asking = asyncio.create_task(link.ask("BLPOP"))
        while not server.named(b"BLPOP"):
            await asyncio.sleep(0)
        await link.aclose()
        with pytest.raises(StoreClosed):
            await asking

    played(story, BLPOP=SILENT)


def test_nobody_listens_is_said_as_the_system_says_it():
    async def main():
        link = RedisLink(parsed_url("redis://127.0.0.1:1/0"))
        with pytest.raises(StoreUnavailable, match="connection refused"):
            await link.ask("PING")

    asyncio.run(main())


def failed_tls(reason):
    error = Disconnected("y")
    error.__context__ = ssl.SSLError(1, "x")
    error.__context__.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OutOfMemoryError("OOM"), "its memory is full (maxmemory)"),
        (TimeoutError(), "no answer in time"),
        (ClientTimeout(), "no answer in time"),
        (failed_tls(None), "TLS failed"),
        (failed_tls("WRONG_VERSION_NUMBER"), "WRONG_VERSION_NUMBER"),
        (Disconnected("Error 111 connecting to h:1. Connect call failed"), "connection refused"),
        (Disconnected("Error 1 connecting to h:1. [SSL: WRONG_VERSION]"), "Error 1 connecting to h:1. [SSL: WRONG"),
        (ReadOnlyError("you write to a replica"), "you write to a replica"),
    ],
)
def test_a_reason_is_told_in_words(error, says):
    assert says in _reason(error)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", {"host": "h", "port": 6379, "db": 0, "username": None, "password": None}),
        ("redis://u:p@h:7/3", {"host": "h", "port": 7, "db": 3, "username": "u", "password": "p"}),
        ("redis://h/16383", {"host": "h", "port": 6379, "db": 16_383, "username": None, "password": None}),
    ],
)
def test_a_url_says_where_to_connect_and_as_whom(url, expected):
    assert expected == _where(parsed_url(url))


def test_with_tls_the_server_and_its_name_are_checked(tmp_path):
    checks = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
    authority = tmp_path / "ca.pem"
    authority.touch()
    for query, ca in (("", None), (f"?ca={authority}", f"{authority}")):
        found = _where(parsed_url(f"rediss://h{query}"))
        assert {**checks, "ssl_ca_certs": ca} == {name: found[name] for name in ("ssl_ca_certs", *checks)}


def test_a_number_beyond_the_databases_is_refused():
    with pytest.raises(InvalidInput, match="a number"):
        _where(parsed_url("redis://h/16384"))


PUT = {"when": [Absent(key="a")], "puts": [Put(key="a", value=b"1")]}


@pytest.mark.parametrize("answer", [ENDS, No("ERR something else")])
def test_a_commit_whose_answer_is_lost_is_unknown(answer):
    async def story(server, store):
        server.answers[b"EVALSHA"] = answer
        assert isinstance(await store.commit(**PUT), Unknown)

    told(story, EVALSHA=ENTERED)


def test_a_write_sends_the_newest_state_that_its_handle_knows():
    async def story(server, store):
        known = []
        for answer in ([b"ok", 6], [b"ok", 9], [b"ok", 8]):
            server.answers[b"EVALSHA"] = answer
            assert Committed(revision=answer[1]) == await store.commit(**PUT)
            known.append(server.named(b"EVALSHA")[-1][2 + 1 + len(scripts.NAMES) + 1 :][:2])
        assert [[b"7", b"5"], [b"7", b"6"], [b"7", b"9"]] == known
        server.answers[b"EVALSHA"] = [b"back", 3, 8]
        with pytest.raises(StoreWentBack, match="revision 9 of incarnation 7"):
            await store.commit(**PUT)

    told(story, EVALSHA=ENTERED)


def test_a_watch_of_a_server_that_is_away_asks_again_after_longer_and_longer_pauses(monkeypatch):
    pauses, sleep = [], asyncio.sleep

    async def pass_by(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(redis_stores.random, "uniform", lambda low, high: 1.0)

    async def story(server, store):
        monkeypatch.setattr(RedisStore, "_begin_to_watch", lambda self: None)
        monkeypatch.setattr(RedisStore, "_end_to_watch", lambda self: None)
        monkeypatch.setattr(redis_stores.asyncio, "sleep", pass_by)
        away, entry = No("OOM full"), [b"6-0", [b"change", b"\0\0\0\7\0\0\0\0crawl/a"]]
        server.answers[b"EVALSHA"] = once(*[away] * 7, [b"ok", [entry]], away, [b"ok", [[b"7-0", entry[1]]]])
        watch = store.watch("", after=5)
        assert 6 == (await anext(watch)).revision
        assert 7 == (await anext(watch)).revision
        monkeypatch.setattr(redis_stores.asyncio, "sleep", sleep)
        await watch.aclose()

    told(story, EVALSHA=ENTERED)
    assert [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 0.05] == pauses


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0)


def test_leases_are_read_for_as_long_as_somebody_watches():
    async def story(server, store):
        server.answers[b"EVALSHA"] = [b"ok", []]
        watches = [asyncio.create_task(anext(store.watch("", after=5))) for _ in range(2)]
        await until(lambda: len(server.named(b"XREAD")) == 2)
        reaping = store._reaping
        for watch, is_left in zip(watches, (False, True), strict=True):
            watch.cancel()
            await asyncio.wait([watch])
            await asyncio.sleep(0)
            assert (is_left, is_left) == (reaping.cancelled(), store._reaping is None)
        assert server.named(b"HGETALL")

    told(story, EVALSHA=ENTERED, XREAD=SILENT, HGETALL=[])


class Clock:
    """Every look at it takes 0.3 s."""

    now = 0.0

    def elapsed(self):
        self.now += 0.3
        return self.now


@pytest.mark.slow
def test_a_lease_that_nobody_renews_is_ended_by_what_was_read_of_it_and_an_error_ends_no_reaping():
    async def story(server, store):
        renewed = count()

        def read(words):
            return [b"7", b"3 1000", b"8", b"%d 1000" % next(renewed)]

        server.answers[b"HGETALL"] = once(No("OOM full"), ENDS, read)
        server.answers[b"EVALSHA"] = [b"ok", []]
        watch = asyncio.create_task(anext(store.watch("", after=5)))
        end = sha1(scripts.END.encode(), usedforsecurity=False).hexdigest().encode()
        await until(lambda: [words for words in server.named(b"EVALSHA") if words[1] == end])
        (ended, *_) = [words for words in server.named(b"EVALSHA") if words[1] == end]
        assert [b"7", b"5", b"7", b"3"] == ended[-4:]
        watch.cancel()
        await asyncio.wait([watch])

    told(story, clock=Clock(), EVALSHA=ENTERED, XREAD=SILENT)


def findings(**answers):
    async def main():
        async with serving(**answers) as (server, url):
            found = await RedisAdministration(url).inspect()
            while server.open:
                await asyncio.sleep(0)
            return found

    return {each.subject: each for each in asyncio.run(asyncio.wait_for(main(), 10))}


@pytest.mark.parametrize(
    ("facts", "subject", "verdict", "says"),
    [
        (b"", "durability", "ok", "append-only file"),
        (b"aof_enabled:0\r\n", "durability", "warning", "snapshots only"),
        (b"aof_last_write_status:err\r\n", "durability", "error", "the last write to the append-only file failed"),
        (b"", "eviction", "ok", "noeviction, no maxmemory"),
        (b"maxmemory:100\r\n", "eviction", "ok", "noeviction, maxmemory 100 bytes"),
        (b"maxmemory_policy:volatile-lru\r\n", "eviction", "warning", "volatile-lru"),
        (b"maxmemory_policy:allkeys-lru\r\n", "eviction", "error", "allkeys-lru"),
        (b"master_host:h\r\n", "server", "error", "replica"),
        (b"", "server", "ok", "Redis 7.2.4"),
        (b"", "format", "ok", f"format {scripts.FORMAT}"),
    ],
)
def test_doctor_finds_what_a_server_says_of_itself(facts, subject, verdict, says):
    found = findings(INFO=INFO + facts, HGET=b"%d" % scripts.FORMAT)[subject]
    assert (verdict, True) == (found.verdict, says in found.found)


@pytest.mark.parametrize(
    ("stored", "verdict", "says"),
    [(None, "ok", "nothing stored yet"), (b"9", "error", "format 9"), (No("NOPERM no"), "error", "lacks rights")],
)
def test_doctor_finds_data_that_another_release_wrote_or_that_may_not_be_read(stored, verdict, says):
    found = findings(HGET=stored)
    assert [(verdict, True)] == [(each.verdict, says in each.found) for each in found.values() if says in each.found]


def test_there_is_no_schema_and_no_counter_of_renewals():
    store = RedisAdministration(parsed_url("redis://h/0"))
    assert ((), ()) == (store.upgrade_statements(), asyncio.run(store.renewals()))


def test_an_upgrade_tells_the_format_before_and_after():
    async def main():
        async with serving(HGET=once(None, b"1"), EVALSHA=ENTERED) as (server, url):
            told = [await RedisAdministration(url).upgrade() for _ in range(2)]
            while server.open:
                await asyncio.sleep(0)
            return told

    assert [(0, scripts.FORMAT), (1, scripts.FORMAT)] == asyncio.run(asyncio.wait_for(main(), 10))
