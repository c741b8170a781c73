"""A transaction of the caller: tasks are enqueued or completed if and when it commits.

Refuses: a connection to another database than that of the queue, and a connection in autocommit mode.
"""

from collections.abc import Sequence
from typing import Any

from apportion.errors import ClaimLost, InvalidInput
from apportion.guards.transactions import Course, dialect_of
from apportion.stores.task_api import TaskTransactions
from apportion.stores.task_values import NewTask, Receipt


def insertion(
    connection: object, transactions: TaskTransactions, tasks: Sequence[NewTask]
) -> Course[tuple[tuple[str, bool], ...]]:
    """Return the statements that enqueue tasks, as a `Course`. Its outcome is that of `TaskStore.enqueue`."""
    yield from _require_here(connection, transactions)
    steps = transactions.insertion(tasks)
    try:
        step = next(steps)
        while True:
            step = steps.send((yield step.sql, step.values))
    except StopIteration as end:
        answers: tuple[tuple[str, bool], ...] = end.value
    return answers


def completion(
    connection: object, transactions: TaskTransactions, receipt: Receipt, result: bytes | None = None
) -> Course[None]:
    """Return the statements that complete a task, as a `Course`. `ClaimLost` if no open claim has the receipt."""
    yield from _require_here(connection, transactions)
    if result is not None:
        kept = transactions.outcome(receipt, result)
        yield kept.sql, kept.values
    statement = transactions.completion(receipt)
    if not (yield statement.sql, statement.values):
        raise ClaimLost(receipt.task, receipt.attempt)


def _require_here(connection: Any, transactions: TaskTransactions) -> Course[None]:  # noqa: ANN401 - libraries' types
    place = transactions.place()
    if (dialect := dialect_of(connection)) != transactions.dialect:
        hint = "Pass a connection to the database of the queue. Nothing was written."
        raise InvalidInput("dialect of the connection", dialect, transactions.dialect, hint)
    transactions.require_here((yield place.sql, place.values))
