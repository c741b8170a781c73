"""One damaged row of the tables of tasks costs itself alone: the worker that meets it goes on with all others."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from apportion.errors import InvalidInput
from apportion.groups.view import records
from apportion.stores.damage import sqlite as damage_of_files
from apportion.stores.lanes.values import MOST_PARTITIONS, AgreePartitions
from apportion.stores.task_control import Listing, Pause, Redrive, SetLimit, Survey
from apportion.stores.task_records import QueueControl, tokens
from apportion.stores.task_values import Settlement, Worker
from tests.stores.test_postgres_tasks import rig, schema
from tests.stores.test_tasks import opened, task

__all__ = ["rig", "schema"]
WRONG_TYPES = [
    ("deaths_of", "x'ff00'"),
    ("attempt", "'x'"),
    ("ready_at", "'x'"),
    ("ready_at", "x'00'"),
    ("expires", "'x'"),
    ("failures", "'x'"),
    ("failures", "-1"),
    ("crashes", "'x'"),
    ("name", "x'00'"),
    ("arguments", "'[]'"),
]
WRONG_VALUES = [("deaths_of", "'x,y'"), ("attempt", "9223372036854775807"), ("deaths_of", "','")]
WRONG_SUMS = [("ready_at", "-9223372036854775808"), ("due", "-9223372036854775808")]
WRONG_LIMITS = ["rate = 10, per_ms = 0", "rate = 'x'", "open_claims = 'x'", "rate = 10, tokens_at = 'x'"]
WRONG_NUMBERS = ["0", "-1", f"{MOST_PARTITIONS + 1}"]
MANY = 5


async def claimed(store, tasks, damage):
    """Enqueue some tasks, damage the first, and return how many a worker claims and completes, and the rest."""
    made = [task() for _ in range(MANY)]
    await tasks.enqueue(made)
    damage(made[0].id)
    worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
    claims = (await tasks.turn(worker, want=9)).claims
    done = [Settlement(receipt=each.receipt, fate="done") for each in claims]
    assert () == (await tasks.turn(worker, done, want=9)).refused
    return len(done), await tasks.query(Listing(states=("ready", "delayed", "claimed", "dead")))


def in_file(tmp_path, statement, *values):
    """Run a statement in the file of the tasks, as somebody else."""
    with closing(sqlite3.connect(tmp_path / "work.db", timeout=10)) as connection, connection:
        connection.execute(statement, values)


def damaged_task(column, value):
    """Return the statement that damages the waiting task of an id; `{}` stands for the id."""
    deaths = ", deaths = 2" if column == "deaths_of" else ""
    return f"UPDATE task SET {column} = {value}{deaths} WHERE id = "


@pytest.mark.parametrize(("column", "value"), [*WRONG_TYPES, *WRONG_VALUES])
def test_a_damaged_task_in_a_file_dies_alone_and_its_call_is_kept(tmp_path, column, value):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            damage = damaged_task(column, value) + "?"
            done, [row] = await claimed(store, tasks, lambda each: in_file(tmp_path, damage, each))
            assert (MANY - 1, "dead", "its row in the store was damaged") == (done, row.state, row.reason)
            assert 1 == await tasks.control(Redrive(tasks=(row.id,)))
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            [again] = (await tasks.turn(worker, want=1)).claims
            assert (b"[]", True) == (again.arguments, again.attempt > 0)

    asyncio.run(_run())


@pytest.mark.parametrize(("column", "value"), [("attempt", "-1"), ("name", "x'00'"), *WRONG_VALUES])
@pytest.mark.parametrize("on_duplicate", ["keep", "replace"])
def test_an_enqueue_in_a_file_that_meets_a_damaged_task_adds_its_own(tmp_path, column, value, on_duplicate):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (_, tasks):
            [(first, _)] = await tasks.enqueue([task(unique="u")])
            in_file(tmp_path, damaged_task(column, value) + "?", first)
            new = task(unique="u", on_duplicate=on_duplicate)
            assert ((new.id, True),) == await tasks.enqueue([new])
            [row] = await tasks.query(Listing(states=("dead",)))
            assert first == row.id

    asyncio.run(_run())


@pytest.mark.parametrize("limits", WRONG_LIMITS)
def test_damaged_limits_in_a_file_pause_their_queue_alone(tmp_path, limits):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await tasks.control(SetLimit(queue="q", rate=10))
            await tasks.enqueue([task(queue="other")])
            in_file(tmp_path, f"UPDATE control SET {limits}")
            await tasks.enqueue([task()])
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q", "other"))
            [claim] = (await tasks.turn(worker, want=9)).claims
            assert "other" == claim.queue
            [q] = [each for each in (await tasks.query(Survey())).queues if each.queue == "q"]
            assert (True, None) == (q.is_paused, q.rate)
            await tasks.control(Pause(queue="q", is_paused=False))
            assert ["q"] == [each.queue for each in (await tasks.turn(worker, want=9)).claims]

    asyncio.run(_run())


async def check_the_number_is_set_again(tasks, damage):
    """Damage the number of partitions while a task with a key is open: whoever opens the queue next sets it."""
    await tasks.control(AgreePartitions(queue="q", partitions=8))
    await tasks.control(SetLimit(queue="q", open_claims=3))
    await tasks.enqueue([task(key="k", lane=16, partitions=8)])
    damage()
    [q] = (await tasks.query(Survey())).queues
    assert (None, False, 3) == (q.partitions, q.is_paused, q.open_claims)
    await tasks.control(AgreePartitions(queue="q", partitions=8))
    [q] = (await tasks.query(Survey())).queues
    assert (8, False, 3) == (q.partitions, q.is_paused, q.open_claims)
    with pytest.raises(InvalidInput, match="expected 8"):
        await tasks.control(AgreePartitions(queue="q", partitions=9))


def test_the_store_knows_the_most_partitions_of_a_group():
    assert records.MAX_PARTITIONS == MOST_PARTITIONS


@pytest.mark.parametrize("number", [*WRONG_NUMBERS, "'x'", "x'00'", "3.5"])
def test_a_damaged_number_of_partitions_in_a_file_is_set_again_by_the_next_program(tmp_path, number):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (_, tasks):
            damage = f"UPDATE control SET partitions = {number}"
            await check_the_number_is_set_again(tasks, lambda: in_file(tmp_path, damage))
            in_file(tmp_path, damage)
            with closing(sqlite3.connect(tmp_path / "work.db")) as connection:
                assert ["partitions of q"] == damage_of_files.names(connection)

    asyncio.run(_run())


@pytest.mark.live
@pytest.mark.parametrize("number", WRONG_NUMBERS)
def test_a_damaged_number_of_partitions_in_postgresql_is_set_again_by_the_next_program(rig, schema, tmp_path, number):
    async def _run():
        async with opened(rig.url("n", options=f"&schema={schema}"), tmp_path) as (_, tasks):
            damage = f"UPDATE {schema}.control SET partitions = {number}"
            await check_the_number_is_set_again(tasks, lambda: rig.sql(damage))

    asyncio.run(_run())


async def damaged_in_its_run(store, tasks, damage):
    """Claim a task, damage its row, and settle it with a result; return whether that is refused, and the rest."""
    [(first, _)] = await tasks.enqueue([task()])
    worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
    [claim] = (await tasks.turn(worker, want=1)).claims
    damage()
    done = Settlement(receipt=claim.receipt, fate="done", result=b"1")
    assert (claim.receipt,) == (await tasks.turn(worker, [done])).refused
    assert [first] == [row.id for row in await tasks.query(Listing(states=("dead",)))]


@pytest.mark.parametrize("value", ["7", "-1", "'x'"])
def test_a_row_in_a_file_that_is_damaged_during_its_run_ends_no_worker(tmp_path, value):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await damaged_in_its_run(store, tasks, lambda: in_file(tmp_path, f"UPDATE task SET blocking = {value}"))

    asyncio.run(_run())


def test_deaths_that_cannot_be_read_condemn_nobody_and_stop_nobody(tmp_path):
    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await tasks.enqueue([task(), task()])
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            [claim] = (await tasks.turn(worker, want=1)).claims
            await tasks.turn(worker, [Settlement(receipt=claim.receipt, fate="dead")])
            in_file(tmp_path, "UPDATE outcome SET deaths_of = 'x', deaths = 1")
            returned = Worker(session=worker.session, queues=("q",), former=(7,))
            assert 1 == len((await tasks.turn(returned, want=1)).claims)

    asyncio.run(_run())


@pytest.mark.live
@pytest.mark.parametrize(("column", "value"), [*WRONG_VALUES, *WRONG_SUMS])
def test_a_damaged_task_in_postgresql_dies_alone(rig, schema, tmp_path, column, value):
    async def _run():
        async with opened(rig.url("n", options=f"&schema={schema}"), tmp_path) as (store, tasks):
            damage = damaged_task(column, value).replace("UPDATE task", f"UPDATE {schema}.task") + "'{}'"
            done, [row] = await claimed(store, tasks, lambda each: rig.sql(damage.format(each)))
            assert (MANY - 1, "dead", "its row in the store was damaged") == (done, row.state, row.reason)

    asyncio.run(_run())


@pytest.mark.live
def test_a_row_in_postgresql_that_is_damaged_during_its_run_ends_no_worker(rig, schema, tmp_path):
    async def _run():
        async with opened(rig.url("n", options=f"&schema={schema}"), tmp_path) as (store, tasks):
            await damaged_in_its_run(store, tasks, lambda: rig.sql(f"UPDATE {schema}.task SET blocking = 7"))

    asyncio.run(_run())


def test_a_rate_counts_anew_after_the_clock_was_set_back_by_more_than_its_period():
    control = QueueControl(rate=10, per_ms=1_000, tokens=0.5, tokens_at=3_600_000)
    assert 10.0 == tokens(control, 0)
    assert 0.5 == tokens(control, 3_599_500)
    assert 1.5 == tokens(control, 3_600_100)
