"""Scripts: statements of ours in one message, so that a mover waits for a server once for all of them.

The server runs them one after another. In READ COMMITTED each statement sees everything that was committed before it
began, as if it had come alone. An error ends the script, and leaves its transaction open until a rollback.

The server reads the whole text before it runs the first statement. So a setting for literals, such as
`standard_conforming_strings`, takes effect in the next script. Values are written so that all settings read them alike.
Source: https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-MULTI-STATEMENT
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL

from apportion.stores.postgres.driver import Connection, psycopg


class ConnectionFailed(Exception):
    """An error of a connection in a step that has two of them. Callers of a server never see it.

    `error` is the driver's error, which does not say on which connection it came.
    """

    def __init__(self, connection: Connection, error: psycopg.Error) -> None:
        super().__init__(f"{error}")
        self.connection: Connection = connection
        self.error: psycopg.Error = error


@contextmanager
def failing(connection: Connection) -> Iterator[None]:
    """Name the connection of the driver's errors within the block: `ConnectionFailed`."""
    try:
        yield
    except psycopg.Error as error:
        raise ConnectionFailed(connection, error) from error


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement with its values: `%s` or `%(name)s` stands for a value, and `%%` for a percent sign."""

    text: str
    values: Sequence[object] | Mapping[str, object] = ()


COMMIT = Statement("COMMIT")


async def script(connection: Connection, *statements: Statement) -> list[list[Any]]:
    """Run statements in one wait; return the rows of each. The driver writes the values into the text."""
    cursor = psycopg.AsyncClientCursor(connection)
    await cursor.execute(SQL(";\n".join(cursor.mogrify(SQL(each.text), each.values) for each in statements)))
    found: list[list[Any]] = []
    while True:
        found.append(await cursor.fetchall() if cursor.description else [])
        if not cursor.nextset():
            return found


async def asked(connection: Connection, opening: Statement, *statements: Statement) -> list[list[Any]]:
    """Run statements as a whole transaction, in one wait; return the rows of each. `opening` begins it."""
    async with _ended(connection):
        found = await script(connection, opening, *statements, COMMIT)
    return found[-1 - len(statements) : -1]


@asynccontextmanager
async def transaction(
    connection: Connection, *opening: Statement, commits: bool = True
) -> AsyncIterator[list[list[Any]]]:
    """Begin a transaction by a script, in one wait; give the block its rows. Commit the transaction after the block.

    A block may end it with a `COMMIT` of its own. Roll it back after an error, or if it does not commit.
    """
    async with _ended(connection):
        yield await script(connection, *opening)
        if commits and _is_open(connection):
            await connection.commit()


@asynccontextmanager
async def _ended(connection: Connection) -> AsyncIterator[None]:
    """Roll back a transaction that the block leaves open. A connection that stays in it is closed."""
    try:
        yield
    finally:
        if _is_open(connection):
            with suppress(psycopg.Error):
                await connection.rollback()
            if _is_open(connection):
                await connection.close()


def _is_open(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
