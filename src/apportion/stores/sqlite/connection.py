"""A connection to an SQLite file: the part of the library that this store uses, and the meaning of its errors."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

Value = bytes | int | float | str | None
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}


class SqliteRows(Protocol):
    """The rows of a statement. The library does not type their values; the schema does."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement has changed."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""


class Connection(Protocol):
    """The used part of `sqlite3.Connection`, without automatic transactions."""

    text_factory: Callable[[bytes], Any] | type[str]

    @property
    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""

    @property
    def total_changes(self) -> int:
        """The number of rows that were changed since the connection was opened."""

    def execute(self, statement: str, values: Sequence[Value] = (), /) -> SqliteRows:
        """Run one statement."""

    def close(self) -> None:
        """Close the connection."""


def open_sqlite(path: Path) -> Connection:
    """Open a file for any thread, without waits for locks and without automatic transactions."""
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=64)


def open_to_read(path: Path, *, alone: bool = False) -> Connection:
    """Open an existing file without writing to it; `alone` ignores the -wal beside it."""
    options = "mode=ro&immutable=1" if alone else "mode=ro"
    return sqlite3.connect(f"file:{quote(str(path))}?{options}", uri=True, timeout=5, isolation_level=None)


def value_of(connection: Connection, statement: str, values: Sequence[Value] = ()) -> Any:  # noqa: ANN401 - foreign
    """Return the single value that a statement returns, None for no row."""
    rows = connection.execute(statement, values).fetchall()
    return rows[0][0] if rows else None


def number_of(connection: Connection, statement: str) -> int:
    """Return the number that a statement finds in each sound file. Without it, raise SQLite's error of damage."""
    value = value_of(connection, statement)
    if not isinstance(value, int):
        error = sqlite3.DatabaseError("a number of the store is missing")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    return value


def is_busy(error: sqlite3.Error) -> bool:
    """Say whether an error means that another connection held a lock. In this case, nothing was done."""
    return code_of(error) in _BUSY


def code_of(error: sqlite3.Error) -> int:
    """Return the primary code of an error of SQLite."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF
