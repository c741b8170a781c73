"""An etcd handle with a server that answers oddly, late, in part, or not at all; no etcd is needed."""

import asyncio
import base64
import json
import sys
import time
from contextlib import aclosing, asynccontextmanager

import pytest

from apportion import stores
from apportion.errors import (
    Compacted,
    InvalidInput,
    MissingExtra,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
    UnknownOption,
)
from apportion.sim.conformance.proxy import Proxy
from apportion.stores import Absent, Put, Unknown
from apportion.stores.etcd import wire
from apportion.stores.etcd.messages import range_of

CLUSTER = "7"
PUT = {"when": [Absent(key="a")], "puts": [Put(key="a", value=b"1")]}


def text(data):
    """Return bytes as the gateway writes them."""
    return base64.b64encode(data).decode()


def header(revision=5, cluster=CLUSTER):
    """Return the member that answers, and its revision."""
    return {"cluster_id": cluster, "revision": str(revision)}


LIFE = {"kvs": [{"key": text(b"!apportion/incarnation"), "value": text(b"1 7 2"), "mod_revision": "2"}]}
LOOK = {"header": header(), **LIFE}
LATER = [{"header": header(9), **LIFE}]
STATUS = {"header": header(), "raftAppliedIndex": "9"}


class Server:
    """Speaks HTTP: `answers` says for a path what to send, as lines; None ends the connection without a word."""

    def __init__(self, answers):
        usual = {"/v3/kv/range": [LOOK], "/v3/maintenance/status": [STATUS]}
        self.answers, self.asked, self.open = {**usual, **answers}, [], 0

    async def serve(self, reader, writer):
        self.open += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                sizes = [int(line.split(":")[1]) for line in head.splitlines() if line.startswith("Content-Length")]
                body = await reader.readexactly(sum(sizes))
                path = head.split()[1]
                self.asked.append((path, body, head))
                answer = self.answers.get(path)
                answer = answer(body) if callable(answer) else answer
                if answer is None:
                    break
                data = self.written(answer)
                writer.write(data)
                await writer.drain()
                if b"Connection: close" in data:
                    break
        except asyncio.IncompleteReadError:
            pass  # the client has hung up
        finally:
            self.open -= 1
            writer.close()

    @staticmethod
    def written(answer):
        """Return an answer as HTTP; bytes are sent as they are."""
        if isinstance(answer, bytes):
            return answer
        data = b"".join(json.dumps(line).encode() + b"\n" for line in answer)
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)

    def count(self, path):
        return sum(asked == path for asked, _, _ in self.asked)


@asynccontextmanager
async def serving(**answers):
    """Within: a server, and the URL of it; the names are those of paths."""
    server = Server({f"/v3/{path.replace('_', '/')}": answer for path, answer in answers.items()})
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield server, f"etcd://127.0.0.1:{port}?namespace=crawl"
    finally:
        listening.close()


@asynccontextmanager
async def connected(**answers):
    """Within: a server, and a handle of it."""
    async with serving(**answers) as (server, url):
        store = await stores.connect(url)
        try:
            yield server, store
        finally:
            await store.close()


def stream(*results, status="200 OK"):
    """Return the lines of a watch on a connection that is then lost."""
    lines = b"".join(json.dumps({"result": {"header": header(9), **each}}).encode() + b"\n" for each in results)
    return b"HTTP/1.1 %s\r\nConnection: close\r\n\r\n%s" % (status.encode(), lines)


def event(key, revision):
    return {"kv": {"key": text(b"crawl/" + key), "value": text(key), "mod_revision": str(revision)}}


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        ("etcd://", InvalidInput, "the hosts of its servers"),
        ("etcd://a:1,,b:2", InvalidInput, "the hosts of its servers"),
        ("etcd://a:1/db", InvalidInput, "path of the store URL"),
        ("etcd://:S3cret@a:1", InvalidInput, "a name before the password"),
        ("etcd://a:1?ca=x", UnknownOption, "one of namespace"),
        ("etcds://a:1?sert=x", UnknownOption, "Did you mean 'cert'"),
        ("etcds://a:1?ca=/no/such/file", InvalidInput, "readable PEM files"),
        ("etcd://[a:1", InvalidInput, "store URL"),
        ("etcd://a\x01:1", InvalidInput, "store URL"),
        (f"etcd://{'x' * 300}:1", StoreUnavailable, "is unavailable"),
        ("etcd://127.0.0.1:1", StoreUnavailable, "is unavailable"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_by_what_is_wrong(url, error, says):
    with pytest.raises(error, match=says) as refused:
        asyncio.run(stores.connect(url))
    assert "S3cret" not in f"{refused.value}{refused.value!r}"


def test_without_httpx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r"apportion\[etcd\]"):
        asyncio.run(stores.connect("etcd://a:1"))


@pytest.mark.parametrize(
    "answer", [[{}], [[]], b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", b"junk\r\n\r\n"]
)
def test_a_server_that_is_no_etcd_is_unavailable(answer, monkeypatch):
    monkeypatch.setattr("apportion.stores.etcd.gateway.BUDGET_SECONDS", 0.3)

    async def run():
        async with serving(kv_range=answer) as (_, url):
            with pytest.raises(StoreUnavailable):
                await stores.connect(url)

    asyncio.run(run())


def test_a_key_of_the_incarnation_that_we_did_not_write_is_refused():
    strange = {"header": header(), "kvs": [{"value": text(b"mine!"), "mod_revision": "2"}]}

    async def run():
        async with serving(kv_range=[strange]) as (_, url):
            with pytest.raises(StoreUnavailable, match="holds a value that apportion did not write"):
                await stores.connect(url)

    asyncio.run(run())


def failing(code, message, status=503):
    """Return an error as the gateway writes it."""
    data = json.dumps({"error": message, "message": message, "code": code}).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(data), data)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        failing(14, "etcdserver: request timed out"),
        failing(14, "etcdserver: leader changed"),
        failing(2, "context deadline exceeded", 500),
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nhtml",  # of a proxy
        [{}],
    ],
)
def test_a_commit_whose_answer_tells_nothing_is_unknown_and_sent_once(answer):
    async def run():
        async with connected(kv_txn=answer) as (server, store):
            assert isinstance(await store.commit(**PUT), Unknown)
            assert 1 == server.count("/v3/kv/txn")

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (failing(14, "etcdserver: no leader"), StoreUnavailable, "no leader"),
        (failing(8, "etcdserver: mvcc: database space exceeded", 429), StoreUnavailable, "alarm disarm"),
        (failing(7, "etcdserver: permission denied", 403), StoreDenied, "store grants URL --user"),
        (failing(3, "etcdserver: too many operations in txn request", 400), InvalidInput, "--max-txn-ops"),
        ([{"header": header(6, "8"), "succeeded": True}], StoreWentBack, "its cluster is 8"),
        ([{"header": header(4), "succeeded": True}], StoreWentBack, "its revision is 4"),
        ([{"header": header(6), "responses": [{"response_range": {}}]}], StoreWentBack, "no incarnation"),
    ],
)
def test_a_commit_that_was_answered_with_no_says_why(answer, error, says):
    async def run():
        async with connected(kv_txn=answer) as (_, store):
            with pytest.raises(error, match=says):
                await store.commit(**PUT)

    asyncio.run(run())


def test_a_request_that_waited_does_nothing_in_a_life_that_a_scan_accepted_meanwhile():
    other = {"kvs": [{**LIFE["kvs"][0], "value": text(b"2 7 2")}]}
    answered = {
        "kv_txn": failing(14, "etcdserver: no leader"),  # so that the commit waits for its next try
        "lease_keepalive": [{"result": {"header": header(6), "ID": "1", "TTL": "5"}}],
        "lease_grant": [{"header": header(6), "ID": "1", "TTL": "5"}],
    }

    async def run():
        async with connected(**answered) as (server, store):
            lane = store._gateway.wire.renewals
            await lane.turn.acquire()
            waiting = [asyncio.ensure_future(ask) for ask in (store.commit(**PUT), store.renew([1]))]
            async with asyncio.timeout(5):
                while server.count("/v3/kv/txn") < 2:
                    await asyncio.sleep(0)
            server.answers["/v3/kv/range"] = [{"header": header(6), **other}]
            server.answers["/v3/kv/txn"] = [
                {"header": header(6), "responses": [{"response_range": other}, {"response_range": {}}]}
            ]
            assert 2 == (await store.scan("")).incarnation
            lane.turn.release()
            for each in waiting:
                with pytest.raises(StoreWentBack):
                    await each
            await store.grant(ttl_seconds=5)  # which began after the scan

    asyncio.run(run())


def test_a_watch_does_not_go_on_in_a_life_that_a_scan_accepted_meanwhile():
    other = {"kvs": [{**LIFE["kvs"][0], "value": text(b"2 7 2")}]}
    life = {"watch_id": "1", "created": True, "header": header()}
    shown = stream({"created": True}, life, {"events": [event(b"a", 6)]})

    async def run():
        async with (
            connected(watch=lambda body: shown) as (server, store),
            aclosing(store.watch("", after=5)) as changes,
        ):
            assert 6 == (await anext(changes)).revision
            server.answers["/v3/kv/range"] = [{"header": header(9), **other}]
            server.answers["/v3/kv/txn"] = [
                {"header": header(9), "responses": [{"response_range": other}, {"response_range": {}}]}
            ]
            assert 2 == (await store.scan("")).incarnation
            with pytest.raises(StoreWentBack):
                await anext(changes)

    asyncio.run(asyncio.wait_for(run(), 10))


def test_an_upgrade_asks_the_cluster():
    with pytest.raises(StoreUnavailable):
        asyncio.run(stores.administration("etcd://127.0.0.1:1").upgrade())

    async def run():
        async with serving() as (_, url):
            assert (1, 1) == await stores.administration(url).upgrade()

    asyncio.run(run())


@pytest.mark.parametrize("user", ["", "a b", "a'b", 'a"b', "a\nb", "-a", None, 7])
def test_a_user_whose_name_would_be_read_as_more_gets_no_grants(user):
    with pytest.raises(InvalidInput, match="without blanks"):
        stores.administration("etcd://127.0.0.1:1").grants(user)


def test_every_request_asks_for_a_server_that_has_a_leader():
    async def run():
        async with connected(kv_txn=[{"header": header(6), "succeeded": True}]) as (server, store):
            await store.commit(**PUT)
            assert [] == [path for path, _, head in server.asked if "Grpc-Metadata-hasleader: true" not in head]

    asyncio.run(run())


def test_leases_that_got_no_answer_are_asked_for_again_and_not_called_dead():
    def first_only(body):
        asked = json.loads(body.split(b"\n")[0])["ID"]
        return [{"result": {"header": header(), "ID": asked, "TTL": "0" if asked == "3" else "9"}}]

    async def run():
        async with connected(lease_keepalive=first_only) as (_, store):
            assert frozenset({1, 2, 4}) == await store.renew([1, 2, 3, 4])

    asyncio.run(run())


@pytest.mark.slow
def test_a_lease_that_is_never_answered_for_is_an_error_and_not_a_dead_lease():
    refused = [{"error": {"grpc_code": 14, "message": "etcdserver: no leader"}}]

    async def run():
        async with connected(lease_keepalive=refused) as (_, store):
            with pytest.raises(StoreUnavailable, match="no leader"):
                await store.renew([1])

    asyncio.run(run())


def test_a_change_comes_whole_though_the_stream_was_lost_between_two_fragments():
    answers = [
        stream({"created": True}, {"fragment": True, "events": [event(b"a", 6), event(b"b", 7)]}),
        stream(
            {"created": True},
            {"fragment": True, "events": [event(b"a", 6), event(b"b", 7)]},
            {"events": [event(b"c", 7)]},
        ),
        stream({"created": True}, {"events": [event(b"c", 7), event(b"d", 9)]}),
    ]
    asked = []

    def watch(body):
        asked.append(json.loads(body.split(b"\n")[0])["create_request"]["start_revision"])
        return answers[min(len(asked), len(answers)) - 1]

    async def run():
        async with connected(watch=watch, kv_range=LATER) as (_, store), aclosing(store.watch("", after=5)) as changes:
            return [await anext(changes) for _ in range(3)]

    found = asyncio.run(run())
    assert [(6, ["a"]), (7, ["b", "c"]), (9, ["d"])] == [
        (each.revision, [one.key for one in each.events]) for each in found
    ]
    assert ["5", "6", "7"] == asked


def test_progress_moves_the_place_a_watch_goes_on_from():
    asked = []

    def watch(body):
        asked.append(int(json.loads(body.split(b"\n")[0])["create_request"]["start_revision"]))
        return stream({"created": True}, {"header": header(8)} if len(asked) == 1 else {"events": [event(b"a", 9)]})

    async def run():
        async with connected(watch=watch, kv_range=LATER) as (_, store), aclosing(store.watch("", after=5)) as changes:
            return await anext(changes)

    assert 9 == asyncio.run(run()).revision
    assert [5, 8] == asked


@pytest.mark.parametrize(
    ("while_opening", "since", "revisions"), [(5, ["6"], [8, 9]), (6, ["6", "5"], [6, 8]), (8, ["6", "5"], [6, 8])]
)
def test_a_watch_that_missed_nothing_begins_at_what_comes_next_unless_something_came_while_it_was_opened(
    while_opening, since, revisions
):
    asked = []

    def watch(body):
        asked.append(json.loads(body.split(b"\n")[0])["create_request"]["start_revision"])
        later = [{"events": [event(b"a", 8)]}, {"events": [event(b"a", 9)]}]
        if len(asked) > 1:  # a server that left out what it should have said, as it was compacted there
            return stream({"created": True}, {"events": [event(b"a", 6)]}, *later)
        life = {"watch_id": "1", "created": True, "header": header(while_opening)}
        return stream({"created": True, "header": header()}, later[0], life, later[1])

    async def run():
        serving = connected(watch=watch, kv_range=lambda body: LATER if asked else [LOOK])
        async with serving as (_, store), aclosing(store.watch("", after=5)) as changes:
            return [(await anext(changes)).revision for _ in revisions]

    assert revisions == asyncio.run(run())
    assert since == asked


def test_only_what_the_watched_range_lost_is_called_compacted():
    ended = {"canceled": True, "compact_revision": "8"}
    answers = [stream({"watch_id": "1", **ended}), stream({"events": [event(b"a", 9)]}, ended)]

    async def run():
        serving = connected(watch=lambda body: answers.pop(0), kv_range=LATER)
        async with serving as (_, store), aclosing(store.watch("", after=5)) as changes:
            assert 9 == (await anext(changes)).revision
            with pytest.raises(Compacted) as compacted:
                await anext(changes)
            assert (9, 8) == (compacted.value.after, compacted.value.oldest)

    asyncio.run(run())


@pytest.mark.parametrize(("times", "warnings"), [(1, 0), (2, 1), (4, 1)])
def test_a_watch_that_is_denied_more_than_once_says_so_once_and_goes_on_when_it_is_allowed(caplog, times, warnings):
    denied = stream({"created": True, "canceled": True, "cancel_reason": "etcdserver: permission denied"})
    answers = [denied] * times  # once is no more than a token that expired

    def watch(body):
        return answers.pop() if answers else stream({"created": True}, {"events": [event(b"a", 9)]})

    async def run():
        async with connected(watch=watch, kv_range=LATER) as (_, store), aclosing(store.watch("", after=5)) as changes:
            return (await anext(changes)).revision

    assert 9 == asyncio.run(asyncio.wait_for(run(), 10))
    said = [each.getMessage() for each in caplog.records if each.name.startswith("apportion")]
    assert warnings == len(said)
    assert all("A watch waits" in each and "permission denied" in each for each in said)


COPIED = {"header": header(60), "raftAppliedIndex": "5"}


def begun(server):
    """Return the lives that were begun: incarnation, cluster and surplus of each."""
    asked = [json.loads(body) for path, body, _ in server.asked if path == "/v3/kv/txn"]
    puts = [
        each["success"][0]["request_put"] for each in asked if each["success"] and "request_put" in each["success"][0]
    ]
    lives = [put["value"] for put in puts if put["key"] == LIFE["kvs"][0]["key"]]
    return [base64.b64decode(life).decode().split(" ")[1:] for life in lives]


def test_a_cluster_whose_log_is_too_short_for_its_revision_was_restored_and_begins_another_life():
    lives = [LOOK]

    def reborn(body):
        lives[0] = {"header": header(61), "kvs": [{**LIFE["kvs"][0], "value": text(b"2 7 -55")}]}
        return [{"header": header(61), "succeeded": True}]

    async def run():
        answers = {"maintenance_status": [COPIED], "kv_txn": reborn, "kv_range": lambda body: lives}
        async with connected(**answers) as (server, _):
            return begun(server)

    assert [["7", "-55"]] == asyncio.run(run())


@pytest.mark.parametrize(
    "status",
    [
        [{"header": header(60), "raftAppliedIndex": "31"}],
        [{"header": header(60)}],
        failing(7, "permission denied", 403),
    ],
    ids=["between two entries", "it does not say", "it may not say"],
)
def test_a_log_that_may_explain_its_revision_begins_no_other_life(status):
    async def run():
        async with connected(maintenance_status=status) as (server, _):
            return begun(server)

    assert [] == asyncio.run(run())


@pytest.mark.parametrize("status", [None, failing(14, "etcdserver: request timed out")])
def test_a_server_that_does_not_say_how_long_its_log_is_is_unavailable(status):
    async def run():
        async with serving(maintenance_status=status) as (_, url):
            with pytest.raises(StoreUnavailable):
                await stores.connect(url)

    asyncio.run(run())


def test_a_request_for_a_range_names_its_bounds_and_its_most_keys():
    assert {"key": text(b"a"), "limit": 0, "revision": "0"} == range_of(b"a")
    expected = {"key": text(b"a"), "range_end": text(b"b"), "limit": 5, "revision": "7"}
    assert expected == range_of(b"a", b"b", limit=5, revision=7)


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def run():
        async with connected() as (server, _):
            return server.count("/v3/kv/range")

    assert 0 < asyncio.run(run())


GRANTED = [{"header": header(), "ID": "1", "TTL": "2"}]
KEPT = [{"result": {"header": header(), "ID": "1", "TTL": "2"}}]


@asynccontextmanager
async def behind_a_proxy(**answers):
    """Within: a proxy before a server, and a handle that goes through it."""
    async with serving(**answers) as (server, url):
        proxy = Proxy(("127.0.0.1", int(url.split(":")[2].split("?")[0])))
        await proxy.open()
        store = await stores.connect(f"etcd://127.0.0.1:{proxy.address[1]}?namespace=crawl")
        try:
            yield server, proxy, store
        finally:
            await store.close()
            await proxy.close()


async def twice(store):
    for _ in range(2):
        await store.commit(**PUT)


def test_an_old_handle_does_not_commit_to_a_snapshot_that_was_restored_behind_its_back():
    committed = [{"header": header(61), "succeeded": True}]

    async def run():
        async with behind_a_proxy(kv_txn=committed) as (server, proxy, store):
            assert store.capabilities().restore_seen
            await store.commit(**PUT)
            server.answers["/v3/maintenance/status"] = [{"header": header(70), "raftAppliedIndex": "5"}]
            server.answers["/v3/kv/range"] = [{"header": header(70), **LIFE}]  # others have written since
            proxy.cut()
            with pytest.raises(StoreWentBack, match="snapshot"):
                await twice(store)  # the first may find its connection gone
            return begun(server)

    assert [["7", "-65"]] == asyncio.run(run())


def test_silence_is_noticed_within_a_quarter_of_the_shortest_lease():
    async def run():
        async with behind_a_proxy(lease_grant=GRANTED, lease_keepalive=KEPT) as (_, proxy, store):
            await store.grant(ttl_seconds=2)
            await store.renew([1])
            proxy.half_open()
            async with asyncio.timeout(2):  # a fixed time-out of 5 s would cost a lease of 2 s
                assert frozenset({1}) == await store.renew([1])

    asyncio.run(run())


@pytest.mark.slow
def test_handles_of_a_process_share_two_connections_and_leave_none_behind():
    async def run():
        async with serving(lease_grant=GRANTED, lease_keepalive=KEPT) as (server, url):
            handles = [await stores.connect(url.replace("crawl", f"n{number}")) for number in range(30)]
            await asyncio.gather(*(handle.renew([1]) for handle in handles))
            await asyncio.gather(*(handle.grant(ttl_seconds=2) for handle in handles))
            assert 2 == server.open
            for handle in handles[1:]:
                await handle.close()
            assert frozenset({1}) == await handles[0].renew([1])
            await handles[0].close()
            async with asyncio.timeout(5):
                while server.open:
                    await asyncio.sleep(0.001)
            assert {} == wire._shared._uses

    asyncio.run(run())
    asyncio.run(run())  # another loop has connections of its own


def test_one_look_serves_the_silent_watches_of_all_handles(monkeypatch):
    monkeypatch.setattr(wire, "USUAL_PATIENCE_SECONDS", 0.2)
    opened = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def run():
        async with serving(watch=lambda body: opened) as (server, url):
            handles = [await stores.connect(url) for _ in range(20)]
            watches = [handle.watch("", after=5) for handle in handles]
            waiting = [asyncio.ensure_future(anext(watch)) for watch in watches]
            async with asyncio.timeout(10):
                while server.count("/v3/watch") < len(handles):
                    await asyncio.sleep(0.001)
            before, began = server.count("/v3/kv/range"), time.monotonic()
            await asyncio.sleep(1.0)  # five times the patience; a look of each would be 100 in a second
            asked, seconds = server.count("/v3/kv/range") - before, time.monotonic() - began
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            for handle in handles:
                await handle.close()
            return asked, seconds

    asked, seconds = asyncio.run(run())
    assert 2 <= asked <= 12 * seconds


def test_a_request_that_was_cancelled_again_and_again_does_not_keep_its_connection_busy():
    """The pool of httpx forgets to free a connection when a second cancel meets it at closing."""

    async def run():
        half = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"
        async with connected(kv_txn=half) as (server, store):
            for turns in range(1, 8):
                asking = asyncio.create_task(store.scan("a/"))
                async with asyncio.timeout(2):
                    while server.count("/v3/kv/txn") < turns:
                        await asyncio.sleep(0.001)
                await asyncio.sleep(0.005)  # the half answer is there
                for _ in range(turns):
                    asking.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait([asking])
            answers = [{"response_range": LOOK}, {"response_range": {}}]
            server.answers["/v3/kv/txn"] = [{"header": header(), "succeeded": True, "responses": answers}]
            async with asyncio.timeout(1):
                await store.scan("a/")

    asyncio.run(run())
