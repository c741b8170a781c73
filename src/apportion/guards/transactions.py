"""Transactions of users: a course of statements in one transaction, on every connection that the guards know.

Sessions of SQLAlchemy and connections of Django are known here too.
Promises: all statements of a course are part of the caller's transaction, which goes on after them. Errors of the
library reach the caller unchanged.
Refuses: autocommit mode; to commit, and to roll back.
"""

import sys
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias, TypeVar

from apportion.errors import UnknownOption
from apportion.guards.connections import (
    SqlValue,
    in_autocommit,
    percent,
    require_transaction,
    require_transaction_async,
    run,
    run_async,
)

Outcome = TypeVar("Outcome")
SqlStatement: TypeAlias = tuple[str, Mapping[str, SqlValue]]
Course: TypeAlias = Generator[SqlStatement, list[Any], Outcome]
"""A generator that yields statements with values named as in `:name`, and is sent the rows of each."""
_ASYNC = (
    ("psycopg", "AsyncConnection"),
    ("sqlalchemy.ext.asyncio", "AsyncConnection"),
    ("sqlalchemy.ext.asyncio", "AsyncSession"),
)
_DIALECTS = ("postgresql", "sqlite")


def is_async(connection: object) -> bool:
    """Say whether the statements of a connection are awaited."""
    return any(_is(connection, *each) for each in _ASYNC)


def follow(connection: Any, course: Course[Outcome]) -> Outcome:  # noqa: ANN401 - libraries' types
    """Run a course on a connection without awaited statements, and return its outcome."""
    plain = _plain(connection)
    _require_transaction(plain)
    try:
        statement = next(course)
        while True:
            statement = course.send(_rows(plain, *statement))
    except StopIteration as end:
        outcome: Outcome = end.value
    return outcome


async def follow_async(connection: Any, course: Course[Outcome]) -> Outcome:  # noqa: ANN401 - libraries' types
    """Run a course on a connection of any kind, and return its outcome."""
    if not is_async(connection):
        return follow(connection, course)
    if not _is(connection, "psycopg", "AsyncConnection"):
        outcome: Outcome = await connection.run_sync(follow, course)
        return outcome
    require_transaction_async(connection)
    try:
        statement = next(course)
        while True:
            statement = course.send(await run_async(connection, *statement))
    except StopIteration as end:
        outcome = end.value
    return outcome


def dialect_of(connection: Any) -> str:  # noqa: ANN401 - libraries' types
    """Return the dialect of a connection's database. Raise `UnknownOption` if the guards do not know the database."""
    if _is(connection, "sqlite3", "Connection"):
        return "sqlite"
    if _is(connection, "psycopg", "Connection") or _is(connection, "psycopg", "AsyncConnection"):
        return "postgresql"
    if _is_django(connection):
        return _known(connection.vendor)
    if any(_is(connection, *each) for each in (*_ASYNC[1:], ("sqlalchemy.orm", "Session"))):
        bind = connection.get_bind() if hasattr(connection, "get_bind") else connection
        return _known(bind.dialect.name)
    require_transaction(connection)  # this call refuses a connection of an unknown library
    return _known(connection.dialect.name)


def _known(dialect: str) -> str:
    if dialect not in _DIALECTS:
        raise UnknownOption("dialect", dialect, _DIALECTS)
    return dialect


def _plain(connection: Any) -> Any:  # noqa: ANN401 - libraries' types
    """Return the connection of an SQLAlchemy session; return any other connection unchanged."""
    return connection.connection() if _is(connection, "sqlalchemy.orm", "Session") else connection


def _require_transaction(connection: Any) -> None:  # noqa: ANN401 - libraries' types
    if not _is_django(connection):
        require_transaction(connection)
    elif connection.get_autocommit() and not connection.in_atomic_block:
        raise in_autocommit(connection, "Use it within transaction.atomic().")


def _rows(connection: Any, statement: str, values: Mapping[str, SqlValue]) -> list[Any]:  # noqa: ANN401
    if not _is_django(connection):
        return run(connection, statement, values).fetchall()
    with connection.cursor() as cursor:
        cursor.execute(percent(statement), values)
        rows: list[Any] = cursor.fetchall()
    return rows


def _is_django(connection: object) -> bool:
    is_wrapper = _is(connection, "django.db.backends.base.base", "BaseDatabaseWrapper")
    return is_wrapper or _is(connection, "django.utils.connection", "ConnectionProxy")


def _is(connection: object, module: str, kind: str) -> bool:
    return isinstance(connection, getattr(sys.modules.get(module), kind, ()))
