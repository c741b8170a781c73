"""Programs write while partitions come and leave: no write fails, and rows move between shards as ever."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from apportion import sync
from apportion.errors import Conflict
from apportion.shards import admin
from tests.shards.periods.models import Base, Event
from tests.shards.periods.rig import LONG_AGO, at, month, parts, put, run, shard_in, slots_of, this_month
from tests.shards.postgres_rig import LOGICAL
from tests.shards.sample import SET
from tests.shards.server import OWNER, Servers, as_role
from tests.shards.test_postgres_native import Pair
from tests.stores.rigs.postgres import PostgresRig

pytestmark = [pytest.mark.live, pytest.mark.slow]
YEAR = timedelta(days=365)


@pytest.fixture
def files(rig, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    made = Servers(rig, tmp_path, base=Base)
    yield made
    made.drop()


@pytest.fixture
def twins(tmp_path, monkeypatch):
    """A set on one server that replicates."""
    as_role(monkeypatch, OWNER)
    server = PostgresRig(settings=("fsync = off", *LOGICAL))
    made = Twins([server, server], tmp_path)
    yield made
    made.drop()
    server.stop()


class Twins(Pair):
    def __init__(self, rigs, folder):
        self.rigs = dict(zip(("one", "two"), rigs, strict=True))
        Servers.__init__(self, rigs[0], folder, shards=("one", "two"), base=Base)


def writing(files, ended, waits, failures, day):
    """Write until the end, and note the longest wait and each failure."""
    with sync.open_shards(files.url, SET, base=Base) as router:
        number = 0
        while not ended.is_set():
            number += 1
            when = datetime(day.year, day.month, day.day, tzinfo=UTC)
            row = Event(country=f"{number % 50}", created_at=when)
            began = time.monotonic()
            try:
                router.run(row.country, partial(lambda row, session: session.add(row), row))
            except Exception as error:  # noqa: BLE001 - each is a failure of the test
                failures.append(error)
            waits.append(time.monotonic() - began)


def test_no_write_fails_while_periods_come_and_leave(files, monkeypatch):
    put(files, this_month(), 20)
    at(monkeypatch, month(14))
    ended, waits, failures = threading.Event(), [], []
    days = (month(10), month(12), month(14), month(15))
    arguments = [(files, ended, waits, failures, day) for day in days]
    writers = [threading.Thread(target=writing, args=each) for each in arguments]
    for each in writers:
        each.start()
    try:
        time.sleep(0.3)
        before = len(waits)
        found = run(files, ahead=2, older_than=timedelta(days=200), drop=True)
        time.sleep(0.2)
    finally:
        ended.set()
        for each in writers:
            each.join()
    assert (True, []) == (found.is_whole, failures)
    assert len(waits) > before > 10
    assert all(each.made and each.dropped for each in found.shards)


@pytest.mark.parametrize("channel", ["keys", "native"])
def test_rows_move_between_shards_with_other_partitions(twins, monkeypatch, channel):
    for day in (LONG_AGO, this_month(), month(1), month(7)):
        put(twins, day, 10)
    slots = slots_of(twins)[:2]
    at(monkeypatch, month(14))
    run(twins, ahead=3)
    at(monkeypatch, month(17))
    plan = asyncio.run(admin.plan(twins.url, SET, slots=slots, to="two"))
    before = twins.sql("one", "SELECT to_jsonb(event)::text FROM event WHERE slot = ANY (%s) ORDER BY 1", (slots,))
    assert asyncio.run(admin.apply(twins.url, SET, plan, channel=channel)).is_whole
    assert parts(twins) != parts(twins, "two")
    assert before == twins.sql("two", "SELECT to_jsonb(event)::text FROM event ORDER BY 1")
    with pytest.raises(Conflict, match="all shards of set world have moves"):
        run(twins, ahead=9)
    asyncio.run(admin.clean(twins.url, SET, soak=timedelta(0)))
    assert [(0,)] == twins.sql("one", "SELECT count(*) FROM event")
    assert run(twins, ahead=3).is_whole
    assert shard_in(run(twins, older_than=YEAR, drop=True), "two").rows_dropped == 30
