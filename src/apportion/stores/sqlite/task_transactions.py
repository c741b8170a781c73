"""The tasks in an SQLite file as statements for a transaction of the caller on the same file.

Two files do not commit together, so a connection to another file is of no use here.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from apportion.stores.sqlite import task_statements as sql
from apportion.stores.sqlite.file import LOCK_WAIT_SECONDS
from apportion.stores.task_api import TaskStatement, TaskTransactions
from apportion.stores.task_values import Receipt


class SqliteTransactions(TaskTransactions):
    """The statements on the tasks of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def begin(self) -> Iterator[sqlite3.Connection]:
        """See `TaskTransactions`. Waits for the lock of the file as long as every write of this store does."""
        with closing(sqlite3.connect(self._path, timeout=LOCK_WAIT_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection

    def completion(self, receipt: Receipt) -> TaskStatement:
        values = {"id": receipt.task, "attempt": str(receipt.attempt), "session": str(receipt.session)}
        return TaskStatement(sql=sql.COMPLETE, values=values)
