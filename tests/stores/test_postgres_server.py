"""PostgreSQL as it is met: poolers, servers that do not flush, standbys, roles with too few rights, other schemas.

What every store must do, the conformance suite asks of this one too.
"""

import asyncio
import logging
import os
import shutil
import subprocess
import time
import traceback
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from apportion.errors import (
    ApportionError,
    Compacted,
    InvalidInput,
    NotPromised,
    StoreClosed,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
)
from apportion.stores import Absent, Committed, Put, Unchanged, administration, connect
from apportion.stores.catalog import connect_tasks
from apportion.stores.postgres import links
from apportion.stores.task_control import Listing, Pause
from apportion.stores.task_values import NewTask, Settlement, Worker
from tests.console.running import run
from tests.stores.rigs import absent
from tests.stores.rigs.pgbouncer import Pooler
from tests.stores.rigs.postgres import AS_POSTGRES, DATABASE, SECRET, USER, PostgresRig, free_port, programs

PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def rig():
    try:
        made = PostgresRig()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    made.stop()


@pytest.fixture
def schema(rig, request):
    """A schema of the test's own, as an option of the URL."""
    name = f"t{abs(hash(request.node.name))}"
    yield f"&schema={name}"
    rig.launch()  # a test that failed may have left it dead
    rig.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@asynccontextmanager
async def opened(url, **options):
    store = await connect(url, **options)
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def configured(rig, **settings):
    """Within: the server runs with these settings, which new connections see."""
    for name, value in settings.items():
        rig.sql(f"ALTER SYSTEM SET {name} = '{value}'")
    _reload(rig, settings)
    try:
        yield
    finally:
        for name in settings:
            rig.sql(f"ALTER SYSTEM RESET {name}")
        rig.sql("SELECT pg_reload_conf()")


def _reload(rig, settings):
    rig.sql("SELECT pg_reload_conf()")
    ends = time.monotonic() + PATIENCE_SECONDS
    while any(rig.sql(f"SELECT current_setting('{name}')") != [(value,)] for name, value in settings.items()):
        assert time.monotonic() < ends
        time.sleep(0.01)


async def put(store, key, value=b"x", **options):
    return await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=value, **options)])


async def eventually(condition):
    ends = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < ends
        await asyncio.sleep(0.005)


@asynccontextmanager
async def taped(store, after):
    """Within: all that a watch shows, in a list that grows."""
    shown = []

    async def play():
        async for change in store.watch("", after=after):
            shown.append(change)  # noqa: PERF401 - to be read meanwhile

    playing = asyncio.create_task(play())
    try:
        yield shown
    finally:
        playing.cancel()
        await asyncio.wait([playing])


def findings(url):
    return {each.subject: each for each in asyncio.run(administration(url).inspect())}


def refused(url):
    """The error that a connect ends with, as text with all that it was caused by."""
    with pytest.raises(ApportionError) as caught:
        asyncio.run(_connected(url))
    return caught.value


async def _connected(url):
    async with opened(url):
        pass


@pytest.fixture(scope="module")
def bouncer(rig):
    """A pooler in transaction mode before the server."""
    try:
        pooler = Pooler(rig)
    except FileNotFoundError as error:
        absent(str(error))
    yield pooler
    pooler.stop()


@pytest.mark.slow
def test_behind_a_transaction_pooler_all_works_without_hints_and_connecting_warns(rig, bouncer, caplog):
    url = rig.url("pooled", address=bouncer.address)
    found = findings(url)

    async def main():
        stores = [await connect(url) for _ in range(6)]  # more than the pooler has connections
        async with taped(stores[0], (await stores[0].scan("")).revision) as shown:
            for number in range(20):  # more than it takes to make a driver prepare its statements
                done = [await put(store, f"{number}/{index}") for index, store in enumerate(stores)]
                assert [Committed] * 6 == [type(outcome) for outcome in done]
            await eventually(lambda: len(shown) == 120)
            lease = await stores[1].grant(ttl_seconds=0.5)
            await put(stores[1], "leased", lease=lease.id)
            await eventually(lambda: shown[-1].events[0].value is None)
        for store in stores:
            await store.close()
        assert [f"{number}/{index}" for number in range(20) for index in range(6)] == [
            change.events[0].key for change in shown[:120]
        ]

    asyncio.run(asyncio.wait_for(main(), 60))
    assert "warning" == found["pooler"].verdict
    (once,) = {record.getMessage() for record in caplog.records if record.name == "apportion.stores"}
    assert 6 == sum(record.name == "apportion.stores" for record in caplog.records), "one of each handle"
    assert "Connect directly" in once
    assert not [part for part in (SECRET, "cAnAry") if part in once]
    assert [] == rig.sql("SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")


@pytest.mark.slow
def test_without_a_pooler_nothing_is_said_of_one(rig):
    assert "pooler" not in findings(rig.url("direct"))


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_does_not_flush_is_not_durable_and_issues_no_tokens(rig, setting, caplog):
    async def main():
        async with opened(rig.url("unsafe")) as store:
            assert (False, False) == (store.capabilities().durable, store.capabilities().fencing)
        (record,) = [record for record in caplog.records if record.name == "apportion.stores"]
        assert "Turn on fsync" in record.getMessage()
        with pytest.raises(NotPromised):
            await connect(rig.url("unsafe"), needs=["fencing"])

    with configured(rig, **{setting: "off"}):
        asyncio.run(main())
        assert "error" == findings(rig.url("unsafe"))[setting].verdict
    assert "ok" == findings(rig.url("unsafe"))[setting].verdict


def test_a_commit_waits_for_its_flush_where_the_server_would_not_and_a_renewal_never_does(rig, schema):
    url = rig.url("flush", options=schema)
    name = schema.removeprefix("&schema=")

    async def main():
        async with opened(url) as store:
            for table, command in (("event", "INSERT"), ("lease", "UPDATE")):
                rig.sql(
                    f"CREATE TABLE {name}.seen_{table} (setting text);"
                    f"GRANT INSERT ON {name}.seen_{table} TO {USER};"
                    f"CREATE FUNCTION {name}.note_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                    f" INSERT INTO {name}.seen_{table} VALUES (current_setting('synchronous_commit'));"
                    " RETURN NULL; END $$;"
                    f"CREATE TRIGGER note AFTER {command} ON {name}.{table}"
                    f" FOR EACH ROW EXECUTE FUNCTION {name}.note_{table}()"
                )
            lease = await store.grant(ttl_seconds=10)
            await put(store, "a")
            await store.renew([lease.id])

    with configured(rig, synchronous_commit="off"):
        asyncio.run(main())
        assert "warning" == findings(url)["synchronous_commit"].verdict
    assert [("on",)] == rig.sql(f"SELECT DISTINCT setting FROM {name}.seen_event")
    assert [("off",)] == rig.sql(f"SELECT DISTINCT setting FROM {name}.seen_lease")


def test_a_renewal_that_a_crash_took_back_is_not_repeated(rig, schema):
    table = f"{schema.removeprefix('&schema=')}.lease"

    async def main():
        async with opened(rig.url("stride", options=schema)) as store:
            lease = await store.grant(ttl_seconds=10)
            await store.renew([lease.id])
            [(before,)] = rig.sql(f"SELECT renewals FROM {table}")
            rig.sql(f"UPDATE {table} SET renewals = 0")  # as after the crash of a server that had not flushed it
            await store.renew([lease.id])
            [(after,)] = rig.sql(f"SELECT renewals FROM {table}")
            assert before != after

    asyncio.run(main())


def test_a_renewal_that_is_under_way_keeps_its_lease_from_the_reaper(rig, schema):
    name = schema.removeprefix("&schema=")
    target = {"host": "127.0.0.1", "port": rig.port, "user": "postgres", "password": SECRET, "dbname": DATABASE}

    async def main():
        async with opened(rig.url("reaped", options=schema)) as store:
            lease = await store.grant(ttl_seconds=10)
            state = await store.scan("")
            reap = f"SELECT verdict FROM {name}.end_lease({state.incarnation}, {state.revision}, {lease.id}, %s)"
            with psycopg.connect(**target) as holder:
                holder.execute(f"SELECT {name}.renew_leases({state.incarnation}, {state.revision}, ARRAY[{lease.id}])")
                reaping = asyncio.create_task(asyncio.to_thread(rig.sql, reap % 0))
                blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while rig.sql(blocked) != [(1,)]:
                        await asyncio.sleep(0.01)
            assert [("alive or gone",)] == await reaping
            [(renewals,)] = rig.sql(f"SELECT renewals FROM {name}.lease")
            assert [("alive or gone",)] == rig.sql(reap % (renewals - 1))
            assert frozenset({lease.id}) == await store.renew([lease.id])
            [(renewals,)] = rig.sql(f"SELECT renewals FROM {name}.lease")
            assert [("ended",)] == rig.sql(reap % renewals)
            assert frozenset() == await store.renew([lease.id])

    asyncio.run(main())


def test_transactions_that_overlap_lose_no_event(rig, schema):
    writers, each = 6, 40

    async def write(index):
        own = f"{schema}&application_name=writer{index}"  # so that each has a connection of its own
        async with opened(rig.url("overlap", options=own)) as store:
            return [(await put(store, f"{index}/{number}")).revision for number in range(each)]

    async def main():
        async with opened(rig.url("overlap", options=schema)) as store, taped(store, 0) as shown:
            revisions = await asyncio.gather(*map(write, range(writers)))
            await eventually(lambda: len(shown) >= writers * each)
        assert list(range(1, writers * each + 1)) == [change.revision for change in shown]
        assert list(range(1, writers * each + 1)) == sorted(chain.from_iterable(revisions))

    asyncio.run(main())


@pytest.mark.slow
def test_a_watch_goes_on_soon_after_the_server_was_killed_and_is_back(rig, schema):
    async def main():
        url = rig.url("killed", options=schema)
        async with opened(url) as watcher, opened(url) as writer, taped(watcher, 0) as shown:
            first = await put(writer, "before")
            await eventually(lambda: len(shown) == 1)
            await rig.kill()
            with pytest.raises(StoreUnavailable):
                await watcher.scan("")
            with pytest.raises(StoreUnavailable):
                await put(writer, "meanwhile")
            await rig.start()
            back = time.monotonic()
            async with opened(url) as other:
                second = await put(other, "after")
            await eventually(lambda: len(shown) == 2)
            assert time.monotonic() - back < 2.0
            assert [first.revision, second.revision] == [change.revision for change in shown]
            assert isinstance(await put(writer, "again"), Committed)

    asyncio.run(main())


@pytest.mark.slow
def test_a_commit_that_must_wait_too_long_for_others_fails_for_certain(rig, schema):
    async def main():
        async with opened(rig.url("locked", options=schema)) as store:
            target = {"host": "127.0.0.1", "port": rig.port, "user": "postgres", "password": SECRET}
            with psycopg.connect(**target, dbname=DATABASE) as holder:
                holder.execute(f"SELECT FROM {schema.removeprefix('&schema=')}.meta FOR UPDATE")
                with pytest.raises(StoreUnavailable, match="lock"):
                    await put(store, "a")
            assert () == (await store.scan("")).items

    asyncio.run(main())


def _connections(rig):
    """How many connections there are of a process that is named so; a pooler keeps others."""
    return rig.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'")[0][0]


@pytest.mark.slow
def test_however_many_groups_a_process_has_two_connections_and_few_descriptors(rig, schema):
    counted = f"{schema}&application_name=counted"

    async def main():
        most, shown = 0, []
        async with AsyncExitStack() as handles:
            for number in range(60):
                store = await handles.enter_async_context(opened(rig.url(f"group{number}", options=counted)))
                shown.append(await handles.enter_async_context(taped(store, 0)))
                most = max(most, _connections(rig))
                lease = await store.grant(ttl_seconds=30)
                await put(store, "member", lease=lease.id)
            await eventually(lambda: all(len(each) == 1 for each in shown))
            assert most <= 2
            assert len(list(Path("/proc/self/fd").iterdir())) < 40
        await eventually(lambda: _connections(rig) == 0)

    asyncio.run(main())


@pytest.mark.slow
def test_the_connection_that_commits_is_closed_after_a_rest_and_comes_back(rig, schema, monkeypatch):
    monkeypatch.setattr(links, "REST_SECONDS", 0.2)

    counted = f"{schema}&application_name=counted"

    async def main():
        async with opened(rig.url("rest", options=counted)) as store, taped(store, 0) as shown:
            await put(store, "a")
            await eventually(lambda: len(shown) == 1 and _connections(rig) == 1)
            await put(store, "b")
            await eventually(lambda: len(shown) == 2)

    asyncio.run(main())


def test_a_handle_that_is_closed_while_another_uses_its_links_costs_the_other_nothing(rig, schema):
    async def main():
        url = rig.url("closing", options=schema)
        async with opened(url) as store, taped(store, 0) as shown:
            for number in range(5):
                other = await connect(url)
                pending = asyncio.create_task(put(other, f"{number}"))
                await asyncio.sleep(0)
                await other.close()
                await asyncio.wait([pending])
                assert isinstance(pending.exception(), StoreClosed) or isinstance(pending.result(), Committed)
                assert isinstance(await put(store, f"own{number}"), Committed)
            made = {item.key for item in (await store.scan("")).items}
            await eventually(lambda: {change.events[0].key for change in shown} == made)

    asyncio.run(main())


def _end_connections(rig):
    """End every connection of members, as a failover does."""
    theirs = f"FROM pg_stat_activity WHERE usename = '{USER}'"
    rig.sql(f"SELECT pg_terminate_backend(pid) {theirs}")
    ends = time.monotonic() + PATIENCE_SECONDS
    while rig.sql(f"SELECT count(*) {theirs}") != [(0,)]:
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_another_fingerprint_begins_another_incarnation(rig, schema):
    async def main():
        async with opened(rig.url("moved", options=schema)) as store:
            before = await store.scan("")
            rig.sql(f"UPDATE {schema.removeprefix('&schema=')}.meta SET fingerprint = '1/00000001'")
            _end_connections(rig)
            with pytest.raises(StoreWentBack):
                await put(store, "a")
            after = await store.scan("")
            assert before.incarnation < after.incarnation
            assert isinstance(await put(store, "a"), Committed)

    asyncio.run(main())


def test_an_operator_begins_another_incarnation_and_open_handles_learn_of_it(rig, schema):
    url = rig.url("restored", options=schema)

    async def main():
        async with opened(url) as store:
            known = (await store.scan("")).incarnation
            before, after = await administration(url).restored()
            assert (known, True) == (before, after > known)
            with pytest.raises(StoreWentBack):
                await store.grant(ttl_seconds=5)
            assert after == (await store.scan("")).incarnation

    asyncio.run(main())


@pytest.mark.slow
def test_a_standby_is_refused_and_once_promoted_another_incarnation(rig):
    folder, port = rig.folder / "standby", free_port()
    environment = os.environ | {"PGPASSWORD": SECRET}
    source = ["-h", "127.0.0.1", "-p", str(rig.port), "-U", "postgres"]
    subprocess.run(
        [programs() / "pg_basebackup", *source, "-D", folder, "-R", "-X", "stream", "-c", "fast"],
        check=True, env=environment, cwd=rig.folder, **AS_POSTGRES,
    )  # fmt: skip
    with (rig.folder / "standby.log").open("wb") as log:
        standby = subprocess.Popen(
            [programs() / "postgres", "-D", folder, "-p", str(port)], stdout=log, stderr=log, **AS_POSTGRES
        )

    async def main():
        url = rig.url("standby", address=("127.0.0.1", port))
        async with opened(rig.url("standby")) as store:
            before = await store.scan("")
        await asyncio.to_thread(_wait_for_replay, rig)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "standby, which takes no writes" not in (error := await _refused(url)):
                await asyncio.sleep(0.05)
            assert "primary" in error
            subprocess.run([programs() / "pg_ctl", "promote", "-D", folder, "-s"], check=True, **AS_POSTGRES)
            while await _refused(url):
                await asyncio.sleep(0.05)
        async with opened(url) as store:
            assert before.incarnation < (await store.scan("")).incarnation

    try:
        asyncio.run(main())
    finally:
        standby.terminate()
        standby.wait()


def _wait_for_replay(rig):
    ends = time.monotonic() + PATIENCE_SECONDS
    while rig.sql("SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()") != [(1,)]:
        assert time.monotonic() < ends
        time.sleep(0.02)


async def _refused(url):
    try:
        await _connected(url)
    except ApportionError as error:
        return str(error)
    return ""


async def one_task(url, lease):
    """Do one task of each fate, as the user of a URL may."""
    tasks = await connect_tasks(url)
    await tasks.enqueue([NewTask(id=each, queue="q", name="f", arguments=b"") for each in "ab"])
    worker = Worker(session=lease.id, queues=("q",))
    claims = (await tasks.turn(worker, want=2)).claims
    fates = [Settlement(receipt=claim.receipt, fate=fate) for claim, fate in zip(claims, ("done", "dead"), strict=True)]
    assert () == (await tasks.turn(worker, fates, want=1)).refused
    assert ["dead"] == [row.state for row in await tasks.query(Listing(states=("ready", "dead")))]
    await tasks.control(Pause(queue="q"))
    await tasks.close()


@pytest.mark.slow
def test_a_role_without_rights_is_told_which_and_the_grants_are_enough(rig, schema):
    name = schema.removeprefix("&schema=")
    rig.sql(f"DROP ROLE IF EXISTS {name}")
    rig.sql(f"CREATE ROLE {name} LOGIN PASSWORD 'p'")
    theirs = rig.url("rights", user=name, password="p", options=schema)
    try:
        error = refused(theirs)
        assert (StoreDenied, True) == (type(error), "store upgrade" in str(error))
        owner = administration(rig.url("rights", options=schema))
        assert ((0, 1), (0, 1)) == (asyncio.run(owner.upgrade()), asyncio.run(owner.upgrade_tasks()))
        error = refused(theirs)
        assert (StoreDenied, True) == (type(error), "lacks rights" in str(error))
        assert "error" == findings(theirs)["rights"].verdict
        for grant in administration(theirs).grants(name):
            rig.sql(grant)
        assert "ok" == findings(theirs)["rights"].verdict

        async def main():
            async with opened(theirs) as store:
                lease = await store.grant(ttl_seconds=5)
                done = await put(store, "a", lease=lease.id)
                await store.renew([lease.id])
                await store.commit(when=[Unchanged(key="a", revision=done.revision)], deletes=["a"])
                await store.revoke(lease.id)
                async with taped(store, 0) as shown:
                    await eventually(lambda: len(shown) == 2)
                await one_task(theirs, await store.grant(ttl_seconds=5))

        asyncio.run(main())
        target = {"host": "127.0.0.1", "port": rig.port, "user": name, "password": "p", "dbname": DATABASE}
        for refused_statement in (f"DROP TABLE {name}.item", f"TRUNCATE {name}.task", f"DELETE FROM {name}.work_meta"):
            with psycopg.connect(**target) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused_statement)
        rig.sql(f"REVOKE UPDATE ON {name}.outcome FROM {name}")
        assert ("error", "lacking on outcome") == (findings(theirs)["rights"].verdict, findings(theirs)["rights"].found)
    finally:
        rig.sql(f"DROP OWNED BY {name} CASCADE")
        rig.sql(f"DROP ROLE {name}")


def test_doctor_makes_no_schema_where_none_is(rig, schema, tmp_path):
    url = rig.url("doctor", options=schema)
    done = run("doctor", "--store", url, folder=tmp_path)
    said = done.stdout.decode()
    assert (0, True, False) == (done.returncode, "schema: The first connect makes it" in said, "median" in said)
    assert "absent" == findings(url)["schema"].verdict
    asyncio.run(administration(url).upgrade())
    assert b"median" in run("doctor", "--store", url, folder=tmp_path).stdout


def test_a_request_that_waited_does_nothing_in_a_life_that_a_scan_accepted_meanwhile(rig, schema):
    async def main():
        url = rig.url("waiting", options=schema)
        async with opened(url) as store:
            lease = await store.grant(ttl_seconds=60)
            await administration(url).restored()
            scan = asyncio.ensure_future(store.scan(""))
            await asyncio.sleep(0)
            asks = (put(store, "a"), store.grant(ttl_seconds=5), store.renew([lease.id]), store.revoke(lease.id))
            waiting = [asyncio.ensure_future(ask) for ask in asks]
            for _ in range(3):
                await asyncio.sleep(0)
            assert not scan.done()
            incarnation = (await scan).incarnation
            for each in waiting:
                with pytest.raises(StoreWentBack):
                    await each
            assert incarnation == (await store.scan("")).incarnation
            assert {lease.id} == await store.renew([lease.id])

    asyncio.run(main())


def test_the_printed_statements_make_a_schema_that_works(rig, schema):
    url = rig.url("printed", options=schema)
    statements = "\n".join(administration(url).upgrade_statements())
    psql = [programs() / "psql", "-h", "127.0.0.1", "-p", str(rig.port), "-U", USER, "-q", "-v", "ON_ERROR_STOP=1"]
    subprocess.run([*psql, DATABASE], input=statements, text=True, check=True, env=os.environ | {"PGPASSWORD": SECRET})
    assert (1, 1) == asyncio.run(administration(url).upgrade())
    assert (1, 1) == asyncio.run(administration(url).upgrade_tasks())

    async def main():
        async with opened(url) as store:
            assert 1 == (await put(store, "a")).revision

    asyncio.run(main())


def test_of_many_that_connect_first_one_makes_the_schema(rig, schema):
    async def main():
        stores = await asyncio.gather(*(connect(rig.url("first", options=schema)) for _ in range(8)))
        assert 1 == len({(await store.scan("")).incarnation for store in stores})
        for store in stores:
            await store.close()

    asyncio.run(main())


def test_a_schema_from_the_future_is_refused(rig, schema):
    url = rig.url("future", options=schema)
    asyncio.run(administration(url).upgrade())
    rig.sql(f"UPDATE {schema.removeprefix('&schema=')}.meta SET schema_version = 99")
    assert isinstance(refused(url), InvalidInput)
    assert "error" == findings(url)["schema"].verdict
    with pytest.raises(InvalidInput):
        asyncio.run(administration(url).upgrade())


def test_the_history_is_kept_for_ten_thousand_revisions(rig, schema):
    name = schema.removeprefix("&schema=")

    async def main():
        async with opened(rig.url("long", options=schema)) as store:
            await put(store, "first")
            rig.sql(f"UPDATE {name}.meta SET revision = 19998")
            await put(store, "one before")
            await put(store, "the twenty thousandth")
            assert [(10_000,)] == rig.sql(f"SELECT compacted FROM {name}.meta")
            with pytest.raises(Compacted):
                await anext(store.watch("", after=9_999))
            assert 19_999 == (await anext(store.watch("", after=10_000))).revision

    asyncio.run(main())


@pytest.mark.slow
def test_the_history_is_bounded_in_bytes_too(rig, schema):
    name = schema.removeprefix("&schema=")
    kept = f"SELECT coalesce(sum(octet_length(key) + coalesce(octet_length(value), 0)), 0) FROM {name}.event"

    async def main():
        async with opened(rig.url("bytes", options=schema)) as store:
            revision = (await put(store, "large", bytes(900_000))).revision
            for _ in range(80):  # 72 MB in all
                when = [Unchanged(key="large", revision=revision)]
                revision = (await store.commit(when=when, puts=[Put(key="large", value=bytes(900_000))])).revision
                [(held,)] = rig.sql(kept)
                assert held <= 64 << 20
                assert [(held,)] == rig.sql(f"SELECT history_bytes FROM {name}.meta")
            [(compacted,)] = rig.sql(f"SELECT compacted FROM {name}.meta")
            assert 0 < compacted < revision - 30
            with pytest.raises(Compacted):
                await anext(store.watch("", after=compacted - 1))
            assert compacted + 1 == (await anext(store.watch("", after=compacted))).revision

    asyncio.run(main())


def test_hints_that_say_nonsense_do_no_harm(rig):
    async def main():
        async with opened(rig.url("nonsense")) as store:
            after = (await store.scan("")).revision
            async with taped(store, after) as shown:
                for payload in ("9223372036854775807", "-1", "x" * 7000):
                    rig.sql(f"NOTIFY apportion, '{payload}'")
                done = await put(store, "a")
                await eventually(lambda: shown)
            assert [done.revision] == [change.revision for change in shown]

    asyncio.run(main())


@pytest.mark.slow
def test_a_directory_of_sockets_takes_the_place_of_a_host(rig):
    url = f"postgresql://{USER}:{quote(SECRET, safe='')}@:{rig.port}/{DATABASE}?namespace=socket&host={rig.folder}"
    asyncio.run(_connected(url))


@pytest.fixture
def certified(rig):
    """Within: the server speaks TLS with a certificate of its own making."""
    key, certificate = rig.folder / "server.key", rig.folder / "server.crt"
    subject = ["-subj", "/CN=elsewhere", "-days", "2", "-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, "-keyout", key, "-out", certificate],
        check=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    if os.geteuid() == 0:
        shutil.chown(key, "postgres")
    settings = {"ssl_cert_file": str(certificate), "ssl_key_file": str(key), "ssl": "on"}
    with configured(rig, **settings):
        yield certificate


@pytest.mark.slow
def test_a_certificate_for_another_name_is_refused_and_a_right_one_taken(rig, certified):
    strict = f"&sslrootcert={certified}&sslmode="
    assert "TLS failed" in str(refused(rig.url("tls", options=f"{strict}verify-full")))
    asyncio.run(_connected(rig.url("tls", options=f"{strict}verify-ca")))


@pytest.mark.slow
def test_no_secret_is_in_any_message_log_or_repr(rig, caplog):
    caplog.set_level(logging.DEBUG)
    dead = ("127.0.0.1", free_port())
    expected = {
        "refuses this user or password": rig.url("secret", user="postgres", password=SECRET + "x"),
        "no such database": rig.url("secret", database="nowhere"),
        "no server listens": rig.url("secret", address=dead),
        "TLS failed": rig.url("secret", options="&sslmode=require"),
        "host's name is not known": rig.url("secret", address=("nowhere.invalid", 1)),
    }
    said = []
    for reason, url in expected.items():
        error = refused(url)
        assert reason in str(error)
        said += traceback.format_exception(error)
        said += [repr(error), repr(error.__cause__), repr(asyncio.run(administration(url).inspect()))]

    async def main():
        async with opened(rig.url("secret")) as store:
            said.extend([repr(store), repr(vars(store)), repr(vars(store._committing)["_connection"])])
            said.extend(map(repr, await administration(rig.url("secret")).inspect()))
            await rig.kill()
            with pytest.raises(StoreUnavailable) as caught:
                await store.scan("")
            said.extend(traceback.format_exception(caught.value))
        await rig.start()

    asyncio.run(main())
    heard = "".join(said) + caplog.text
    for part in (SECRET, "cAnAry", "e/c r", "c%20r", "%40s"):
        assert part not in heard
