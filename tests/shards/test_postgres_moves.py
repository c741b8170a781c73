"""A plan on PostgreSQL is applied, verified and cleaned by the calls that files of SQLite have."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from urllib.parse import quote

import psycopg
import pytest

from apportion.errors import InvalidInput, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.model.epoch import FencingToken
from apportion.shards import admin
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres import channel, comparison, server
from apportion.shards.records import SetKeys, ShardRecord
from apportion.stores import api
from apportion.stores.catalog import connect
from apportion.stores.postgres.wire import cut
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role
from tests.stores.rigs.pgbouncer import Pooler
from tests.stores.rigs.postgres import SECRET, USER

pytestmark = pytest.mark.live


@pytest.fixture
def files(make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    return make_set("postgresql")


def test_a_plan_empties_a_shard_and_leaves_nothing_behind(files):
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot")]
    row = "INSERT INTO place (slot, id, country, visits) VALUES (%s, gen_random_uuid(), 'FR', 1)"
    for slot in slots[:20] * 2:
        files.sql("one", row, (slot,))
    before = files.sql("one", "SELECT * FROM place ORDER BY id")

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        made = await admin.apply(files.url, SET, plan)
        assert made.is_whole
        return await admin.clean(files.url, SET, soak=timedelta(0))

    assert asyncio.run(main()).is_whole
    assert before == files.sql("two", "SELECT * FROM place ORDER BY id")
    assert [] == files.sql("one", "SELECT * FROM place")
    triggers = "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'apportion_log%%'"
    logs = "SELECT relname FROM pg_class WHERE relname LIKE 'log_%%'"
    functions = "SELECT proname FROM pg_proc WHERE pronamespace = 'apportion'::regnamespace AND proname LIKE 'log%%'"
    for shard in ("one", "two"):
        assert [[], [], []] == [files.sql(shard, each, ()) for each in (triggers, logs, functions)]
        assert [] == files.sql(shard, "SELECT * FROM apportion.move")


@pytest.mark.parametrize("step", ["capture", "chunk", "fence", "switch"])
def test_a_move_goes_on_by_itself_after_a_crash_of_the_servers(rig, files, step):
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot")][:4]
    row = "INSERT INTO place (slot, id, country, visits) VALUES (%s, gen_random_uuid(), 'FR', 1)"
    for slot in slots * 5:
        files.sql("one", row, (slot,))
    rows = "SELECT * FROM place WHERE slot = ANY (%s) ORDER BY id"
    before, crashes = files.sql("one", rows, (slots,)), []

    def crash(event):
        if event.step == step and not crashes:
            rig.server.kill()
            rig.server.wait()
            crashes.append(threading.Timer(0.3, rig.launch))
            crashes[0].start()

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        assert (await admin.apply(files.url, SET, plan, observer=crash)).is_whole
        assert (await admin.clean(files.url, SET, soak=timedelta(0))).is_whole

    asyncio.run(main())
    assert crashes
    assert (before, []) == (files.sql("two", rows, (slots,)), files.sql("one", rows, (slots,)))


def test_a_table_that_came_after_init_is_refused_until_it_has_triggers(files):
    for shard in ("one", "two"):
        files.sql(shard, "CREATE TABLE tag (id uuid PRIMARY KEY, slot smallint NOT NULL)")
        files.sql(shard, "CREATE UNIQUE INDEX tag_by_slot ON tag (slot, id)")

    async def main():
        plan = await admin.plan(files.url, SET, slots=range(8), to="two")
        with pytest.raises(InvalidInput, match=r"triggers of table public\.tag in shard one is 'absent'"):
            await admin.apply(files.url, SET, plan)

    asyncio.run(main())


def test_a_mover_that_is_no_superuser_needs_one_right_and_is_told_before_anything_is_made(mover):
    for slot, country in ((5, "FR"), (6, "DE")):
        mover.sql(
            "one",
            "INSERT INTO place (slot, id, country, visits) VALUES (%s, gen_random_uuid(), %s, 1)",
            (slot, country),
        )

    async def main():
        plan = await admin.plan(mover.url, SET, slots=[5, 6], to="two")
        with pytest.raises(StoreDenied, match="may not write rows without their triggers") as refusal:
            await admin.apply(mover.url, SET, plan)
        assert "GRANT SET ON PARAMETER" in refusal.value.hint
        assert [] == mover.sql("two", "SELECT * FROM apportion_slot WHERE slot IN (5, 6)")
        mover.rig.sql("GRANT SET ON PARAMETER session_replication_role TO mover", database="postgres")
        assert (await admin.apply(mover.url, SET, plan)).is_whole
        assert (await admin.clean(mover.url, SET, soak=timedelta(0))).is_whole

    asyncio.run(main())
    assert [(2,)] == mover.sql("two", "SELECT count(*) FROM place")
    assert [(0,)] == mover.sql("one", "SELECT count(*) FROM place")


def test_a_wrong_password_is_refused_at_once_and_is_not_shown(mover, monkeypatch):
    async def main():
        plan = await admin.plan(mover.url, SET, slots=[5], to="two")
        monkeypatch.setenv("SERVER_SECRET", "not-the-one")
        async with asyncio.timeout(10):
            with pytest.raises(StoreDenied, match="it refuses this user or password") as refusal:
                await admin.apply(mover.url, SET, plan)
        assert "not-the-one" not in f"{refusal.value}"
        assert () == (await admin.status(mover.url, SET)).moves

    asyncio.run(main())


def test_a_wait_names_the_transaction_that_holds_the_lock(files, monkeypatch):
    monkeypatch.setattr(server, "LOCK_WAIT_SECONDS", 0.2)
    slot, said = files.sql("one", "SELECT max(slot) FROM apportion_slot WHERE state = 'owner'")[0][0], []
    with files.connect("one", user=USER) as writer:
        writer.execute("INSERT INTO place (slot, id, country, visits) VALUES (%s, gen_random_uuid(), 'FR', 1)", (slot,))

        def hear(event):
            if event.step == "waits" and not said:
                said.append(event.why)
                writer.rollback()

        async def main():
            plan = await admin.plan(files.url, SET, slots=[slot], to="two")
            assert (await admin.apply(files.url, SET, plan, observer=hear)).is_whole

        asyncio.run(main())
        assert f"for 0.2 s: process {writer.info.backend_pid} of {USER}" in said[0]


def test_a_vacuum_gives_way_to_a_mover_within_its_wait_for_a_lock(files):
    host, port = files.rig.address()
    address = f"postgresql://{OWNER}:{quote(SECRET, safe='')}@{host}:{port}/{files.name('one')}"
    place = server.ShardServer(server.ServerPlace(set_name=SET, shard="one", address=address))
    group = MoveGroup(move="m", source="one", target="two", slots=(1,))
    token = FencingToken(resource="world.mover", holder="a", incarnation=1, epoch=1)

    async def main():
        try:
            return await place.write(group, token, lambda connection: server.rows(connection, "SHOW deadlock_timeout"))
        finally:
            await place.close()

    assert [("10ms",)] == asyncio.run(main())


def test_each_write_compares_the_timeline_because_a_pooler_may_have_another_server_by_now(files):
    host, port = files.rig.address()
    address = f"postgresql://{OWNER}:{quote(SECRET, safe='')}@{host}:{port}/{files.name('one')}"
    place = server.ShardServer(server.ServerPlace(set_name=SET, shard="one", address=address))
    group = MoveGroup(move="m", source="one", target="two", slots=(1,))
    token = FencingToken(resource="world.mover", holder="a", incarnation=1, epoch=9)

    async def write():
        await place.write(group, token, lambda connection: server.rows(connection, "SELECT 1"))

    async def main():
        await write()
        place.place = replace(place.place, timeline=replace(place.timeline, number=place.timeline.number + 1))
        try:
            with pytest.raises(StoreWentBack):
                await write()
        finally:
            await place.close()

    asyncio.run(main())


RIGHTS = {
    "TEMPORARY ON DATABASE": "its role may not make temporary tables",
    "CREATE ON SCHEMA": "its role may not make tables in the schema apportion",
}


@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize("shard", ["one", "two"])
def test_a_role_that_may_not_make_the_tables_of_a_move_is_told_before_anything_is_made(mover, right, shard):
    place = f"{right} {mover.name(shard) if right.endswith('DATABASE') else 'apportion'}"
    mover.rig.sql("GRANT SET ON PARAMETER session_replication_role TO mover", database="postgres")
    mover.sql(shard, f"REVOKE {place} FROM PUBLIC, mover")

    async def main():
        plan = await admin.plan(mover.url, SET, slots=[5, 6], to="two")
        with pytest.raises(StoreDenied) as refusal:
            await admin.apply(mover.url, SET, plan)
        assert f"shard {shard} denies the request: {RIGHTS[right]}." == refusal.value.problem
        assert f"GRANT {place} TO" in refusal.value.hint
        assert () == (await admin.status(mover.url, SET)).moves
        mover.sql(shard, f"GRANT {place} TO mover")
        assert (await admin.apply(mover.url, SET, plan)).is_whole

    asyncio.run(main())


LACKING = {
    "TRIGGER": "place",
    "INSERT, DELETE": "photo",
    "UPDATE": "place",
    "UPDATE, INSERT": "apportion.slot",
    "INSERT": "apportion.fences",
    "DELETE": "apportion.move",
}


@pytest.mark.parametrize("shard", ["one", "two"])
def test_a_role_that_lacks_a_right_on_a_table_is_told_by_the_doctor_and_by_apply_before_anything_is_made(mover, shard):
    mover.rig.sql("GRANT SET ON PARAMETER session_replication_role TO mover", database="postgres")

    async def main():
        plan = await admin.plan(mover.url, SET, slots=[5, 6], to="two")
        for rights, table in LACKING.items():
            mover.sql(shard, f"REVOKE {rights} ON {table} FROM mover")
            lacking, name = ", ".join(sorted(rights.split(", "))), table if "." in table else f"public.{table}"
            error = await denied(mover, plan)
            assert f"shard {shard} denies the request: its role lacks {lacking} on table {name}." == error.problem
            assert f"GRANT {lacking} ON {name} TO the role of the mover." in error.hint
            mover.sql(shard, f"GRANT {rights} ON {table} TO mover")
        mover.sql(shard, f"ALTER TABLE place OWNER TO {OWNER}; GRANT ALL ON place TO mover")
        assert "table place belongs to another role" in (await denied(mover, plan)).problem
        mover.sql(shard, "ALTER TABLE place OWNER TO mover")
        assert (await admin.apply(mover.url, SET, plan)).is_whole

    asyncio.run(main())


async def denied(files, plan):
    """Return the refusal of a plan, in the words of the doctor, after a look that nothing was made."""
    async with asyncio.timeout(20):
        with pytest.raises(StoreDenied) as refusal:
            await admin.apply(files.url, SET, plan)
    assert () == (await admin.status(files.url, SET)).moves
    found = [each for each in await admin.doctor(files.url, SET, base=None, is_whole=False) if each.verdict != "ok"]
    assert (refusal.value.problem, refusal.value.hint) in [(each.found, each.advice) for each in found]
    return refusal.value


def logged(files, slots, observer):
    """Move slots with rows, of which one changes during the move."""
    for slot in slots:
        files.sql(
            "one", "INSERT INTO place (slot, id, country, visits) VALUES (?, gen_random_uuid(), 'FR', 1)", (slot,)
        )

    def hear(event):
        if event.step == "capture":
            files.sql("one", "UPDATE place SET visits = 2 WHERE slot = ?", (slots[0],))
        observer(event)

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        async with asyncio.timeout(60):
            return await admin.apply(files.url, SET, plan, observer=hear)

    assert asyncio.run(main()).is_whole
    assert [(2,)] == files.sql("two", "SELECT visits FROM place WHERE slot = ?", (slots[0],))


def test_a_short_lock_of_a_table_of_the_source_only_delays_the_changes(files, monkeypatch):
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot WHERE state = 'owner' LIMIT 2")]
    replaced, holders = channel.replaced, []

    async def locked(*given):
        if not holders:
            holders.append(files.connect("one"))
            holders[0].execute("LOCK TABLE place IN ACCESS EXCLUSIVE MODE")
            threading.Timer(0.2, holders[0].close).start()
        await replaced(*given)

    monkeypatch.setattr(channel, "replaced", locked)
    logged(files, slots, lambda event: None)
    assert holders


@pytest.mark.parametrize("act", ["staged", "rows"])
def test_a_lost_connection_to_the_source_is_told_of_the_source(files, monkeypatch, act):
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot WHERE state = 'owner' LIMIT 2")]
    place, said, cuts = channel if act == "staged" else comparison, [], []
    done = getattr(place, act)

    async def lost(here, *given):
        if not cuts:
            cuts.append(here)
            cut(here)
        return await done(here, *given)

    monkeypatch.setattr(place, act, lost)
    logged(files, slots, lambda event: said.extend([event.why] if event.why else []))
    assert cuts
    assert [True] == [each.startswith("shard one is unavailable") for each in said]


def test_a_lost_connection_is_told_in_one_line(files):
    host, port = files.rig.address()
    address = f"postgresql://{OWNER}:{quote(SECRET, safe='')}@{host}:{port}/{files.name('one')}"
    place = server.ShardServer(server.ServerPlace(set_name=SET, shard="one", address=address))

    async def lost(connection):
        cut(connection)
        await server.rows(connection, "SELECT 1")

    with pytest.raises(StoreUnavailable, match=r"^shard one is unavailable: [^\n.]+\.\n[^\n]+$"):
        asyncio.run(place.read(lost))


@pytest.mark.parametrize("pauses", [(0.0,), (0.0, 0.0), (0.01, 0.0, 0.0)])
def test_a_statement_of_a_mover_ends_before_its_cancelled_call(files, caplog, pauses):
    host, port = files.rig.address()
    address = f"postgresql://{OWNER}:{quote(SECRET, safe='')}@{host}:{port}/{files.name('one')}"
    place = server.ShardServer(server.ServerPlace(set_name=SET, shard="one", address=address))
    ends = []

    async def slow(connection):
        try:
            await server.rows(connection, "SELECT pg_sleep(60)")
        finally:
            await asyncio.sleep(0.02)
            ends.append(connection)

    async def main():
        await place.read(lambda connection: server.rows(connection, "SELECT 1"))
        call = asyncio.ensure_future(place.read(slow))
        await asyncio.sleep(0.1)
        for pause in pauses:
            call.cancel()
            await asyncio.sleep(pause)
        await asyncio.wait([call])
        assert call.cancelled()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert set() == asyncio.run(main())
    assert not caplog.records


def test_a_move_through_transaction_poolers_leaves_no_setting_to_the_sessions_of_others(files):
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot WHERE state = 'owner' LIMIT 4")]
    row = "INSERT INTO place (slot, id, country, visits) VALUES (%s, gen_random_uuid(), 'FR', 1)"
    for slot in slots:
        files.sql("one", row, (slot,))
    poolers = {shard: Pooler(files.rig, connections=2, database=files.name(shard)) for shard in ("one", "two")}

    def settings(shard):
        target = {"host": "127.0.0.1", "port": poolers[shard].port, "user": OWNER, "dbname": files.name(shard)}
        with psycopg.connect(**target, autocommit=True, prepare_threshold=None) as connection:
            found = connection.execute("SELECT name, setting FROM pg_settings WHERE source = 'session'").fetchall()
            return {name: value for name, value in found if not name.startswith(("transaction_", "application_name"))}

    async def main():
        store = await connect(files.url)
        for shard, pooler in poolers.items():
            key = SetKeys(SET).shard(shard)
            [item] = [each for each in (await store.scan(key)).items if each.key == key]
            url = files.shards[shard].url.replace(f":{files.rig.port}/", f":{pooler.port}/")
            put = api.Put(key=key, value=ShardRecord(url=url).encode())
            await store.commit(when=[api.Unchanged(key=key, revision=item.revision)], puts=[put], deletes=())
        await store.close()
        before = [settings(shard) for shard in poolers]
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        assert (await admin.apply(files.url, SET, plan)).is_whole
        return before, [settings(shard) for shard in poolers]

    try:
        before, after = asyncio.run(main())
    finally:
        for pooler in poolers.values():
            pooler.stop()
    assert before == after
    assert [(4,)] == files.sql("two", "SELECT count(*) FROM place WHERE slot = ANY (%s)", (slots,))
