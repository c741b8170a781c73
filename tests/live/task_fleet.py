"""A fleet of worker processes on one store, the acts upon them, and the tasks that they are fed."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time

from apportion.errors import ApportionError
from tests.live.task_verdict import open_at, read, tried
from tests.work.task_worker import TTL, made

CONCURRENCY = 4
LONGEST_RUN_SECONDS = 0.8
_MOST_OPEN, _FED_AT_ONCE = 150, 50
LOOK_SECONDS = 0.2
_AWAKE_SECONDS = 3.0  # a woken worker is left alone for so long, or until it has tried to settle


class Fleet:
    """Worker processes, by their numbers. `kills` are processes with times, `stops` also the time of the wake."""

    def __init__(self, url, log, errors):
        self.url, self.log, self.errors, self.draw = url, log, errors, random.Random(7)
        self.workers, self.kills, self.stops = [], [], []
        command = [sys.executable, "-m", "tests.work.task_worker", str(log), str(CONCURRENCY)]
        with errors.open("ab") as file:
            self._source = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)
        self._say(url)

    async def start(self, count=1):
        """Start workers, all at once; they are of the fleet once they are ready."""
        for _ in range(count):
            self._say("start")
        for _ in range(count):
            word, _, pid = (await asyncio.to_thread(self._source.stdout.readline)).decode().partition(" ")
            assert "ready" == word, self.errors.read_text()[-3_000:]
            self.workers.append(int(pid))

    async def kill(self, count=1):
        """Kill workers at one moment, and start as many others."""
        self.draw.shuffle(self.workers)
        victims, self.workers = self.workers[:count], self.workers[count:]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
            self.kills.append((victim, time.monotonic()))
        await self.start(count)

    async def stop(self):
        """Stop a worker that runs a task, for longer than its lease; let it go on, and leave it alone for a while."""
        while not (busy := self._busy()):
            await asyncio.sleep(LOOK_SECONDS)
        victim = self.draw.choice(busy)
        self.workers.remove(victim)
        os.kill(victim, signal.SIGSTOP)
        stopped = time.monotonic()
        await asyncio.sleep(TTL.total_seconds() + 0.5)
        stop = (victim, stopped, time.monotonic())
        os.kill(victim, signal.SIGCONT)
        while not tried(read(self.log), *stop) and time.monotonic() < stop[-1] + _AWAKE_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
        self.stops.append(stop)
        self.workers.append(victim)

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

    def _say(self, line):
        self._source.stdin.write(f"{line}\n".encode())
        self._source.stdin.flush()


class Feeder:
    """Enqueues tasks as long as it is wanted, so that workers always have some; `acknowledged` are their numbers."""

    def __init__(self, url, log):
        self.log = log
        self.queue, self._effect = made(url, os.open(log, os.O_APPEND | os.O_WRONLY | os.O_CREAT))
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
            await self.queue.enqueue_many([self._effect.call(number, LONGEST_RUN_SECONDS) for number in numbers])
        except ApportionError:
            self.unsure.update(numbers)
        else:
            self.acknowledged.update(numbers)
