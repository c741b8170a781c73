"""A crew: the members of one group, each a process, the acts upon them, and their reports and the store's."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

from apportion import sync
from apportion.errors import StoreUnavailable
from apportion.groups.settled import is_at_rest
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord
from apportion.groups.view.view import View
from apportion.runtime.clock import SystemClock
from tests.groups.group_worker import Log
from tests.stores.rigs import postgres

PATIENCE_SECONDS = 60
LOOK_SECONDS = 0.03
CLOCK = SystemClock()


class Crew:
    """Members of one group on one store. `options` are those of all members, see `group_worker`."""

    def __init__(self, url, target, errors, *, partitions, **options):
        self.partitions = partitions
        self.view = View(GroupKeys(group="work"), GroupRecord(partitions=partitions))
        self.lines, self.processes = [], {}
        self._said = {"url": url, "log": target, "partitions": partitions, "settle": 0.2} | options
        self._errors = errors
        self._log, self._last = Log(target), 0
        self._log.make()
        self._stack = ExitStack()
        self._store = self._stack.enter_context(sync.open_store(url))

    def start(self, *names, environ=None, **options):
        """Start members, all at once; return when each is a member."""
        for name in names:
            self.launch(name, environ=environ, **options)
        for name in names:
            assert "ready" == self.hear(name)

    def launch(self, name, *, environ=None, module="group_worker", **options):
        """Start a process."""
        with self._errors.open("ab") as errors:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", f"tests.groups.{module}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=os.environ | (environ or {}),
                bufsize=0,  # what is heard is asked for by `select`, which sees no buffer
            )  # fmt: skip
        self.say(name, json.dumps(self._said | {"member_id": name} | options))

    def say(self, name, line):
        """Write a line to a process."""
        self.processes[name].stdin.write(f"{line}\n".encode())
        self.processes[name].stdin.flush()

    def hear(self, name):
        """Return the next line of a process."""
        stdout = self.processes[name].stdout
        if not select.select([stdout], [], [], PATIENCE_SECONDS)[0]:
            self.look()
            last = [line for line in self.lines if line["member"] == name][-5:]
            raise AssertionError(f"{name} says nothing; it owns {self.owned_by(name)}, its last lines are {last}")
        return stdout.readline().decode().strip()

    def send(self, number, *names):
        """Send a signal to processes."""
        for name in names:
            self.processes[name].send_signal(number)

    def kill(self, *names):
        """Kill processes, wait until they are gone, and return when it was done."""
        at = CLOCK.elapsed()
        self.send(signal.SIGKILL, *names)
        for name in names:
            self.gone(name)
        return at

    def pause(self, *names):
        """Stop processes, none of them with the lock of a file of SQLite in its hands: everybody would stop with it."""
        while True:
            self.send(signal.SIGSTOP, *names)
            with suppress(StoreUnavailable):
                self._store.revoke(self._store.grant(ttl_seconds=60).id)
                return
            self.send(signal.SIGCONT, *names)

    def gone(self, name):
        """Wait until a process has ended; return its status."""
        process = self.processes.pop(name)
        process.wait(PATIENCE_SECONDS)
        process.stdin.close()
        process.stdout.close()
        return process.returncode

    def stall(self, *names):
        """Let members stop in the middle of an effect; return on which partition each did."""
        for name in names:
            self.say(name, "stall")
        return {name: json.loads(self.hear(name))["partition"] for name in names}

    def go_on(self, *names):
        """Let members go on; return the outcome of the write of each."""
        self.send(signal.SIGCONT, *names)
        for name in names:
            self.say(name, "go on")
        return {name: json.loads(self.hear(name)) for name in names}

    def look(self):
        """Take the news of the store and the log."""
        with suppress(StoreUnavailable):
            self.view.load(self._store.scan(self.view.keys.live), CLOCK.elapsed())
        self.read()

    def listen(self, seconds):
        """Take the news of the log, for so long; the store is asked nothing."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(LOOK_SECONDS)
            self.read()

    def read(self):
        """Take the news of the log."""
        new, self._last = self._log.lines(after=self._last)
        self.lines += new

    def until(self, what, is_so, *given):
        """Wait until a condition holds for the given value."""
        ends = time.monotonic() + PATIENCE_SECONDS
        self.look()
        while not is_so(*given):
            assert time.monotonic() < ends, f"{what} did not come; {self.view.members.keys()}, {self.owners()}"
            time.sleep(LOOK_SECONDS)
            self.look()

    def until_settled(self, *names):
        """Wait until just these members are there (None said: all that run), and share the partitions."""
        self.until("a settled group", lambda: self.is_settled(set(names or self.processes)))

    def is_settled(self, names):
        """Whether these members are there, and every partition belongs to its intended owner."""
        return set(self.view.members) == names and is_at_rest(self.view)

    def owners(self):
        """Return the owner of each partition, its session and its epoch, as the records show them."""
        owned = {partition: each.ownership for partition, each in sorted(self.view.own.items())}
        return {partition: (each.owner, each.session, each.epoch) for partition, each in owned.items()}

    def owned_by(self, *names):
        """Return the partitions of some members, as the records say."""
        return {partition for partition, (owner, _, _) in self.owners().items() if owner in names}

    def effects(self, *, start=0):
        """Return the writes that were accepted, since a line."""
        return [line for line in self.lines[start:] if line["what"] == "effect"]

    def gained(self, *, start=0):
        """Return (partition, member, since when) for all that was gained, since a line."""
        return [
            (partition, line["member"], since)
            for line in self.lines[start:]
            if line["what"] == "gained"
            for partition, since in line["partitions"]
        ]

    def lost(self, *, start=0):
        """Return (partition, member, when) for all that was lost, since a line."""
        lost = [line for line in self.lines[start:] if line["what"] == "lost"]
        return [(partition, line["member"], line["at"]) for line in lost for partition in line["partitions"]]

    def leave(self, *names):
        """Let members leave as they should; their statuses are 0."""
        self.send(signal.SIGTERM, *names)
        assert dict.fromkeys(names, 0) == {name: self.gone(name) for name in names}

    def end(self):
        """Leave nothing behind."""
        self.kill(*self.processes)
        self._stack.close()
        self._log.drop()


def target_of(rig):
    """Return how to open a connection to the database of a rig of PostgreSQL."""
    host, port = rig.address()
    return {
        "host": host, "port": port, "user": postgres.USER, "password": postgres.SECRET, "dbname": postgres.DATABASE,
    }  # fmt: skip


def percentiles(seconds):
    """Return the middle, the 99th of a hundred and the last, in milliseconds, to be read."""
    ordered = sorted(seconds)
    at = {"p50": len(ordered) // 2, "p99": min(len(ordered) - 1, len(ordered) * 99 // 100), "max": -1}
    shown = ", ".join(f"{name} {1000 * ordered[place]:.1f} ms" for name, place in at.items())
    return f"{shown}, of {len(ordered)}"
