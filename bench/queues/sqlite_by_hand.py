"""A queue in an SQLite file by hand: claims and completions of 100, and inserts, all flushed (`synchronous=FULL`)."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from bench.queues import AT_ONCE

BATCH, SESSION, WAIT_SECONDS = 100, 7, 60.0
TABLE = """
PRAGMA journal_mode=WAL;
CREATE TABLE by_hand (
    pos INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, queue TEXT NOT NULL, lane INTEGER NOT NULL, name TEXT NOT NULL,
    arguments BLOB NOT NULL, due INTEGER, attempt INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
    session INTEGER, enqueued REAL NOT NULL DEFAULT (julianday('now'))
);
CREATE INDEX ready ON by_hand (queue, lane, pos) WHERE session IS NULL AND due IS NULL;
CREATE INDEX due ON by_hand (queue, due, pos) WHERE session IS NULL AND due IS NOT NULL;
CREATE INDEX open ON by_hand (session, pos) WHERE session IS NOT NULL;
"""
ADD = "INSERT INTO by_hand (id, queue, lane, name, arguments) VALUES (?, 'bench', 2, 'handle', ?)"
CLAIM = """
UPDATE by_hand SET session = ?, attempt = attempt + 1 WHERE pos IN (
    SELECT pos FROM by_hand WHERE queue = 'bench' AND lane = 2 AND session IS NULL AND due IS NULL ORDER BY pos LIMIT ?
) RETURNING id, attempt, name, arguments
"""
DONE = "DELETE FROM by_hand WHERE id = ? AND attempt = ? AND session = ?"


class SqliteByHand:
    """The loop that somebody writes who knows the database."""

    def __init__(self, file: Path, *, tasks: int) -> None:
        self.name, self.tasks = "by hand", tasks
        self.handled: list[int] = []
        self._file = file
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(TABLE)

    async def fill(self) -> None:
        with closing(connected(self._file)) as connection:
            for begin in range(0, self.tasks, AT_ONCE):
                numbers = range(begin, min(begin + AT_ONCE, self.tasks))
                add_all(connection, [json.dumps([number]).encode() for number in numbers])

    async def drain(self) -> None:
        with closing(connected(self._file)) as connection:
            while rows := _claimed(connection):
                for _, _, _, arguments in rows:
                    self.handled += json.loads(arguments)
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(DONE, [(task, attempt, SESSION) for task, attempt, _, _ in rows])
                connection.execute("COMMIT")
        with closing(connected(self._file)) as connection:
            if left := connection.execute("SELECT count(*) FROM by_hand").fetchall()[0][0]:
                raise RuntimeError(f"{left} tasks are left after a drain")


def connected(file: Path) -> sqlite3.Connection:
    """Return a connection that flushes each commit, for one thread at a time."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=WAIT_SECONDS, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def add_all(connection: sqlite3.Connection, arguments: Iterable[bytes]) -> None:
    """Add a task with each of these arguments, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(ADD, [(uuid4().hex, each) for each in arguments])
    connection.execute("COMMIT")


def _claimed(connection: sqlite3.Connection) -> list[tuple[str, int, str, bytes]]:
    connection.execute("BEGIN IMMEDIATE")
    rows = connection.execute(CLAIM, (SESSION, BATCH)).fetchall()
    connection.execute("COMMIT")
    return rows
