"""The wire to a PostgreSQL server: it detects a lost connection, and cuts one that takes too long.

Refuses: to know the meaning of a statement.
"""

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from apportion.stores.postgres.driver import Connection


class PostgresNoReply(Exception):
    """A statement was sent and its connection broke: the statement may have happened. Callers never see this error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_lost(connection: Connection) -> bool:
    """Whether a connection is broken. An idle connection becomes readable only when it ends."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def bounded(connection: Connection, seconds: float) -> Iterator[None]:
    """Break the connection if the block takes longer than this."""
    limit = asyncio.get_running_loop().call_later(seconds, cut, connection)
    try:
        yield
    finally:
        limit.cancel()


def cut(connection: Connection) -> None:
    """Break a connection as if the network had done it, so that its user notices at once."""
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as end, suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
