"""The idempotency log of tasks in PostgreSQL, within one transaction."""

from typing import Any

from apportion.stores.postgres.door import Transaction
from apportion.stores.postgres.tasks import statements as sql
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_once import once as stepped
from apportion.stores.task_rows import once_entry, once_values, receipt_values
from apportion.stores.task_values import KEPT_MS, Receipt


async def once(transaction: Transaction, step: OnceStep, now: int) -> OnceState:
    """See `TaskStore.once`. If another transaction adds the entry meanwhile, wait for its end and look again."""
    await transaction.ask(sql.FORGET_ONCE, [now - KEPT_MS])
    state = None
    while state is None:
        state = await _stepped(transaction, step, now)
    return state


async def _stepped(transaction: Transaction, step: OnceStep, now: int) -> OnceState | None:
    """Make the step; None if another transaction has added the entry meanwhile."""
    rows: list[Any] = await transaction.ask(sql.ONCE, [step.scope, step.key])
    found = once_entry(rows[0]) if rows else None
    asked = [step.receipt] if found is None else [step.receipt, found.receipt]
    opened = {each for each in asked if await _is_open(transaction, each)}
    state, entry = stepped(found, step, is_open=opened.__contains__, now=now)
    if entry is None:
        return state
    if found is None:
        return state if await transaction.ask(sql.ADD_ONCE, once_values(step, entry)) else None
    await transaction.ask(sql.CHANGE_ONCE, [*once_values(step, entry), step.scope, step.key])
    return state


async def _is_open(transaction: Transaction, receipt: Receipt) -> bool:
    return bool(await transaction.ask(sql.IS_OPEN, receipt_values(receipt)))
