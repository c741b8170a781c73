"""Keys hold in a transaction of the caller too: a completion frees the next task, and an enqueue there is not lost."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager
from uuid import uuid4

import psycopg
import pytest

from apportion.errors import InvalidInput, KeyedTasksOpen, Unavailable
from apportion.guards.transactions import follow
from apportion.model.epoch import FencingToken
from apportion.stores.catalog import connect, connect_tasks
from apportion.stores.lanes.values import AgreePartitions, OwnedLane, ResizePartitions
from apportion.stores.task_control import Cancel, Listing, Pause, SetLimit
from apportion.stores.task_values import NewTask, Settlement, Worker
from apportion.work.effects.caller_transaction import insertion
from tests.stores.rigs import rig_of
from tests.stores.rigs.postgres import DATABASE, SECRET

ENGINES = ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)]
LANE = OwnedLane(queue="q", partition=0, token=FencingToken(resource="q/0", holder="h", incarnation=1, epoch=1))


def keyed():
    """Return a new task of the key `k`."""
    return NewTask(id=uuid4().hex, queue="q", name="f", arguments=b"", lane=16, key="k")


def connected(engine, rig):
    """Return a connection of the caller's own."""
    if engine == "sqlite":
        return sqlite3.connect(rig.url("n").removeprefix("sqlite:///").partition("?")[0], timeout=9)
    host, port = rig.address()
    return psycopg.connect(host=host, port=port, user="postgres", password=SECRET, dbname=DATABASE)


@asynccontextmanager
async def opened(rig):
    """Open the tasks of a rig, with a worker that owns the lane."""
    store, tasks = await connect(rig.url("n")), await connect_tasks(rig.url("n"))
    try:
        yield tasks, Worker(session=(await store.grant(ttl_seconds=60)).id, queues=("q",), lanes=(LANE,))
    finally:
        await tasks.close()
        await store.close()


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def rig(engine):
    made = rig_of(engine)()
    yield made
    asyncio.run(made.close())


def test_a_completion_in_a_transaction_of_the_caller_frees_the_next_task_of_the_key(engine, rig):
    async def _run():
        async with opened(rig) as (tasks, worker):
            first, second = keyed(), keyed()
            await tasks.enqueue([first, second])
            (claim,) = (await tasks.turn(worker, want=9)).claims
            connection = connected(engine, rig)
            statement = tasks.transactions.completion(claim.receipt)
            sql = statement.sql if engine == "sqlite" else _named(statement)
            assert [(first.id,)] == connection.execute(sql, dict(statement.values)).fetchall()
            connection.commit()
            connection.close()
            assert [second.id] == [each.task for each in (await tasks.turn(worker, want=9)).claims]

    asyncio.run(_run())


def _named(statement):
    """Return a statement with values as psycopg names them."""
    text = statement.sql
    for name in statement.values:
        text = text.replace(f":{name}", f"%({name})s")
    return text


@pytest.mark.slow
def test_a_task_that_a_caller_adds_while_the_one_before_it_ends_is_the_next_of_its_key():
    rig = rig_of("postgres")()

    async def _run():
        async with opened(rig) as (tasks, worker):
            first, second = keyed(), keyed()
            await tasks.enqueue([first])
            (claim,) = (await tasks.turn(worker, want=9)).claims
            with connected("postgres", rig) as connection:
                follow(connection, insertion(connection, tasks.transactions, [second]))
                done = Settlement(receipt=claim.receipt, fate="done")
                assert () == (await tasks.turn(worker, [done], want=9)).claims  # and nobody waits for the caller
                connection.commit()
            assert [second.id] == [each.task for each in (await tasks.turn(worker, want=9)).claims]

    try:
        asyncio.run(_run())
    finally:
        asyncio.run(rig.close())


def test_the_store_itself_refuses_a_second_open_claim_of_a_key(engine, rig):
    async def _run():
        async with opened(rig) as (tasks, worker):
            await tasks.enqueue([keyed(), keyed()])
            assert 1 == len((await tasks.turn(worker, want=9)).claims)

    asyncio.run(_run())
    table = "task" if engine == "sqlite" else "apportion.task"
    connection = connected(engine, rig)
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.UniqueViolation)):
        connection.execute(f"UPDATE {table} SET session = 7")
    connection.close()


def counted(partitions):
    """Return a new task of a key that its producer placed by so many partitions."""
    return NewTask(id=uuid4().hex, queue="q", name="f", arguments=b"", lane=16, key="k", partitions=partitions)


def test_a_producer_that_missed_a_resize_adds_nothing_in_its_transaction(engine, rig):
    async def _run():
        async with opened(rig) as (tasks, _):
            await tasks.control(AgreePartitions(queue="q", partitions=8))
            connection = connected(engine, rig)
            connection.execute("CREATE TABLE effect (n INTEGER)")
            connection.execute("INSERT INTO effect VALUES (1)")
            follow(connection, insertion(connection, tasks.transactions, [counted(8)]))
            connection.commit()
            (row,) = await tasks.query(Listing(queue="q"))
            await tasks.control(Cancel(tasks=(row.id,)))
            await tasks.control(ResizePartitions(queue="q", partitions=9))
            connection.execute("INSERT INTO effect VALUES (2)")
            with pytest.raises(InvalidInput, match=r"(?s)partitions of queue q is 8, expected 9.* partitions=9"):
                follow(connection, insertion(connection, tasks.transactions, [counted(8)]))
            connection.commit()  # the refusal leaves the transaction of the caller usable
            assert [(1,), (2,)] == connection.execute("SELECT n FROM effect ORDER BY n").fetchall()
            connection.close()
            assert () == await tasks.query(Listing(queue="q"))

    asyncio.run(_run())


@pytest.mark.slow
def test_a_resize_waits_for_an_open_transaction_that_enqueued_a_key_and_other_calls_do_not():
    rig = rig_of("postgres")()

    async def _run():
        async with opened(rig) as (tasks, worker):
            await tasks.control(AgreePartitions(queue="q", partitions=8))
            await tasks.control(SetLimit(queue="q", open_claims=5))
            await tasks.enqueue([NewTask(id="0" * 32, queue="q", name="f", arguments=b"")])
            with connected("postgres", rig) as connection:
                follow(connection, insertion(connection, tasks.transactions, [counted(8)]))
                await tasks.control(AgreePartitions(queue="q", partitions=8))
                assert ["0" * 32] == [each.task for each in (await tasks.turn(worker, want=9)).claims]
                await tasks.control(Pause(queue="q", is_paused=False))
                with pytest.raises(Unavailable):
                    await tasks.control(ResizePartitions(queue="q", partitions=9))
                connection.commit()
            with pytest.raises(KeyedTasksOpen):
                await tasks.control(ResizePartitions(queue="q", partitions=9))

    try:
        asyncio.run(_run())
    finally:
        asyncio.run(rig.close())


@pytest.mark.slow
def test_a_transaction_that_sees_an_older_state_cannot_enqueue_by_the_former_number():
    rig = rig_of("postgres")()

    async def _run():
        async with opened(rig) as (tasks, _):
            await tasks.control(AgreePartitions(queue="q", partitions=8))
            with connected("postgres", rig) as connection:
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                connection.execute("SELECT 1 FROM apportion.control")
                await tasks.control(ResizePartitions(queue="q", partitions=9))
                with pytest.raises(psycopg.errors.SerializationFailure):
                    follow(connection, insertion(connection, tasks.transactions, [counted(8)]))
            assert () == await tasks.query(Listing(queue="q"))

    try:
        asyncio.run(_run())
    finally:
        asyncio.run(rig.close())
