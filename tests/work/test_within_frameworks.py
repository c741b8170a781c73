"""Tasks in a transaction of Django's or SQLAlchemy's, plain and with asyncio, on SQLite and PostgreSQL."""

import asyncio

import pytest
import sqlalchemy
from django.db import connections

import apportion
from apportion.errors import ClaimLost, InvalidInput
from apportion.work.facade import Queue
from tests.stores.rigs.postgres import DATABASE, SECRET
from tests.stores.test_postgres_tasks import rig, schema
from tests.work.frameworks import ALIAS, POSTGRES, SQLITE, use_django
from tests.work.test_queue import TTL, played

__all__ = ["rig", "schema"]
KINDS = [
    *[pytest.param("sqlite", each, id=f"{each}, SQLite") for each in SQLITE],
    *[pytest.param("postgresql", each, id=f"{each}, PostgreSQL", marks=pytest.mark.live) for each in POSTGRES],
]


@pytest.fixture(autouse=True)
def on_a_loop(monkeypatch):
    """Let Django's connection be used on the thread of an event loop."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")


@pytest.fixture
def place(request, tmp_path):
    """The queue, and the URL of its database for SQLAlchemy; the engine is a parameter of the test."""
    if request.getfixturevalue("engine") == "sqlite":
        path = tmp_path / "work.db"
        return Queue(f"sqlite:///{path}", "mail", lease_ttl=TTL), sqlalchemy.make_url(f"sqlite:///{path}")
    server, name = request.getfixturevalue("rig"), request.getfixturevalue("schema")
    host, port = server.address()
    parts = {"username": "postgres", "password": SECRET, "host": host, "port": port, "database": DATABASE}
    url = sqlalchemy.URL.create("postgresql+psycopg", **parts)
    return Queue(server.url("n", options=f"&schema={name}"), "mail", lease_ttl=TTL), url


def block_of(engine, kind):
    """Return the block of a library."""
    return (SQLITE if engine == "sqlite" else POSTGRES)[kind]


@pytest.mark.parametrize(("engine", "kind"), KINDS)
def test_a_task_is_there_if_the_transaction_commits_and_not_otherwise(place, engine, kind):
    queue, url = place
    block = block_of(engine, kind)

    @queue.task()
    async def send(to: str) -> None: ...

    async def _play():
        await queue.pending(send)  # makes the tables
        async with block(url, is_kept=False) as connection:
            lost = await queue.enqueue(send.call("ann"), within=connection)
        async with block(url) as connection:
            kept = await queue.enqueue_many([send.call("bob"), send.call("cid")], within=connection)
            named = [await queue.enqueue(send.call("dan"), unique="u", within=connection) for _ in range(2)]
            new = await queue.enqueue(send.call("eve"), unique="u", on_duplicate="replace", within=connection)
        assert ["missing", "ready", "ready", "ready"] == [await each.state() for each in (lost, *kept, new)]
        assert [True, False, False] == [each.created for each in (*named, new)]
        assert ["bob", "cid", "eve"] == [call.arguments.decode()[7:-2] for call in await queue.pending(send)]

    played(_play())


@pytest.mark.parametrize(("engine", "kind"), KINDS)
def test_a_completion_and_its_result_are_part_of_the_transaction(place, engine, kind):
    queue, url = place
    block = block_of(engine, kind)
    is_awaited = kind.startswith("Async")
    seen = []

    @queue.task(keep_result=True, failures=1)
    async def work(is_kept: bool) -> int:
        task = apportion.current_task()
        async with block(url, is_kept=is_kept) as connection:
            completion = task.complete(connection, 7)
            seen.append(asyncio.iscoroutine(completion))
            if is_awaited:
                await completion
        if not is_kept:
            raise apportion.GiveUp("rolled back")
        async with block(url, is_kept=False) as connection:
            with pytest.raises(ClaimLost):
                await task.complete(connection, 8)
        return 9

    async def _play():
        handles = await queue.enqueue_many([work.call(True), work.call(False)])
        async with queue.worker(concurrency=1):
            assert 7 == await handles[0].result()
            while await handles[1].state() != "dead":
                await asyncio.sleep(0.01)
        assert [is_awaited] * 2 == seen

    played(_play())


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def test_a_connection_of_django_outside_of_a_transaction_is_refused(place, engine):
    queue, url = place

    @queue.task()
    async def send() -> None: ...

    async def _play():
        await queue.pending(send)
        use_django(url)
        with pytest.raises(InvalidInput, match="autocommit"):
            await queue.enqueue(send.call(), within=connections[ALIAS])
        connections[ALIAS].close()
        del connections[ALIAS]
        assert [] == await queue.pending(send)

    played(_play())
