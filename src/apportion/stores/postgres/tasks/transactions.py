"""The tasks in a PostgreSQL database as statements for a transaction of the caller on the same database."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from apportion.errors import InvalidInput
from apportion.stores.keys.partitions import check_counted
from apportion.stores.postgres.door import Door
from apportion.stores.postgres.driver import Row, psycopg
from apportion.stores.postgres.tasks import statements as sql
from apportion.stores.task_api import Insertion, SqlValue, TaskStatement, TaskTransactions
from apportion.stores.task_rows import receipt_texts
from apportion.stores.task_values import KEPT_MS, NewTask, Receipt


class PostgresTransactions(TaskTransactions):
    """The statements on the tasks of one schema.

    `known` returns the incarnation of the store and the longest wait for a lock, in milliseconds. `met` takes a verdict
    and an incarnation, and may raise `StoreWentBack`.
    """

    dialect = "postgresql"

    def __init__(
        self,
        door: Door,
        *,
        allowed: Callable[[], None],
        known: Callable[[], tuple[int, int]],
        met: Callable[[object, object], None],
    ) -> None:
        self._door, self._schema, self._allowed = door, door.schema, allowed
        self._known, self._met = known, met

    @contextmanager
    def begin(self) -> Iterator["psycopg.Connection[Row]"]:
        """See `TaskTransactions`. A new connection, beside the links of this process."""
        self._allowed()
        with self._door.connect_here() as connection:
            [(found, _)] = connection.execute(self._schema.fill(sql.STATE)).fetchall()
            self._met("begun" if found == self._known()[0] else "went back", found)
            connection.execute(sql.DURABLE)
            yield connection

    def completion(self, receipt: Receipt) -> TaskStatement:
        return TaskStatement(sql=self._filled(sql.COMPLETE), values=receipt_texts(receipt))

    def outcome(self, receipt: Receipt, result: bytes) -> TaskStatement:
        values: dict[str, SqlValue] = {**receipt_texts(receipt), "result": result, "kept_ms": str(KEPT_MS)}
        return TaskStatement(sql=self._filled(sql.KEEP_RESULT), values=values)

    def place(self) -> TaskStatement:
        return TaskStatement(sql=sql.PLACE, values={"meta": f"{self._schema.name}.work_meta"})

    def require_here(self, rows: Sequence[Any]) -> None:
        [(meta, database)] = rows
        if meta is None:
            hint = f"The user of the connection sees no tasks in the schema {self._schema.name}. Nothing was written."
            raise InvalidInput("database of the connection", database, f"that of {self._door.name}", hint)

    def insertion(self, tasks: Sequence[NewTask]) -> Insertion:
        """See `TaskTransactions`. One round trip."""
        incarnation, lock_milliseconds = self._known()
        values = {
            "incarnation": str(incarnation),
            "lock_milliseconds": str(lock_milliseconds),
            "tasks": json.dumps(list(map(_fields, tasks))),
        }
        [(text,)] = yield TaskStatement(sql=self._filled(sql.INSERTION), values=values)
        answer = json.loads(text)
        self._met(answer["verdict"], answer["incarnation"])
        if (queue := answer["resized"]) is not None:
            check_counted(tasks, queue, answer["has"])
        if answer["answers"] is None:
            return tuple((each.id, True) for each in tasks)
        return tuple(zip(answer["answers"], answer["made"], strict=True))

    def _filled(self, statement: str) -> str:
        return self._schema.fill(statement).decode()


def _fields(new: NewTask) -> dict[str, str | int | bool | None]:
    return {
        "id": new.id,
        "queue": new.queue,
        "lane": new.lane,
        "name": new.name,
        "codec": new.codec,
        "call": b64encode(new.arguments).decode(),
        "delay": new.delay_ms,
        "due": new.due_at,
        "expiry": new.expires_at,
        "uniq": new.unique,
        "most": new.most_deaths or 0,
        "trace": new.trace,
        "key": new.key,
        "on_dead": new.on_dead,
        "partitions": new.partitions,
        "replaces": new.on_duplicate == "replace",
    }
