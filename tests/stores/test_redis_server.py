"""The Redis store on a real server: what it refuses, what it sees of a restart, and that no secret is said.

Needs the Debian package `redis-server`; see `tests/stores/rigs/redis.py`.
"""

import asyncio
import json
import os
import subprocess
from functools import partial
from typing import get_args

import pytest

from apportion import stores
from apportion.errors import (
    ApportionError,
    Compacted,
    InvalidInput,
    NotPromised,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
)
from apportion.stores import Absent, Committed, Need, Put, Unchanged
from tests.console.running import run as run_command
from tests.stores.rigs import absent
from tests.stores.rigs import redis as rigs


@pytest.fixture(scope="module", autouse=True)
def engine():
    """Skip without a server, and fail where everything must run."""
    if rigs.MISSING is not None:
        absent(rigs.MISSING)


LEASES = "apportion:leases"


def runs(test):
    """Run a test that awaits."""

    def run(make):
        asyncio.run(test(make))

    run.__name__ = test.__name__
    return run


@pytest.fixture
def make():
    """Return a function that makes rigs, each closed at the end."""
    made = []

    def rig(*options, append_only=True):
        made.append(rigs.RedisRig(*options, append_only=append_only))
        return made[-1]

    yield rig
    for each in made:
        asyncio.run(each.close())


async def put(store, key, value=b"", lease=None):
    return await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=value, lease=lease)])


@runs
async def test_needs_that_it_cannot_meet_are_refused(make):
    url = make().url("crawl")
    for need in set(get_args(Need)) - {"multi_host"}:
        with pytest.raises(NotPromised, match=need):
            await stores.connect(url, needs=(need,))
    store = await stores.connect(url, needs=("multi_host",))
    await store.close()


@runs
async def test_a_restart_ends_what_was_held_until_the_next_scan_though_nothing_was_lost(make):
    rig = make()
    store = await rig.connect("crawl")
    assert Committed(revision=1) == await put(store, "a")
    lease = await store.grant(ttl_seconds=60)
    watch = store.watch("", after=1)
    waiting = asyncio.create_task(anext(watch))
    before = await store.scan("")
    await rig.kill()
    with pytest.raises(StoreUnavailable):
        await store.scan("")
    await rig.start()
    with pytest.raises(StoreWentBack):
        await put(store, "b")
    with pytest.raises(StoreWentBack):
        await store.renew([lease.id])
    with pytest.raises(StoreWentBack):
        await waiting
    after = await store.scan("")
    assert (before.items, before.revision) == (after.items, after.revision)
    assert after.incarnation > before.incarnation
    assert Committed(revision=2) == await put(store, "b")
    await store.close()


@runs
async def test_lost_data_is_seen_and_no_lease_id_is_given_twice(make):
    rig = make(append_only=False)
    store = await rig.connect("crawl")
    await put(store, "a")
    before = await store.grant(ttl_seconds=60)
    await rig.kill()
    await rig.start()
    with pytest.raises(StoreWentBack, match="it is at revision 0 of"):
        await put(store, "b")
    assert ((), 0) == ((await store.scan("")).items, (await store.scan("")).revision)
    assert (await store.grant(ttl_seconds=60)).id > before.id
    await store.close()


@runs
async def test_data_that_is_flushed_on_a_running_server_is_seen(make):
    rig = make()
    store = await rig.connect("crawl")
    await put(store, "a")
    with rig.client() as client:
        client.flushall()
    with pytest.raises(StoreWentBack):
        await put(store, "b")
    await store.scan("")
    assert Committed(revision=1) == await put(store, "b")
    await store.close()


@runs
async def test_restored_begins_a_new_incarnation(make):
    rig = make()
    store = await rig.connect("crawl")
    before, after = await stores.administration(rig.url("crawl")).restored()
    assert before < after
    with pytest.raises(StoreWentBack):
        await put(store, "a")
    assert after == (await store.scan("")).incarnation
    await store.close()


@runs
async def test_a_full_server_refuses_commits_whole_and_loses_no_member(make):
    rig = make()
    store = await rig.connect("crawl")
    lease, other = await store.grant(ttl_seconds=60), await store.grant(ttl_seconds=60)
    await put(store, "member", lease=lease.id)
    await put(store, "leaves", lease=other.id)
    await rig.fill()
    with pytest.raises(StoreUnavailable, match="memory is full"):
        await put(store, "a")
    assert {lease.id} == await store.renew([lease.id])
    await store.revoke(other.id)
    await rig.relieve()
    assert ["member"] == [item.key for item in (await store.scan("")).items]
    assert Committed(revision=4) == await put(store, "a")
    await store.close()


@runs
async def test_a_lease_ends_though_the_consumer_of_the_only_watch_is_busy(make):
    rig = make()
    store = await rig.connect("crawl")
    lease = await store.grant(ttl_seconds=1)
    await put(store, "member", lease=lease.id)
    watch = store.watch("", after=0)
    assert 1 == (await anext(watch)).revision
    async with asyncio.timeout(10):
        while (await store.scan("")).items:  # and nobody asks the watch for more
            await asyncio.sleep(0.01)
    assert 2 == (await anext(watch)).revision
    await watch.aclose()
    await store.close()


@runs
@pytest.mark.slow
async def test_the_history_is_bounded_by_its_bytes(make):
    rig = make(append_only=False)
    store = await rig.connect("crawl")
    await put(store, "table")
    value = bytes(1_000_000)
    for revision in range(1, 70):
        puts = [Put(key="table", value=value)]
        await store.commit(when=[Unchanged(key="table", revision=revision)], puts=puts)
    with pytest.raises(Compacted):
        await anext(store.watch("", after=1))
    assert 69 == (await anext(store.watch("", after=68))).revision
    with rig.client() as client:
        assert 60_000_000 < client.info("memory")["used_memory"] < 120_000_000
    await store.close()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("cluster-enabled yes", "Redis Cluster"),
        ("maxmemory-policy allkeys-lru", "allkeys-lru"),
        ("replicaof 127.0.0.1 1", "it is a replica"),
    ],
)
def test_a_server_that_is_not_one_to_build_on_is_refused(setting, said, make):
    rig = make(setting, f"cluster-port {rigs.free_port()}")
    with pytest.raises(ApportionError, match=said):
        asyncio.run(rig.connect("crawl"))
    findings = asyncio.run(stores.administration(rig.url("crawl")).inspect())
    assert [] != [each for each in findings if each.verdict == "error" and said in each.found and each.advice]


@runs
async def test_data_of_a_later_format_is_refused(make):
    rig = make()
    with rig.client() as client:
        client.hset("apportion:meta", "format", 2)
    with pytest.raises(InvalidInput, match="format 1, which this release knows"):
        await rig.connect("crawl")
    assert "error" in {each.verdict for each in await stores.administration(rig.url("crawl")).inspect()}


@runs
async def test_the_grants_are_all_that_a_member_needs_and_no_more(make):
    rig = make()
    (grant,) = stores.administration(rig.url("crawl")).grants("member")
    with rig.client() as client:
        client.execute_command(*grant.split(), ">secret")
        client.set("other", "1")
    store = await stores.connect(f"redis://member:secret@127.0.0.1:{rig.port}/0")
    lease = await store.grant(ttl_seconds=1)
    await put(store, "a", lease=lease.id)
    assert {lease.id} == await store.renew([lease.id])
    watch = store.watch("", after=0)
    assert [1, 2] == [(await anext(watch)).revision, (await anext(watch)).revision], "written, and reaped"
    await store.revoke((await store.grant(ttl_seconds=5)).id)
    assert () == (await store.scan("")).items
    for words in (("GET", "other"), ("FLUSHALL",), ("CONFIG", "GET", "*")):
        with pytest.raises(StoreDenied, match="lacks rights"):
            await store._link.ask(*words)
    await store.close()


@pytest.mark.slow
@runs
async def test_tls_is_verified(make):
    plain = make()
    folder = plain.folder
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subprocess.run([*made, *subject, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    port = rigs.free_port()
    files = (f"tls-cert-file {certificate}", f"tls-key-file {key}", f"tls-ca-cert-file {certificate}")
    make(f"tls-port {port}", *files, "tls-auth-clients no")
    url = f"rediss://:{rigs.PASSWORD}@127.0.0.1:{port}/0"
    with pytest.raises(StoreDenied, match="self-signed certificate"):
        await stores.connect(url)
    store = await stores.connect(f"{url}?ca={certificate}")
    assert Committed(revision=1) == await put(store, "a")
    await store.close()
    with pytest.raises(InvalidInput, match="a readable file of certificates"):
        await stores.connect(f"{url}?ca={folder}/absent")
    with pytest.raises(StoreUnavailable):
        await stores.connect(f"{url.replace(str(port), str(plain.port))}?ca={certificate}")  # no TLS there


def connections(rig):
    """Return how many connections the server has but for the one that asks."""
    with rig.client() as client:
        return len(client.client_list()) - 1


async def until(is_so):
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.005)


@runs
async def test_a_handle_that_is_closed_leaves_no_connection_and_a_child_closes_none_of_its_parent(make):
    rig = make()
    store = await stores.connect(rig.url("crawl"))
    assert 1 == connections(rig)
    with pytest.MonkeyPatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        await store.close()
    assert 1 == connections(rig)
    await store.scan("")
    await store.close()
    await until(lambda: connections(rig) == 0)


@runs
async def test_a_connect_that_is_refused_leaves_no_connection(make):
    rig = make()
    with rig.client() as client:
        client.execute_command("ACL", "SETUSER", "half", "on", ">secret", "~*", "+@all", "-evalsha")
    with pytest.raises(StoreDenied, match="lacks rights"):
        await stores.connect(f"redis://half:secret@127.0.0.1:{rig.port}/0")
    await until(lambda: connections(rig) == 0)


@runs
async def test_no_failure_says_the_password(make):
    rig = make()
    url = rig.url("crawl")
    store = await stores.connect(url)
    said = [repr(store), repr(store._link), repr(vars(store._link)["name"])]
    wrong = url.replace("S3cr3t", "wrong-S3cr3t")
    said += [repr(each) for url in (url, wrong) for each in await stores.administration(url).inspect()]
    await rig.kill()
    for ask in (store.scan(""), put(store, "a"), stores.connect(url), stores.administration(url).restored()):
        with pytest.raises(StoreUnavailable) as caught:
            await ask
        said += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
    await rig.start()
    with pytest.raises(StoreDenied, match="refuses this user or password") as caught:
        await stores.connect(wrong)
    said += [str(caught.value), repr(caught.value.__cause__)]
    await store.close()
    assert [] == [text for text in said if "S3cr3t" in text or "canary" in text]


def test_doctor_finds_a_server_well_and_leaves_nothing_behind(make, tmp_path):
    rig = make()
    done = run_command("doctor", "--store", rig.url("crawl"), "--json", folder=tmp_path)
    said = json.loads(done.stdout)
    assert (0, True, False) == (done.returncode, said["healthy"], said["promises"]["fencing"])
    assert {"ok"} == {each["verdict"] for each in said["findings"]}
    assert all(0 < taken < 1000 for taken in said["milliseconds"].values())
    assert "S3cr3t" not in done.stdout.decode()
    with rig.client() as client:
        assert [0, 0, 0] == [client.hlen("apportion:items"), client.zcard("apportion:keys"), client.hlen(LEASES)]


def test_doctor_warns_of_a_server_that_forgets(make, tmp_path):
    rig = make("maxmemory-policy volatile-lru", append_only=False)
    done = run_command("doctor", "--store", rig.url("crawl"), folder=tmp_path)
    assert 0 == done.returncode
    assert b"durability: Set appendonly yes" in done.stdout
    assert b"eviction: Set maxmemory-policy noeviction" in done.stdout
    assert done.stdout.endswith(b"checks, errors 0, warnings 2\n")


def test_the_commands_of_an_operator_work_on_a_server(make, tmp_path):
    rig = make()
    url, name = rig.url("crawl"), f"redis://127.0.0.1:{rig.port}/0"
    run = partial(run_command, folder=tmp_path)
    assert f"{name} has schema 1 now; it had none\n" == run("store", "upgrade", url).stdout.decode()
    assert f"{name} has schema 1, the newest: nothing to do\n" == run("store", "upgrade", url).stdout.decode()
    assert run("store", "grants", url, "--user", "worker").stdout.startswith(b"ACL SETUSER worker on ")
    said = json.loads(run("store", "restored", url, "--json").stdout)
    assert (name, True) == (said["store"], said["before"] < said["after"])
