"""Work of the demonstration: to count the places of the world by country, partition by partition.

Each effect counts some places of one partition. One transaction holds the guard, the counts, the progress and a line
in the log of effects. So each place is counted exactly once, no matter by which worker. A reader of the log need not
trust any worker.

A line of the log is a JSON object: `pid`, `member`, `partition`, `token` (incarnation and epoch), `holder`, `began`
and `ended` (elapsed seconds of this machine). It also holds the counted `places` of the partition, from place `start`
on. A refused write is a line with `refused`. A change of the members is a line with `step` and all `members`.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from apportion.console.tour.places import places
from apportion.guards import SqlGuard
from apportion.model.epoch import FencingToken
from apportion.placement import hashers

PARTITIONS = 64
GROUP = "places"
_TABLES = """
CREATE TABLE IF NOT EXISTS progress (partition INTEGER PRIMARY KEY, done INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS countries (country TEXT PRIMARY KEY, places INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, line TEXT NOT NULL);
"""


def partitioned() -> list[list[str]]:
    """Return a list for each partition: the countries of its places, in the order of the places."""
    digest = hashers.get("xxh3-64")
    parts: list[list[str]] = [[] for _ in range(PARTITIONS)]
    for line in places():
        parts[digest(line) % PARTITIONS].append(line.partition(b"/")[0].decode())
    return parts


class WorkLedger:
    """The database of the work."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, timeout=30, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._guard = SqlGuard()

    def make(self) -> None:
        """Make the tables."""
        self._connection.executescript(_TABLES)
        self._connection.execute("BEGIN IMMEDIATE")
        self._guard.create(self._connection)
        self._connection.execute("COMMIT")

    def count(self, token: FencingToken, partition: int, countries: Sequence[str], batch: int) -> tuple[int, int]:
        """Count the next places of a partition; return the first place and the number.

        It raises `Fenced` if the token is old.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        with ExitStack() as undo:
            undo.callback(self._connection.execute, "ROLLBACK")
            self._guard.check(self._connection, token)
            row = self._connection.execute("SELECT done FROM progress WHERE partition = ?", (partition,)).fetchone()
            start = row[0] if row else 0
            some = Counter(countries[start : start + batch])
            done = start + some.total()
            self._connection.execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", (partition, done))
            add = "INSERT INTO countries VALUES (?, ?) ON CONFLICT DO UPDATE SET places = places + excluded.places"
            self._connection.executemany(add, some.items())
            undo.pop_all()
        return start, some.total()

    def log(self, line: dict[str, object]) -> None:
        """Write a line of the log, and commit the open transaction with it."""
        self._connection.execute("INSERT INTO log (line) VALUES (?)", (json.dumps(line),))
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def done(self) -> int:
        """Return the number of counted places."""
        return int(self._connection.execute("SELECT coalesce(sum(done), 0) FROM progress").fetchone()[0])

    def lines(self) -> list[dict[str, object]]:
        """Return the log."""
        return [json.loads(line) for (line,) in self._connection.execute("SELECT line FROM log ORDER BY number")]

    def countries(self) -> Counter[str]:
        """Return the number of counted places per country."""
        return Counter(dict(self._connection.execute("SELECT country, places FROM countries")))
