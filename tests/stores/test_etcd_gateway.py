"""A handle's use of an etcd cluster over a scripted transport: what is asked again, tokens, streams, and its end."""

import asyncio
import json
import os
from contextlib import asynccontextmanager

import httpx
import pytest

from apportion.errors import StoreClosed, StoreDenied, StoreUnavailable
from apportion.stores.catalog import parsed_url
from apportion.stores.etcd import gateway as gateways
from apportion.stores.etcd.gateway import Gateway
from apportion.stores.etcd.wire import EtcdNoReply, Rejected, Unreached
from tests.stores.net import Net, failing, refused, silence

ALONE = "etcd://s0?namespace=crawl"
THREE = "etcd://s0,s1,s2?namespace=crawl"
NAMED = "etcd://u:p@s0?namespace=crawl"
AUTHENTICATE = "/v3/auth/authenticate"


@pytest.fixture
def net(monkeypatch):
    return Net(monkeypatch)


@pytest.fixture(autouse=True)
def slept(monkeypatch):
    """The pauses between two tries, which take no time."""
    pauses, sleep = [], asyncio.sleep

    async def pass_by(seconds):
        if seconds == 3600:
            await sleep(seconds)
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(gateways.asyncio, "sleep", pass_by)
    monkeypatch.setattr(gateways.random, "uniform", lambda low, high: 1.0)
    return pauses


@asynccontextmanager
async def opened(url):
    gateway = Gateway(parsed_url(url))
    try:
        yield gateway
    finally:
        await gateway.aclose()


def played(story, url=ALONE):
    async def main():
        async with asyncio.timeout(10), opened(url) as gateway:
            await story(gateway)

    asyncio.run(main())


def script(net, *answers):
    """Let requests be answered in this order; the last answer stays."""
    left = list(answers)

    def answer(request):
        return (left.pop(0) if len(left) > 1 else left[0])(request)

    net.answer = answer


def given(**reply):
    return lambda request: httpx.Response(200, content=json.dumps(reply).encode())


def paths(net):
    return [(each.url.host, each.url.path) for each in net.asked]


LOST = failing(httpx.ReadError("reset"))
AWAY = failing(httpx.ConnectError("refused"))


@pytest.mark.parametrize("is_first", [False, True])
def test_what_got_no_answer_is_asked_of_the_next_server_at_once_and_then_after_pauses(net, slept, is_first):
    async def story(gateway):
        script(net, AWAY, LOST, LOST, LOST, LOST, LOST, given(a=1))
        assert {"a": 1} == await gateway.ask("/a", {}, is_first=is_first)
        assert ["s0", "s1", "s2", "s0", "s1", "s2", "s0"] == [host for host, _ in paths(net)]
        assert [0, 0.02, 0.04, 0.04, 0.04, 0.08] == slept

    played(story, THREE)


def test_commits_and_renewals_have_lanes_of_their_own(net):
    async def story(gateway):
        for is_first, counts in ((False, (1, 0)), (True, (1, 1))):
            await gateway.ask("/a", {}, is_first=is_first)
            assert counts == (gateway.connects, gateway.wire.renewals.connects)

    played(story)


@pytest.mark.parametrize(
    ("url", "answers", "error", "count"),
    [
        (ALONE, [AWAY], StoreUnavailable, 1),
        (THREE, [AWAY], StoreUnavailable, 3),
        (THREE, [LOST, LOST, LOST, LOST, AWAY], StoreUnavailable, 5),
        (THREE, [failing(httpx.ConnectError("certificate verify failed"))], StoreDenied, 3),
        (ALONE, [refused(400, code=9, message="no")], Rejected, 1),
    ],
)
def test_a_cluster_is_given_up_when_every_server_failed_and_the_last_was_not_reached(net, url, answers, error, count):
    async def story(gateway):
        script(net, *answers)
        with pytest.raises(error):
            await gateway.ask("/a", {})
        assert count == len(net.asked)

    played(story, url)


def test_servers_that_never_answer_are_given_up_after_the_budget(net, monkeypatch):
    monkeypatch.setattr(gateways, "BUDGET_SECONDS", 0.02)

    async def story(gateway):
        net.answer = LOST
        with pytest.raises(StoreUnavailable, match=r"within 0\.02 s"):
            await gateway.ask("/a", {})

    played(story, THREE)


def test_pauses_between_tries_double_up_to_half_a_second():
    assert [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5] == [gateways.pause_seconds(failed) for failed in (*range(6), 5_000)]


@pytest.mark.parametrize(("answer", "error"), [(LOST, EtcdNoReply), (AWAY, Unreached)])
def test_a_commit_is_told_once_and_never_over_a_connection_that_was_opened_for_it(net, answer, error):
    async def story(gateway):
        net.answer = answer
        with pytest.raises(error):
            await gateway.tell("/a", {}, on=0)

    net.opens = False
    played(story)
    assert 1 == len(net.asked)
    net.opens = True
    played(_unreached)
    assert 1 == len(net.asked)


async def _unreached(gateway):
    with pytest.raises(Unreached):
        await gateway.tell("/a", {}, on=0)


def test_a_user_is_authenticated_once_and_its_token_goes_with_every_request(net):
    async def story(gateway):
        script(net, given(token="t1"), given(a=1))
        await gateway.ask("/a", {})
        net.opens = False
        await gateway.tell("/b", {}, on=gateway.connects)
        assert [AUTHENTICATE, "/a", "/b"] == [path for _, path in paths(net)]
        assert {"name": "u", "password": "p"} == json.loads(net.asked[0].content)
        assert [None, "t1", "t1"] == [each.headers.get("Authorization") for each in net.asked]

    played(story, NAMED)


@pytest.mark.parametrize(
    "message", ["etcdserver: invalid auth token", "etcdserver: revision in header is old", "user name is empty"]
)
def test_a_token_that_is_old_is_renewed_and_the_request_sent_once_more(net, message):
    old = refused(400, code=16, message=message)

    async def story(gateway):
        script(net, given(token="t1"), old, given(token="t2"), given(a=1))
        assert {"a": 1} == await gateway.ask("/a", {})
        assert ["t1", "t2"] == [each.headers["Authorization"] for each in net.asked if each.url.path == "/a"]
        script(net, old, given(token="t3"), old)
        with pytest.raises(Rejected):
            await gateway.ask("/a", {})
        assert 7 == len(net.asked)

    played(story, NAMED)


def test_another_refusal_or_one_of_a_handle_without_a_user_is_not_asked_again(net):
    async def story(gateway):
        script(net, given(token="t1"), refused(400, code=9, message="not as it must be"))
        with pytest.raises(Rejected):
            await gateway.ask("/a", {})
        assert 2 == len(net.asked)

    async def nameless(gateway):
        script(net, refused(400, code=16, message="user name is empty"))
        with pytest.raises(Rejected):
            await gateway.ask("/a", {})
        assert 3 == len(net.asked)

    played(story, NAMED)
    played(nameless)


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (refused(400, code=3, message="invalid user ID or password"), StoreDenied, "refuses the user of the URL"),
        (refused(429, code=8, message="too many requests"), StoreUnavailable, "too many requests"),
        (LOST, Unreached, "reset"),
    ],
)
def test_a_user_that_is_not_let_in_has_sent_no_request(net, answer, error, says):
    async def story(gateway):
        net.answer = answer
        with pytest.raises(error, match=says):
            await gateway.tell("/a", {}, on=0)
        assert [AUTHENTICATE] == [path for _, path in paths(net)]

    played(story, NAMED)


def test_a_visit_asks_one_server_once_as_the_user_of_the_url(net):
    async def story(gateway):
        script(net, given(token="t1"), given(a=1), LOST)
        assert {"a": 1} == await gateway.visit("/version", None, 0)
        assert ("GET", "t1") == (net.asked[1].method, net.asked[1].headers["Authorization"])
        with pytest.raises(EtcdNoReply):
            await gateway.visit("/b", {}, 0)
        assert 3 == len(net.asked)
        await gateway.aclose()
        with pytest.raises(StoreClosed):
            await gateway.visit("/c", {}, 0)

    played(story, NAMED)


class Lines:
    """A stream whose chunks are given one by one."""

    def __init__(self):
        self.chunks = asyncio.Queue()

    async def content(self):
        while (chunk := await self.chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    def answer(self, request):
        return httpx.Response(200, content=self.content())


@asynccontextmanager
async def streaming(net, gateway):
    """Within: an open stream, and where its lines come from."""
    lines = Lines()
    net.answer = lines.answer
    stream = await gateway.open("/v3/watch", b"{}")
    try:
        yield stream, lines.chunks.put_nowait
    finally:
        await stream.close()


def test_the_lines_of_a_stream_come_whole_however_they_are_cut(net):
    async def story(gateway):
        async with streaming(net, gateway) as (stream, send):
            for chunk in (b'{"a": ', b"1}", b'\n{"a": 2}\n\n{"a"', b": 3}\n"):
                send(chunk)
            assert [1, 2] == [(await stream.next(timeout_seconds=5))["a"] for _ in range(2)]
            with pytest.raises(EtcdNoReply, match="not JSON"):
                await stream.next(timeout_seconds=5)
            assert {"a": 3} == await stream.next(timeout_seconds=5)

    played(story)


def test_a_pause_in_a_stream_is_told_apart_from_its_end(net):
    async def story(gateway):
        async with streaming(net, gateway) as (stream, send):
            assert await stream.next(timeout_seconds=0.001) is None
            assert await stream.next(timeout_seconds=0.001) is None
            send(b'{"a": 1}\n')
            assert {"a": 1} == await stream.next(timeout_seconds=5)
            send(None)
            with pytest.raises(EtcdNoReply, match="has ended"):
                await stream.next(timeout_seconds=5)
        async with streaming(net, gateway) as (stream, send):
            send(httpx.ReadError("reset"))
            with pytest.raises(EtcdNoReply, match="reset"):
                await stream.next(timeout_seconds=5)

    played(story)


def test_a_stream_in_doubt_ends_and_one_that_nobody_waits_for_does_not(net):
    async def story(gateway):
        async with streaming(net, gateway) as (stream, _):
            gateway.wire.doubt()
            waiting = asyncio.create_task(stream.next(timeout_seconds=5))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            gateway.wire.doubt()
            with pytest.raises(EtcdNoReply, match="was closed"):
                await waiting
        assert (set(), set()) == (gateway.streams, gateway.wire.streams)

    played(story)


@pytest.mark.parametrize("user", [ALONE, NAMED])
def test_a_stream_that_is_refused_is_told_and_its_token_expires(net, user):
    async def story(gateway):
        script(net, *([given(token="t1")] if user == NAMED else []), refused(403, code=7, message="denied"))
        with pytest.raises(EtcdNoReply, match="denied"):
            await gateway.open("/v3/watch", b"{}")
        assert ("", set()) == (gateway.wire.token, gateway.streams)

    played(story, user)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [httpx.ReadError("reset"), None])
def test_a_refusal_of_a_stream_that_does_not_come_is_told(net, broken, monkeypatch):
    monkeypatch.setattr(gateways, "BUDGET_SECONDS", 0.01)

    async def content():
        yield b"{"
        if broken is not None:
            raise broken
        await silence(None)

    async def story(gateway):
        net.answer = lambda request: httpx.Response(503, content=content())
        with pytest.raises(EtcdNoReply):
            await gateway.open("/v3/watch", b"{}")

    played(story)


def test_a_handle_that_is_closed_ends_its_streams_and_asks_nothing_more(net):
    async def story(gateway):
        async with opened(ALONE) as other, streaming(net, gateway) as (stream, _), streaming(net, other) as (left, _):
            waiting = asyncio.create_task(stream.next(timeout_seconds=5))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await gateway.aclose()
            await gateway.aclose()
            with pytest.raises(EtcdNoReply):
                await waiting
            assert {left} == other.streams
            assert not net.clients[0][0].is_closed
        for ask in (gateway.ask("/a", {}), gateway.tell("/a", {}, on=0), gateway.open("/a", b"")):
            with pytest.raises(StoreClosed):
                await ask
        assert all(client.is_closed for client, _ in net.clients)

    played(story)


@pytest.mark.parametrize("ask", [lambda gateway: gateway.ask("/a", {}), lambda gateway: gateway.tell("/a", {}, on=0)])
def test_a_request_under_way_when_its_handle_is_closed_ends_as_one_of_a_closed_handle(net, ask):
    async def story(gateway):
        async def close(request):
            gateway.closed = True
            raise httpx.ReadError("reset")

        net.opens, net.answer = False, close
        with pytest.raises(StoreClosed):
            await ask(gateway)
        gateway.closed = False

    played(story)


def test_a_forked_child_asks_nothing_and_closes_nothing(net):
    async def story(gateway):
        async with streaming(net, gateway) as (stream, _):
            with pytest.MonkeyPatch.context() as child:
                child.setattr(os, "getpid", lambda: -1)
                with pytest.raises(StoreClosed, match="forked"):
                    await gateway.ask("/a", {})
                await stream.close()
                await gateway.aclose()
            assert ({stream}, False) == (gateway.streams, gateway.closed)
            assert not any(client.is_closed for client, _ in net.clients)

    played(story)
