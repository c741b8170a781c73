"""Statements over a real connection without a cursor: rows, large requests, names, and connections that end."""

import asyncio
from contextlib import asynccontextmanager

import psycopg
import pytest

from apportion.stores.postgres.exchange import rows_of
from apportion.stores.postgres.wire import cut, is_lost
from tests.stores.test_postgres_tasks import rig, schema, url

__all__ = ["rig", "schema", "url"]
pytestmark = pytest.mark.live
ECHO = b"SELECT %s::bigint, %s::text, %s::boolean, %s::bytea, %s::bigint[], %s::text[]"
VALUES = [2**40, "ä", True, b"\0\1", [1, None], ["a", "b"]]
NAMED = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'apportion%'"


@asynccontextmanager
async def connected(url):
    connection = await psycopg.AsyncConnection.connect(url.partition("?")[0], autocommit=True)
    try:
        yield connection
    finally:
        await connection.close()


def played(url, story):
    async def main():
        async with asyncio.timeout(30), connected(url) as connection:
            return await story(connection)

    return asyncio.run(main())


async def count(connection):
    [(found,)] = await (await connection.execute(NAMED)).fetchall()
    return found


async def asleep(rig, connection):
    """Return a request that the server is busy with."""
    asked = asyncio.create_task(rows_of(connection, b"SELECT pg_sleep(%s::bigint)", [60]))
    is_asleep = f"pid = {connection.info.backend_pid} AND wait_event = 'PgSleep'"
    while not rig.sql(f"SELECT 1 FROM pg_stat_activity WHERE {is_asleep}"):
        await asyncio.sleep(0.01)
    return asked


def test_values_come_back_equal_also_once_the_statement_has_a_name(url):
    async def story(connection):
        answers = [await rows_of(connection, ECHO, VALUES) for _ in range(8)]
        assert [[tuple(VALUES)]] * 8 == answers
        assert 1 == await count(connection)

    played(url, story)


def test_behind_a_pooler_no_statement_gets_a_name(url):
    async def story(connection):
        connection.prepare_threshold = None
        for _ in range(8):
            assert [tuple(VALUES)] == await rows_of(connection, ECHO, VALUES)
        assert 0 == await count(connection)

    played(url, story)


def test_a_request_and_an_answer_of_many_mebibytes_arrive_whole(url):
    async def story(connection):
        data = [bytes([place]) * 2**20 for place in range(24)]
        found = await rows_of(connection, b"SELECT unnest(%s::bytea[]), %s::text", [data, "x" * 2**20])
        assert [(each, "x" * 2**20) for each in data] == found

    played(url, story)


def test_many_rows_come_in_order(url):
    async def story(connection):
        assert [(n,) for n in range(2_500)] == await rows_of(
            connection, b"SELECT generate_series(0, %s::bigint)", [2_499]
        )

    played(url, story)


def test_an_error_of_the_server_is_that_of_the_driver_and_the_connection_goes_on(url):
    async def story(connection):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await rows_of(connection, b"SELECT 1 / %s::bigint", [0])
        assert [(1,)] == await rows_of(connection, b"SELECT 1 / %s::bigint", [1])

    played(url, story)


def test_a_name_that_the_server_has_forgotten_is_an_error_once(url):
    async def story(connection):
        for _ in range(8):
            await rows_of(connection, ECHO, VALUES)
        await connection.execute("DEALLOCATE ALL")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            await rows_of(connection, ECHO, VALUES)
        assert [tuple(VALUES)] == await rows_of(connection, ECHO, VALUES)

    played(url, story)


@pytest.mark.parametrize("is_cut", [True, False], ids=["the network ends", "the server ends"])
def test_a_connection_that_ends_meanwhile_is_an_error_and_is_lost(rig, url, is_cut):
    async def story(connection):
        asked = await asleep(rig, connection)
        if is_cut:
            cut(connection)
        else:
            rig.sql(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        with pytest.raises(psycopg.OperationalError):
            await asked
        assert is_lost(connection)

    played(url, story)


def test_a_caller_that_is_cancelled_cuts_the_connection(rig, url):
    async def story(connection):
        asked = await asleep(rig, connection)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert is_lost(connection)

    played(url, story)
