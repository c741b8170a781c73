"""Children: an attempt in a process of its own answers as one here does, and its death is an answer too."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from apportion.errors import ClaimLost, StoreDenied
from apportion.runtime.clock import SystemClock
from apportion.stores.task_values import Claim, Receipt
from apportion.work.attempts import Attempts
from apportion.work.children import nursery
from apportion.work.children.children import Children, Job, place_of
from tests.work import functions

SECONDS = 20


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


class Desk:
    """The worker, as far as its children need it; it refuses notes unless it keeps them."""

    def __init__(self, notes=None, seconds=60.0):
        self.notes, self._seconds = notes, seconds
        self.attempts = Attempts(queue="functions", worker="w", clock=SystemClock())

    def seconds_left(self, session):
        """Return how long the session lasts."""
        return self._seconds

    async def note(self, note):
        """Keep a note."""
        if self.notes is None:
            raise ClaimLost(note.receipt.task, note.receipt.attempt)
        self.notes.append((note.progress, note.text))


def job(function, *args, failures=0, desk=None, place=None):
    """Return a call as a job for a child."""
    return Job(
        function=function,
        place=place or place_of(function),
        claim=claim(function.call(*args), failures=failures),
        incarnation=1,
        desk=desk or Desk(),
    )


def ran(*jobs, most=1, kept=0):
    """Run jobs one after another in the children of one worker; return the settlements."""

    async def _run():
        children = Children("memory://x", most=most, kept=kept)
        try:
            return [await children.run(each) for each in jobs]
        finally:
            await children.close()

    return asyncio.run(asyncio.wait_for(_run(), SECONDS))


def test_a_child_runs_plain_and_async_functions_elsewhere():
    awaited, process = ran(job(functions.awaited, 7), job(functions.process))
    assert ("done", b"8") == (awaited.fate, awaited.result)
    assert str(os.getpid()).encode() != process.result


@pytest.mark.slow
def test_a_run_in_a_child_is_within_the_wrappers_and_has_plain_calls():
    desk = Desk(notes=[])
    (settlement,) = ran(job(functions.within, desk=desk))
    process, wrapper = json.loads(settlement.result)
    assert ([(0.5, "half")], "done", process) == (desk.notes, settlement.fate, wrapper)
    assert os.getpid() != process


@pytest.mark.slow
def test_a_failure_in_a_child_is_told_as_one_here():
    failed, last = ran(job(functions.fail), job(functions.fail, failures=1))
    assert ("retry", "ValueError: no", "dead") == (failed.fate, failed.reason, last.fate)


@pytest.mark.slow
def test_one_child_runs_one_attempt_after_another_until_it_dies():
    first, second, died, third = ran(*map(job, 2 * [functions.process] + [functions.poison, functions.process]))
    assert first.result == second.result
    assert ("crashed", "its process ended with -9") == (died.fate, died.reason)
    assert ("done", True) == (third.fate, third.result != first.result)


@pytest.mark.slow
def test_a_function_that_closes_all_files_of_its_child_and_goes_on_is_killed():
    (settlement,) = ran(job(functions.cut_off))
    assert ("crashed", "its process ended with -9") == (settlement.fate, settlement.reason)


@pytest.mark.slow
def test_a_free_child_that_was_killed_costs_no_task_a_crash():
    async def _run():
        children = Children("memory://x", most=1)
        first = await children.run(job(functions.process))
        os.kill(int(first.result), signal.SIGKILL)
        second = await children.run(job(functions.process))
        await children.close()
        return first, second

    first, second = asyncio.run(asyncio.wait_for(_run(), SECONDS))
    assert ("done", True) == (second.fate, first.result != second.result)


@pytest.mark.slow
def test_a_plain_function_is_killed_at_its_limit_even_if_it_never_yields(tmp_path):
    began = time.monotonic()
    slow, stubborn = ran(job(functions.slow, str(tmp_path / "there")), job(functions.stubborn))
    assert ("dead", "dead") == (slow.fate, stubborn.fate)
    assert "TimeoutError: it took longer than 0:00:00.500000" == slow.reason
    assert time.monotonic() - began < 6
    assert not (tmp_path / "there").exists()


@pytest.mark.slow
def test_a_plain_function_moves_its_limit_in_both_directions():
    longer, shorter = ran(job(functions.extended, 30), job(functions.extended, 0.2))
    assert ("done", b'"in time"', "retry") == (longer.fate, longer.result, shorter.fate)


@pytest.mark.slow
def test_a_note_of_a_run_is_written_by_the_worker():
    notes = []
    noted, lost = ran(job(functions.note, desk=Desk(notes)), job(functions.note))
    assert ([(0.5, "half")], "done", "retry") == (notes, noted.fate, lost.fate)
    assert lost.reason.startswith("ClaimLost: ")


@pytest.mark.slow
def test_notes_at_once_and_a_note_that_is_left_reach_their_own_callers():
    desk = Desk(notes=[])
    (settlement,) = ran(job(functions.note_at_once, desk=desk))
    assert ("done", [0.1, 0.2]) == (settlement.fate, sorted(part for part, _ in desk.notes)[:2])
    assert (0.4, "") == desk.notes[-1]


class _Denying(Desk):
    async def note(self, note):
        raise StoreDenied("the store", "no right", "Grant it.")


@pytest.mark.slow
def test_a_note_that_the_store_denies_fails_the_run_alone():
    denied, after = ran(job(functions.note, desk=_Denying()), job(functions.awaited, 7))
    assert ("retry", "StoreUnavailable: memory://x is unavailable: no right.") == (
        denied.fate,
        denied.reason.split("\n")[0],
    )
    assert "done" == after.fate


@pytest.mark.slow
def test_prints_of_a_child_are_not_lost_with_it(capfd):
    ran(job(functions.tell))
    assert "printed in a child" in capfd.readouterr().out


@pytest.mark.slow
def test_a_child_loads_no_file_of_the_program_in_place_of_the_library(tmp_path, monkeypatch):
    for name in ("queue", "signal", "socket"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('this is not the library')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), tmp_path, *sys.path])  # imports ignore the second entry
    (settlement,) = ran(job(functions.process))
    assert "done" == settlement.fate


@pytest.mark.slow
def test_a_child_knows_until_when_the_session_of_its_worker_lasts():
    long, over = ran(*(job(functions.seconds_left, desk=Desk(seconds=each)) for each in (60.0, -1.0)))
    assert 30 < float(long.result) < 60
    assert b"0.0" == over.result


@pytest.mark.slow
def test_a_child_says_that_it_cannot_import_a_function():
    absent, there = ran(job(functions.process, place=("tests.work.absent", "process")), job(functions.process))
    assert (None, "done") == (absent, there.fate)


def test_a_cancelled_run_kills_its_child(tmp_path):
    async def _run():
        children = Children("memory://x", most=1)
        run = asyncio.ensure_future(children.run(job(functions.tell_and_wait, str(tmp_path / "pid"))))
        pid = await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run
        await children.close()
        return int(pid)

    assert not lives(asyncio.run(asyncio.wait_for(_run(), SECONDS)))


async def until(found):
    """Return the first true answer of a question."""
    while not (answer := found()):
        await asyncio.sleep(0.01)
    return answer


def lives(pid):
    """Whether a process runs."""
    try:
        return "Z" != Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.slow
def test_children_come_from_new_interpreters_where_nothing_can_fork(monkeypatch):
    monkeypatch.setattr(nursery, "_CAN_FORK", False)
    done, crashed = ran(job(functions.process), job(functions.poison))
    assert ("done", "crashed", "its process ended with -9") == (done.fate, crashed.fate, crashed.reason)


@pytest.mark.slow
def test_a_fork_server_that_was_killed_is_started_anew():
    async def _run():
        children = Children("memory://x", most=1)
        await children.warm()
        children._nursery._shared.process.kill()
        await children._nursery._shared.process.wait()
        settlement = await children.run(job(functions.process))
        await children.close()
        return settlement

    assert "done" == asyncio.run(asyncio.wait_for(_run(), SECONDS)).fate


def test_a_fork_server_that_is_still_starting_ends_with_its_worker():
    async def _run():
        children = Children("memory://x", most=1)
        warming = asyncio.ensure_future(children.warm())
        await asyncio.sleep(0)
        server = children._nursery._shared
        await children.close()
        await warming
        return server.process

    assert asyncio.run(asyncio.wait_for(_run(), SECONDS)) is None


@pytest.mark.slow
def test_two_workers_on_one_loop_share_a_fork_server_until_both_have_ended():
    async def _run():
        first, second = Children("memory://x", most=1), Children("memory://x", most=1)
        await asyncio.gather(first.warm(), second.warm())
        server = first._nursery._shared
        assert server is second._nursery._shared
        await first.close()
        assert server.process.returncode is None
        done = await second.run(job(functions.process))
        await second.close()
        assert server.process is None
        await first.warm()
        assert server is not first._nursery._shared
        await first.close()
        return done

    assert "done" == asyncio.run(asyncio.wait_for(_run(), SECONDS)).fate


@pytest.mark.slow
def test_a_child_that_dies_is_noticed_though_a_process_that_it_forked_lives_on():
    began = time.monotonic()
    (died,) = ran(job(functions.leave_a_process_and_die))
    assert ("crashed", "its process ended with -9") == (died.fate, died.reason)
    assert time.monotonic() - began < 7


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
