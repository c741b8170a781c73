"""Signals to processes that run tasks: Ctrl-C ends a worker that a task keeps busy, SIGTERM ends a loop over claims."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import apportion
from tests.work.test_queue import played

pytestmark = pytest.mark.live
SECONDS = 20
BEGIN = """
import asyncio, sys
import apportion
queue = apportion.Queue(sys.argv[1], "mail")

@queue.task()
async def send(number: int) -> None:
    print("begun", number, flush=True)
    while not program.cancelling():
        pass
    print("cancelled", flush=True)
    while True:
        pass
"""
WORKER = """
async def main():
    global program
    program = asyncio.current_task()
    async with queue.worker(concurrency=1):
        await asyncio.Event().wait()
"""
RUN = WORKER + "asyncio.run(main())"
OWN_LOOP = WORKER + "asyncio.new_event_loop().run_until_complete(main())"
CLAIMS = """
async def main():
    async for task in queue.claims(concurrency=3):
        async with task:
            print("begun", task.arguments["number"], flush=True)
            while not await asyncio.to_thread(sys.stdin.readline):
                pass
    print("over", flush=True)
asyncio.run(main())
"""


@pytest.fixture
def started(tmp_path):
    """Start a program on a file with three tasks, and wait until it has begun the first."""
    processes = []

    def _started(program):
        url = f"sqlite:///{tmp_path}/work.db"
        queue = apportion.Queue(url, "mail")

        @queue.task()
        async def send(number: int) -> None: ...

        played(queue.enqueue_many([send.call(each) for each in range(3)]))
        played(queue.close())
        command = [sys.executable, "-c", BEGIN + program, url]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, env=environment, text=True, **pipes)
        processes.append(process)
        assert "begun 0\n" == process.stdout.readline()
        return process

    yield _started
    for each in processes:
        each.kill()
        each.communicate()


def rows(folder):
    """Return the sessions and failures of the tasks that are open."""
    with closing(sqlite3.connect(folder / "work.db", timeout=10)) as connection:
        return connection.execute("SELECT session, failures FROM task ORDER BY pos").fetchall()


@pytest.mark.parametrize(("program", "is_told"), [(RUN, True), (OWN_LOOP, False)], ids=["asyncio.run", "own loop"])
def test_an_interrupt_within_an_async_function_ends_the_worker_and_counts_as_no_failure(
    started, tmp_path, program, is_told
):
    process = started(program)
    process.send_signal(signal.SIGINT)
    if is_told:  # asyncio cancels the program at the first, and raises at the second
        assert "cancelled\n" == process.stdout.readline()
        process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=SECONDS)[1]
    assert [0, 0, 0] == [failures for _, failures in rows(tmp_path)]


def test_sigterm_in_a_loop_over_claims_lets_the_block_end_and_gives_the_other_tasks_back(started, tmp_path):
    process = started(CLAIMS)
    while [True, True, True] != [session is not None for session, _ in rows(tmp_path)]:
        pass
    process.send_signal(signal.SIGTERM)
    while [True, False, False] != [session is not None for session, _ in rows(tmp_path)]:
        assert process.poll() is None
    told, errors = process.communicate("end\n", timeout=SECONDS)
    assert ("over\n", "", 0) == (told, errors, process.returncode)
    assert [(None, 0), (None, 0)] == rows(tmp_path)
