"""The idempotency log of tasks in an SQLite file, in the caller's transaction."""

from apportion.stores.sqlite import task_statements as sql
from apportion.stores.sqlite.connection import Connection, value_of
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_once import once as stepped
from apportion.stores.task_rows import once_entry, once_values, receipt_values
from apportion.stores.task_values import KEPT_MS, Receipt


def once(connection: Connection, step: OnceStep, now: int) -> OnceState:
    """See `TaskStore.once`."""

    def _is_open(receipt: Receipt) -> bool:
        return value_of(connection, sql.IS_OPEN, receipt_values(receipt)) is not None

    connection.execute(sql.FORGET_ONCE, (now - KEPT_MS,))
    rows = connection.execute(sql.ONCE, (step.scope, step.key)).fetchall()
    state, entry = stepped(once_entry(rows[0]) if rows else None, step, is_open=_is_open, now=now)
    if entry is not None:
        connection.execute(sql.PUT_ONCE, once_values(step, entry))
    return state
