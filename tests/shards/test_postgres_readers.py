"""A reader of the source that stays for long, such as a dump, delays neither a move nor the writers."""

import asyncio
import threading
from datetime import timedelta
from time import monotonic

import psycopg
import pytest

from apportion.shards import admin
from apportion.shards.mover import course
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role
from tests.stores.rigs.postgres import USER

pytestmark = pytest.mark.live

ROW = "INSERT INTO place (slot, id, country, visits) VALUES (%s, gen_random_uuid(), 'FR', 1)"
LEFT = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'apportion_log%%'"
LONGEST = "250ms"


@pytest.fixture
def files(make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    return make_set("postgresql")


@pytest.fixture
def dump(files):
    """A transaction that has read a table of the source, as a dump does."""
    with files.connect("one", user=OWNER) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        reader.execute("SELECT count(*) FROM place")
        yield reader


@pytest.fixture
def writer(files):
    """Writes to a slot that does not move, and fails if it waits for longer than a moment."""
    slot, ended, failed = files.sql("one", "SELECT max(slot) FROM apportion_slot")[0][0], threading.Event(), []

    def write():
        with files.connect("one", user=USER, autocommit=True) as connection:
            connection.execute(f"SET lock_timeout = '{LONGEST}'")
            while not ended.wait(0.002):
                try:
                    connection.execute(ROW, (slot,))
                except psycopg.Error as error:
                    failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    yield failed
    ended.set()
    thread.join()


def test_a_long_reader_of_the_source_delays_no_move_and_is_named(files, dump, writer):
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot ORDER BY 1 LIMIT 4")]
    for slot in slots * 3:
        files.sql("one", ROW, (slot,))
    said, here = [], "SELECT count(*) FROM place WHERE slot = ANY (%s)"

    def hear(event):
        said.append((event.step, event.why))

    def hear_and_end(event):
        hear(event)
        if event.step == "waits" and [(0,)] == files.sql("one", here, (slots,)):
            dump.rollback()

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        began = monotonic()
        assert (await asyncio.wait_for(admin.apply(files.url, SET, plan, observer=hear), 30)).is_whole
        assert monotonic() - began < 8  # the wait for a lock is 10 s long elsewhere
        assert any(step == "waits" and f"process {dump.info.backend_pid} of {OWNER}" in why for step, why in said)
        assert files.sql("one", LEFT) > [(0,)]
        said.clear()
        assert (
            await asyncio.wait_for(admin.clean(files.url, SET, soak=timedelta(0), observer=hear_and_end), 30)
        ).is_whole

    asyncio.run(main())
    assert [step for step, _ in said if step == "clean-batch"]
    assert not writer
    assert [(0,)] == files.sql("one", LEFT)
    assert [(0,)] == files.sql("one", here, (slots,))
    assert [(12,)] == files.sql("two", here, (slots,))


def test_an_abort_ends_beside_a_long_reader_and_leaves_a_log_that_no_longer_grows(files, dump, writer, monkeypatch):
    monkeypatch.setattr(course, "REST_SECONDS", 1.5)
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot ORDER BY 1 LIMIT 4")]
    for slot in slots * 3:
        files.sql("one", ROW, (slot,))
    said = []

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")

        def stop(event):
            if event.step == "chunk":
                loop.call_soon_threadsafe(work.cancel)
                threading.Event().wait(0.2)

        loop, work = asyncio.get_running_loop(), asyncio.create_task(admin.apply(files.url, SET, plan, observer=stop))
        with pytest.raises(asyncio.CancelledError):
            await work
        async with asyncio.timeout(30):
            assert not (await admin.abort(files.url, SET, observer=lambda event: said.append(event.why))).is_whole
            [move] = (await admin.status(files.url, SET)).moves
            assert ("aborted", [(9,)]) == (move.state, files.sql("one", LEFT))
            files.sql("one", ROW, (slots[0],))
            assert [(0,)] == files.sql("one", f'SELECT count(*) FROM apportion."log_{move.id}"')
            dump.rollback()
            assert (await admin.abort(files.url, SET)).is_whole
            assert () == (await admin.status(files.url, SET)).moves

    asyncio.run(main())
    assert any(f"process {dump.info.backend_pid} of {OWNER}" in why for why in said)
    assert not writer
    assert [(0,)] == files.sql("one", LEFT)
    assert [(0,)] == files.sql("two", "SELECT count(*) FROM place")
