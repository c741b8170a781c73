"""Statements in one message mean the same as one after another, and a script that fails leaves nothing open."""

import asyncio
import threading

import psycopg
import pytest

from apportion.shards.postgres.script import Statement, asked, script, transaction
from tests.shards.server import OWNER
from tests.stores.rigs.postgres import SECRET

pytestmark = pytest.mark.live

BEGIN = Statement("BEGIN ISOLATION LEVEL READ COMMITTED")


@pytest.fixture
def connected(rig):
    """Return a function that runs work on a connection in autocommit, as that of a mover."""
    host, port = rig.address()
    place = {"host": host, "port": port, "user": OWNER, "password": SECRET, "dbname": "postgres"}

    def connected(work):
        async def main():
            connection = await psycopg.AsyncConnection.connect(**place, autocommit=True)
            try:
                return await work(connection)
            finally:
                await connection.close()

        return asyncio.run(main())

    connected.place = place
    return connected


@pytest.mark.parametrize("setting", ["on", "off"])
@pytest.mark.parametrize("value", ["it's", r"\'", "100 %s", "a;b", None, "ü\n"])
def test_values_arrive_as_they_are(connected, value, setting):
    async def work(base):
        await script(base, Statement(f"SET standard_conforming_strings = {setting}"))
        return await script(base, Statement("SELECT %s::text, '%%'", (value,)), Statement("SELECT 2"))

    assert [[(value, "%")], [(2,)]] == connected(work)


def test_an_answer_holds_the_rows_of_its_statements_alone(connected):
    opening = Statement("BEGIN; SELECT 'settings'; SET LOCAL lock_timeout = 0")
    one, none = Statement("SELECT %(a)s + 1", {"a": 1}), Statement("SELECT 1 WHERE false")
    assert [[(2,)], []] == connected(lambda base: asked(base, opening, one, none))


@pytest.mark.parametrize("broken", ["SELECT 1 / 0", "SELECT FROM nowhere", "NONSENSE"])
def test_a_script_that_fails_leaves_no_transaction_open(connected, broken):
    async def work(base):
        with pytest.raises(psycopg.Error):
            await asked(base, BEGIN, Statement("CREATE TEMP TABLE made ()"), Statement(broken))
        with pytest.raises(psycopg.Error):
            async with transaction(base, BEGIN, Statement("CREATE TEMP TABLE made ()")):
                await script(base, Statement(broken))
        return base.info.transaction_status.name, await asked(base, BEGIN, Statement("SELECT to_regclass('made')"))

    assert ("IDLE", [[(None,)]]) == connected(work)


def test_a_statement_after_a_lock_sees_everything_that_was_committed_before_the_lock_was_free(connected):
    lock, read = Statement("SELECT pg_advisory_xact_lock(4711)"), Statement("SELECT count(*) FROM pg_tables")
    with psycopg.connect(**connected.place) as other:
        [(before,)] = other.execute("SELECT count(*) FROM pg_tables").fetchall()
        other.execute("SELECT pg_advisory_xact_lock(4711)")
        other.execute("CREATE TABLE public.late ()")
        timer = threading.Timer(0.2, other.commit)
        timer.start()
        found = connected(lambda base: asked(base, BEGIN, lock, read))
        timer.join()
        other.execute("DROP TABLE public.late")
    assert (before + 1,) == found[1][0]
