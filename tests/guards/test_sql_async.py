"""The guard of a database on connections for asyncio: of psycopg's, with SQLite in the place of the server."""

import asyncio
import re
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import psycopg
import psycopg.rows
import pytest

from apportion.errors import Fenced, InvalidInput
from apportion.guards import SqlGuard
from tests.guards.tokens import token

GUARD = SqlGuard()


class Connection(psycopg.AsyncConnection):
    """A connection of psycopg's type that never met a server; SQLite does what it is asked."""

    autocommit = False
    info = SimpleNamespace(transaction_status=psycopg.pq.TransactionStatus.IDLE)

    def __init__(self, answers):
        self.answers = answers

    def __repr__(self):
        return "a connection"

    def __del__(self):
        """Close nothing: nothing was opened."""


class Cursor:
    """The part of psycopg's cursor for asyncio that the guard uses, with psycopg's placeholders."""

    def __init__(self, connection, *, row_factory):
        assert psycopg.rows.tuple_row is row_factory
        self._connection = connection

    async def execute(self, statement, values):
        named = re.sub(r"%\((\w+)\)s", r":\1", statement)
        self._rows = self._connection.answers.execute(named, values).fetchall()

    async def fetchall(self):
        return self._rows


@pytest.fixture
def connection(monkeypatch):
    monkeypatch.setattr(psycopg, "AsyncCursor", Cursor)
    with closing(sqlite3.connect(":memory:")) as answers:
        GUARD.create(answers)
        yield Connection(answers)


def test_an_older_token_is_refused_and_the_newer_one_named(connection):
    asyncio.run(GUARD.check_async(connection, token(8, "bob")))
    with pytest.raises(Fenced) as caught:
        asyncio.run(GUARD.check_async(connection, token(7)))
    assert (token(7), token(8, "bob")) == (caught.value.token, caught.value.newer)
    asyncio.run(GUARD.check_async(connection, token(8, "bob")))
    asyncio.run(GUARD.check_async(connection, token(9)))


def test_a_check_that_would_be_committed_before_the_write_is_refused(connection):
    connection.autocommit = True
    with pytest.raises(InvalidInput, match="expected one in a transaction"):
        asyncio.run(GUARD.check_async(connection, token(8)))


def test_the_statement_alone_answers_as_the_check_does(connection):
    async def answer(each):
        cursor = Cursor(connection, row_factory=psycopg.rows.tuple_row)
        await cursor.execute(*GUARD.statement(each))
        return await cursor.fetchall()

    accepted = [len(asyncio.run(answer(each))) for each in (token(8, "bob"), token(7), token(8, "bob"), token(9))]
    assert [1, 0, 1, 1] == accepted
