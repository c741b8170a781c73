"""Tasks enqueued and completed in a transaction of the caller: there if it commits, and not otherwise."""

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy
from django.db import connections, transaction
from sqlalchemy.orm import Session

import apportion
import apportion.sync
from apportion.errors import ClaimLost, InvalidInput, NotPromised, StoreWentBack, UnknownOption
from apportion.work.facade import Queue
from tests.work.frameworks import ALIAS, use_django
from tests.work.test_queue import TTL, played


@pytest.fixture
def path(tmp_path):
    return tmp_path / "work.db"


@pytest.fixture
def queue(path):
    return Queue(f"sqlite:///{path}", "mail", lease_ttl=TTL)


@pytest.fixture
def send(queue):
    @queue.task()
    async def send(to):
        return to

    return send


def of_sqlite3(path):
    return closing(sqlite3.connect(path))


def of_sqlalchemy(path):
    return sqlalchemy.create_engine(f"sqlite:///{path}").connect()


def of_orm(path):
    return Session(sqlalchemy.create_engine(f"sqlite:///{path}"))


@pytest.mark.parametrize("connect", [of_sqlite3, of_sqlalchemy, of_orm])
def test_a_task_is_there_if_the_transaction_commits_and_not_otherwise(queue, send, path, connect):
    async def _play():
        await queue.pending(send)  # makes the tables
        with connect(path) as connection:
            lost = await queue.enqueue(send.call("ann"), within=connection)
            connection.rollback()
            kept = await queue.enqueue_many([send.call("bob"), send.call("cid")], within=connection)
            assert ["missing"] * 3 == [await each.state() for each in (lost, *kept)]
            connection.commit()
        assert ["missing", "ready", "ready"] == [await each.state() for each in (lost, *kept)]
        assert [True, True] == [each.created for each in kept]

    played(_play())


def test_the_options_of_a_call_count_within_a_transaction(queue, send, path):
    async def _play():
        first = await queue.enqueue(send.call("ann"), unique="u", priority=0)
        with closing(sqlite3.connect(path)) as connection:
            same = await queue.enqueue(send.call("bob"), unique="u", within=connection)
            new = await queue.enqueue(send.call("cid"), unique="u", on_duplicate="replace", within=connection)
            connection.commit()
        assert [(first.id, False)] * 2 == [(each.id, each.created) for each in (same, new)]
        assert [send.call("cid").options(unique="u")] == await queue.pending(send)

    played(_play())


def test_the_caller_may_hold_the_lock_before_the_queue_is_opened(queue, send, path):
    async def _play():
        await queue.pending(send)
        await queue.close()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            handle = await queue.enqueue(send.call("ann"), within=connection)
            connection.execute("COMMIT")
        assert "ready" == await handle.state()

    played(_play())


def test_another_file_autocommit_and_unknown_libraries_are_refused_before_any_write(queue, send, path, tmp_path):
    async def _play():
        await queue.pending(send)
        with closing(sqlite3.connect(tmp_path / "other.db")) as other, pytest.raises(InvalidInput, match="two files"):
            await queue.enqueue(send.call("ann"), within=other)
        with closing(sqlite3.connect(":memory:")) as other, pytest.raises(InvalidInput, match="two files"):
            await queue.enqueue(send.call("ann"), within=other)
        with (
            closing(sqlite3.connect(path, isolation_level=None)) as own,
            pytest.raises(InvalidInput, match="autocommit"),
        ):
            await queue.enqueue(send.call("ann"), within=own)
        with pytest.raises(UnknownOption, match="connection"):
            await queue.enqueue(send.call("ann"), within="work.db")
        assert [] == await queue.pending(send)

    played(_play())


def test_a_store_without_a_database_has_no_transactions():
    async def _play():
        queue = Queue("memory://within", "mail")

        @queue.task()
        async def send():
            pass

        with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(NotPromised, match="transactions"):
            await queue.enqueue(send.call(), within=connection)

    played(_play())


def test_a_task_waits_for_the_commit_of_django(queue, send, path):
    plain = queue.sync
    plain.pending(send)
    use_django(sqlalchemy.make_url(f"sqlite:///{path}"))
    with closing(connections[ALIAS]) as connection:
        with pytest.raises(InvalidInput, match="autocommit"):
            plain.enqueue(send.call("ann"), within=connection)
        with transaction.atomic(using=ALIAS):
            handle = plain.enqueue(send.call("ann"), unique="u", within=connection)
            assert "missing" == handle.state()
            assert not plain.enqueue(send.call("bob"), unique="u", within=connection).created
        with transaction.atomic(using=ALIAS):
            lost = plain.enqueue(send.call("cid"), within=connection)
            transaction.set_rollback(True, using=ALIAS)
        assert ("ready", "missing") == (handle.state(), lost.state())
    del connections[ALIAS]


def test_a_restored_file_is_refused(queue, send, path):
    async def _play():
        await queue.pending(send)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE meta SET incarnation = incarnation + 1")
            connection.commit()
            with pytest.raises(StoreWentBack):
                await queue.enqueue(send.call("ann"), within=connection)

    played(_play())


def test_a_receipt_completes_in_a_transaction_of_another_process_once(queue, path):
    receipts = []

    @queue.task()
    async def pay() -> None:
        receipt = apportion.current_task().receipt
        receipts.append(receipt)
        with closing(sqlite3.connect(path)) as connection:
            await queue.complete(receipt, within=connection)
            connection.rollback()
            await queue.complete(receipt, within=connection)
            connection.commit()
            with pytest.raises(ClaimLost):
                await queue.complete(receipt, within=connection)

    async def _play():
        await queue.enqueue(pay.call())
        await queue.drain()
        assert 1 == len(receipts)
        assert [] == await queue.pending(pay)

    played(_play())


def test_a_result_is_kept_by_the_transaction_that_completes_its_task(queue, path):
    @queue.task(keep_result=True)
    async def pay() -> int:
        task = apportion.current_task()
        with closing(sqlite3.connect(path)) as connection:
            task.complete(connection, 5)
            connection.rollback()
            await task.complete(connection, 7)
            connection.commit()
        return 8

    async def _play():
        handle = await queue.enqueue(pay.call())
        assert 1 == (await queue.drain()).done
        assert 7 == await handle.result()

    played(_play())
