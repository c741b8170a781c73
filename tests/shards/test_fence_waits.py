"""A mover asks the servers as seldom as it can while writers wait for a switch. Waits are counted, never timed."""

import asyncio

import pytest

import apportion
from apportion.shards import admin
from apportion.shards.mover import fence_time
from tests.shards.fence_waits import Waits
from tests.shards.sample import SET, Base, Place
from tests.shards.server import OWNER, as_role

pytestmark = pytest.mark.live

# A trigger that looks at the very end of a transaction whether its commit will wait for the disk.
SEEING = """CREATE TABLE seen (value text); CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
    'BEGIN INSERT INTO public.seen VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END'"""
SEES = "CREATE CONSTRAINT TRIGGER see AFTER {} ON {} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION see()"
LOG = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND starts_with(relname, 'log_')"
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

    def _move(late, **acts):
        def write():
            for _ in range(late):
                files.sql("one", ROW, (slots[0],))

        waits = Waits(intent=write, **acts)

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
    ("late", "steps", "most"), [(0, ["announce", "switch"], 10), (3, ["drain", "announce", "switch"], 27)]
)
def test_writers_wait_for_few_replies_of_the_servers(move, late, steps, most):
    waits = move(late)
    assert steps == [step for step in waits.steps if step in ("drain", "tail", "announce", "switch")]
    assert [True] == [count <= most for count in waits.counts]


def test_the_end_of_a_log_entry_waits_for_no_disk(move, files):
    files.sql("one", SEEING)

    def see():
        [(log,)] = files.sql("one", LOG)
        files.sql("one", SEES.format("DELETE", log))

    move(3, capture=see)
    assert [("off",)] == files.sql("one", "SELECT DISTINCT value FROM seen")


def test_a_slot_that_comes_is_settled_without_a_wait_for_the_disk_and_written_with_one(make_set, monkeypatch):
    files = make_set("postgresql")
    files.sql("two", SEEING)
    files.sql("two", SEES.format("UPDATE", "apportion.slot"))
    files.sql("two", SEES.format("INSERT", "place"))
    as_role(monkeypatch, OWNER)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        key = next(f"{number}" for number in range(99) if router.shard(f"{number}") == "one")
        slot = router.slot(key)
        files.state("one", slot, "moved")
        version = files.publish(slot, "two")
        files.state("two", slot, "incoming", number=version.number, life=version.incarnation)
        router.run(key, lambda session: session.add(Place(country=key)))
    assert [("off",), ("on",)] == files.sql("two", "SELECT value FROM seen")
