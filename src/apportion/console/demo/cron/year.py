"""Year: the schedules of the demonstration, and the table that their tasks write to.

Each of three zones has three weekly schedules. In each zone, a change of the clocks skips or repeats the time of one or
two of them. The table has no unique key, so that a slot with two tasks would be seen. A row is written in the
transaction that completes its task.
"""

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import apportion

NAME, LEASE = "year", timedelta(seconds=2)
URL_VARIABLE, NODE_VARIABLE = "APPORTION_DEMO_URL", "APPORTION_DEMO_NODE"
ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")
RULES = ("30 1 * * sun", "30 2 * * sun", "0 9 * * sun")
BEGIN, WEEKS = datetime(2026, 1, 1, tzinfo=UTC), 52
END = BEGIN + timedelta(weeks=WEEKS)
SCHEDULES: dict[str, tuple[str, str]] = {
    f"{zone.rpartition('/')[2]}-{rule.split()[1]}:{rule.split()[0]}": (rule, zone)
    for zone, rule in product(ZONES, RULES)
}
_TABLE = "CREATE TABLE ran (number INTEGER PRIMARY KEY, schedule TEXT, slot INTEGER, node TEXT)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
queue: apportion.Queue = apportion.Queue(os.environ.get(URL_VARIABLE, "memory://demo"), NAME, lease_ttl=LEASE)


def milliseconds(moment: datetime) -> int:
    """Return a moment in milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


@queue.task(first_delay=timedelta(milliseconds=200))
def note(schedule: str) -> None:
    """Write the slot of this task to the table."""
    task, node = apportion.current_task(), os.environ.get(NODE_VARIABLE, "")
    slot = None if task.slot is None else milliseconds(task.slot)
    with task.transaction() as connection:
        connection.execute("INSERT INTO ran (schedule, slot, node) VALUES (?, ?, ?)", (schedule, slot, node))


class YearLog:
    """The rows that tasks have written, and the clock of the file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def make(self) -> None:
        """Make the table."""
        self.rows(_TABLE)

    def step_to(self, moment: datetime) -> None:
        """Let the clock of the file show a moment."""
        off_ms = milliseconds(moment) - milliseconds(datetime.now(UTC))
        self.rows("UPDATE work_meta SET offset_ms = ?", off_ms)

    def ran(self) -> list[tuple[int, str, int]]:
        """Return the number, the schedule and the slot of each run, in order."""
        return [
            (number, name, slot)
            for number, name, slot in self.rows("SELECT number, schedule, slot FROM ran ORDER BY 1")
        ]

    def by_node(self) -> dict[str, int]:
        """Return the number of runs on each node."""
        return dict(self.rows("SELECT node, count(*) FROM ran GROUP BY node"))

    def left(self, until: datetime) -> int:
        """Return the number of schedules with a slot to fire up to a moment, plus the number of open tasks."""
        due = "SELECT count(*) FROM schedule WHERE next_slot <= ?"
        return sum(int(self.rows(each, *values)[0][0]) for each, values in ((due, [milliseconds(until)]), (_OPEN, [])))

    def schedules(self) -> int:
        """Return the number of schedules."""
        return int(self.rows("SELECT count(*) FROM schedule")[0][0])

    def remove(self, number: int) -> None:
        """Remove a run, as if its slot had not fired."""
        self.rows("DELETE FROM ran WHERE number = ?", number)

    def repeat(self, number: int, *, after: int) -> None:
        """Write a run again, under the number `after`, as if its slot had fired twice."""
        self.rows("INSERT INTO ran SELECT ?, schedule, slot, node FROM ran WHERE number = ?", after, number)

    def is_locked(self) -> bool:
        """Whether a process holds the lock of the file."""
        with closing(sqlite3.connect(self._file, timeout=0.2, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Carry out a statement."""
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            return connection.execute(statement, values).fetchall()


_OPEN = "SELECT count(*) FROM task"
