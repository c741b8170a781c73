"""The ear: it trusts in hints once one of its own has come by the connection, and listens on no door that is polled."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.ear import Ear


class Connection:
    """A connection that tells its handler what a story lets come."""

    def __init__(self):
        self.handlers = []

    def add_notify_handler(self, handler):
        self.handlers.append(handler)

    def hint(self):
        for handler in self.handlers:
            handler(SimpleNamespace(payload=""))


class Door:
    """Notes the statements that are run, by connection."""

    def __init__(self, *, is_polled=False):
        self.is_polled, self.ran = is_polled, []

    async def run(self, connection, statement):
        self.ran.append((connection, statement))


@pytest.mark.parametrize("is_polled", [False, True])
def test_an_ear_listens_and_sends_a_hint_of_its_own_unless_the_store_is_polled(is_polled):
    door, connection = Door(is_polled=is_polled), Connection()
    asyncio.run(Ear(door).begin(connection))
    asked = [] if is_polled else [(connection, sql.LISTEN), (connection, sql.HINT)]
    assert (asked, len(asked) // 2) == (door.ran, len(connection.handlers))


def test_hints_are_trusted_once_one_has_come_and_on_a_new_connection_only_after_the_next():
    ear, first, second, heard = Ear(Door()), Connection(), Connection(), []
    ear.tells(lambda: heard.append(ear.is_trusted))

    async def story():
        for connection in (first, second):
            await ear.begin(connection)
            assert not ear.is_trusted
            connection.hint()
            assert ear.is_trusted

    asyncio.run(story())
    assert [True, True] == heard
    ear.distrust()
    assert not ear.is_trusted


def test_a_connection_that_ends_while_no_statement_runs_is_distrusted_and_told():
    ear, heard = Ear(Door()), []
    ear.tells(lambda: heard.append(ear.is_trusted))
    pgconn = SimpleNamespace(consume_input=lambda: None, notifies=lambda: None)
    ear.is_trusted = True
    ear._overhear(SimpleNamespace(closed=False, pgconn=pgconn))
    assert (True, []) == (ear.is_trusted, heard)
    ear._overhear(SimpleNamespace(closed=True, pgconn=pgconn))
    assert (False, [False]) == (ear.is_trusted, heard)


def test_an_ear_takes_in_hints_by_itself_only_while_no_statement_runs():
    async def story():
        ear, came = Ear(Door()), []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            pgconn = SimpleNamespace(consume_input=lambda: came.append(ours.recv(1)), notifies=lambda: None)
            connection = SimpleNamespace(closed=False, pgconn=pgconn, fileno=ours.fileno)
            ear.listen(connection)
            ear.listen(connection)
            theirs.send(b"x")
            while not came:
                await asyncio.sleep(0)
            theirs.send(b"y")
            ear.rest(connection)
            theirs.send(b"z")
            for _ in range(5):
                await asyncio.sleep(0)
        return came

    assert [b"x", b"y"] == asyncio.run(asyncio.wait_for(story(), 10))
