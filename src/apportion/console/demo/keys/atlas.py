"""Atlas: the work of the demonstration of keys, which visits places of the world, a task per place, a key per country.

A visit is a row in the transaction that completes its task. The table has no unique key, so that a second completion
would be seen. In the log, the words of a run are `begun`, `visited`, `refused` and `failed`. The words of the script
are `started`, `killed`, `stopped` and `settled`. A line of a run has the `country`, the `number` of the place in its
country, the `worker`, the `pid` and the `attempt`.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import apportion
from apportion.console.demo.traces import STALL, URL_VARIABLE, WORKER_VARIABLE, elapsed, log
from apportion.console.tour.places import places
from apportion.errors import ClaimLost, LeaseLost

LEASE = timedelta(seconds=2)
NAME, PARTITIONS = "atlas", 32
ROUNDS = 6  # places of a country, at most
_PAUSE_SECONDS = 0.02
_TABLE = "CREATE TABLE visit (country TEXT NOT NULL, number INTEGER NOT NULL, worker TEXT NOT NULL)"


def queue_at(url: str) -> apportion.Queue:
    """Return the queue of the visits in a store."""
    return apportion.Queue(url, NAME, lease_ttl=LEASE, partitions=PARTITIONS)


queue: apportion.Queue = queue_at(os.environ.get(URL_VARIABLE, "memory://demo"))


def itinerary() -> dict[str, list[str]]:
    """Return the places to visit of each country, in order."""
    found: dict[str, list[str]] = {}
    for place in places():
        country, name, *_ = place.decode().split("/")
        there = found.setdefault(country, [])
        if len(there) < ROUNDS:
            there.append(name)
    return found


@queue.task(first_delay=timedelta(milliseconds=200))
def visit(country: str, number: int, place: str) -> None:
    """Visit a place, and write the visit in the transaction that completes the task."""
    task, worker = apportion.current_task(), os.environ.get(WORKER_VARIABLE, "")
    run: dict[str, Any] = {"worker": worker, "pid": os.getpid(), "country": country, "number": number}
    run["attempt"] = task.attempt
    log("begun", run)
    time.sleep(_PAUSE_SECONDS)
    STALL.wait(f"{country}/{number}/{place}")
    word, end = "failed", {}  # any other error is a failure, such as a file that stays locked for seconds
    try:
        with task.transaction() as connection:
            connection.execute("INSERT INTO visit VALUES (?, ?, ?)", (country, number, worker))
            end = {"at": elapsed()}  # after the commit, the next run may begin before this thread writes a line
        word = "visited"
    except (ClaimLost, LeaseLost):
        word = "refused"
        raise
    finally:
        log(word, run | (end if word == "visited" else {}))


def enqueue(url: str, rounds: Iterable[int]) -> None:
    """Add a task per round and country. The number of the round is the number of the place."""

    async def _enqueue() -> None:
        there = queue_at(url)
        calls = [
            visit.call(country, number, names[number]).options(key=country)
            for number in rounds
            for country, names in itinerary().items()
            if number < len(names)
        ]
        await there.enqueue_many(calls)
        await there.close()

    asyncio.run(_enqueue())


class Visits:
    """The visits in the file of the queue."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def make(self) -> None:
        """Make the table of visits."""
        self._rows(_TABLE)

    def made(self) -> list[tuple[str, int]]:
        """Return each visit: the country, and the number of the place, in the order of their commits."""
        return [(country, number) for country, number in self._rows("SELECT country, number FROM visit ORDER BY rowid")]

    def by_worker(self) -> dict[str, int]:
        """Return the number of visits of each worker."""
        return dict(self._rows("SELECT worker, count(*) FROM visit GROUP BY worker"))

    def remove(self, country: str, number: int) -> None:
        """Remove a visit, as if it had been lost."""
        self._rows("DELETE FROM visit WHERE country = ? AND number = ?", country, number)

    def exchange(self, country: str) -> None:
        """Exchange the numbers of the first two visits of a country, as if they had come in the other order."""
        self._rows("UPDATE visit SET number = 1 - number WHERE country = ? AND number IN (0, 1)", country)

    def _rows(self, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            return connection.execute(statement, values).fetchall()
