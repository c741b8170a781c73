"""Which life of an etcd cluster it is, over a scripted transport: what is accepted, begun, and called another."""

import asyncio
import base64
import time

import httpx
import pytest

from apportion.errors import StoreDenied, StoreUnavailable, StoreWentBack
from apportion.stores.catalog import parsed_url
from apportion.stores.etcd.gateway import Gateway
from apportion.stores.etcd.messages import StoreLife
from apportion.stores.etcd.origin import Origin, begin, surplus_of, unavailable
from apportion.stores.etcd.wire import Rejected
from tests.stores.net import LIFE, Cluster, Net, failing, no, replied

LATER = 10**15  # than now, in milliseconds


@pytest.fixture
def cluster(monkeypatch):
    return Cluster(Net(monkeypatch))


def played(story, cluster):
    """Run a story of an origin that has learned what there is."""

    async def main():
        gateway = Gateway(parsed_url("etcd://s0?namespace=crawl"))
        try:
            async with asyncio.timeout(10):
                origin = Origin(gateway)
                await origin.learn()
                cluster.net.opens = False
                cluster.asked.clear()
                await story(origin)
        finally:
            await gateway.aclose()

    asyncio.run(main())


def written(life):
    return {**LIFE, "value": base64.b64encode(life.written).decode()}


def begun(cluster):
    """The lives that were begun, each with the value that it was to follow."""
    asked = [body for path, body in cluster.asked if path == "/v3/kv/txn"]
    told = [(body["success"][0]["request_put"]["value"], body["compare"][0].get("value")) for body in asked]
    return [[None if each is None else base64.b64decode(each).decode() for each in pair] for pair in told]


def reply(cluster, **header):
    return {"header": {**cluster.header, **header}}


def test_a_life_of_this_cluster_is_accepted_as_it_is(cluster):
    async def story(origin):
        assert (StoreLife.of(1, "7", 2), 9) == (origin.life, origin.seen)
        assert 0 == origin.looked_at, "before that connection was opened"

    played(story, cluster)


@pytest.mark.parametrize("before", [None, StoreLife.of(3, "8", 2), StoreLife.of(LATER, "8", 2)])
def test_a_store_without_a_life_or_with_that_of_another_cluster_begins_one_that_is_later(cluster, before):
    cluster.life = before and written(before)
    asked = cluster.asked

    async def story(origin):
        floor = 0 if before is None else before.incarnation
        now = time.time_ns() // 1_000_000
        assert max(floor + 1, now - 60_000) <= origin.life.incarnation <= max(floor + 1, now)
        assert ("7", 4) == (origin.life.cluster, origin.life.surplus)

    async def noted(origin):
        assert [[f"{origin.life.incarnation} 7 4", before and before.written.decode()]] == lives
        await story(origin)

    lives = []
    txn = cluster.txn

    def kept(body):
        asked.append(("/v3/kv/txn", body))
        lives[:] = begun(cluster)[-1:]
        return txn(body)

    cluster.txn = kept
    played(noted, cluster)


def test_an_incarnation_that_others_change_all_the_time_is_given_up_after_five_looks(cluster):
    cluster.life = written(StoreLife.of(3, "8", 2))
    cluster.txn = lambda body: [{"header": cluster.header}]
    with pytest.raises(StoreUnavailable, match="keep changing its incarnation"):
        played(None, cluster)
    assert (5, 5) == (cluster.count("/v3/kv/range"), cluster.count("/v3/kv/txn"))


@pytest.mark.parametrize(
    ("entries", "surplus", "looks", "is_copy"),
    [
        ([10], 4, 1, False),  # 1 entry beyond revision 9, and 3 fewer than the life had
        ([9], 32, 1, False),
        ([9, 9, 9], 33, 3, True),
        ([9, 9, 10], 33, 3, False),
        ([9, 10], 33, 2, False),
        ([0], 33, 1, False),
        ([], None, 0, False),
    ],
)
def test_a_log_that_is_too_short_three_times_is_that_of_a_copy(cluster, entries, surplus, looks, is_copy):
    async def story(origin):
        origin._gateway.wire.commits.connects += 1  # another connection: it is asked again
        cluster.said["/v3/maintenance/status"] = [
            lambda request, each=each: replied({**reply(cluster), "raftAppliedIndex": f"{each}"}) for each in entries
        ]
        assert is_copy is not await origin.stands(StoreLife.of(1, "7", surplus), "7")
        assert looks + is_copy == cluster.count("/v3/maintenance/status")
        assert is_copy == len(begun(cluster))
        await origin.stands(StoreLife.of(1, "7", 2), "7")
        assert looks + is_copy + (is_copy or not looks) == cluster.count("/v3/maintenance/status"), "once a connection"

    played(story, cluster)


def test_a_look_over_a_new_connection_is_asked_for_the_log_once(cluster):
    async def story(origin):
        await origin.look()
        await origin.look()
        assert 1 == cluster.count("/v3/maintenance/status"), "learned over a connection before it"
        origin._gateway.wire.commits.connects += 1
        assert origin._gateway.connects == await origin.look_at_new(origin.life)
        assert origin._gateway.connects == await origin.look_at_new(origin.life)
        assert (3, 2) == (cluster.count("/v3/kv/range"), cluster.count("/v3/maintenance/status"))

    played(story, cluster)


@pytest.mark.parametrize("look", ["look", "look_first"])
@pytest.mark.parametrize(
    ("revision", "life", "says"),
    [
        (8, LIFE, "revision is 8"),
        (9, None, "no incarnation"),
        (9, written(StoreLife.of(2, "7", 2)), "incarnation is 2"),
    ],
)
def test_a_look_that_finds_another_store_says_what_it_found(cluster, look, revision, life, says):
    async def story(origin):
        cluster.revision, cluster.life = revision, life
        with pytest.raises(StoreWentBack, match=says):
            await getattr(origin, look)(origin.life)

    played(story, cluster)


def test_what_a_look_has_seen_is_the_least_that_the_next_may_see(cluster):
    async def story(origin):
        cluster.revision = 12
        assert 12 == await origin.look()
        cluster.revision = 15
        await origin.look_first(origin.life)
        assert 15 == origin.seen
        assert 13 == origin.same(reply(cluster, revision="13"), 13)
        assert 15 == origin.seen
        with pytest.raises(StoreWentBack, match="revision is 12"):
            origin.same(reply(cluster, revision="12"), 13)
        with pytest.raises(StoreWentBack, match="cluster is 8"):
            origin.same(reply(cluster, cluster_id="8"), 0)
        with pytest.raises(StoreWentBack, match="cluster is "):
            origin.same_cluster({})

    played(story, cluster)


def test_a_copy_is_found_by_a_look_and_begins_another_life(cluster):
    async def story(origin):
        cluster.revision = 60
        cluster.status = lambda body: [{**reply(cluster), "raftAppliedIndex": "5"}]
        origin._gateway.wire.commits.connects += 1
        with pytest.raises(StoreWentBack, match="snapshot"):
            await origin.look()
        assert 1 == len(begun(cluster))
        assert origin.looked_at != origin._gateway.connects

    played(story, cluster)


def test_a_look_that_another_handle_began_since_serves_and_an_older_one_or_one_behind_does_not(cluster):
    async def story(origin):
        wire = origin._gateway.wire
        wire.looked = (5.0, {**reply(cluster), "kvs": [LIFE]})
        assert 9 == await origin.look_since(5.0, origin.life)
        assert 0 == cluster.count("/v3/kv/range")
        assert 9 == await origin.look_since(5.1, origin.life)
        assert 1 == cluster.count("/v3/kv/range")
        assert wire.looked[0] == pytest.approx(asyncio.get_running_loop().time(), abs=5)
        wire.looked = (5.0, {**reply(cluster, revision="8"), "kvs": [LIFE]})
        await origin.look_since(5.0, origin.life)
        assert 2 == cluster.count("/v3/kv/range")
        wire.looked = (5.0, {**reply(cluster), "kvs": [written(StoreLife.of(2, "7", 2))]})
        with pytest.raises(StoreWentBack):
            await origin.look_since(5.0, origin.life)

    played(story, cluster)


@pytest.mark.parametrize("look", ["look", "look_first"])
def test_each_look_is_kept_for_the_other_handles(cluster, look):
    async def story(origin):
        cluster.revision = 11
        began = asyncio.get_running_loop().time()
        await getattr(origin, look)(origin.life)
        at, found = origin._gateway.wire.looked
        assert (True, "11") == (began <= at <= asyncio.get_running_loop().time(), found["header"]["revision"])

    played(story, cluster)


def test_a_key_that_we_did_not_write_is_said_to_be_so(cluster):
    cluster.life = {**LIFE, "value": base64.b64encode(b"mine!").decode()}
    with pytest.raises(StoreUnavailable, match="holds a value that apportion did not write"):
        played(None, cluster)


@pytest.mark.parametrize(
    ("answer", "surplus"),
    [
        (lambda request: replied({"header": {"revision": "9"}, "raftAppliedIndex": "12"}), 3),
        (lambda request: replied({"header": {"revision": "9"}, "raftAppliedIndex": "9"}), 0),
        (lambda request: replied({"header": {"revision": "9"}}), None),
        (no(7, "permission denied"), None),
    ],
)
def test_the_surplus_is_told_where_the_server_says_it(cluster, answer, surplus):
    async def story(origin):
        cluster.said["/v3/maintenance/status"] = [answer]
        assert surplus == await surplus_of(origin._gateway)

    played(story, cluster)


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ReadError("reset")])
def test_a_surplus_that_cannot_be_asked_for_is_unavailable(cluster, error):
    async def story(origin):
        cluster.said["/v3/maintenance/status"] = [failing(error)]
        with pytest.raises(StoreUnavailable):
            await begin(origin._gateway, origin.life, "7")
        assert [] == begun(cluster)

    played(story, cluster)


@pytest.mark.parametrize(
    ("said", "kind", "hint"),
    [
        ("etcdserver: permission denied", StoreDenied, "store grants URL"),
        ("etcdserver: user name is empty", StoreDenied, "user:password"),
        ("etcdserver: mvcc: database space exceeded", StoreUnavailable, "alarm disarm"),
        ("something else", StoreUnavailable, ""),
    ],
)
def test_a_refusal_says_what_to_do_about_it(cluster, said, kind, hint):
    async def story(origin):
        error = unavailable(origin._gateway, Rejected(9, said))
        assert (kind, True, True) == (type(error), said in str(error), hint in str(error))

    played(story, cluster)
