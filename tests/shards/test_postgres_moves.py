"""A plan on PostgreSQL is applied, verified and cleaned by the calls that files of SQLite have."""

import asyncio
from datetime import timedelta

import pytest

from apportion.errors import InvalidInput
from apportion.shards import admin
from tests.shards.sample import SET, Base
from tests.shards.server import OWNER, as_role

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
    for shard in ("one", "two"):
        assert ([], []) == (files.sql(shard, triggers, ()), files.sql(shard, logs, ()))
        assert [] == files.sql(shard, "SELECT * FROM apportion.move")


def test_a_table_that_came_after_init_is_refused_until_it_has_triggers(files):
    for shard in ("one", "two"):
        files.sql(shard, "CREATE TABLE tag (id uuid PRIMARY KEY, slot smallint NOT NULL)")
        files.sql(shard, "CREATE UNIQUE INDEX tag_by_slot ON tag (slot, id)")

    async def main():
        plan = await admin.plan(files.url, SET, slots=range(8), to="two")
        with pytest.raises(InvalidInput, match=r"triggers of table public\.tag in shard one is 'absent'"):
            await admin.apply(files.url, SET, plan)

    asyncio.run(main())


def test_a_pinned_key_is_refused_on_servers_so_far(files):
    with pytest.raises(InvalidInput, match="pinned on files so far"):
        asyncio.run(admin.pin(files.url, SET, ["FR"], base=Base))
