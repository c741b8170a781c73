"""A fleet of worker processes on one store, the acts upon them, and the tasks that they are fed."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time

import apportion
from apportion.errors import ApportionError
from tests.live.task_verdict import open_at, read, tried
from tests.work.killed_tasks import DEATHS, LOG, OPTIONS, TTL, URL

CONCURRENCY = 4
LONGEST_RUN_SECONDS = 0.8
_MOST_OPEN, _FED_AT_ONCE = 150, 50
LOOK_SECONDS = 0.2
_BUSY_SECONDS = 3.0
_AWAKE_SECONDS = 15.0  # a woken worker is left alone for so long, or until it has tried to settle


class Fleet:
    """Worker processes, by their numbers. `kills` are processes with times, `stops` also the time of the wake."""

    def __init__(self, url, log, errors, *, deaths=0):
        self.url, self.log, self.errors, self.draw = url, log, errors, random.Random(7)
        self.workers, self.kills, self.stops = [], [], []
        command = [sys.executable, "-m", "tests.work.task_worker", str(CONCURRENCY)]
        place = os.environ | {URL: url, LOG: str(log), DEATHS: str(deaths)}
        with errors.open("ab") as file:
            self._source = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, env=place
            )

    async def start(self, count=1):
        """Start workers, all at once; they are of the fleet once they are ready."""
        self._source.stdin.write(b"start\n" * count)
        self._source.stdin.flush()
        for _ in range(count):
            word, _, pid = (await asyncio.to_thread(self._source.stdout.readline)).decode().partition(" ")
            assert "ready" == word, f"{word!r}, end {self._source.poll()}: {self.errors.read_text()[-3_000:]}"
            self.workers.append(int(pid))

    async def kill(self, count=1):
        """Kill workers at one moment, those that run a task first, and start as many others."""
        ends = time.monotonic() + _BUSY_SECONDS
        while not (busy := self._busy()) and time.monotonic() < ends:
            await asyncio.sleep(LOOK_SECONDS)
        self.draw.shuffle(self.workers)
        self.workers.sort(key=lambda each: each not in busy)
        victims, self.workers = self.workers[:count], self.workers[count:]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
            self.kills.append((victim, time.monotonic()))
        await self.start(count)

    async def stop(self):
        """Stop a worker and its children, as a machine sleeps, for longer than its lease; then leave them alone."""
        victim, stopped = await self._stopped()
        await asyncio.sleep(TTL.total_seconds() + 0.5)
        stop = (victim, stopped, time.monotonic())
        os.killpg(victim, signal.SIGCONT)
        while not tried(read(self.log), *stop) and time.monotonic() < stop[-1] + _AWAKE_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
        self.stops.append(stop)
        self.workers.append(victim)

    async def _stopped(self):
        """Stop a worker while it runs a task itself; one whose task has just ended goes on, and another is taken.

        A woken worker ends its children, which then try nothing: a run in a child does not count.
        """
        while True:
            while not (busy := self._busy()):
                await asyncio.sleep(LOOK_SECONDS)
            victim = self.draw.choice(busy)
            self.workers.remove(victim)
            os.killpg(victim, signal.SIGSTOP)
            stopped = time.monotonic()
            if open_at([line for line in read(self.log) if not line.is_in_child], victim, stopped):
                return victim, stopped
            os.killpg(victim, signal.SIGCONT)
            self.workers.append(victim)
            await asyncio.sleep(LOOK_SECONDS)

    def end(self):
        """End all workers, also those that are stopped."""
        self._source.kill()
        self._source.wait()
        self._source.stdin.close()
        self._source.stdout.close()

    def _busy(self):
        """Return the workers that run a task."""
        lines = read(self.log)
        return [each for each in self.workers if open_at(lines, each, time.monotonic())]


class Feeder:
    """Enqueues tasks as long as it is wanted, so that workers always have some; `acknowledged` are their numbers."""

    def __init__(self, url, log, *, deaths=None, longest_seconds=LONGEST_RUN_SECONDS):
        self.log, self._longest_seconds = log, longest_seconds
        log.touch()
        self.queue = apportion.Queue(url, "kills", lease_ttl=TTL)

        @self.queue.task(name="effect", deaths=deaths, **OPTIONS)
        def effect(number: int, seconds: float) -> None:
            """See `killed_tasks`, where it is run."""

        self._effect = effect
        self.acknowledged, self.unsure, self._next = set(), set(), 0

    async def feed(self):
        """Enqueue until cancelled."""
        while True:
            done = sum(line.word == "done" for line in read(self.log))
            if len(self.acknowledged) - done < _MOST_OPEN:
                await self.add(_FED_AT_ONCE)
            await asyncio.sleep(LOOK_SECONDS)

    async def add(self, count):
        """Enqueue tasks with new numbers; those that were not acknowledged may have been added."""
        numbers = range(self._next, self._next + count)
        self._next += count
        try:
            await self.queue.enqueue_many([self._effect.call(number, self._longest_seconds) for number in numbers])
        except ApportionError:
            self.unsure.update(numbers)
        else:
            self.acknowledged.update(numbers)
