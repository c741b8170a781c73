"""The connections to an etcd cluster over a scripted transport: which server is asked, and how an outcome is told."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import httpx
import pytest

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.stores.catalog import parsed_url
from apportion.stores.etcd import gateway as gateways
from apportion.stores.etcd import wire as wires
from apportion.stores.etcd.gateway import message_of, pause_seconds
from apportion.stores.etcd.messages import StoreLife, json_of, problem_of, text_of
from apportion.stores.etcd.wire import Distrusted, EtcdNoReply, Rejected, Unreached, Wire, tls
from tests.stores.net import Net, failing, refused, silence

URL = "etcd://u:p@s0:1,s1:2,s2?namespace=crawl"


@pytest.fixture
def net(monkeypatch):
    return Net(monkeypatch)


@asynccontextmanager
async def wired(url=URL):
    """Within: a wire of one user."""
    wire = Wire.taken(parsed_url(url))
    yield wire
    await wire.let_go()


def played(story, url=URL):
    async def main():
        async with asyncio.timeout(10), wired(url) as wire:
            await story(wire)

    asyncio.run(main())


def test_a_request_names_its_server_the_leader_and_a_token_if_there_is_one(net):
    async def story(wire):
        assert b"{}" == await wire.commits.send("/v3/kv/txn", b"body", 0)
        wire.token = "t"
        await wire.renewals.send("/version", None, 2)
        first, second = net.asked
        assert ("POST", "http://s0:1/v3/kv/txn", b"body") == (first.method, str(first.url), first.content)
        assert ("GET", "http://s2:2379/version", b"") == (second.method, str(second.url), second.content)
        assert ["true"] * 2 == [each.headers["Grpc-Metadata-hasleader"] for each in net.asked]
        assert [None, "t"] == [each.headers.get("Authorization") for each in net.asked]
        assert dict.fromkeys(("connect", "read", "write", "pool"), 2.5) == first.extensions["timeout"]

    played(story)


def test_the_connection_of_commits_is_closed_after_a_minute_of_rest_and_that_of_renewals_stays(net):
    async def story(wire):
        kept = [limits.keepalive_expiry for _, limits in net.clients[:2]]
        assert ([60.0, None], [1, 1]) == (kept, [limits.max_connections for _, limits in net.clients[:2]])
        assert 0 == net.clients[2][1].max_keepalive_connections

    played(story)


def test_a_lane_counts_how_often_its_connection_was_opened_and_sends_on_that_one_alone(net):
    async def story(wire):
        lane = wire.commits
        await lane.send("/a", b"", 0)
        net.opens = False
        await lane.send("/b", b"", 0)
        assert (1, 0) == (lane.connects, wire.renewals.connects)
        await lane.send("/c", b"", 0, on=1)
        with pytest.raises(Unreached):
            await lane.send("/d", b"", 0, on=0)
        net.opens = True
        with pytest.raises(Unreached):
            await lane.send("/e", b"", 0, on=1)  # it would open another
        assert ["/a", "/b", "/c"] == [each.url.path for each in net.asked]
        assert 2 == lane.connects

    played(story)


def test_a_lane_carries_one_request_at_a_time(net):
    async def story(wire):
        gate = asyncio.Event()

        async def wait(request):
            await gate.wait()
            return httpx.Response(200, content=b"")

        net.answer = wait
        both = [asyncio.create_task(wire.commits.send(path, b"", 0)) for path in ("/a", "/b")]
        other = asyncio.create_task(wire.renewals.send("/c", b"", 0))
        while len(net.asked) < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ["/a", "/c"] == [each.url.path for each in net.asked]
        gate.set()
        await asyncio.gather(*both, other)

    played(story)


@pytest.mark.parametrize(
    ("error", "kind", "doubts"),
    [
        (httpx.ConnectError("refused"), Unreached, 0),
        (httpx.ConnectTimeout("slow"), Unreached, 0),
        (httpx.PoolTimeout("busy"), Unreached, 0),
        (UnicodeError("no name"), Unreached, 0),
        (httpx.ConnectError("[SSL] certificate verify failed: self-signed"), Distrusted, 0),
        (ssl.SSLError("alert: bad certificate"), Distrusted, 0),
        (httpx.ReadError("reset"), EtcdNoReply, 0),
        (ConnectionResetError("reset"), EtcdNoReply, 0),
        (httpx.ReadTimeout("silent"), EtcdNoReply, 1),
    ],
)
def test_a_request_without_an_answer_is_told_by_whether_it_was_sent_and_its_server_is_left(net, error, kind, doubts):
    async def story(wire):
        doubted = []
        wire.streams.add(lambda: doubted.append(1))
        net.answer = failing(error)
        with pytest.raises((Unreached, EtcdNoReply)) as caught:
            await wire.commits.send("/a", b"", 0)
        assert (kind, 1, doubts) == (type(caught.value), wire.current, len(doubted))
        assert str(error) in str(caught.value)

    played(story)


def test_an_error_of_tls_on_a_connection_that_was_open_may_have_come_after_the_commit(net):
    async def story(wire):
        net.answer, net.opens = failing(ssl.SSLError("bad record")), False
        with pytest.raises(EtcdNoReply):
            await wire.commits.send("/a", b"", 0, on=0)

    played(story)


def test_a_request_that_takes_too_long_is_ended_and_puts_streams_in_doubt_and_its_connection_is_left(net, monkeypatch):
    monkeypatch.setattr(wires, "BUDGET_SECONDS", 0.01)

    async def story(wire):
        doubted = []
        wire.streams.add(lambda: doubted.append(1))
        net.answer = silence
        first = wire.commits._client
        with pytest.raises(EtcdNoReply, match="no answer in time"):
            await wire.commits.send("/a", b"", 0)
        assert ([1], True) == (doubted, first.is_closed)
        net.answer = lambda request: httpx.Response(200, content=b"there")
        assert b"there" == await wire.commits.send("/b", b"", 0)

    played(story)


def test_a_whole_request_takes_no_longer_than_the_lease_allows(net):
    async def story(wire):
        assert [5.0, 2.5] == [wire.budget_seconds(each._patiences) for each in (wire.commits, wire.renewals)]
        wire.granted(60.0)
        assert [5.0, 2.5] == [wire.budget_seconds(each._patiences) for each in (wire.commits, wire.renewals)]
        wire.granted(0.08)
        assert [0.04, 0.02] == [wire.budget_seconds(each._patiences) for each in (wire.commits, wire.renewals)]
        net.answer = silence
        for lane in (wire.commits, wire.renewals):
            async with asyncio.timeout(2.0):
                with pytest.raises(EtcdNoReply, match="no answer in time"):
                    await lane.send("/a", b"", 0)

    played(story)


@pytest.mark.parametrize(
    ("answer", "kind", "current"),
    [
        (refused(400, code=9, message="not as it must be"), Rejected, 0),
        (refused(500, code=2, message="unknown"), EtcdNoReply, 1),
        (refused(503, code=14, message="etcdserver: no leader"), Unreached, 1),
        (refused(503, code=14, message="etcdserver: request timed out"), EtcdNoReply, 1),
        (refused(502), EtcdNoReply, 1),
        (refused(404), StoreUnavailable, 0),
        (refused(499), StoreUnavailable, 0),
        (refused(200), None, 0),
        *((refused(400, code=code, message="no"), Rejected, 0) for code in (3, 5, 7, 8, 11, 12, 16)),
        *((refused(400, code=code, message="perhaps"), EtcdNoReply, 1) for code in (1, 4, 6, 10, 13, 15)),
    ],
)
def test_an_answer_is_told_by_its_code_and_status(net, answer, kind, current):
    async def story(wire):
        net.answer = answer
        try:
            await wire.commits.send("/a", b"", 0)
        except (Rejected, EtcdNoReply, Unreached, StoreUnavailable) as error:
            found = type(error)
        else:
            found = None
        assert (kind, current) == (found, wire.current)

    played(story)


def test_a_server_is_left_in_turn_and_only_if_it_is_still_the_one_that_is_asked(net):
    async def story(wire):
        for at, current in ((1, 0), (0, 1), (0, 1), (1, 2), (2, 0)):
            wire.leave(at)
            assert current == wire.current

    played(story)


def test_a_stream_that_does_not_open_in_time_or_breaks_is_told_and_its_server_left(net):
    async def story(wire):
        wire.granted(0.04)
        net.answer = silence
        with pytest.raises(EtcdNoReply, match="no answer in time"):
            await wire.stream("/v3/watch", b"", 0)
        net.answer = failing(httpx.ConnectError("refused"))
        with pytest.raises(EtcdNoReply, match="refused"):
            await wire.stream("/v3/watch", b"", 1)
        assert 2 == wire.current
        net.answer = refused(200)
        response = await wire.stream("/v3/watch", b"", 2)
        assert (200, {"connect": 0.01, "write": 0.01}) == (response.status_code, net.asked[-1].extensions["timeout"])

    played(story)


def test_a_lease_makes_patience_shorter_and_never_longer(net):
    async def story(wire):
        for ttl_seconds, patience in ((60.0, 2.5), (4.0, 1.0), (8.0, 1.0), (2.0, 0.5)):
            wire.granted(ttl_seconds)
            assert patience == wire.patience_seconds

    played(story)


def test_handles_of_one_cluster_share_a_wire_until_the_last_lets_it_go(net):
    async def main():
        first = Wire.taken(parsed_url(URL))
        assert Wire.taken(parsed_url(URL.replace("crawl", "other"))) is first
        other = Wire.taken(parsed_url("etcd://s0:1"))
        assert other is not first
        await first.let_go()
        assert [False] * 6 == [client.is_closed for client, _ in net.clients]
        await first.let_go()
        assert [True] * 3 + [False] * 3 == [client.is_closed for client, _ in net.clients]
        again = Wire.taken(parsed_url(URL))
        assert again is not first
        await again.let_go()
        await other.let_go()
        assert all(client.is_closed for client, _ in net.clients)
        assert {} == wires._shared._uses

    asyncio.run(main())


def test_a_wire_of_a_loop_that_is_closed_is_forgotten(net):
    async def main():
        Wire.taken(parsed_url(URL))

    asyncio.run(main())
    played(lambda wire: asyncio.sleep(0))
    assert {} == wires._shared._uses


def test_an_error_without_words_is_told_by_its_kind():
    assert "no answer in time (TimeoutError)" == wires.said(TimeoutError())
    assert "reset" == wires.said(OSError("reset"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"error": "no", "code": 7}', (7, "no")),
        (b'{"error": "no", "message": "better", "code": 7}', (7, "better")),
        (b'{"error": "no"}', (2, "no")),
        (b'{"error": {"grpc_code": 7, "message": "no"}}', (7, "no")),
        (b'{"error": {}}', (2, "")),
        (b"[]", (2, "")),
        (b"<html>", (2, "")),
    ],
)
def test_a_problem_is_read_from_an_answer_or_from_a_line_of_a_stream(content, expected):
    assert expected == problem_of(content)


@pytest.mark.parametrize("content", [b"[]", b"7", b"", b"<html>", b"\xff"])
def test_what_is_no_object_is_an_empty_answer_and_no_line_of_a_stream(content):
    assert {} == json_of(content)
    with pytest.raises(EtcdNoReply):
        message_of(content)


@pytest.mark.parametrize("surplus", [None, 0, -55, 7])
def test_a_life_reads_back_as_it_was_written(surplus):
    life = StoreLife.of(3, "7", surplus)
    found = StoreLife.read({"kvs": [{"value": text_of(life.written)}]})
    assert (life, None) == (found, StoreLife.read({}))


def test_pauses_grow_up_to_a_bound_with_jitter(monkeypatch):
    spread = []

    def uniform(low, high):
        spread.append((low, high))
        return 1.0

    monkeypatch.setattr(gateways.random, "uniform", uniform)
    assert [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5] == [pause_seconds(failed) for failed in (0, 1, 2, 3, 4, 5, 5000)]
    assert {(0.5, 1.0)} == set(spread)


def test_without_tls_nobody_is_trusted_and_files_that_are_none_are_refused(tmp_path):
    assert tls(parsed_url("etcd://s0")) is False
    assert ssl.CERT_REQUIRED == tls(parsed_url("etcds://s0")).verify_mode
    empty = tmp_path / "empty.pem"
    empty.touch()
    for option in ("ca", "cert"):
        with pytest.raises(InvalidInput, match="readable PEM files"):
            tls(parsed_url(f"etcds://s0?{option}={empty}"))
