"""The wire to a PostgreSQL server: reads the rows of one statement, and cuts a connection that takes too long.

Promises: many rows do not block the event loop. Refuses: to know the meaning of a statement.
"""

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from apportion.stores.postgres.driver import Connection, Parameters, Row

_ROWS_AT_A_TIME = 1_000


class PostgresNoReply(Exception):
    """A statement was sent and its connection broke: it may have happened. Never leaves the store."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def rows_of(connection: Connection, query: bytes, parameters: Parameters) -> list[Row]:
    """Run a statement and return its rows; let others run while there are many."""
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(query, parameters)
        rows: list[Row] = []
        while cursor.description is not None:
            some = await cursor.fetchmany(_ROWS_AT_A_TIME)
            rows += some
            if len(some) < _ROWS_AT_A_TIME:
                break
            await asyncio.sleep(0)
        return rows


def is_lost(connection: Connection) -> bool:
    """Whether a connection is broken. An idle connection becomes readable only when it ends."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def bounded(connection: Connection, seconds: float) -> Iterator[None]:
    """Within the block, break the connection if it takes longer than this."""
    limit = asyncio.get_running_loop().call_later(seconds, cut, connection)
    try:
        yield
    finally:
        limit.cancel()


def cut(connection: Connection) -> None:
    """Break a connection as if the network had done it, so that its user learns of it at once."""
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as end, suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
