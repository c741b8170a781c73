"""Moves between two servers of PostgreSQL, one of which stops, or becomes a standby."""

import asyncio
import threading
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from apportion.errors import InvalidInput
from apportion.shards import admin
from tests.shards.sample import SET
from tests.shards.server import OWNER, Servers, as_role
from tests.stores.rigs.postgres import USER, PostgresRig

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(300)]

ROWS = "INSERT INTO place (slot, id, country, visits) SELECT slot, gen_random_uuid(), 'FR', 1"


class Apart(Servers):
    """A set whose shard two is on a server of its own."""

    def __init__(self, rig, other, folder):
        self._other = other
        super().__init__(rig, folder)

    def rig_of(self, shard):
        return self._other if shard == "two" else self.rig


class Writer(threading.Thread):
    """Inserts rows into a slot from the start to the end of a block. `acknowledged` has their ids."""

    def __init__(self, files, slot):
        super().__init__()
        self._files, self._slot, self._ended = files, slot, threading.Event()
        self.acknowledged = []

    def run(self):
        row = "INSERT INTO place (slot, id, country, visits) VALUES (%s, %s, 'FR', 1)"
        while not self._ended.wait(0.005):
            key = uuid4()
            for shard in ("one", "two"):
                try:
                    with self._files.connect(shard, user=USER, autocommit=True) as connection:
                        connection.execute(row, (self._slot, key))
                except psycopg.Error:
                    continue  # it is away, or the slot is on the other shard
                self.acknowledged.append(key)
                break

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self.join()


@pytest.fixture(scope="module")
def other():
    made = PostgresRig(settings=("fsync = off",))
    yield made
    made.stop()


@pytest.fixture
def files(rig, other, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    made = Apart(rig, other, tmp_path)
    yield made
    made.drop()


def filled(files, count=5):
    """Give so many rows to each of four slots of shard one; return the slots."""
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot ORDER BY slot LIMIT 4")]
    files.sql("one", f"{ROWS} FROM unnest(%s::smallint[]) slot, generate_series(1, %s)", (slots, count))
    return slots


def moved(files, slots, observer, channel="keys"):
    """Move slots while a writer writes to the first one; return the lost rows."""

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        async with asyncio.timeout(240):
            assert (await admin.apply(files.url, SET, plan, observer=observer, channel=channel)).is_whole

    rows = "SELECT id FROM place WHERE slot = ANY (%s)"
    before = {key for (key,) in files.sql("one", rows, (slots,))}
    with Writer(files, slots[0]) as writer:
        asyncio.run(main())
    assert writer.acknowledged
    lost = {*before, *writer.acknowledged} - {key for (key,) in files.sql("two", rows, (slots,))}
    assert asyncio.run(admin.clean(files.url, SET, soak=timedelta(0))).is_whole
    return lost


@pytest.mark.parametrize("step", ["chunk", "fence"])
def test_a_target_that_stops_and_starts_again_is_waited_for(files, other, step):
    slots, waits, kills = filled(files, 500), [], []

    def hear(event):
        if event.step == step and not kills:
            kills.append(event.at)
            other.server.kill()
            other.server.wait()
        if event.why.startswith("shard two is unavailable"):
            waits.append(event.why)
            if len(waits) == 3:
                threading.Thread(target=other.launch).start()

    assert set() == moved(files, slots, hear)
    assert len(waits) >= 3


def test_a_standby_is_refused_as_target_until_it_is_promoted(files, other):
    slots = filled(files)
    mark = other.data / "standby.signal"

    def restarted():
        other.server.terminate()
        other.server.wait()
        other.launch()

    async def apply():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        return await admin.apply(files.url, SET, plan)

    mark.touch()
    restarted()
    try:
        with pytest.raises(InvalidInput, match="server of shard two is 'a standby', expected the primary server"):
            asyncio.run(apply())
        assert () == asyncio.run(admin.status(files.url, SET)).moves
        other.sql("SELECT pg_promote()", database="postgres")
        assert asyncio.run(apply()).is_whole
    finally:
        mark.unlink(missing_ok=True)
