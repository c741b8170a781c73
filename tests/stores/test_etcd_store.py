"""One handle of an etcd cluster over a scripted transport: pages of a scan, tries of a commit, leases, and lives."""

import asyncio
import json
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import httpx
import pytest

from apportion.errors import InvalidInput, LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import SystemClock
from apportion.stores import Absent, Committed, Item, Put, Refused, Unchanged, Unknown
from apportion.stores.catalog import parsed_url
from apportion.stores.etcd import gateway as gateways
from apportion.stores.etcd import store as etcd_stores
from apportion.stores.etcd.messages import text_of
from apportion.stores.etcd.store import EtcdStore, _page
from tests.stores.net import LIFE, Cluster, Net, failing, no, replied

PUT = {"when": [Absent(key="a")], "puts": [Put(key="a", value=b"1")]}
AWAY = failing(httpx.ConnectError("refused"))
LOST = failing(httpx.ReadError("reset"))


@pytest.fixture
def cluster(monkeypatch):
    return Cluster(Net(monkeypatch))


@pytest.fixture(autouse=True)
def slept(monkeypatch):
    """The pauses between two tries, which take no time."""
    pauses, sleep = [], asyncio.sleep

    async def pass_by(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(etcd_stores.asyncio, "sleep", pass_by)
    monkeypatch.setattr(gateways.random, "uniform", lambda low, high: 1.0)
    return pauses


def played(story, cluster, url="etcd://s0?namespace=crawl"):
    async def main():
        async with asyncio.timeout(10):
            store = await EtcdStore.connected(parsed_url(url), SystemClock())
            cluster.net.opens = False
            try:
                await story(store)
            finally:
                await store.close()

    asyncio.run(main())


def test_a_connect_that_fails_leaves_no_connection(cluster):
    cluster.said = {"/v3/kv/range": [no(7, "permission denied")]}
    with pytest.raises(StoreDenied):
        played(None, cluster)
    assert all(client.is_closed for client, _ in cluster.net.clients)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 6, 11])
def test_a_scan_of_many_pages_shows_every_key_once_and_all_at_one_revision(cluster, monkeypatch, size):
    monkeypatch.setattr(etcd_stores, "_FIRST_PAGE", 2)
    monkeypatch.setattr(etcd_stores, "_LARGEST_PAGE", 3)
    cluster.keys = [b"crawl/%02d" % number for number in range(size)]

    async def story(store):
        scan = await store.scan("")
        assert [Item(key=f"{number:02}", value=b"v", revision=3) for number in range(size)] == list(scan.items)
        assert (9, 1) == (scan.revision, scan.incarnation)
        pages = [body for path, body in cluster.asked if path == "/v3/kv/range" and body["limit"]]
        assert {"9"} >= {each["revision"] for each in pages}
        assert [2, 3, 3, 3][: len(pages)] == [each["limit"] for each in pages]
        assert -(-max(0, size - 4) // 3) + (size > 2) == len(pages)

    played(story, cluster)


def test_a_page_that_took_long_makes_the_next_one_small(cluster, monkeypatch):
    monkeypatch.setattr(etcd_stores, "_FIRST_PAGE", 8)
    cluster.keys = [b"crawl/%02d" % number for number in range(40)]

    ticks = count(step=5)  # each page takes 5 s; a quarter of the patience is 0.625 s
    loop = SimpleNamespace(time=lambda: next(ticks))

    async def story(store):
        monkeypatch.setattr(etcd_stores, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
        await store.scan("")
        pages = [body["limit"] for path, body in cluster.asked if path == "/v3/kv/range" and body["limit"]]
        assert [8, 1, 1, 1] == pages[:4]
        store._gateway.wire.patience_seconds = 10.0
        cluster.asked.clear()
        await store.scan("")
        pages = [body["limit"] for path, body in cluster.asked if path == "/v3/kv/range" and body["limit"]]
        assert [8, 4, 2, 1] == pages[:4]

    played(story, cluster)


def test_a_scan_whose_pages_are_compacted_away_begins_anew_and_is_given_up_in_the_end(cluster, monkeypatch):
    monkeypatch.setattr(etcd_stores, "_FIRST_PAGE", 2)
    cluster.keys = [b"crawl/1", b"crawl/2", b"crawl/3"]
    gone = no(11, "etcdserver: mvcc: required revision has been compacted")

    async def story(store):
        usual = cluster.range
        pages = []

        def answer(body):
            pages.append(body) if body["limit"] else None
            return usual(body)

        cluster.range = answer
        cluster.said = {"/v3/kv/range": [gone]}
        assert ["1", "2", "3"] == [item.key for item in (await store.scan("")).items]
        assert (2, 1) == (cluster.count("/v3/kv/txn"), len(pages))
        cluster.said = {"/v3/kv/range": [gone] * 8}
        with pytest.raises(StoreUnavailable, match="compacted faster"):
            await store.scan("")
        assert ([], 10) == (cluster.said["/v3/kv/range"], cluster.count("/v3/kv/txn"))
        cluster.said = {"/v3/kv/range": [no(7, "permission denied")]}
        with pytest.raises(StoreDenied):
            await store.scan("")

    played(story, cluster)


@pytest.mark.parametrize("life", [None, {**LIFE, "value": text_of(b"1 8 2")}], ids=["none", "of another cluster"])
def test_a_scan_of_a_store_without_a_life_of_its_own_begins_one_and_scans_again(cluster, life):
    async def story(store):
        cluster.life = life
        scan = await store.scan("")
        assert scan.incarnation == store._origin.life.incarnation > 1_700_000_000_000
        assert 10 == scan.revision

    played(story, cluster)


def test_a_commit_that_was_not_sent_is_tried_eight_times_at_once_and_then_after_pauses(cluster, slept):
    async def story(store):
        cluster.said = {"/v3/kv/txn": [AWAY] * 3}
        assert Committed(revision=10) == await store.commit(**PUT)
        assert [0, 0, 0.08] == slept
        cluster.said = {"/v3/kv/txn": [AWAY] * 9}
        with pytest.raises(StoreUnavailable, match="refused"):
            await store.commit(**PUT)
        assert 1 == len(cluster.said["/v3/kv/txn"])

    played(story, cluster)


def test_a_commit_that_was_sent_is_sent_once(cluster):
    async def story(store):
        cluster.said = {"/v3/kv/txn": [LOST]}
        assert isinstance(await store.commit(**PUT), Unknown)
        cluster.said = {"/v3/kv/txn": [lambda request: httpx.Response(200, content=b"{}")]}
        assert isinstance(await store.commit(**PUT), Unknown)
        assert 2 == cluster.count("/v3/kv/txn")

    played(story, cluster)


def test_a_commit_goes_out_only_after_a_look_over_its_connection(cluster):
    async def story(store):
        cluster.net.opens = True
        await store.scan("")
        cluster.net.opens = False
        cluster.asked.clear()
        await store.commit(**PUT)
        await store.commit(**PUT)
        assert ["/v3/kv/range", "/v3/maintenance/status", "/v3/kv/txn", "/v3/kv/txn"] == [
            path for path, _ in cluster.asked
        ]

    played(story, cluster)


def test_a_commit_that_is_refused_tells_whether_it_was_in_the_life_it_knows(cluster):
    def met(life):
        return lambda request: replied({"header": cluster.header, "responses": [{"response_range": life}]})

    async def story(store):
        cluster.said = {"/v3/kv/txn": [met({"kvs": [LIFE]})]}
        assert Refused(revision=9) == await store.commit(when=[Unchanged(key="a", revision=3)], deletes=["a"])
        cluster.said = {"/v3/kv/txn": [met({"kvs": [{**LIFE, "value": text_of(b"2 7 2")}]})]}
        with pytest.raises(StoreWentBack, match="its incarnation is 2"):
            await store.commit(**PUT)

    played(story, cluster)


@pytest.mark.parametrize(
    ("left", "lost"), [({"5": 3, "6": -1}, 6), ({"5": -1, "6": 3}, 5), ({"5": 3, "6": 0}, 8), ({"5": 0, "6": 2}, 8)]
)
def test_of_several_leases_the_one_that_has_ended_is_named(cluster, left, lost):
    cluster.timetolive = lambda body: [{"header": cluster.header, "ID": body["ID"], "TTL": f"{left[body['ID']]}"}]
    puts = [Put(key=f"{lease}", value=b"", lease=lease) for lease in (8, 5, 6)] + [Put(key="9", value=b"")]

    async def story(store):
        cluster.said = {"/v3/kv/txn": [no(5, "etcdserver: requested lease not found")]}
        with pytest.raises(LeaseLost) as caught:
            await store.commit(when=[Absent(key=each.key) for each in puts], puts=puts)
        assert lost == caught.value.lease

    played(story, cluster)


@pytest.mark.parametrize("said", ["request is too large", "too many operations in txn", "larger than max (3 vs. 2)"])
def test_a_commit_beyond_the_limits_of_the_servers_is_invalid(cluster, said):
    async def story(store):
        cluster.said = {"/v3/kv/txn": [no(3, said)]}
        with pytest.raises(InvalidInput, match="max-txn-ops"):
            await store.commit(**PUT)

    played(story, cluster)


def test_a_lease_has_whole_seconds_rounded_up_and_makes_patience_shorter(cluster):
    async def story(store):
        assert 3.0 == (await store.grant(ttl_seconds=2.1)).ttl_seconds
        assert 0.75 == store._gateway.wire.patience_seconds

    played(story, cluster)


def test_a_server_that_grants_longer_leases_than_was_asked_for_names_its_shortest(cluster):
    async def story(store):
        cluster.grant = lambda body: [{"header": cluster.header, "ID": "5", "TTL": f"{max(4, int(body['TTL']))}"}]
        with pytest.raises(InvalidInput, match=r"4 \.\."):
            await store.grant(ttl_seconds=2)
        assert [{"ID": "5"}] == [body for path, body in cluster.asked if path == "/v3/lease/revoke"]
        assert replace(etcd_stores.CAPABILITIES, min_ttl_seconds=4.0) == store.capabilities()
        assert 4.0 == (await store.grant(ttl_seconds=4)).ttl_seconds

    played(story, cluster)


def test_many_leases_are_renewed_sixteen_at_a_time(cluster):
    async def story(store):
        assert frozenset(range(1, 34)) == await store.renew(range(1, 34))
        sizes = [len(each.content.splitlines()) for each in cluster.net.asked if each.url.path == "/v3/lease/keepalive"]
        assert [16, 16, 1] == sizes
        assert frozenset() == await store.renew([])

    played(story, cluster)


def test_renewals_that_get_no_answer_are_asked_again_after_pauses_and_a_refusal_is_told(cluster, slept):
    def half(request):
        return cluster.keepalive(json.loads(request.content.splitlines()[0]))

    async def story(store):
        cluster.said = {"/v3/lease/keepalive": [half, half]}
        slept.clear()
        assert frozenset({1, 2, 3}) == await store.renew([1, 2, 3])
        assert ([0.02, 0.04], 3) == (slept, cluster.count("/v3/lease/keepalive"))
        cluster.said = {"/v3/lease/keepalive": [lambda request: httpx.Response(200, content=b"junk\n")]}
        assert frozenset({1}) == await store.renew([1])
        cluster.said = {"/v3/lease/keepalive": [no(7, "permission denied")]}
        with pytest.raises(StoreDenied):
            await store.renew([1])

    played(story, cluster)


def test_a_renewal_that_a_server_answers_with_an_error_is_asked_of_the_next_server(cluster):
    def error(request):
        return [{"error": {"grpc_code": 14, "message": "no leader"}}]

    async def story(store):
        store._gateway.wire.token = "old"
        cluster.said = {"/v3/lease/keepalive": [error]}
        assert frozenset({1}) == await store.renew([1])
        assert ["s0", "s1"] == [each.url.host for each in cluster.net.asked if each.url.path == "/v3/lease/keepalive"]
        cluster.said = {"/v3/lease/keepalive": [error] * 9}
        with pytest.raises(StoreUnavailable, match="did not answer for 1 leases: no leader"):
            await store.renew([1])
        assert 1 == len(cluster.said["/v3/lease/keepalive"])
        assert "" == store._gateway.wire.token

    played(story, cluster, "etcd://s0,s1?namespace=crawl")


def test_a_lease_of_no_time_has_ended_and_another_cluster_is_noticed(cluster):
    def ended(request):
        return [
            {"result": {"header": cluster.header, "ID": "1"}},
            {"result": {"header": cluster.header, "ID": "2", "TTL": "1"}},
        ]

    def other(request):
        return [{"result": {"header": {"cluster_id": "8"}, "ID": "1", "TTL": "9"}}]

    async def story(store):
        cluster.said = {"/v3/lease/keepalive": [ended, other]}
        assert frozenset({2}) == await store.renew([1, 2])
        with pytest.raises(StoreWentBack, match="its cluster is 8"):
            await store.renew([1])

    played(story, cluster)


def test_a_lease_that_is_gone_is_revoked_already_and_another_refusal_is_told(cluster):
    async def story(store):
        cluster.said = {"/v3/lease/revoke": [no(5, "etcdserver: requested lease not found")]}
        await store.revoke(5)
        cluster.said = {"/v3/lease/revoke": [no(7, "permission denied")]}
        with pytest.raises(StoreDenied):
            await store.revoke(5)

    played(story, cluster)


@pytest.mark.parametrize(
    ("count", "size", "page"),
    [(1, 0, 50_000), (4, 398, 20_000), (1000, 100_000, 79), (3, 9_000_000, 1), (5, 158, 50_000)],
)
def test_a_page_holds_as_many_keys_as_can_be_sent_in_a_moment(count, size, page):
    items = [Item(key="k", value=bytes(size), revision=1)] * count
    assert page == pytest.approx(_page(items), rel=0.02)


def test_a_page_is_measured_by_the_last_keys():
    large, small = Item(key="k", value=bytes(8_000), revision=1), Item(key="k", value=bytes(399), revision=1)
    assert 20_000 == pytest.approx(_page([large] * 9 + [small] * 1000), rel=0.02)
