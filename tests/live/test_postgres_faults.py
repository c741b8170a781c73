"""What befalls connections to PostgreSQL while members live by them: silence, fail-overs behind a pooler, refusals."""

import asyncio
import os
import random
import signal
import subprocess
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

import apportion
from apportion.errors import InvalidInput, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.sim.conformance.proxy import Proxy
from apportion.stores import Absent, Committed, Put, connect
from apportion.stores.postgres.door import Door
from apportion.stores.postgres.link import LOOK_SECONDS
from tests.stores.rigs import absent
from tests.stores.rigs.pgbouncer import Pooler
from tests.stores.rigs.postgres import AS_POSTGRES, SECRET, USER, PostgresRig, free_port, programs

pytestmark = pytest.mark.live
PATIENCE_SECONDS = 20.0
PARTITIONS = 8
CUTS = 2


@pytest.fixture(scope="module")
def rig():
    try:
        made = PostgresRig()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    made.stop()


@pytest.fixture
def own_rig():
    """A server of the test's own, which is left behind for its standby."""
    try:
        made = PostgresRig()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    made.stop()


async def serving(group, *, until):
    """Return how often not all partitions were served, looked at every few milliseconds until something is done."""
    missed = 0
    while not until.done():
        missed += len(group.owned) < PARTITIONS
        await asyncio.sleep(0.01)
    return missed


@pytest.mark.parametrize("ttl_seconds", [(2, 4), pytest.param((6, 10), marks=pytest.mark.soak)], ids=["short", "long"])
def test_connections_that_go_silent_end_no_session_and_stop_no_service(rig, ttl_seconds):
    chance = random.Random(7)

    async def silenced(proxy, ttl):
        for _ in range(CUTS):
            await asyncio.sleep(ttl * chance.uniform(0.25, 0.5))
            proxy.half_open()
            await asyncio.sleep(ttl * 1.2)

    async def lived(ttl):
        async with AsyncExitStack() as undo:
            proxy = Proxy(rig.address())
            await proxy.open()
            undo.push_async_callback(proxy.close)
            url = rig.url(f"silent{ttl}", address=proxy.address)
            opening = apportion.open_group(url, "work", partitions=PARTITIONS, lease_ttl=timedelta(seconds=ttl))
            group = await undo.enter_async_context(opening)
            serve = asyncio.ensure_future(group.serve())
            async with asyncio.timeout(20):
                while len(group.owned) < PARTITIONS:
                    await asyncio.sleep(0.01)
            missed = await serving(group, until=asyncio.ensure_future(silenced(proxy, ttl)))
            sessions = group.statistics.sessions
            proxy.heal()  # the connection that commits was not needed meanwhile, and is silent still
            group.leave()
            await serve
        return missed, sessions

    async def main():
        return await asyncio.gather(*map(lived, ttl_seconds))

    assert [(0, 1)] * len(ttl_seconds) == asyncio.run(main())


@contextmanager
def standby_of(rig):
    """Within: a standby that lacks the last commits; `promote` makes it the primary of another timeline."""
    folder, port = rig.folder / "standby", free_port()
    source = ["-h", "127.0.0.1", "-p", str(rig.port), "-U", "postgres"]
    copying = [programs() / "pg_basebackup", *source, "-D", folder, "-R", "-X", "stream", "-c", "fast"]
    subprocess.run(copying, check=True, env=os.environ | {"PGPASSWORD": SECRET}, cwd=rig.folder, **AS_POSTGRES)
    with (rig.folder / "standby.log").open("wb") as log:
        process = subprocess.Popen(
            [programs() / "postgres", "-D", folder, "-p", str(port)], stdout=log, stderr=log, **AS_POSTGRES
        )
    try:
        yield Standby(rig, folder, port)
    finally:
        process.send_signal(signal.SIGINT)  # a plain end waits for its clients
        process.wait()


class Standby:
    """A standby that follows until it is cut off."""

    def __init__(self, rig, folder, port):
        self.port = port
        self._rig, self._folder = rig, folder

    async def follow(self):
        """Wait until it has all there is."""
        behind = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self._rig.sql(behind) != [(1,)]:
                await asyncio.sleep(0.02)

    async def cut_off(self):
        """Let it hear no more of its primary."""
        (self._folder / "postgresql.auto.conf").open("a").write("primary_conninfo = ''\n")
        self._control("reload")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self._rig.sql("SELECT count(*) FROM pg_stat_replication") != [(0,)]:
                await asyncio.sleep(0.02)

    def promote(self):
        """Make it a primary; returns when it is."""
        self._control("promote")

    def _control(self, order):
        subprocess.run([programs() / "pg_ctl", order, "-D", self._folder, "-s"], check=True, **AS_POSTGRES)


@pytest.mark.parametrize(("watch", "first"), [("hints", "a write"), ("poll", "a watch")])
def test_a_fail_over_behind_a_pooler_is_seen_and_gives_no_revision_twice(own_rig, watch, first):
    rig = own_rig
    pooler = Pooler(rig)
    url = rig.url("moved", address=pooler.address, options=f"&watch={watch}")

    async def put(store, key):
        return await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"")])

    async def drain(changes):
        async for _ in changes:
            pass

    async def main():
        async with AsyncExitStack() as undo:
            busy, idle, sleeper = [await connect(url + f"&application_name={name}") for name in ("a", "b", "c")]
            for store in (busy, idle, sleeper):
                undo.push_async_callback(store.close)
            await put(busy, "first")
            before = (await idle.scan("")).incarnation
            watching = asyncio.ensure_future(drain(sleeper.watch("", after=(await sleeper.scan("")).revision)))
            await standby.follow()
            await standby.cut_off()
            given = [(before, (await put(busy, f"lost{number}")).revision) for number in range(3)]
            await asyncio.to_thread(pooler.tell, "PAUSE")
            await asyncio.to_thread(standby.promote)
            await asyncio.to_thread(pooler.point_at, standby.port)
            await asyncio.to_thread(pooler.tell, "RESUME")
            if first == "a watch":
                with pytest.raises(StoreWentBack):
                    await asyncio.wait_for(watching, LOOK_SECONDS + 3)
            with pytest.raises(StoreWentBack):  # it has seen less than the new primary has
                await put(idle, "after")
            with pytest.raises(StoreWentBack):
                await put(busy, "after")
            with pytest.raises(StoreWentBack):
                await asyncio.wait_for(asyncio.shield(watching), LOOK_SECONDS + 3)
            for store in (idle, busy):
                incarnation = (await store.scan("")).incarnation
                again = [(incarnation, (await put(store, f"new{id(store)}{number}")).revision) for number in range(5)]
                assert max(given) < min(again)

    try:
        with standby_of(rig) as standby:
            asyncio.run(main())
    finally:
        pooler.stop()


REFUSALS = {
    "rights": (
        f"REVOKE ALL ON ALL TABLES IN SCHEMA apportion FROM {USER}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA apportion TO {USER}",
    ),
    "password": (f"ALTER ROLE {USER} PASSWORD 'other'", f"ALTER ROLE {USER} PASSWORD {psycopg.sql.quote(SECRET)}"),
    "read-only": (
        f"ALTER ROLE {USER} SET default_transaction_read_only = on",
        f"ALTER ROLE {USER} RESET default_transaction_read_only",
    ),
    "connections": (f"ALTER ROLE {USER} CONNECTION LIMIT 0", f"ALTER ROLE {USER} CONNECTION LIMIT -1"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_is_refused_for_three_seconds_works_again_afterwards_on_the_same_handle(rig, refusal):
    take, give = REFUSALS[refusal]
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'"

    async def answered(ask):
        """Ask until there is an answer that is none of the two that pass."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with suppress(StoreDenied, StoreUnavailable):
                    return await ask()
                await asyncio.sleep(0.05)

    async def main():
        store = await connect(rig.url(refusal))
        shown = asyncio.Queue()
        after = (await store.scan("")).revision

        async def watch():
            async for change in store.watch("", after=after):
                shown.put_nowait(change)

        watching = asyncio.ensure_future(watch())
        lease = await store.grant(ttl_seconds=30)
        asks = [
            lambda: store.renew([lease.id]),
            lambda: store.commit(when=[Absent(key="in")], puts=[Put(key="in", value=b"")]),
            lambda: store.scan(""),
            lambda: store.revoke(1),
        ]
        await asyncio.to_thread(rig.sql, take)
        await asyncio.to_thread(rig.sql, end)
        met = set()
        try:
            ends = asyncio.get_running_loop().time() + 3
            while asyncio.get_running_loop().time() < ends:
                for ask in asks:
                    try:
                        await ask()
                    except (StoreDenied, StoreUnavailable) as error:
                        met.add(error)
        finally:
            await asyncio.to_thread(rig.sql, give)
            await asyncio.to_thread(rig.sql, end)
        assert met
        assert any(isinstance(error, StoreDenied) for error in met) == (refusal in ("rights", "password"))
        assert not [error for error in met if SECRET in str(error)]
        assert {lease.id} == await answered(asks[0])
        made = await answered(lambda: store.commit(when=[Absent(key="out")], puts=[Put(key="out", value=b"")]))
        assert isinstance(made, Committed)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await shown.get()).revision < made.revision:
                pass
        watching.cancel()
        await store.close()

    asyncio.run(main())


def test_a_time_to_live_that_is_too_short_for_the_distance_is_refused_with_the_least_that_works(rig, monkeypatch):
    look = Door.look

    async def far(door, connection, *, seconds):
        return replace(await look(door, connection, seconds=seconds), round_trip_seconds=0.1)

    monkeypatch.setattr(Door, "look", far)

    async def main(ttl):
        opening = apportion.open_group(rig.url("far"), "work", partitions=2, lease_ttl=timedelta(seconds=ttl))
        async with opening as group:
            group.leave()

    with pytest.raises(InvalidInput, match=r"lease_ttl .* 3 to"):
        asyncio.run(main(2))
    asyncio.run(main(3))
