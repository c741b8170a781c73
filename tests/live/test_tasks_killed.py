"""Tasks while their workers are killed, stopped past their lease and woken: none is lost, none is completed twice."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import pytest

from tests.work.task_worker import TTL, made

TASKS, WORKERS = 1_000, 4
KILLS, STOPS = (200, 100) if os.environ.get("APPORTION_GROUP_RUNS") == "500" else (20, 10)
PATIENCE_SECONDS = 60


class Fleet:
    """Worker processes on one file."""

    def __init__(self, url, log):
        self.url, self.log, self.draw = url, log, random.Random(7)
        self.processes = []

    def start(self):
        """Start a worker; it is one of the fleet once it is ready."""
        command = [sys.executable, "-m", "tests.work.task_worker", self.url, str(self.log), "4"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert b"ready\n" == process.stdout.readline()
        self.processes.append(process)

    def kill(self):
        """Kill a worker, and start another."""
        victim = self.processes.pop(self.draw.randrange(len(self.processes)))
        victim.kill()
        victim.wait()
        self.start()

    def stop(self, seconds):
        """Stop a worker for longer than its lease, then let it go on."""
        victim = self.draw.choice(self.processes)
        victim.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        victim.send_signal(signal.SIGCONT)

    def end(self):
        """End all workers."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def effects(path):
    """Return how often each number has taken effect."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        return Counter(number for (number,) in connection.execute("SELECT number FROM effect"))


def words(log):
    """Return how often each word stands in the log."""
    return Counter(line.split()[0] for line in log.read_text().splitlines())


@pytest.mark.live
@pytest.mark.timeout(600)
def test_no_task_is_lost_or_completed_twice_while_workers_are_killed_and_stopped(tmp_path):
    path, log = tmp_path / "work.db", tmp_path / "log"
    url = f"sqlite:///{path}"
    queue, effect = made(url, os.open(log, os.O_APPEND | os.O_WRONLY | os.O_CREAT))
    rounds = KILLS + STOPS
    count = TASKS * rounds // 30

    async def _enqueue():
        await queue.enqueue_many([effect.call(number, 0.8) for number in range(count)])
        await queue.close()

    asyncio.run(_enqueue())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE effect (number INTEGER, attempt INTEGER)")
    fleet = Fleet(url, log)
    try:
        for _ in range(WORKERS):
            fleet.start()
        for number in range(rounds):
            if number % 3 == 2:
                fleet.stop(TTL.total_seconds() + 0.5)
            else:
                fleet.kill()
                time.sleep(0.1)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(effects(path)) < count and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(0.5)
    finally:
        fleet.end()
    found = effects(path)
    said = words(log)
    broken_off = said["begun"] - said["done"] - said["refused"]
    print(f"{count} tasks, {said}, {broken_off} runs broken off by {KILLS} kills; {STOPS} stops")
    assert [] == [number for number in range(count) if found[number] != 1]
    assert broken_off >= 0.6 * KILLS  # the kills did hit open claims
    assert said["refused"] >= 0.5 * STOPS  # the woken did try to complete their tasks
