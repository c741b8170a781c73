"""Library: the work of the demonstration, which counts the functions in Python's own library, a file per task.

One transaction holds the count of a file and the completion of its task. The table of counts has no unique key, so
that a second completion would be seen. Every process appends lines to one log. A line is a JSON object: `word`, `at`
(elapsed seconds of this machine), and the `worker`, `pid`, `file` and `attempt` of a run. The words of a run are
`begun`, `counted`, `failed` and `refused`. The words of the script are `started` and `killed`.
One file kills the process that parses it, and one fails twice. Each run takes a moment longer than it needs, so that
the script can disturb the work.
"""

import ast
import asyncio
import os
import signal
import sqlite3
import sysconfig
import time
from collections.abc import Iterable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import apportion
from apportion.console.demo.traces import STALL, URL_VARIABLE, WORKER_VARIABLE, log
from apportion.errors import ClaimLost, LeaseLost

LEASE = timedelta(seconds=2)
NAME = "library"
KILLS, FAILS = "kills.py", "fails.py"
_FAILURES = 2
_PAUSE_SECONDS = 0.05
_LEFT_OUT = {"site-packages", "test", "tests", "idle_test"}
_TABLE = "CREATE TABLE counted (file TEXT NOT NULL, functions INTEGER NOT NULL, worker TEXT NOT NULL)"
queue: apportion.Queue = apportion.Queue(os.environ.get(URL_VARIABLE, "memory://demo"), NAME, lease_ttl=LEASE)


def root() -> Path:
    """Return the folder of Python's own library."""
    return Path(sysconfig.get_path("stdlib"))


def files() -> list[str]:
    """Return the files of Python's own library, without its tests and the packages that were installed into it."""
    found = (path.relative_to(root()) for path in root().rglob("*.py"))
    return sorted(str(path) for path in found if not _LEFT_OUT & set(path.parts))


@queue.task(first_delay=timedelta(milliseconds=200))
def count(file: str) -> None:
    """Count the functions in a file, and write the count in the transaction that completes the task."""
    task, worker = apportion.current_task(), os.environ.get(WORKER_VARIABLE, "")
    run: dict[str, Any] = {"worker": worker, "pid": os.getpid(), "file": file, "attempt": task.attempt}
    log("begun", run)
    if file == KILLS:
        os.kill(os.getpid(), signal.SIGKILL)
    if file == FAILS and task.attempt <= _FAILURES:
        log("failed", run)
        raise ValueError(f"{file} fails {_FAILURES} times")
    functions = 0 if file == FAILS else functions_in(root() / file)
    time.sleep(_PAUSE_SECONDS)
    STALL.wait(file)
    try:
        with task.transaction() as connection:
            connection.execute("INSERT INTO counted VALUES (?, ?, ?)", (file, functions, worker))
    except (ClaimLost, LeaseLost):
        log("refused", run)
        raise
    log("counted", run)


def functions_in(path: Path) -> int:
    """Return the number of functions in a file of Python; 0 for a file that is wrong on purpose."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return 0
    return sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(tree))


def enqueue(url: str, names: Iterable[str], *, priority: int = 2) -> None:
    """Add a task for each file."""

    async def _enqueue() -> None:
        there = apportion.Queue(url, NAME, lease_ttl=LEASE)
        await there.enqueue_many([count.call(file).options(priority=priority) for file in names])
        await there.close()

    asyncio.run(_enqueue())


class Counts:
    """The counts and the tasks in the file of the queue."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def make(self) -> None:
        """Make the table of counts."""
        self._rows(_TABLE)

    def counted(self) -> list[str]:
        """Return the file of each count."""
        return [file for (file,) in self._rows("SELECT file FROM counted")]

    def by_worker(self) -> dict[str, int]:
        """Return the number of counts of each worker."""
        return dict(self._rows("SELECT worker, count(*) FROM counted GROUP BY worker"))

    def functions(self) -> int:
        """Return the number of functions that were counted."""
        return int(self._rows("SELECT coalesce(sum(functions), 0) FROM counted")[0][0])

    def dead(self) -> int:
        """Return the number of dead tasks."""
        return int(self._rows("SELECT count(*) FROM outcome WHERE state = 'dead'")[0][0])

    def remove(self, file: str) -> None:
        """Remove a count, as if it had been lost."""
        self._rows("DELETE FROM counted WHERE file = ?", file)

    def repeat(self, file: str) -> None:
        """Write a count again, as if its task had been completed twice."""
        self._rows("INSERT INTO counted SELECT file, functions, worker FROM counted WHERE file = ? LIMIT 1", file)

    def _rows(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            return connection.execute(statement, values).fetchall()
