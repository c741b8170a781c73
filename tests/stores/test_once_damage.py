"""A damaged entry of the idempotency log costs its effect alone: nobody knows whether it happened, and no call ends."""

import asyncio
import logging

import pytest

from apportion.stores.catalog import administration
from apportion.stores.task_once import OnceStep
from apportion.stores.task_values import Worker
from tests.stores.test_postgres_tasks import rig, schema
from tests.stores.test_task_damage import in_file
from tests.stores.test_tasks import opened, task

__all__ = ["rig", "schema"]
LOST_CLAIM = [("task", "x'ff00'"), ("task", "CAST(x'ff00' AS TEXT)"), ("attempt", "'x'"), ("session", "'x'")]
WRONG_NUMBERS = [("attempt", "-1"), ("attempt", "9223372036854775807"), ("session", "-1")]
WRONG_TIMES = [("at", "-1"), ("at", "9223372036854775807")]
LARGE = 64 * 1024 + 1


async def effects(store, tasks):
    """Do two effects in two claims, and begin a third; return a later step for each of them."""
    await tasks.enqueue([task() for _ in range(4)])
    worker = Worker(session=(await store.grant(ttl_seconds=60)).id, queues=("q",))
    *claims, last = (await tasks.turn(worker, want=4)).claims
    for key, claim in zip("abc", claims, strict=True):
        step = OnceStep(scope="q", key=key, receipt=claim.receipt)
        assert "begun" == (await tasks.once(step)).found
        if key != "c":
            end = OnceStep(scope="q", key=key, receipt=claim.receipt, value=b"7")
            assert "done" == (await tasks.once(end)).found
    return [OnceStep(scope="q", key=key, receipt=last.receipt) for key in "abc"]


async def found(tasks, steps):
    return [(state.found, state.value) for state in [await tasks.once(step) for step in steps]]


@pytest.mark.parametrize(("column", "value"), LOST_CLAIM + WRONG_NUMBERS)
def test_an_effect_in_a_file_whose_claim_cannot_be_read_keeps_its_value_or_is_unknown(tmp_path, column, value):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            steps = await effects(store, tasks)
            in_file(tmp_path, f"UPDATE once SET {column} = {value} WHERE key <> 'b'")
            assert [("done", b"7"), ("done", b"7"), ("unknown", None)] == await found(tasks, steps)
            unknown = await tasks.once(steps[2])
            again = OnceStep(scope="q", key="c", receipt=steps[2].receipt, instead_of=unknown.receipt)
            assert "begun" == (await tasks.once(again)).found

    asyncio.run(_run())


@pytest.mark.parametrize("value", ["'7'", "7", f"zeroblob({LARGE})"])
def test_an_effect_in_a_file_whose_value_cannot_be_read_is_not_done(tmp_path, value, caplog):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            steps = await effects(store, tasks)
            in_file(tmp_path, f"UPDATE once SET value = {value} WHERE key = 'a'")
            assert [("busy", None), ("done", b"7"), ("busy", None)] == await found(tasks, steps)

    with caplog.at_level(logging.ERROR):
        asyncio.run(_run())
    assert ["tasks: damage in other rows was mended: effect a"] == caplog.messages


@pytest.mark.parametrize(("column", "value"), [*WRONG_TIMES, ("at", "'x'")])
def test_an_effect_in_a_file_of_a_time_that_nobody_writes_is_not_forgotten(tmp_path, column, value):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            steps = await effects(store, tasks)
            in_file(tmp_path, "DELETE FROM task WHERE id <> ?", steps[0].receipt.task)
            in_file(tmp_path, f"UPDATE once SET {column} = {value} WHERE key = 'a'")
            assert [("done", b"7"), ("done", b"7"), ("unknown", None)] == await found(tasks, steps)

    asyncio.run(_run())


def test_doctor_names_damaged_effects_of_a_file(tmp_path):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await effects(store, tasks)
            in_file(tmp_path, "UPDATE once SET attempt = 'x' WHERE key = 'b'")
            in_file(tmp_path, "UPDATE once SET task = CAST(x'ff' AS TEXT) WHERE key = 'c'")

    asyncio.run(_run())
    assert ["effect b; once c"] == found_by_doctor(f"sqlite:///{tmp_path}/work.db")


def found_by_doctor(url):
    """Return the answers about rows of tasks."""
    found = asyncio.run(administration(url).inspect())
    return [each.found for each in found if each.subject == "rows of tasks"]


@pytest.mark.live
@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        *((each, [("done", b"7"), ("done", b"7"), ("unknown", None)]) for each in WRONG_NUMBERS),
        *((each, [("done", b"7"), ("done", b"7"), ("busy", None)]) for each in WRONG_TIMES),
        (("value", f"repeat('7', {LARGE})::bytea"), [("busy", None), ("done", b"7"), ("busy", None)]),
    ],
)
def test_a_damaged_effect_in_postgresql_costs_itself_alone(rig, schema, tmp_path, damage, expected):
    (column, value), url = damage, rig.url("n", options=f"&schema={schema}")

    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            steps = await effects(store, tasks)
            keys = "key = 'a'" if column == "value" else "key <> 'b'"
            rig.sql(f"UPDATE {schema}.once SET {column} = {value} WHERE {keys}")
            assert [names] == [each.found for each in await administration(url).inspect() if "rows" in each.subject]
            assert expected == await found(tasks, steps)

    names = "effect a" if column == "value" else "effect a; effect c"
    asyncio.run(_run())
