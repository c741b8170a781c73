"""Connections of users: their library, whether their next statement is in a transaction, and how to run a statement.

Promises: no database library is imported here; a connection of a library exists only where other code imported it.
Refuses: connections that would commit the check before the write. Connections of unknown libraries are refused too,
and the error names them.
"""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypeGuard

from apportion.errors import InvalidInput, UnknownOption

_KNOWN = ("psycopg.Connection", "sqlalchemy.Connection", "sqlite3.Connection")
_KNOWN_TO_ASYNCIO = ("psycopg.AsyncConnection", "sqlalchemy.ext.asyncio.AsyncConnection")
_DIALECTS = ("postgresql", "sqlite")
_NAMED = re.compile(r":(\w+)")


SqlValue: TypeAlias = bytes | str | int | float | None


class Executes(Protocol):
    """The part that the connections of sqlite3, psycopg and SQLAlchemy have in common."""

    def execute(self, statement: Any, values: Any = ..., /) -> Any:  # noqa: ANN401 - three libraries' types
        """Run one statement."""


class SqlRows(Protocol):
    """The rows that a statement returns; their types depend on the statement."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""


class RunsSync(Protocol):
    """The used part of SQLAlchemy's connection for asyncio."""

    async def run_sync(self, function: Callable[..., None], /, *values: object) -> None:
        """Call a function with the sync form of the connection."""


def run(connection: Executes, statement: str, values: Mapping[str, SqlValue]) -> SqlRows:
    """Run a statement with values named as in `:name`; the connection may use any kind of rows or cursors."""
    rows: SqlRows
    if _is(connection, "sqlalchemy", "Connection"):
        rows = connection.execute(sys.modules["sqlalchemy"].text(statement), values)
    elif _is(connection, "psycopg", "Connection"):
        rows = _psycopg_cursor(connection, "Cursor").execute(percent(statement), values)
    else:
        rows = _sqlite_cursor(connection).execute(statement, values)
    return rows


async def run_async(connection: Executes, statement: str, values: Mapping[str, SqlValue]) -> list[Any]:
    """Run a statement that returns rows on an asyncio connection of psycopg."""
    cursor = _psycopg_cursor(connection, "AsyncCursor")
    await cursor.execute(percent(statement), values)
    rows: list[Any] = await cursor.fetchall()
    return rows


def is_sqlalchemy_async(connection: object) -> TypeGuard[RunsSync]:
    """Say whether this is an asyncio connection of SQLAlchemy."""
    return _is(connection, "sqlalchemy.ext.asyncio", "AsyncConnection")


def require_transaction(connection: Any) -> None:  # noqa: ANN401 - three libraries' types
    """Raise unless the next statement will be part of a transaction that stays open after the statement."""
    if _is(connection, "sqlalchemy", "Connection"):
        _require_of_sqlalchemy(connection)
    elif _is(connection, "sqlite3", "Connection"):
        _require_of_sqlite(connection, 'Run "BEGIN IMMEDIATE" first, or leave isolation_level at its default.')
    elif _is(connection, "psycopg", "Connection"):
        _require_of_psycopg(connection)
    else:
        raise _unknown(connection, _KNOWN)


def require_transaction_async(connection: Any) -> None:  # noqa: ANN401 - a library's type
    """Raise unless the next statement of an asyncio connection of psycopg will be part of a transaction.

    Connections of other libraries are refused.
    """
    if not _is(connection, "psycopg", "AsyncConnection"):
        raise _unknown(connection, _KNOWN_TO_ASYNCIO)
    _require_of_psycopg(connection)


def require_known(connection: object) -> None:
    """Raise for a connection of an unknown library."""
    if not any(_is(connection, *known.rsplit(".", 1)) for known in _KNOWN):
        raise _unknown(connection, _KNOWN)


def _require_of_sqlalchemy(connection: Any) -> None:  # noqa: ANN401 - a library's type
    dialect, hint = connection.dialect.name, "Use engine.begin(), on an engine without isolation_level='AUTOCOMMIT'."
    if dialect not in _DIALECTS:
        raise UnknownOption("dialect", dialect, _DIALECTS)
    if not connection.in_transaction():
        connection.begin()  # else the first statement begins it, too late for the checks below
    if dialect == "sqlite":
        _require_of_sqlite(connection.connection.driver_connection, hint)
    elif connection.connection.dbapi_connection.autocommit:
        raise in_autocommit(connection, hint)


def _require_of_sqlite(connection: Any, hint: str) -> None:  # noqa: ANN401 - a library's type
    """Raise unless the next write will be part of a transaction.

    Before Python 3.12 only `isolation_level` said if a write begins a transaction. Now `autocommit` can say so too.
    """
    begins = connection.isolation_level is not None and getattr(connection, "autocommit", None) is not True
    if not (connection.in_transaction or begins):
        raise in_autocommit(connection, hint)


def _require_of_psycopg(connection: Any) -> None:  # noqa: ANN401 - a library's type
    """Raise unless the next statement will be part of a transaction.

    In autocommit mode, a pipeline is refused too: its status only says that requests wait for a reply.
    """
    status = sys.modules["psycopg"].pq.TransactionStatus
    if connection.autocommit and connection.info.transaction_status not in (status.INTRANS, status.INERROR):
        raise in_autocommit(connection, "Put check and write into connection.transaction(), outside of a pipeline.")


def _psycopg_cursor(connection: object, kind: str) -> Any:  # noqa: ANN401 - a library's type
    """Make a cursor with psycopg's own placeholders and plain rows, even if the connection uses others."""
    psycopg = sys.modules["psycopg"]
    return getattr(psycopg, kind)(connection, row_factory=sys.modules["psycopg.rows"].tuple_row)


def _sqlite_cursor(connection: Any) -> Any:  # noqa: ANN401 - a library's type
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


def percent(statement: str) -> str:
    """Return a statement with the placeholders of psycopg and Django."""
    return _NAMED.sub(r"%(\1)s", statement)


def _is(connection: object, module: str, kind: str) -> bool:
    return isinstance(connection, getattr(sys.modules.get(module), kind, ()))


def _unknown(connection: object, known: tuple[str, ...]) -> UnknownOption:
    return UnknownOption("connection", f"{type(connection).__module__}.{type(connection).__qualname__}", known)


def in_autocommit(connection: object, hint: str) -> InvalidInput:
    """Return the error for a connection that would commit each statement by itself."""
    expected = "one in a transaction (in autocommit mode the check would end before the write)"
    return InvalidInput("connection", connection, expected, f"Nothing was written. {hint}")
