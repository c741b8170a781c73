"""Marks of keys in an SQLite file: every few seconds, a handle takes wrong marks `behind` off the first tasks of keys.

Triggers keep the marks, so only damage or a change by hand makes one wrong. A claim leaves out each task with the mark.
So no task of a key would run any more while the first one has the mark.
Promises: two seeks per key, 5 000 keys of a queue at once, in rounds; nothing is written while all marks are right.
"""

# ruff: noqa: S608 - every statement is ours

import json
from collections.abc import Collection

from apportion.runtime.clock import Clock
from apportion.stores.sqlite.connection import Connection

LOOK_SECONDS = 5.0
MOST_KEYS = 5_000
_NEXT_KEY = "SELECT min(key) FROM task WHERE queue = ?1 AND key > {after}"
FIRST = (
    f"WITH RECURSIVE keys(key) AS ({_NEXT_KEY.format(after='?2')}"
    f" UNION ALL SELECT ({_NEXT_KEY.format(after='keys.key')}) FROM keys WHERE keys.key IS NOT NULL LIMIT ?3)"
    " SELECT keys.key, task.pos, task.behind IS NOT 0 FROM keys CROSS JOIN task"
    " WHERE task.pos = (SELECT min(t.pos) FROM task AS t WHERE t.queue = ?1 AND t.key = keys.key)"
)
_IS_FIRST = "NOT EXISTS (SELECT 1 FROM task AS t WHERE t.queue = task.queue AND t.key = task.key AND t.pos < task.pos)"
FREE = f"UPDATE task SET behind = 0 WHERE pos IN (SELECT value FROM json_each(?)) AND {_IS_FIRST}"


class Marks:
    """The looks of one handle at the marks of keys."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._due_at = clock, float("-inf")
        self._after: dict[str, str] = {}

    def is_due(self) -> bool:
        """Whether it is time for a look."""
        return self._clock.elapsed() >= self._due_at

    def wrong(self, connection: Connection, queues: Collection[str]) -> list[int]:
        """Return the positions of first tasks with the mark, among the next keys. After the last key, begin anew."""
        self._due_at = self._clock.elapsed() + LOOK_SECONDS
        return [position for queue in queues for position in self._wrong_in(connection, queue)]

    def _wrong_in(self, connection: Connection, queue: str) -> list[int]:
        found = connection.execute(FIRST, (queue, self._after.get(queue, ""), MOST_KEYS)).fetchall()
        self._after[queue] = found[-1][0] if len(found) == MOST_KEYS else ""
        return [position for _, position, is_wrong in found if is_wrong]


def free(connection: Connection, positions: list[int]) -> None:
    """Take the marks off the tasks at these positions that are still the first of their keys."""
    connection.execute(FREE, (json.dumps(positions),))
