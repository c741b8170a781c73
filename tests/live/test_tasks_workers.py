"""Worker processes of a queue: when they die their children die, and when they are asked to leave nothing is held."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import apportion
from tests.stores.rigs import absent
from tests.stores.rigs.postgres import PostgresRig
from tests.work import functions

pytestmark = pytest.mark.live
SECONDS = 40
TTL = functions.queue._ttl_seconds
WORKER = """
import asyncio, json, sys
from tests.work.functions import queue
async def main():
    options = json.loads(sys.argv[1])
    leave_seconds = options.pop("leave_seconds", 20)
    worker = queue.worker(**options)
    worker._leave_seconds = leave_seconds
    async with worker:
        print("ready", flush=True)
        await asyncio.Event().wait()
    print("left", flush=True)
asyncio.run(main())
"""


class Bench:
    """A file with a queue, and the worker processes on it."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.file, self.workers = folder, folder / "work.db", []
        monkeypatch.setattr(functions.queue, "url", f"sqlite:///{self.file}")
        monkeypatch.setattr(functions.queue, "_opened_here", type(functions.queue._opened)(functions.queue.url))
        self._environment = os.environ | {
            "APPORTION_TEST_QUEUE": functions.queue.url,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
        }

    def enqueue(self, *calls):
        """Add tasks."""

        async def _enqueue():
            await functions.queue.enqueue_many(calls)
            await functions.queue.close()

        asyncio.run(_enqueue())

    def start(self, **options):
        """Start a worker, and wait until it is ready."""
        command = [sys.executable, "-c", WORKER, json.dumps(options)]
        worker = subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE)
        self.workers.append(worker)
        assert b"ready\n" == worker.stdout.readline()
        return worker

    def rows(self, statement):
        """Return rows of the file."""
        with closing(sqlite3.connect(self.file, timeout=10)) as connection:
            return connection.execute(statement).fetchall()

    def told(self, *names):
        """Wait until tasks have written the numbers of their processes; return them."""
        files = [self.folder / name for name in names]
        until(lambda: all(file.exists() and file.read_text() for file in files))
        return [int(file.read_text()) for file in files]

    def end(self):
        """Kill all workers."""
        for worker in self.workers:
            worker.kill()
            worker.wait()
            worker.stdout.close()


@pytest.fixture
def bench(tmp_path, monkeypatch):
    made = Bench(tmp_path, monkeypatch)
    yield made
    made.end()


def until(is_so, seconds=SECONDS):
    """Wait until a condition holds, and return the seconds that this took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds
        time.sleep(0.01)
    return time.monotonic() - began


def lives(pid):
    """Whether a process runs."""
    try:
        return "Z" != Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def parent_of(pid):
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_the_children_of_a_killed_worker_are_gone_at_once_even_if_they_never_yield(bench):
    names = ["one", "two"]
    bench.enqueue(*(functions.tell_and_hang.call(str(bench.folder / name)) for name in names))
    worker = bench.start(processes=2)
    children = bench.told(*names)
    server = parent_of(children[0])
    assert [True, True, True] == list(map(lives, [server, *children]))
    worker.kill()
    assert until(lambda: not any(map(lives, [server, *children]))) < TTL / 2


def test_the_children_of_a_killed_fork_server_are_gone_at_once_even_if_they_never_yield(bench):
    bench.enqueue(functions.tell_and_hang.call(str(bench.folder / "one")))
    bench.start(processes=1)
    children = bench.told("one")
    os.kill(parent_of(children[0]), signal.SIGKILL)
    assert until(lambda: not any(map(lives, children))) < TTL / 2
    until(lambda: [(1, "its process ended with its fork server")] == bench.rows("SELECT crashes, reason FROM task"))


def test_plain_functions_run_in_as_many_children_as_are_asked_for_and_a_killed_one_is_replaced(bench):
    bench.enqueue(*(functions.tell_and_work.call(str(bench.folder), number) for number in range(8)))
    worker = bench.start(processes=2)
    until(lambda: len(list(bench.folder.glob("*.pid"))) == 8)
    children = {file.read_text() for file in bench.folder.glob("*.pid")}
    assert (2, False) == (len(children), str(worker.pid) in children)
    bench.enqueue(functions.poison.call(), *(functions.pause.call(0.2) for _ in range(4)))
    until(lambda: [("dead",)] == bench.rows("SELECT state FROM outcome"))
    until(lambda: [] == bench.rows("SELECT id FROM task"))
    assert [(0, 2, 2, "its process ended with -9")] == bench.rows(
        "SELECT deaths, crashes, attempt, reason FROM outcome"
    )
    assert worker.poll() is None


def test_a_worker_that_is_asked_to_leave_exits_and_holds_no_task_though_a_thread_goes_on(bench):
    bench.enqueue(functions.tell_and_wait.call(str(bench.folder / "one")), functions.process.call())
    worker = bench.start(concurrency=1, leave_seconds=0.3)
    assert [worker.pid] == bench.told("one")
    worker.send_signal(signal.SIGTERM)
    assert (b"left\n", 0) == (worker.stdout.readline(), worker.wait(TTL * 5))
    assert 2 * [(None, 0, 0)] == bench.rows("SELECT session, failures, deaths FROM task")
    (bench.folder / "one").unlink()
    other = bench.start()
    assert [other.pid] == bench.told("one")


def test_a_restart_of_the_database_reaches_no_handler():
    try:
        rig, seen = PostgresRig(), []
    except FileNotFoundError as error:
        absent(str(error))
    queue = apportion.Queue(rig.url("restarted"), "mail", lease_ttl=timedelta(seconds=20))

    @queue.task()
    async def work(number: int) -> None:
        await asyncio.sleep(0.1)
        seen.append(number)

    async def _play():
        await queue.enqueue_many([work.call(number) for number in range(60)])
        async with queue.worker(concurrency=4):
            while len(seen) < 8:
                await asyncio.sleep(0.01)
            await rig.kill()
            await rig.start()
            while len(set(seen)) < 60:
                await asyncio.sleep(0.01)
        await queue.close()

    try:
        asyncio.run(asyncio.wait_for(_play(), SECONDS))
    finally:
        rig.stop()
    assert set(range(60)) == set(seen)
    assert max(map(seen.count, seen)) <= 2  # a crash may take back claims, and ends without an answer; these run again


@pytest.mark.crowded
def test_a_worker_that_never_rests_takes_over_the_tasks_of_a_killed_one_in_time(bench):
    bench.enqueue(functions.tell_and_wait.call(str(bench.folder / "one")))
    killed = bench.start(concurrency=1)
    assert [killed.pid] == bench.told("one")
    bench.enqueue(*(functions.pause.call(0.2) for _ in range(200)))
    bench.start(concurrency=1)
    until(lambda: bench.rows("SELECT count(*) FROM task")[0][0] < 199)
    (bench.folder / "one").unlink()
    killed.kill()
    assert until((bench.folder / "one").exists) <= TTL + 1
