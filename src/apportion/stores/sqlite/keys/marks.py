"""Marks of keys in an SQLite file: every few seconds, a handle takes wrong marks `behind` off the first tasks of keys.

Triggers keep the marks, so only damage or a change by hand makes one wrong. A claim leaves out each task with the mark.
So no task of a key would run any more while the first one has the mark.
Promises: one seek per key, 5 000 keys at once, in rounds; nothing is written while all marks are right.
"""

# ruff: noqa: S608 - every statement is ours

import json

from apportion.runtime.clock import Clock
from apportion.stores.sqlite.connection import Connection

LOOK_SECONDS = 5.0
MOST_KEYS = 5_000
_NEXT_KEY = (
    "SELECT t.pos FROM task AS t WHERE t.key IS NOT NULL AND (t.queue, t.key) > ({queue}, {key})"
    " ORDER BY t.queue, t.key, t.pos LIMIT 1"
)
_OF_LAST = "(SELECT {column} FROM task WHERE pos = first.pos)"
_NEXT = _NEXT_KEY.format(queue=_OF_LAST.format(column="queue"), key=_OF_LAST.format(column="key"))
FIRST = (
    f"WITH RECURSIVE first(pos) AS (SELECT ({_NEXT_KEY.format(queue='?1', key='?2')})"
    f" UNION ALL SELECT ({_NEXT}) FROM first WHERE first.pos IS NOT NULL LIMIT ?3)"
    " SELECT task.queue, task.key, task.pos, task.behind IS NOT 0 FROM first JOIN task ON task.pos = first.pos"
)
_IS_FIRST = "NOT EXISTS (SELECT 1 FROM task AS t WHERE t.queue = task.queue AND t.key = task.key AND t.pos < task.pos)"
FREE = f"UPDATE task SET behind = 0 WHERE pos IN (SELECT value FROM json_each(?)) AND {_IS_FIRST}"


class Marks:
    """The looks of one handle at the marks of keys."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._due_at = clock, float("-inf")
        self._after = ("", "")

    def is_due(self) -> bool:
        """Whether it is time for a look."""
        return self._clock.elapsed() >= self._due_at

    def wrong(self, connection: Connection) -> list[int]:
        """Return the positions of first tasks with the mark, among the next keys. After the last key, begin anew."""
        found = connection.execute(FIRST, (*self._after, MOST_KEYS)).fetchall()
        self._after = found[-1][:2] if len(found) == MOST_KEYS else ("", "")
        self._due_at = self._clock.elapsed() + LOOK_SECONDS
        return [position for _, _, position, is_wrong in found if is_wrong]


def free(connection: Connection, positions: list[int]) -> None:
    """Take the marks off the tasks at these positions that are still the first of their keys."""
    connection.execute(FREE, (json.dumps(positions),))
