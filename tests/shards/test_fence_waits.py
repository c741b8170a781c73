"""A mover asks the servers as seldom as it can while writers wait for a switch. Waits are counted, never timed."""

import asyncio

import pytest

from apportion.shards import admin
from apportion.shards.mover import fence_time
from tests.shards.fence_waits import Waits
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role

pytestmark = pytest.mark.live

ROW = "INSERT INTO place (slot, id, country, visits) VALUES (%s, gen_random_uuid(), 'FR', 1)"


@pytest.fixture
def files(make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    return make_set("postgresql")


@pytest.fixture
def move(files, monkeypatch):
    """Return a function that moves four slots. `late` is the number of rows that come just before the fence."""
    monkeypatch.setattr(fence_time, "FENCE_SECONDS", 60)  # no attempt of a busy machine fails
    owned = "SELECT slot FROM apportion_slot WHERE state = 'owner' ORDER BY slot LIMIT 4"
    slots = [slot for (slot,) in files.sql("one", owned)]
    for slot in slots:
        files.sql("one", ROW, (slot,))

    def _move(late):
        def write():
            for _ in range(late):
                files.sql("one", ROW, (slots[0],))

        waits = Waits(intent=write)

        async def main():
            plan = await admin.plan(files.url, SET, slots=slots, to="two")
            with waits.counting():
                assert (await admin.apply(files.url, SET, plan, observer=waits)).is_whole

        asyncio.run(main())
        found = files.sql("two", "SELECT count(*) FROM place WHERE slot = ANY (%s)", (slots,))
        assert [(len(slots) + late,)] == found
        return waits

    return _move


@pytest.mark.parametrize(
    ("late", "steps", "most"), [(0, ["announce", "switch"], 11), (3, ["drain", "announce", "switch"], 28)]
)
def test_writers_wait_for_few_replies_of_the_servers(move, late, steps, most):
    waits = move(late)
    assert steps == [step for step in waits.steps if step in ("drain", "tail", "announce", "switch")]
    assert [True] == [count <= most for count in waits.counts]
