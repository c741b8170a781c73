"""Traces of a demonstration of tasks: the log of all its processes, the stop of one run, and the lock of the file.

A line of the log is a JSON object: `word`, `at` (elapsed seconds of this machine), and more. Every process appends.
"""

import json
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from apportion.runtime.clock import SystemClock

URL_VARIABLE, LOG_VARIABLE, WORKER_VARIABLE = "APPORTION_DEMO_URL", "APPORTION_DEMO_LOG", "APPORTION_DEMO_WORKER"
_LOCK_SECONDS = 0.2


def elapsed() -> float:
    """Return the elapsed seconds of this machine, which all its processes share."""
    return SystemClock().elapsed()


def log(word: str, more: dict[str, Any]) -> None:
    """Append a line to the log in one write, because other processes append too. `at` is now, unless it is given."""
    line = json.dumps({"word": word, "at": elapsed()} | more) + "\n"
    target = os.open(os.environ[LOG_VARIABLE], os.O_APPEND | os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(target, line.encode())
    finally:
        os.close(target)


def read(log: Path) -> list[dict[str, Any]]:
    """Return the lines of a log."""
    return [json.loads(line) for line in log.read_text().splitlines()]


class Stall:
    """A stop of one run before its transaction, as the script asks for it."""

    def __init__(self) -> None:
        self.is_asked: bool = False
        self.goes_on: threading.Event = threading.Event()

    def wait(self, file: str) -> None:
        """Say that this run has stopped, and wait, if that is asked for."""
        if self.is_asked:
            self.is_asked = False
            print(f"stalled {file}", flush=True)
            self.goes_on.wait()


STALL = Stall()


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock of a file of SQLite."""
    with closing(sqlite3.connect(file, timeout=_LOCK_SECONDS, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False
