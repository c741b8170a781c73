"""Plain tasks: new tasks without a unique name or a key, which are added without a look at other tasks.

Promises: all are added, or none, in their order. Many tasks that differ in nothing but their arguments are one
statement, which takes a third of the time of as many statements.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from apportion.stores.sqlite.connection import Connection, value_of
from apportion.stores.task_values import NewTask

_NEW = (
    "INSERT OR FAIL INTO task (queue, lane, name, codec, due, expires, most_deaths, trace, schedule, slot, enqueued,"
    " ready_at, id, arguments) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
)
_UNKNOWN = "NOT EXISTS (SELECT 1 FROM outcome WHERE id = {id}) ON CONFLICT DO NOTHING"
ADD = f"{_NEW} ?13, ?14 WHERE {_UNKNOWN.format(id='?13')}"
# The same for a JSON object of ids and arguments, in its order.
ADD_ALIKE = f"{_NEW} new.key, CAST(new.value AS BLOB) FROM json_each(?13) AS new WHERE {_UNKNOWN.format(id='new.key')}"
LAST, TAKE_BACK = "SELECT max(pos) FROM task", "DELETE FROM task WHERE pos > ?"
_ALIKE = attrgetter(
    "queue", "lane", "name", "codec", "delay_ms", "due_at", "expires_at", "most_deaths", "trace", "schedule", "slot"
)
_AT_ONCE, _MOST_BYTES = 1_000, 4 * 2**20  # the most tasks and bytes of one statement
_NUL = json.dumps("\0").strip('"')


def are_added(connection: Connection, tasks: Sequence[NewTask], now: int) -> bool:
    """Add tasks, all or none: none if one of them is known already."""
    if len(tasks) == 1:
        return _added(connection, tasks, now) == 1
    last = value_of(connection, LAST) or 0
    groups = (list(alike) for _, alike in groupby(tasks, _ALIKE))
    parts = (alike[begin : begin + _AT_ONCE] for alike in groups for begin in range(0, len(alike), _AT_ONCE))
    if sum(_added(connection, part, now) for part in parts) == len(tasks):
        return True
    connection.execute(TAKE_BACK, (last,))  # a savepoint would save each page beforehand
    return False


def _added(connection: Connection, alike: Sequence[NewTask], now: int) -> int:
    """Add tasks that differ in their ids and arguments; return how many of them are new."""
    new = alike[0]
    due = now + new.delay_ms if new.due_at is None else new.due_at
    place = (new.queue, new.lane, new.name, new.codec, due if due > now else None, new.expires_at, new.most_deaths)
    values = (*place, new.trace, new.schedule, new.slot, now, max(due, now))
    texts = _arguments_by_id(alike) if len(alike) > 1 else None
    if texts is not None:
        return connection.execute(ADD_ALIKE, (*values, texts)).rowcount
    return sum(connection.execute(ADD, (*values, each.id, each.arguments)).rowcount for each in alike)


def _arguments_by_id(tasks: Sequence[NewTask]) -> str | None:
    """Return the arguments of tasks as a JSON object; None if SQLite would not give the same bytes back.

    SQLite ends a string at a NUL. The result is also None if the arguments are too many bytes for one statement.
    """
    if sum(len(each.arguments) for each in tasks) > _MOST_BYTES:
        return None
    try:
        text = json.dumps({each.id: each.arguments.decode() for each in tasks})
    except UnicodeDecodeError:
        return None
    return None if _NUL in text else text
