"""The tasks in a PostgreSQL database as statements for a transaction of the caller on the same database."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from apportion.stores.postgres.door import Door
from apportion.stores.postgres.driver import Row, psycopg
from apportion.stores.postgres.tasks import statements as sql
from apportion.stores.task_api import TaskStatement, TaskTransactions
from apportion.stores.task_values import Receipt


class PostgresTransactions(TaskTransactions):
    """The statements on the tasks of one schema. `read` takes the row of `STATE`, and may raise."""

    def __init__(self, door: Door, *, allowed: Callable[[], None], read: Callable[[list[Row]], int]) -> None:
        self._door, self._fill, self._allowed, self._read = door, door.schema.fill, allowed, read

    @contextmanager
    def begin(self) -> Iterator["psycopg.Connection[Row]"]:
        """See `TaskTransactions`. A new connection, beside the links of this process."""
        self._allowed()
        with self._door.connect_here() as connection:
            self._read(connection.execute(self._fill(sql.STATE)).fetchall())
            connection.execute(sql.DURABLE)
            yield connection

    def completion(self, receipt: Receipt) -> TaskStatement:
        values = {"id": receipt.task, "attempt": str(receipt.attempt), "session": str(receipt.session)}
        return TaskStatement(sql=self._fill(sql.COMPLETE).decode(), values=values)
