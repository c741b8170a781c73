"""A member of a group in a process of its own, that writes its guarded effects into a log.

`python -m tests.groups.group_worker` reads its standard input. The first line is a JSON object, see `main`. A line
`stall` stops the member in the middle of an effect, between check and write, with its event loop blocked. It reports
this, waits for another line, tries the write under its old token, and reports the result. A line `poison 17` makes the
member die of partition 17: soon, if it owns the partition, or else as soon as it has served it for a while. A line
`choke` lets a C call hold the interpreter's lock until another line comes. At the end of its input the member dies.

A line of the log is a JSON object with `what`, `member` and `at` (elapsed seconds of this machine). An `effect` or a
`fenced` write adds `partition`, `epoch`, `holder`, `began` and `wall` (by the wall clock). `gained` and `lost` add
`partitions`, `gained` with `since`. A `stop` says that this member leaves.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import suppress
from ctypes import PyDLL, create_string_buffer
from datetime import timedelta
from importlib import import_module

import apportion
from apportion.errors import ApportionError, Fenced, NotOwner
from apportion.guards import SqlGuard
from apportion.runtime.clock import SystemClock
from tests.groups import next_release

CLOCK = SystemClock()
DEADLY_SECONDS = 1.2
SECONDS = ("lease_ttl", "drain_timeout", "rejoin_grace", "progress_deadline", "settle")


class Log:
    """The log: a table beside that of the guard, in a file of SQLite (its name) or in PostgreSQL (a mapping)."""

    def __init__(self, target):
        self._is_file = isinstance(target, str)
        if self._is_file:
            self._connection = sqlite3.connect(target, timeout=60)
            self._connection.execute("PRAGMA synchronous = OFF")  # no power is cut here
        else:
            self._connection = import_module("psycopg").connect(**target)
        self._guard = SqlGuard()

    def make(self):
        """Make the tables."""
        if self._is_file:
            self._connection.execute("PRAGMA journal_mode = WAL")
        number = "INTEGER PRIMARY KEY" + ("" if self._is_file else " GENERATED ALWAYS AS IDENTITY")
        self._connection.execute(f"CREATE TABLE log (place {number}, line TEXT)")
        self._guard.create(self._connection)
        self._connection.commit()

    def drop(self):
        """Take the tables away."""
        self._connection.rollback()
        for table in ("log", "apportion_fences"):
            self._connection.execute(f"DROP TABLE {table}")
        self._connection.commit()
        self._connection.close()

    def write(self, line, token=None):
        """Write a line, under a token if one is given; `Fenced` when it is old."""
        try:
            if token is not None:
                self._guard.check(self._connection, token)
            if not self._is_file:
                self._connection.execute("LOCK TABLE log IN EXCLUSIVE MODE")  # so that places are in order of commit
            mark = "?" if self._is_file else "%s"
            self._connection.execute(f"INSERT INTO log (line) VALUES ({mark})", [json.dumps(line)])
            self._connection.commit()
        except Fenced:
            self._connection.rollback()
            raise

    def lines(self, *, after=0):
        """Return the lines after a place, in the order in which they were committed, and the last place."""
        found = self._connection.execute(
            f"SELECT place, line FROM log WHERE place > {after:d} ORDER BY place"
        ).fetchall()
        self._connection.rollback()
        return [json.loads(line) for _, line in found], max((place for place, _ in found), default=after)


class Worker:
    """Works on our partitions. `beat_seconds` 0: writes no effects."""

    def __init__(self, group, log, *, beat_seconds=0.0):
        self._group, self._log, self._beat = group, log, beat_seconds
        self._must_stall, self._poison = False, None
        self._working = {}

    async def run(self):
        """Work until this member has left."""
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._asked)
        print("ready", flush=True)
        async for change in self._group.changes():
            now = CLOCK.elapsed()
            for task in [self._working.pop(each) for each in change.lost if each in self._working]:
                task.cancel()
                await asyncio.wait([task])
            owned = self._group.owned
            gained = [(each, owned[each].since) for each in change.gained if each in owned]
            if self._beat:
                for partition in change.gained:
                    self._working[partition] = asyncio.create_task(self._work(partition))
            self._swallow(change.gained)
            # After we have asked for the next change, because lost partitions are given away then.
            loop.call_soon(self._told, gained, change.lost, now)

    def _swallow(self, partitions):
        if self._poison in partitions:
            asyncio.get_running_loop().call_later(DEADLY_SECONDS, os.kill, os.getpid(), signal.SIGKILL)

    def _told(self, gained, lost, at):
        told = {"member": self._group.member_id, "at": at}
        if lost:
            self._log.write({"what": "lost", "partitions": lost} | told)
        if gained:
            self._log.write({"what": "gained", "partitions": gained} | told)

    async def _work(self, partition):
        while True:
            with suppress(NotOwner):  # while the store is away; then our session goes on, or all is lost
                async with self._group.hold(partition):
                    self._effect(partition)
            await asyncio.sleep(self._beat * random.uniform(0.5, 1.5))

    def _effect(self, partition):
        token, began, is_stalled = self._group.token(partition), CLOCK.elapsed(), self._must_stall
        if is_stalled:
            self._must_stall = False
            print(json.dumps({"partition": partition, "epoch": token.epoch}), flush=True)
            sys.stdin.readline()
        told = {"what": "effect", "member": self._group.member_id, "at": CLOCK.elapsed(), "partition": partition}
        told |= {"epoch": (token.incarnation, token.epoch), "holder": token.holder, "began": began, "wall": time.time()}
        try:
            self._log.write(told, token)
        except Fenced:
            told["what"] = "fenced"
        if is_stalled:
            print(json.dumps({"write": told["what"], "is_owner": partition in self._group.owned}), flush=True)

    def _asked(self):
        said = sys.stdin.readline().strip()
        if not said:
            os._exit(1)
        self._must_stall = said == "stall"
        if said == "choke":
            PyDLL(None).read(sys.stdin.fileno(), create_string_buffer(64), 64)
        if said.startswith("poison "):
            self._poison = int(said.removeprefix("poison "))
            self._swallow(self._group.owned)


def told():
    """Return the options of the first line, its times as `open_group` takes them."""
    said = json.loads(sys.stdin.readline())
    return said | {name: timedelta(seconds=said[name]) for name in SECONDS if name in said}


async def main(said):
    """Take part as is said: `url`, `log`, `work` (options of `Worker`), `is_next_release` (see there).

    The rest is for `open_group`.
    """
    url, log, work = said.pop("url"), Log(said.pop("log")), said.pop("work", {})
    if said.pop("is_next_release", False):
        next_release.begin()
    try:
        async with apportion.open_group(url, "work", **said) as group:
            await Worker(group, log, **work).run()
    except ApportionError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
        raise


if __name__ == "__main__":
    asyncio.run(main(told()))
