"""What `doctor` and an operator's acts say of an etcd cluster, from answers that are scripted; no etcd is needed."""

import asyncio
import base64
import json

import pytest

from apportion import stores
from apportion.errors import StoreUnavailable
from apportion.stores.etcd import administration
from tests.stores.test_etcd import LIFE, LOOK, failing, header, serving, text

NO_AUTHENTICATION = failing(9, "etcdserver: authentication is not enabled", 400)
REFUSED = failing(3, "etcdserver: authentication failed, invalid user ID or password", 400)
THREE = [{"ID": f"{number}", "name": f"s{number}"} for number in (7, 8, 9)]


def status(**fields):
    return [{"header": header(), "leader": "8", "dbSize": "1500000", **fields}]


WELL = {
    "maintenance_status": status(),
    "cluster_member_list": [{"header": header(), "members": THREE}],
    "maintenance_alarm": [{"header": header()}],
    "auth_authenticate": REFUSED,
}


async def _inspected(version, answers):
    async with serving(**{**WELL, **answers}) as (server, url):
        server.answers["/version"] = version
        found = await stores.administration(url).inspect()
        async with asyncio.timeout(5):
            while server.open:
                await asyncio.sleep(0)
    return found


def inspected(*, version="3.4.0", **answers):
    """Return all that is found, by subject."""
    found = asyncio.run(_inspected([{"etcdserver": version}], answers))
    return {each.subject.split(" ")[0]: each for each in found}


def test_a_cluster_that_is_well_is_found_well_but_for_its_clear_text():
    found = inspected()
    assert ["server", "cluster", "space", "authentication", "transport", "limits"] == list(found)
    assert ["ok"] * 4 + ["warning", "ok"] == [each.verdict for each in found.values()]
    assert found["server"].found.startswith("etcd 3.4.0, revision 5, ")
    assert found["server"].found.endswith(" ms for two requests")
    assert 0 < float(found["server"].found.split(", ")[2].split(" ")[0]) < 100
    assert "3 servers, leader s8" == found["cluster"].found
    assert ("1.5 MB used", "on") == (found["space"].found, found["authentication"].found)
    assert found["limits"].found.startswith("127 operations and 1400000 bytes")


@pytest.mark.parametrize(
    ("version", "verdict"), [("3.4.0", "ok"), ("3.10.1", "ok"), ("4.0.0", "ok"), ("3.3.27", "error"), ("", "error")]
)
def test_a_server_before_3_4_or_that_says_no_version_is_too_old(version, verdict):
    assert verdict == inspected(version=version)["server"].verdict


def test_a_slow_server_is_warned_of(monkeypatch):
    monkeypatch.setattr(administration, "_SLOW_SECONDS", 0.0)
    assert "warning" == inspected()["server"].verdict
    monkeypatch.setattr(administration, "_SLOW_SECONDS", 60.0)
    assert "ok" == inspected()["server"].verdict


def test_a_server_that_is_away_is_named_and_so_is_a_cluster_without_a_majority():
    found = {each.subject: each for each in asyncio.run(stores.administration("etcd://127.0.0.1:1").inspect())}
    assert {"error"} == {found[name].verdict for name in ("server 127.0.0.1:1", "cluster")}
    assert ["server 127.0.0.1:1", "cluster", "transport", "limits"] == list(found)


def test_each_server_is_looked_at_itself():
    async def run():
        async with serving(**WELL) as (first, url), serving(**WELL) as (second, other):
            first.answers["/version"], second.answers["/version"] = (
                [{"etcdserver": each}] for each in ("3.4.1", "3.5.2")
            )
            port = other.split(":")[2].split("?")[0]
            found = await stores.administration(url.replace("?", f",127.0.0.1:{port}?")).inspect()
            return [each.found.split(",")[0] for each in found if each.subject.startswith("server ")]

    assert ["etcd 3.4.1", "etcd 3.5.2"] == asyncio.run(run())


@pytest.mark.parametrize(
    ("members", "leader", "verdict", "says"),
    [
        (THREE, "8", "ok", "3 servers, leader s8"),
        (THREE[:2], "8", "warning", "2 servers, leader s8"),
        (THREE, "0", "error", "3 servers, no leader"),
        ([], "8", "error", "0 servers, no leader"),
    ],
)
def test_a_cluster_needs_a_leader_and_three_servers(members, leader, verdict, says):
    found = inspected(
        cluster_member_list=[{"header": header(), "members": members}], maintenance_status=status(leader=leader)
    )
    assert (verdict, says) == (found["cluster"].verdict, found["cluster"].found)


@pytest.mark.parametrize("path", ["maintenance_status", "cluster_member_list", "maintenance_alarm"])
def test_a_cluster_that_may_not_be_asked_is_an_error_of_its_own(path):
    found = inspected(**{path: failing(7, "etcdserver: permission denied", 403)})
    assert ("error", True) == (found["cluster"].verdict, "permission denied" in found["cluster"].found)
    assert "space" not in found


@pytest.mark.parametrize(
    ("size", "alarms", "verdict", "says"),
    [
        (0, [], "ok", "0.0 MB used"),
        (1_717_986_918, [], "ok", "1718.0 MB used"),
        (1_717_986_919, [], "warning", "1718.0 MB used"),
        (1_000_000, ["NOSPACE", "CORRUPT", "NOSPACE"], "error", "1.0 MB used, alarm CORRUPT, NOSPACE"),
    ],
)
def test_a_store_that_fills_up_is_warned_of_and_an_alarm_is_an_error(size, alarms, verdict, says):
    sounded = [{"header": header(), "alarms": [{"alarm": each} for each in alarms]}]
    found = inspected(maintenance_status=status(dbSize=f"{size}"), maintenance_alarm=sounded)
    assert (verdict, says) == (found["space"].verdict, found["space"].found)


@pytest.mark.parametrize(
    ("answer", "verdict", "says"),
    [(NO_AUTHENTICATION, "warning", "off"), (REFUSED, "ok", "on"), ([{"header": header(), "token": "t"}], "ok", "on")],
)
def test_a_cluster_that_lets_anybody_in_is_warned_of(answer, verdict, says):
    found = inspected(auth_authenticate=answer)["authentication"]
    assert (verdict, says) == (found.verdict, found.found)


def test_a_cluster_that_is_gone_when_it_is_asked_for_rights_is_unavailable():
    with pytest.raises(StoreUnavailable):
        inspected(auth_authenticate=None)


def test_an_upgrade_and_a_diagnosis_leave_no_connection():
    async def run():
        async with serving() as (server, url):
            assert (1, 1) == await stores.administration(url).upgrade()
            async with asyncio.timeout(5):
                while server.open:
                    await asyncio.sleep(0)

    asyncio.run(run())


@pytest.mark.parametrize(("life", "before"), [(LIFE, 1), ({}, 0)], ids=["after a life", "the first"])
def test_to_say_that_it_was_restored_begins_a_life_that_is_later_than_the_last(life, before):
    lives, asked = [{"header": header(), **life}], []

    def reborn(body):
        asked.append(json.loads(body))
        value = asked[-1]["success"][0]["request_put"]["value"]
        lives[0] = {**LOOK, "kvs": [{**LIFE["kvs"][0], "value": value}]}
        return [{"header": header(6), "succeeded": True}]

    async def run():
        async with serving(kv_range=lambda body: lives, kv_txn=reborn) as (server, url):
            told = await stores.administration(url).restored()
            async with asyncio.timeout(5):
                while server.open:
                    await asyncio.sleep(0)
            return told

    told = asyncio.run(run())
    written = base64.b64decode(asked[0]["success"][0]["request_put"]["value"]).decode()
    assert (1, before) == (len(asked), told[0])
    assert f"{told[1]} 7 4" == written
    assert told[1] > 1_700_000_000_000 > before
    assert text(b"!apportion/incarnation") == asked[0]["compare"][0]["key"]


def test_the_commands_that_give_rights_name_the_role_of_the_namespace():
    commands = stores.administration("etcd://127.0.0.1:1?namespace=crawl").grants("worker")
    assert [
        "etcdctl role add apportion-crawl",
        "etcdctl role grant-permission --prefix apportion-crawl readwrite crawl/",
        "etcdctl role grant-permission apportion-crawl readwrite '!apportion/incarnation'",
        "etcdctl user grant-role worker apportion-crawl",
    ] == list(commands)


def test_there_is_no_schema_and_no_counter_of_renewals():
    store = stores.administration("etcd://127.0.0.1:1")
    assert ((), ()) == (store.upgrade_statements(), asyncio.run(store.renewals()))
