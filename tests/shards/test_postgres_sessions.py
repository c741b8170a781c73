"""Pinned sessions on PostgreSQL: each driver, each isolation level, and through a pooler of transactions."""

import asyncio
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic, sleep
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, insert, select, text, update
from sqlalchemy.ext.asyncio import create_async_engine

import apportion
from apportion.errors import CrossShard, InvalidInput, StaleRoute
from apportion.shards import pin
from apportion.shards.postgres.functions import LOCK_CLASS
from tests.shards.moved_slots import FR, ends, switch, visits, write
from tests.shards.sample import SET, Base, Place
from tests.stores.rigs.pgbouncer import Pooler
from tests.stores.rigs.postgres import AS_POSTGRES, SECRET, USER, free_port, programs

pytestmark = pytest.mark.live
DE = "DE"
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


@pytest.fixture
def files(make_set):
    return make_set("postgresql")


@contextmanager
def opened(files, **options):
    options = {"session": {"expire_on_commit": False}, **options}
    with apportion.sync.open_shards(files.url, SET, base=Base, **options) as router:
        yield router


def at(level):
    return lambda url: create_engine(url, isolation_level=level)


@pytest.mark.parametrize("level", LEVELS)
def test_a_session_that_waited_for_a_mover_goes_to_the_new_shard_at_each_isolation_level(files, level):
    with opened(files, create_engine=at(level)) as router, files.connect(ends(router)[1]) as mover:
        slot, here, there = ends(router)
        mover.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_CLASS, slot))
        mover.execute("UPDATE apportion.slot SET state = 'moved' WHERE slot = %s", (slot,))
        with ThreadPoolExecutor(1) as pool, router.session(FR) as session:
            writing = pool.submit(write, session)
            until_one_waits(files, here)
            number = files.publish(slot, there)
            files.state(there, slot, "incoming", number.number, number.incarnation)
            mover.commit()
            writing.result(20)
    assert ([], [1]) == (visits(files, here), visits(files, there))


def until_one_waits(files, shard):
    ends_at = monotonic() + 20
    while not files.sql(shard, "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
        assert monotonic() < ends_at
        sleep(0.01)


def test_a_serialization_failure_of_the_application_is_its_own(files):
    with opened(files, create_engine=at("SERIALIZABLE")) as router:
        with router.session(FR) as session:
            write(session)
        with router.session(FR) as one, router.session(FR) as other:
            for session in (one, other):
                session.scalars(select(Place)).one().visits += 1
            one.commit()
            with pytest.raises(Exception, match="could not serialize") as failed:
                other.commit()
        assert not isinstance(failed.value, StaleRoute)


def test_no_writer_waits_for_the_first_writer_of_a_slot_that_came_to_its_shard(files):
    with opened(files, create_engine=at("SERIALIZABLE")) as router:
        slot, here, there = ends(router)
        with router.session(FR) as session:
            session.connection()
        switch(files, slot, here, there)
        with router.session(FR) as first, router.session(FR) as second:
            first.add(Place(country=FR, visits=1))
            first.flush()
            assert [("owner",)] == files.sql(there, "SELECT state FROM apportion_slot WHERE slot = ?", (slot,))
            write(second, 2)
            first.commit()
        assert not router.arrived
    assert [1, 2] == visits(files, there)


def test_a_reader_takes_no_lock_and_waits_for_no_mover(files):
    with opened(files) as router, router.session(FR, read_only=True) as session:
        slot, here, _ = ends(router)
        with files.connect(here) as mover:
            mover.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_CLASS, slot))
            assert [] == session.scalars(select(Place)).all()
            mover.rollback()
        assert [] == files.sql(here, "SELECT pid FROM pg_locks WHERE locktype = 'advisory'")


FOREIGN = {
    "an update of all rows": lambda key, slot: text("UPDATE place SET visits = 9"),
    "an update by Core": lambda key, slot: update(Place.__table__).values(visits=9),
    "a delete": lambda key, slot: text("DELETE FROM place"),
    "an insert by Core": lambda key, slot: insert(Place.__table__).values(id=uuid4(), country=key, slot=slot),
    "a changed slot": lambda key, slot: text(f"UPDATE place SET slot = {slot} WHERE country = 'FR'"),
}


@pytest.mark.parametrize("act", FOREIGN)
def test_core_and_text_cannot_write_rows_of_another_slot_of_the_same_database(make_set, act):
    files = make_set("postgresql", shards=("one",))
    with opened(files) as router:
        for key in (FR, DE):
            with router.session(key) as session:
                session.add(Place(country=key, visits=1))
                session.commit()
        statement = FOREIGN[act](DE, router.slot(DE))
        with router.session(FR) as session, pytest.raises(CrossShard, match="pinned to slot"):
            session.execute(statement)
        with router.session(FR) as session:
            assert 1 == session.execute(text("UPDATE place SET visits = 2 WHERE country = 'FR'")).rowcount
            session.rollback()
    assert [1, 1] == visits(files, "one")


def test_sessions_work_through_a_pooler_that_lends_connections_by_the_transaction(files):
    pooler = Pooler(files.rig, connections=1, database=files.name("one"))
    try:

        def engine(url):
            kept = url if url.database != files.name("one") else url.set(port=pooler.port)
            return create_engine(kept, connect_args={"prepare_threshold": None})

        with opened(files, create_engine=engine) as router:
            near = [key for key in map(str, range(40)) if router.shard(key) == "one"][:4]
            for key in near * 3:
                with router.session(key) as session:
                    session.add(Place(country=key, visits=1))
                    session.commit()
            for key in near:
                with router.session(key) as session, router.session(key, read_only=True) as reader:
                    assert [key] * 3 == list(session.scalars(select(Place.country)))
                    session.commit()
                    assert [key] * 3 == list(reader.scalars(select(Place.country)))
        target = {"host": "127.0.0.1", "port": pooler.port, "user": USER, "password": SECRET}
        with psycopg.connect(**target, dbname=files.name("one"), prepare_threshold=None) as bare:
            assert ("",) == bare.execute("SELECT current_setting('apportion.slots')").fetchone()
    finally:
        pooler.stop()


def test_sessions_of_asyncpg_follow_their_slot_and_refuse_rows_of_another(files):
    def engine(url):
        return create_async_engine(url.set(drivername="postgresql+asyncpg"))

    async def main():
        options = {"create_engine": engine, "session": {"expire_on_commit": False}}
        async with apportion.open_shards(files.url, SET, base=Base, **options) as router:
            slot, here, there = ends(router)
            async with router.session(FR) as session:
                await session.connection()
            await asyncio.to_thread(switch, files, slot, here, there)

            async def work(session):
                session.add(Place(country=FR, visits=2))

            await router.run(FR, work)
            async with router.session(FR, read_only=True) as session:
                assert [2] == list(await session.scalars(select(Place.visits)))
                with pytest.raises(Exception, match="read-only"):
                    await session.execute(text("DELETE FROM place"))
            async with router.session(FR) as session:
                with pytest.raises(CrossShard):
                    await session.execute(text(f"UPDATE place SET slot = {(slot + 1) % 64}"))
            return here, there

    here, there = asyncio.run(main())
    assert ([], [2]) == (visits(files, here), visits(files, there))


def test_an_engine_in_autocommit_is_refused(files):
    opening = opened(files, create_engine=at("AUTOCOMMIT"))
    with opening as router, router.session(FR) as session, pytest.raises(InvalidInput, match="in autocommit"):
        write(session)


def test_scenario_18_a_standby_of_the_old_shard_refuses_a_reader_after_the_switch(files, monkeypatch):
    """A standby that has replayed the fence refuses; readers with the new table do not ask it at all."""
    monkeypatch.setattr(pin, "SWITCH_SECONDS", 0.1)
    with standby_of(files.rig) as port:

        def engine(url) -> Engine:
            return create_engine(url.set(port=port))

        with opened(files, create_engine=engine) as router:
            slot, here, there = ends(router)
            with router.session(FR, read_only=True) as reader:
                assert [] == reader.scalars(select(Place)).all()
                reader.commit()
                files.state(here, slot, "moved")
                replayed(files.rig)
                with pytest.raises(StaleRoute):
                    reader.scalars(select(Place)).all()
            old = router.version
            number = files.publish(slot, there)
            files.state(there, slot, "incoming", number.number, number.incarnation)
            replayed(files.rig)
            router.refreshed(old, 10)
            with router.session(FR, read_only=True) as reader:
                assert [] == reader.scalars(select(Place)).all()


@contextmanager
def standby_of(rig):
    """Run a standby of the server; yield its port."""
    folder, port = rig.folder / f"standby{uuid4().hex}", free_port()
    source = [
        "-h",
        "127.0.0.1",
        "-p",
        str(rig.port),
        "-U",
        "postgres",
        "-D",
        folder,
        "-R",
        "-X",
        "stream",
        "-c",
        "fast",
    ]
    copying = [programs() / "pg_basebackup", *source, "-N"]
    subprocess.run(copying, check=True, env=os.environ | {"PGPASSWORD": SECRET}, cwd=rig.folder, **AS_POSTGRES)
    with (rig.folder / "standby.log").open("wb") as log:
        server = [programs() / "postgres", "-D", folder, "-p", str(port)]
        standby = subprocess.Popen(server, stdout=log, stderr=log, **AS_POSTGRES)
    try:
        replayed(rig)
        yield port
    finally:
        standby.terminate()
        standby.wait()


def replayed(rig):
    """Wait until the standby has replayed all that the server wrote."""
    ends_at = monotonic() + 20
    while rig.sql("SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()") != [(1,)]:
        assert monotonic() < ends_at
        sleep(0.02)
