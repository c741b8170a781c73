"""Task damage: rows of tasks that no release writes, after an error of the disk or a change by hand.

Promises: one damaged row costs itself alone. A damaged open task becomes a dead one, with its call, and an operator may
redrive it. A queue with damaged limits is paused. Sessions that a damaged row lists as deaths are forgotten.
Refuses: to look for damage while all goes well. A call that cannot read a row looks, and is made again.
"""

import logging

from apportion.runtime.report import report

logger: logging.Logger = logging.getLogger("apportion.work")
UNREADABLE = (ArithmeticError, AttributeError, TypeError, ValueError)  # errors of a call that met a damaged row
MOST_NUMBER = 1 << 53
REASON = "its row in the store was damaged"
COUNTS = ("attempt", "failures", "deaths", "crashes", "enqueued", "ready_at")
_AFTER_DAMAGE = 1 << 40  # an attempt that no claim of the task has had, and that has room to grow

# The columns of an outcome, in this order, and their values from a damaged task.
COLUMNS = (
    "state, at, id, queue, lane, name, codec, arguments, attempt, failures, crashes, deaths_of, most_deaths,"
    " cancelling, replaced, progress, note, reason, trace, enqueued, ready_at, deaths"
)


def salvaged(now: str, is_attempt_sound: str, *, text: str = "{}", data: str = "{}") -> str:
    """Return the values of `COLUMNS` in SQL. `text` and `data` make a text and bytes of a column, by its name."""
    kept = [text.format(each) for each in ("id", "queue", "name", "codec")]
    task, queue, name, codec = kept
    attempt = f"CASE WHEN {is_attempt_sound} THEN attempt ELSE {_AFTER_DAMAGE} END"
    call = f"{task}, {queue}, 2, {name}, {codec}, {data.format('arguments')}"
    return f"'dead', {now}, {call}, {attempt}, 0, 0, '', 5, 0, 0, 0.0, '', '{REASON}', '', {now}, {now}, 0"


def tell(tasks: list[str], queues: list[str]) -> bool:
    """Log the damage that was put aside; return whether there was any."""
    if tasks:
        words = "tasks: damaged rows were made dead tasks: %s; look at them, then redrive them"
        report(logger, logging.ERROR, words, ", ".join(tasks))
    if queues:
        words = "tasks: queues with damaged limits are paused: %s; set the limits, then resume them"
        report(logger, logging.ERROR, words, ", ".join(queues))
    return bool(tasks or queues)
