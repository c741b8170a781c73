"""Children: an attempt in a process of its own answers as one here does, and its death is an answer too."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from apportion.runtime.clock import SystemClock
from apportion.stores.task_values import Claim, Receipt
from apportion.work.attempts import Attempts
from apportion.work.child import place_of, run_in_child
from tests.work import functions

SECONDS = 20


def nobody():
    """Return attempts that nobody observes."""
    return Attempts(queue="functions", worker="w", clock=SystemClock())


def claim(call, *, failures=0):
    """Return a claim of a call."""
    return Claim(
        receipt=Receipt(task="t", attempt=1, session=7),
        queue="q",
        lane=2,
        name=call.name,
        codec="json",
        arguments=call.arguments,
        failures=failures,
        deaths=1,
        crashes=0,
        enqueued=0,
        trace="",
    )


def ran(function, *args, failures=0):
    """Run a call in a child; return its settlement."""
    job = claim(function.call(*args), failures=failures)
    run = run_in_child("memory://x", place_of(function), job, 1, 5.0, attempts=nobody())
    return asyncio.run(asyncio.wait_for(run, SECONDS))


def test_a_child_runs_plain_and_async_functions_elsewhere():
    assert ("done", b"8") == ((settled := ran(functions.awaited, 7)).fate, settled.result)
    assert str(os.getpid()).encode() != ran(functions.process).result


def test_a_failure_in_a_child_is_told_as_one_here():
    assert ("retry", "ValueError: no") == ((settled := ran(functions.fail)).fate, settled.reason)
    assert "dead" == ran(functions.fail, failures=1).fate


def test_a_child_that_dies_has_crashed():
    assert ("crashed", "its process ended with -9") == ((settled := ran(functions.poison)).fate, settled.reason)


def test_a_plain_function_that_takes_too_long_is_stopped(tmp_path):
    began = time.monotonic()
    assert ("dead", "TimeoutError: ") == (
        (settled := ran(functions.slow, str(tmp_path / "there"))).fate,
        settled.reason,
    )
    assert time.monotonic() - began < 2.9
    assert not (tmp_path / "there").exists()


def test_a_cancelled_run_kills_its_child(tmp_path):
    async def _run():
        call = functions.slow.call(str(tmp_path / "there"))
        child = run_in_child("memory://x", place_of(functions.slow), claim(call), 1, 5.0, attempts=nobody())
        run = asyncio.ensure_future(child)
        await asyncio.sleep(0.3)
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run
        children = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], check=False, stdout=-1, text=True)
        assert "apportion.work.child" not in children.stdout

    asyncio.run(asyncio.wait_for(_run(), SECONDS))


def test_a_function_that_no_other_process_finds_runs_here():
    @functions.queue.task(name="inner")
    def inner() -> None: ...

    assert place_of(inner) is None
    assert ("tests.work.functions", "process") == place_of(functions.process)


WORKER = """
import asyncio
from tests.work.functions import queue
async def main():
    async with queue.worker(concurrency=2):
        print("ready", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.live
def test_a_poisonous_task_costs_one_worker_and_two_children(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/work.db"
    monkeypatch.setattr(functions.queue, "url", url)
    environment = os.environ | {"APPORTION_TEST_QUEUE": url, "PYTHONPATH": os.pathsep.join(sys.path)}

    def _start():
        process = subprocess.Popen([sys.executable, "-c", WORKER], env=environment, stdout=subprocess.PIPE)
        assert b"ready\n" == process.stdout.readline()
        return process

    enqueue = "import asyncio, tests.work.functions as f; asyncio.run(f.queue.enqueue(f.poison.call()))"
    subprocess.run([sys.executable, "-c", enqueue], env=environment, check=True)
    worker, deaths, deadline = _start(), 0, time.monotonic() + 40
    try:
        while _states(tmp_path) != ["dead"] and time.monotonic() < deadline:
            if worker.poll() is not None:
                deaths, worker = deaths + 1, _start()
            time.sleep(0.05)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert (["dead"], 1) == (_states(tmp_path), deaths)
    with closing(sqlite3.connect(tmp_path / "work.db")) as connection:
        assert [(1, 2, 3)] == connection.execute("SELECT deaths, crashes, attempt FROM outcome").fetchall()


def _states(folder):
    """Return the state of each task that has ended."""
    with closing(sqlite3.connect(folder / "work.db", timeout=5)) as connection:
        return [state for (state,) in connection.execute("SELECT state FROM outcome")]
