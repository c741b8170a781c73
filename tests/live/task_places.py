"""The places of tasks whose workers are killed: a file or a server, its table of effects, and the faults of each."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing, suppress

import psycopg

from tests.stores.rigs.postgres import USER

LOCKED_SECONDS, LOOK_SECONDS, LONGEST_SECONDS = 1.0, 0.001, 60.0


class SqlitePlace:
    """A file: a cut is a foreign lock, a restart is the death of all workers at once, as of their machine."""

    name = "sqlite"

    def __init__(self, rig):
        self.path = rig.url("kills").removeprefix("sqlite:///").partition("?")[0]
        self.url = f"sqlite:///{self.path}"

    def prepare(self):
        self.run("CREATE TABLE effect (number INTEGER, attempt INTEGER)")

    def run(self, statement):
        with closing(sqlite3.connect(self.path, timeout=20, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    async def cut(self):
        """Hold the lock. SQLite's own wait looks for it ten times a second, and seldom gets it beside busy writers."""
        with closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as connection:
            async with asyncio.timeout(LONGEST_SECONDS):
                while not _is_begun(connection):
                    await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(LOCKED_SECONDS)

    async def restart(self, fleet):
        await fleet.kill(len(fleet.workers))


class PostgresPlace:
    """A server: a cut ends all connections, a restart is kill -9 of the server."""

    name = "postgres"

    def __init__(self, rig):
        self.rig, self.url = rig, rig.url("kills")

    def prepare(self):
        with psycopg.connect(self.url.partition("?")[0]) as connection:
            connection.execute("CREATE SCHEMA mine")
            connection.execute("CREATE TABLE mine.effect (number integer, attempt integer)")
            connection.execute(f"ALTER ROLE {USER} SET search_path = mine, public")

    def run(self, statement):
        return self.rig.sql(statement.replace("effect", "mine.effect"))

    async def cut(self):
        ends = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'"
        await asyncio.to_thread(self.rig.sql, ends)

    async def restart(self, fleet):
        assert fleet.workers
        await self.rig.kill()
        await self.rig.start()


def _is_begun(connection):
    with suppress(sqlite3.OperationalError):  # another writer has the lock
        connection.execute("BEGIN IMMEDIATE")
    return connection.in_transaction


PLACES = {each.name: each for each in (SqlitePlace, PostgresPlace)}


def effects(place):
    """Return how often each number has taken effect."""
    return Counter(number for (number,) in place.run("SELECT number FROM effect"))
