"""Tasks in a transaction of the caller on a PostgreSQL server: every kind of connection, and the hint at commit."""

from contextlib import asynccontextmanager, contextmanager

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import apportion
from apportion.errors import ClaimLost, InvalidInput, StoreWentBack
from tests.stores.rigs.postgres import DATABASE, SECRET
from tests.stores.test_postgres_tasks import rig, schema, url
from tests.work.test_queue import played, queue
from tests.work.test_within import send

__all__ = ["queue", "rig", "schema", "send", "url"]
pytestmark = pytest.mark.live


def place(rig, database=DATABASE):
    host, port = rig.address()
    return {"host": host, "port": port, "user": "postgres", "password": SECRET, "dbname": database}


def address(rig):
    host, port = rig.address()
    parts = {"username": "postgres", "password": SECRET, "host": host, "port": port, "database": DATABASE}
    return sqlalchemy.URL.create("postgresql+psycopg", **parts)


@contextmanager
def of_psycopg(rig):
    with psycopg.connect(**place(rig)) as connection:
        yield connection


@contextmanager
def of_sqlalchemy(rig):
    with sqlalchemy.create_engine(address(rig)).connect() as connection:
        yield connection


@contextmanager
def of_orm(rig):
    with Session(sqlalchemy.create_engine(address(rig))) as session:
        yield session


@asynccontextmanager
async def of_async_psycopg(rig):
    async with await psycopg.AsyncConnection.connect(**place(rig)) as connection:
        yield connection


@asynccontextmanager
async def of_async_sqlalchemy(rig):
    async with create_async_engine(address(rig)).connect() as connection:
        yield connection


@asynccontextmanager
async def of_async_orm(rig):
    async with AsyncSession(create_async_engine(address(rig))) as session:
        yield session


@pytest.mark.parametrize("connect", [of_psycopg, of_sqlalchemy, of_orm])
def test_a_task_is_there_if_the_transaction_commits_and_not_otherwise(rig, queue, send, connect):
    async def _play():
        with connect(rig) as connection:
            lost = await queue.enqueue(send.call("ann"), within=connection)
            connection.rollback()
            kept = await queue.enqueue_many([send.call("bob"), send.call("cid")], within=connection)
            assert ["missing"] * 3 == [await each.state() for each in (lost, *kept)]
            connection.commit()
        assert ["missing", "ready", "ready"] == [await each.state() for each in (lost, *kept)]

    played(_play())


@pytest.mark.parametrize("connect", [of_async_psycopg, of_async_sqlalchemy, of_async_orm])
def test_a_task_is_there_if_the_awaited_transaction_commits_and_not_otherwise(rig, queue, send, connect):
    async def _play():
        async with connect(rig) as connection:
            lost = await queue.enqueue(send.call("ann"), within=connection)
            await connection.rollback()
            kept = await queue.enqueue(send.call("bob"), unique="u", within=connection)
            same = await queue.enqueue(send.call("bob"), unique="u", within=connection)
            assert [(kept.id, True), (kept.id, False)] == [(each.id, each.created) for each in (kept, same)]
            await connection.commit()
        assert ["missing", "ready"] == [await each.state() for each in (lost, kept)]

    played(_play())


def test_the_settings_of_the_transaction_stay(rig, queue, send):
    async def _play():
        with psycopg.connect(**place(rig)) as connection:
            settings = {"synchronous_commit": "off", "lock_timeout": "7s", "idle_in_transaction_session_timeout": "8s"}
            for name, value in settings.items():
                connection.execute(f"SET {name} TO '{value}'")
            await queue.enqueue(send.call("ann"), within=connection)
            for name, value in settings.items():
                assert [(value,)] == connection.execute(f"SHOW {name}").fetchall()

    played(_play())


def test_a_hint_is_sent_at_the_commit_only_while_a_worker_waits(rig, queue, send, schema):
    async def _play():
        await queue.pending(send)
        with psycopg.connect(**place(rig), autocommit=True) as ear, psycopg.connect(**place(rig)) as connection:
            ear.execute(f'LISTEN "{schema}"')
            await queue.enqueue(send.call("ann"), within=connection)
            connection.commit()
            assert [] == [each.payload for each in ear.notifies(timeout=0.2)]
            rig.sql(f"UPDATE {schema}.work_meta SET waiting_until = {schema}.now_ms() + 60000")
            await queue.enqueue(send.call("ann"), within=connection)
            connection.commit()
            assert ["tasks"] == [each.payload for each in ear.notifies(timeout=5, stop_after=1)]

    played(_play())


def test_another_database_autocommit_and_another_life_are_refused(rig, queue, send, schema):
    async def _play():
        await queue.pending(send)
        with (
            psycopg.connect(**place(rig, "postgres")) as other,
            pytest.raises(InvalidInput, match="database of the connection is 'postgres'"),
        ):
            await queue.enqueue(send.call("ann"), within=other)
        with psycopg.connect(**place(rig), autocommit=True) as own, pytest.raises(InvalidInput, match="autocommit"):
            await queue.enqueue(send.call("ann"), within=own)
        rig.sql(f"UPDATE {schema}.meta SET incarnation = incarnation + 1")
        with psycopg.connect(**place(rig)) as own, pytest.raises(StoreWentBack):
            await queue.enqueue(send.call("ann"), within=own)

    played(_play())


def test_a_receipt_completes_in_a_transaction_of_another_process_once(rig, queue):
    @queue.task()
    async def pay() -> None:
        receipt = apportion.current_task().receipt
        async with await psycopg.AsyncConnection.connect(**place(rig)) as connection:
            await queue.complete(receipt, within=connection)
            await connection.rollback()
            await queue.complete(receipt, within=connection)
            await connection.commit()
            with pytest.raises(ClaimLost):
                await queue.complete(receipt, within=connection)

    async def _play():
        await queue.enqueue(pay.call())
        assert 0 == (await queue.drain()).failed
        assert [] == await queue.pending(pay)

    played(_play())


def test_a_result_is_kept_by_the_transaction_that_completes_its_task(rig, queue):
    @queue.task(keep_result=True)
    async def pay() -> int:
        async with await psycopg.AsyncConnection.connect(**place(rig)) as connection:
            await apportion.current_task().complete(connection, 7)
        return 8

    async def _play():
        handle = await queue.enqueue(pay.call())
        await queue.drain()
        assert 7 == await handle.result()

    played(_play())
