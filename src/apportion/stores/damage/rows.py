"""Task damage: rows of tasks that no release writes, after an error of the disk or a change by hand.

Promises: a damaged row harms no other row. A damaged open task becomes a dead one, with its call, and an operator may
redrive it. A damaged outcome keeps its state, if that can be read. A queue with damaged limits is paused. Sessions that
a damaged row lists as deaths are forgotten. A lane forgets a token that cannot be read; the owner of the lane shows its
token again, and replaces a token that is too high (`MendLane`). A damaged number of partitions is forgotten; the next
program that opens the queue sets the number again. A damaged entry in the idempotency log (`task_once`) loses the value
or the claim that cannot be read: nobody knows whether its effect happened.
Refuses: to look for damage while all goes well. A call that cannot read a row looks for damage, and is then repeated.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from apportion.runtime.log_report import report
from apportion.stores.administration import Finding, judged
from apportion.stores.lanes.values import KEYED_LANES, MOST_PARTITIONS
from apportion.stores.task_values import MOST_NUMBER

Result = TypeVar("Result")
logger: logging.Logger = logging.getLogger("apportion.work")
UNREADABLE = (ArithmeticError, AttributeError, TypeError, ValueError)  # errors of a call that met a damaged row
REASON = "its row in the store was damaged"
DEAD_MODES = "on_dead IN ('skip', 'block')"
IS_OPEN = "blocking IN (0, 1)"
IS_COUNTED = f"coalesce(partitions, 1) BETWEEN 1 AND {MOST_PARTITIONS}"
IS_KEYED = f"lane BETWEEN {KEYED_LANES} AND {MOST_NUMBER}"
ENDS = ("done", "dead", "cancelled")
COUNTS = ("attempt", "failures", "deaths", "crashes", "lane", "cancelling", "replaced")
TIMES = ("enqueued", "ready_at")
OPTIONAL_TIMES = ("due", "expires", "slot", "most_deaths")
_MOST_NAMED = 4
_AFTER_DAMAGE = 1 << 40  # above the attempt of any claim, and far below `MOST_NUMBER`


def salvaged(
    now: str, is_attempt_sound: str, is_key_sound: str, *, text: str = "{}", data: str = "{}"
) -> dict[str, str]:
    """Return the SQL of each column of an outcome, for the row of a damaged task.

    `text` and `data` are templates of SQL. They make a text, or bytes, of the column with the inserted name.
    """
    texts = {each: text.format(each) for each in ("id", "queue", "name", "codec")}
    attempt = f"CASE WHEN {is_attempt_sound} THEN attempt ELSE {_AFTER_DAMAGE} END"
    zeros = dict.fromkeys(("failures", "deaths", "crashes", "cancelling", "replaced", "progress"), "0")
    empty = dict.fromkeys(("deaths_of", "note", "trace"), "''")
    times = dict.fromkeys(("at", *TIMES), now)
    key = {"key": f"CASE WHEN {is_key_sound} THEN key END", "on_dead": "'skip'"}
    key["lane"] = f"CASE WHEN {is_key_sound} THEN lane ELSE 2 END"
    rest = key | {"arguments": data.format("arguments"), "attempt": attempt, "most_deaths": "5"}
    return {"state": "'dead'", "reason": f"'{REASON}'", **texts, **zeros, **empty, **times, **rest}


def mended(now: str, is_attempt_sound: str, is_key_sound: str, *, text: str = "{}", data: str = "{}") -> str:
    """Return the assignments in SQL that make a damaged outcome readable; `text` and `data` as for `salvaged`."""
    state = f"CASE WHEN state IN ({', '.join(map(repr, ENDS))}) THEN state ELSE 'dead' END"
    nothing = dict.fromkeys(("uniq", "due", "expires", "schedule", "slot"), "NULL")
    values = salvaged(now, is_attempt_sound, is_key_sound, text=text, data=data) | nothing | {"state": state}
    return ", ".join(f"{column} = {value}" for column, value in values.items())


def unsure(now: str, is_claim_sound: str, is_time_sound: str, is_value_sound: str) -> str:
    """Return the assignments in SQL that make a damaged entry of the idempotency log readable."""
    claim = {"task": "''", "attempt": "0", "session": "0"}  # a claim of no task
    values = {each: f"CASE WHEN {is_claim_sound} THEN {each} ELSE {none} END" for each, none in claim.items()}
    values["at"] = f"CASE WHEN {is_time_sound} THEN at ELSE {now} END"
    values["value"] = f"CASE WHEN {is_value_sound} THEN value END"
    return ", ".join(f"{column} = {value}" for column, value in values.items())


async def or_put_aside(
    work: Callable[[], Awaitable[Result]], put_aside: Callable[[], Awaitable[bool]], *, of: type[Exception]
) -> Result:
    """Do some work; after an error of a damaged row, put the damage aside and do the work again.

    `of` is the error of the database's own library for a value that it cannot take or give.
    """
    try:
        return await work()
    except (*UNREADABLE, of):
        if not await put_aside():
            raise
    return await work()


def damage_found(names: Sequence[str]) -> Finding:
    """Return the finding on damaged rows, by their names."""
    more = f"; {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    advice = "A worker of the queue, or a command on the queue, puts a damaged row aside. Then see it in: tasks show"
    found = "; ".join(names[:_MOST_NAMED]) + more
    return judged("rows of tasks", found or "none is damaged", advice if names else "", verdict="error")


def tell(tasks: list[str], queues: list[str], mends: list[str]) -> bool:
    """Log the damage that was put aside; return whether there was any."""
    if tasks:
        words = "tasks: damaged rows were made dead tasks: %s; look at them, then redrive them"
        report(logger, logging.ERROR, words, ", ".join(tasks))
    if queues:
        words = "tasks: queues with damaged limits are paused: %s; set the limits, then resume them"
        report(logger, logging.ERROR, words, ", ".join(queues))
    if mends:
        words = "tasks: damage in other rows was mended: %s"
        report(logger, logging.ERROR, words, ", ".join(mends))
    return bool(tasks or queues or mends)
