"""Worker processes of a queue with keys, the acts upon them, and the tasks that they are fed."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import apportion
from apportion.groups import admin as group_admin
from apportion.runtime.clock import SystemClock
from apportion.work import admin
from tests.live.keyed_verdict import read, runs_of
from tests.work.lanes.keyed_worker import FAILING, GROUP_URL, LOG, PARTITIONS, TTL, URL

SECONDS = 60.0
KEYS = 24
_RETAKE_SECONDS = 20.0
_LOOK_SECONDS = 0.05
_WAVE, _MOST_OPEN = 3, 6
_RUN_SECONDS = 0.06


class KeyedCrew:
    """The workers by their names; `names` has those of all processes that there were."""

    def __init__(self, folder, url, group_url="", *, failing=0.1):
        self.log, self._errors, self.names = folder / "log", folder / "errors", {}
        self.log.touch()
        self._place = os.environ | {URL: url, GROUP_URL: group_url, LOG: str(self.log), FAILING: str(failing)}
        self.processes, self.expected = {}, {f"key-{number}": [] for number in range(KEYS)}
        self.url = url
        self.queue = apportion.Queue(url, "keys", lease_ttl=TTL, partitions=PARTITIONS, group_url=group_url or None)

        @self.queue.task(failures=1_000)
        def work(key: str, number: int, seconds: float) -> None:
            """See `keyed_worker`, where it is run."""

        self._work = work

    async def start(self, *names, static=False, group_url=None):
        """Start workers, all at once, and wait until they are ready; `group_url` is another way to the group."""
        place = self._place if group_url is None else self._place | {GROUP_URL: group_url}
        for name in names:
            command = [sys.executable, "-m", "tests.work.lanes.keyed_worker", name, *(["static"] if static else [])]
            with self._errors.open("ab") as errors:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=place)
            self.processes[name], self.names[process.pid] = process, name
        for name in names:
            said = await asyncio.to_thread(self.processes[name].stdout.readline)
            assert b"ready\n" == said, self._errors.read_text()[-3_000:]

    async def kill(self, name):
        """Kill a worker in the middle of a run."""
        process = self.processes.pop(name)
        while True:
            await self.until(lambda: runs_of(read(self.log), process.pid), f"a run of {name}")
            process.send_signal(signal.SIGSTOP)  # now the log can be read without a race
            if runs_of(read(self.log), process.pid):
                break
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        self.say("killed", process.pid)
        return process.pid

    async def stop(self, name):
        """Stop a worker in the middle of a run, until another one has begun a later attempt of its task; wake it.

        A run whose outcome was settled just before, and is not in the log yet, is never retaken. Then stop it again.
        """
        pid = self.processes[name].pid
        while True:
            await self.until(lambda: runs_of(read(self.log), pid), f"a run of {name}")
            os.kill(pid, signal.SIGSTOP)
            open_now = runs_of(read(self.log), pid)
            if open_now and not self._is_locked():
                self.say("stopped", pid)
                ends = time.monotonic() + _RETAKE_SECONDS
                while time.monotonic() < ends and not any(map(self._is_retaken, open_now)):
                    await asyncio.sleep(_LOOK_SECONDS)
                os.kill(pid, signal.SIGCONT)
                self.say("woken", pid)
                if any(map(self._is_retaken, open_now)):
                    return
            else:
                os.kill(pid, signal.SIGCONT)

    async def leave(self, name):
        """Ask a worker to leave, and wait until it has ended."""
        process = self.processes.pop(name)
        process.terminate()
        assert 0 == await asyncio.to_thread(process.wait, SECONDS), self._errors.read_text()[-3_000:]

    async def feed(self):
        """Enqueue waves of tasks of all keys until cancelled, so that workers always have some."""
        while True:
            lines = read(self.log)
            if sum(line.word == "done" for line in lines) >= self.enqueued - _MOST_OPEN * KEYS:
                await self.add(_WAVE)
            await asyncio.sleep(_LOOK_SECONDS)

    async def add(self, count, seconds=_RUN_SECONDS):
        """Enqueue some tasks of each key, which run for so many seconds at most."""
        calls = []
        for key, numbers in self.expected.items():
            for number in range(len(numbers), len(numbers) + count):
                calls.append(self._work.call(key, number, seconds).options(key=key))
                numbers.append(number)
        await self.queue.enqueue_many(calls)

    @property
    def enqueued(self):
        """The number of tasks so far."""
        return sum(map(len, self.expected.values()))

    async def until(self, is_so, what, *, seconds=SECONDS):
        """Wait until a condition holds."""
        ends = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < ends, f"{what} did not come; {self._errors.read_text()[-3_000:]}"
            await asyncio.sleep(_LOOK_SECONDS)

    async def until_settled(self, members):
        """Wait until each lane has its intended owner, among so many members."""
        ends = time.monotonic() + SECONDS
        while True:
            found = await group_admin.read(self.url, "work.keys")
            if found.is_settled and len(found.view.members) == members:
                return
            assert time.monotonic() < ends, found.unsettled
            await asyncio.sleep(_LOOK_SECONDS)

    async def until_drained(self):
        """Wait until no task is open."""
        ends = time.monotonic() + SECONDS
        while True:
            (stats,) = await admin.stats(self.url)
            if not (stats.ready or stats.delayed or stats.claimed):
                assert 0 == stats.dead
                return
            assert time.monotonic() < ends, stats
            await asyncio.sleep(_LOOK_SECONDS)

    def done(self):
        """Return how many tasks are done."""
        return sum(line.word == "done" for line in read(self.log))

    def runs_after(self, at, *names):
        """Whether each of some workers has begun a run after a time."""
        begun = {self.names[line.pid] for line in read(self.log) if line.word == "begun" and line.at > at}
        return set(names) <= begun

    def say(self, word, pid):
        """Append an act to the log."""
        with self.log.open("a") as log:
            log.write(f"{word} - -1 0 {pid} {SystemClock().elapsed()}\n")

    def end(self):
        """Kill all workers."""
        for process in self.processes.values():
            process.kill()
            process.wait()
            process.stdout.close()

    def _is_locked(self):
        """Whether the stopped process holds the lock of the file, which stops all others too."""
        if not self.url.startswith("sqlite"):
            return False
        path = self.url.removeprefix("sqlite:///").partition("?")[0]
        with closing(sqlite3.connect(path, timeout=0.3, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False

    def _is_retaken(self, run):
        key, number, attempt = run
        lines = read(self.log)
        return any(
            line.word == "begun" and (line.key, line.number) == (key, number) and line.attempt > attempt
            for line in lines
        )
