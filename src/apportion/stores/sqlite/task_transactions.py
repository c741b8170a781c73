"""The tasks in an SQLite file as statements for a transaction of the caller on the same file.

Two files do not commit together, so a connection to another file is refused.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from apportion.errors import InvalidInput
from apportion.stores.keys.partitions import check_counted, counted
from apportion.stores.requests import went_back
from apportion.stores.sqlite import task_statements as sql
from apportion.stores.sqlite.file import LOCK_WAIT_SECONDS
from apportion.stores.task_api import Insertion, SqlValue, TaskStatement, TaskTransactions
from apportion.stores.task_records import OpenTask
from apportion.stores.task_rows import COLUMNS, receipt_texts, shared_values
from apportion.stores.task_values import KEPT_MS, NewTask, Receipt


class SqliteTransactions(TaskTransactions):
    """The statements on the tasks of one file, in the incarnation that its handle knew at first."""

    dialect = "sqlite"

    def __init__(self, path: Path, name: str, incarnation: int) -> None:
        self._path, self._name, self._incarnation = path, name, incarnation

    @contextmanager
    def begin(self) -> Iterator[sqlite3.Connection]:
        """See `TaskTransactions`. Waits for the lock of the file for as long as each write of this store does."""
        with closing(sqlite3.connect(self._path, timeout=LOCK_WAIT_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection

    def completion(self, receipt: Receipt) -> TaskStatement:
        return TaskStatement(sql=sql.COMPLETE, values=receipt_texts(receipt))

    def outcome(self, receipt: Receipt, result: bytes) -> TaskStatement:
        values: dict[str, SqlValue] = {**receipt_texts(receipt), "result": result, "kept_ms": str(KEPT_MS)}
        return TaskStatement(sql=sql.KEEP_RESULT, values=values)

    def place(self) -> TaskStatement:
        return TaskStatement(sql=sql.PLACE, values={})

    def require_here(self, rows: Sequence[Any]) -> None:
        files = [str(file) for _, name, file in rows if name == "main"]
        if not any(file and Path(file).exists() and self._path.samefile(file) for file in files):
            hint = "Keep your tables in the file of the queue: two files do not commit together. Nothing was written."
            raise InvalidInput("file of the connection", ", ".join(files), f"the file of {self._name}", hint)

    def insertion(self, tasks: Sequence[NewTask]) -> Insertion:
        [(now, found)] = yield TaskStatement(sql=sql.TIME_AND_LIFE, values={})
        if found != self._incarnation:
            raise went_back(self._name, seen=(self._incarnation, 0), found=(found, 0))
        for queue, _ in counted(tasks):
            rows = yield TaskStatement(sql=sql.PARTITIONS, values={"queue": queue})
            check_counted(tasks, queue, rows[0][0] if rows else None)
        answers: tuple[tuple[str, bool], ...] = ()
        for each in tasks:
            answers += ((yield from _inserted(each, now)),)
        return answers


def _inserted(new: NewTask, now: int) -> Any:  # noqa: ANN401 - a generator
    """Enqueue one task; see `task_ledger`."""
    values = _values(new, now)
    if (yield TaskStatement(sql=sql.INSERT, values=values)):
        return new.id, True
    is_known = yield TaskStatement(sql=sql.IS_KNOWN, values={"id": new.id})
    named = [] if is_known else (yield TaskStatement(sql=sql.NAMED, values={"queue": new.queue, "uniq": new.unique}))
    if not named:
        return new.id, False
    [(task, session)] = named
    if new.on_duplicate == "keep":
        return task, False
    if session is None:
        yield TaskStatement(sql=sql.RENEW, values=values | {"named": task})
        return task, False
    yield TaskStatement(sql=sql.RENAME, values={"named": task})
    return new.id, bool((yield TaskStatement(sql=sql.INSERT, values=values)))


def _values(new: NewTask, now: int) -> dict[str, bytes | str | int | float | None]:
    due = now + new.delay_ms if new.due_at is None else new.due_at
    task = OpenTask(new=new, position=0, enqueued=now, ready_at=max(due, now), due=due if due > now else None)
    return dict(zip(COLUMNS, shared_values(task), strict=True))
