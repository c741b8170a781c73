"""`apportion tasks worker`: it runs the queues of a program, and a signal makes it leave without a traceback."""

import json
import os
import re
import signal
import subprocess

import pytest

from tests.console.grouping import eventually
from tests.console.running import COMMAND, refused, run, written

PROGRAM = """
import os
import time
from datetime import timedelta

import apportion
import apportion.sync
import apportion.work.worker

apportion.work.worker.QueueWorker.__init__.__kwdefaults__["leave_seconds"] = {leave_seconds}
mail = apportion.Queue("sqlite:///work.db", "mail", lease_ttl=timedelta(seconds=2))
other = apportion.Queue("sqlite:///work.db", "other", lease_ttl=timedelta(seconds=2))

@mail.task(keep_result=True)
def process() -> int:
    return os.getpid()

twin = apportion.sync.Queue("sqlite:///work.db", "twin", lease_ttl=timedelta(seconds=2))

@twin.task()
def note() -> None:
    print("noted", flush=True)

@mail.task()
def send(seconds: float) -> None:
    print("begun", flush=True)
    time.sleep(seconds)
    print("sent", flush=True)

@other.task()
async def call() -> None:
    print("called", flush=True)
"""


class Worker:
    """A worker process with its output."""

    def __init__(self, folder, *arguments, leave_seconds=20.0):
        written(folder, "program.py", PROGRAM.format(leave_seconds=leave_seconds))
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            command = [*COMMAND, "tasks", "worker", *arguments]
            self.process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)

    @property
    def out(self):
        return self._out.read_text()

    @property
    def err(self):
        return self._err.read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def enqueue(folder, queue, name, **arguments):
    done = run("tasks", "enqueue", "sqlite:///work.db", queue, name, json.dumps(arguments), folder=folder)
    assert 0 == done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_runs_several_queues_and_a_signal_waits_for_the_running_task(number, tmp_path):
    enqueue(tmp_path, "mail", "send", seconds=0.5)
    enqueue(tmp_path, "other", "call")
    with Worker(tmp_path, "program:mail", "program:other", "--concurrency", "2") as worker:
        eventually(lambda: "begun" in worker.out and "called" in worker.out)  # two threads print them
        worker.process.send_signal(number)
        assert 0 == worker.process.wait(20)
        assert "sent" in worker.out
        assert "Traceback" not in worker.err
        assert "tasks worker: mail: runs process, send; 2 at a time\n" in worker.err
        assert worker.err.endswith("tasks worker: left; all tasks are settled or given back\n")


@pytest.mark.slow
def test_plain_functions_run_in_child_processes_on_request_and_a_sync_queue_is_served_too(tmp_path):
    done = run("tasks", "enqueue", "sqlite:///work.db", "mail", "process", folder=tmp_path)
    enqueue(tmp_path, "twin", "note")
    with Worker(tmp_path, "program:mail", "program:twin", "--processes", "1") as worker:
        eventually(lambda: worker.err.count("is done") == 2)
        shown = run("tasks", "show", "sqlite:///work.db", done.stdout.decode().strip(), "--json", folder=tmp_path)
        (task,) = json.loads(shown.stdout)["tasks"]
        assert ("done", False) == (task["state"], task["result"] == worker.process.pid)
        assert "mail: runs process, send; 1 at a time" in worker.err


@pytest.mark.slow
def test_a_plain_function_that_goes_on_does_not_keep_the_process(tmp_path):
    enqueue(tmp_path, "mail", "send", seconds=60)
    with Worker(tmp_path, "program:mail", leave_seconds=0.2) as worker:
        eventually(lambda: "begun" in worker.out)
        worker.process.send_signal(signal.SIGTERM)
        assert 0 == worker.process.wait(20)
        assert "ends while plain functions still run" in worker.err
    found = json.loads(run("tasks", "ls", "sqlite:///work.db", "mail", "--json", folder=tmp_path).stdout)
    assert [("ready", "the worker left")] == [(each["state"], each["reason"]) for each in found["tasks"]]


@pytest.mark.slow
def test_a_leaving_worker_says_every_five_seconds_which_task_it_waits_for(tmp_path):
    enqueue(tmp_path, "mail", "send", seconds=7)
    with Worker(tmp_path, "program:mail") as worker:
        eventually(lambda: "begun" in worker.out)
        worker.process.send_signal(signal.SIGTERM)
        assert 0 == worker.process.wait(30)
        assert re.search(r"mail: still waits for 1 running task: [0-9a-f]{32}\n", worker.err)


@pytest.mark.slow
def test_a_second_signal_ends_the_worker_at_once(tmp_path):
    enqueue(tmp_path, "mail", "send", seconds=60)
    with Worker(tmp_path, "program:mail") as worker:
        eventually(lambda: "begun" in worker.out)
        worker.process.send_signal(signal.SIGTERM)
        eventually(lambda: "leaves" in worker.err)

        def _ended():
            worker.process.send_signal(signal.SIGTERM)
            return worker.process.poll() is not None

        eventually(_ended)
        assert -signal.SIGTERM == worker.process.returncode


@pytest.mark.slow
def test_reports_are_json_on_request(tmp_path):
    enqueue(tmp_path, "other", "call")
    with Worker(tmp_path, "program:other", "--json") as worker:
        eventually(lambda: "is done" in worker.err)
        worker.process.send_signal(signal.SIGTERM)
        assert 0 == worker.process.wait(20)
        lines = [json.loads(line) for line in worker.err.splitlines()]
    assert ["ready", "log", "leaving", "left"] == [line["event"] for line in lines]
    assert {(1, "tasks worker")} == {(line["format_version"], line["command"]) for line in lines}


def test_a_store_that_cannot_be_opened_ends_the_worker_with_its_error(tmp_path):
    written(
        tmp_path,
        "far_program.py",
        PROGRAM.format(leave_seconds=1).replace("sqlite:///work.db", "sqlite:////no/such/w.db"),
    )
    process = subprocess.run(
        [*COMMAND, "tasks", "worker", "far_program:mail", "far_program:other"],
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
        check=False,
        env={**os.environ},
    )
    assert "/no/such" in refused(process)
