"""The ear: receives hints, the NOTIFY messages of PostgreSQL, on a connection that also answers requests.

A hint arrives while a statement runs, or between two statements. Between statements the socket becomes readable, and
the ear takes the hint in. A hint with the text `tasks` tells of new tasks. After any other hint, the history shows the
changes.
Promises: `is_trusted` says whether hints get through. To find out, the ear sends a hint to itself, since a transaction
pooler accepts LISTEN and delivers nothing. If a look finds changes without a hint, `is_trusted` is False until
a hint arrives again.
"""

import asyncio
from collections.abc import Callable

from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.door import Door
from apportion.stores.postgres.driver import Connection, psycopg

TASKS = "tasks"  # the text of a hint of new tasks


class Ear:
    """Reports each hint, and the end of the connection while no statement runs."""

    is_trusted: bool

    def __init__(self, door: Door) -> None:
        self.is_trusted = False
        self._door = door
        self._heard: Callable[[], None] = lambda: None
        self._heard_tasks: Callable[[], None] = lambda: None
        self._listening: int | None = None

    def tells(self, heard: Callable[[], None], heard_tasks: Callable[[], None] = lambda: None) -> None:
        """Set the function to call at a hint of changed keys, and the function to call at a hint of new tasks."""
        self._heard, self._heard_tasks = heard, heard_tasks

    def distrust(self) -> None:
        """Assume from now on that hints do not get through."""
        self.is_trusted = False

    async def begin(self, connection: Connection) -> None:
        """Listen on a new connection from now on."""
        self.is_trusted = False
        if self._door.is_polled:
            return
        connection.add_notify_handler(lambda hint: self._take(hint.payload))
        await self._door.run(connection, sql.LISTEN)
        await self._door.run(connection, sql.HINT)

    def listen(self, connection: Connection) -> None:
        """Take in hints that arrive while no statement runs."""
        if not connection.closed and self._listening is None:
            self._listening = connection.fileno()
            asyncio.get_running_loop().add_reader(self._listening, self._overhear, connection)

    def rest(self, connection: Connection) -> None:
        """Take in all hints that have arrived, and leave the connection to a statement."""
        if self._listening is not None:
            self._stop()
            self._consume(connection)

    def _take(self, payload: str) -> None:
        self.is_trusted = True
        if payload == TASKS:
            self._heard_tasks()
        else:
            self._heard()

    def _overhear(self, connection: Connection) -> None:
        self._consume(connection)
        if connection.closed:
            self.distrust()
            self._heard()  # the next look connects anew

    def _consume(self, connection: Connection) -> None:
        """Take in the data that the server has sent; close the connection if it has ended."""
        try:
            connection.pgconn.consume_input()
            while (hint := connection.pgconn.notifies()) is not None:
                self._take(hint.extra.decode())
        except psycopg.Error:
            self._stop()
            connection.pgconn.finish()

    def _stop(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening = None
