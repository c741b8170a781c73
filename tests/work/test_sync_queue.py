"""A queue in a program without an event loop: the same calls without await, and a worker in a thread of its own."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import timedelta
from sqlite3 import connect

import pytest

import apportion
from apportion import sync
from apportion.console.tasks.queue_places import queues_at
from apportion.errors import ClaimLost, InvalidInput, TaskDead, TimedOut
from apportion.sync import task_admin
from apportion.work import AttemptDone

TTL = timedelta(seconds=2)


@pytest.fixture(params=["memory://{}", "sqlite:///{}/work.db"])
def queue(request, tmp_path):
    where = tmp_path if "sqlite" in request.param else f"s{tmp_path.name}"
    return sync.Queue(request.param.format(where), "mail", lease_ttl=TTL)


def until(is_so, seconds=20):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.timeout(60)
def test_a_worker_runs_plain_and_async_functions_beside_the_thread_of_the_block(queue):
    seen = []

    @queue.task(keep_result=True)
    def plain(name: str) -> str:
        seen.append(threading.current_thread())
        return name * 2

    @queue.task(keep_result=True)
    async def awaited() -> str:
        await asyncio.sleep(0)
        seen.append(threading.current_thread())
        return apportion.current_task().name

    first, second = queue.enqueue_many([plain.call("ann"), awaited.call()])
    with queue.worker(concurrency=3):
        assert ("annann", "awaited") == (first.result(), second.result())
    assert "done" == first.state()
    assert threading.current_thread() not in seen
    assert 2 == len({each.name for each in seen})


@pytest.mark.timeout(60)
def test_the_calls_of_the_running_task_are_plain_in_a_plain_function(tmp_path):
    queue = sync.Queue(f"sqlite:///{tmp_path}/work.db", "mail", lease_ttl=TTL)
    went_on, seen = threading.Event(), []

    @queue.task()
    def pay(amount: int) -> None:
        task = sync.current_task()
        assert task == apportion.current_task()
        assert isinstance(apportion.current_task(), sync.SyncRunningTask)
        assert None is task.progress(0.4, "half")
        assert went_on.wait(20)
        with task.transaction() as connection:
            connection.execute("CREATE TABLE paid (amount)")
            connection.execute("INSERT INTO paid VALUES (?)", (amount,))

    handle = queue.enqueue(pay.call(5))
    with queue.worker(observer=seen.append):
        until(lambda: handle.state() == "claimed" and (0.4, "half") == noted(tmp_path))
        went_on.set()
        until(lambda: handle.state() == "missing")
    assert AttemptDone is type(seen[-1])
    with closing(connect(tmp_path / "work.db")) as connection:
        assert [(5,)] == connection.execute("SELECT amount FROM paid").fetchall()


def noted(tmp_path):
    """Return the progress and the note of the only task."""
    with closing(connect(tmp_path / "work.db")) as connection:
        return connection.execute("SELECT progress, note FROM task").fetchone()


@pytest.mark.timeout(60)
def test_a_plain_wrapper_and_a_thread_of_an_async_function_get_the_sync_form(queue):
    seen = []

    @queue.around
    def outer():
        seen.append(type(apportion.current_task()))
        yield

    @queue.around
    async def over():
        seen.append(type(apportion.current_task()))
        yield

    @queue.task()
    def plain() -> None: ...

    @queue.task()
    async def awaited() -> None:
        await asyncio.to_thread(lambda: seen.append(type(sync.current_task())))
        with pytest.raises(InvalidInput, match="sync form"):
            sync.current_task()

    queue.enqueue(plain.call())
    assert 1 == queue.drain().done
    assert ["AsyncRunningTask", "SyncRunningTask"] == [each.__name__ for each in seen]
    seen.clear()
    queue.enqueue(awaited.call())
    assert 1 == queue.drain().done
    assert sync.SyncRunningTask is seen[-1]


@pytest.mark.timeout(60)
def test_both_forms_of_a_queue_share_functions_wrappers_and_counts(tmp_path):
    queue = apportion.Queue(f"sqlite:///{tmp_path}/work.db", "mail")
    wrapped = []

    @queue.sync.around
    def note():
        wrapped.append(1)
        yield

    @queue.task(keep_result=True)
    def greet(name: str) -> str:
        return f"hello {name}"

    handle = queue.sync.enqueue(greet.call("ann"))
    assert [greet.call("ann").arguments] == [each.arguments for each in queue.sync.pending(greet)]
    assert 1 == queue.sync.drain().done
    assert ("hello ann", [1], 1) == (handle.result(), wrapped, queue.statistics.done)
    assert ["greet"] == list(queue.sync.task_names)


@pytest.mark.timeout(60)
def test_ends_and_errors_are_those_of_the_async_form(queue):
    @queue.task(keep_result=True)
    def never() -> None:
        raise apportion.GiveUp("no")

    @queue.task()
    def end_elsewhere() -> None:
        queue.complete(sync.current_task().receipt)
        with pytest.raises(ClaimLost):
            queue.release(sync.current_task().receipt)

    waiting = queue.enqueue(never.call(), delay=timedelta(hours=1))
    with pytest.raises(TimedOut):
        waiting.result(timeout=timedelta(0))
    assert (True, False) == (waiting.cancel(), waiting.cancel())
    dead = queue.enqueue(never.call())
    queue.enqueue(end_elsewhere.call())
    assert (0, 1) == ((drained := queue.drain()).done, drained.dead)
    with pytest.raises(TaskDead, match="GiveUp: no"):
        dead.result()
    assert "dead" == dead.state()
    queue.close()
    queue.close()


@pytest.mark.timeout(60)
def test_an_operator_asks_and_acts_without_an_event_loop(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"
    queue = sync.Queue(url, "mail")

    @queue.task(failures=1)
    def fail() -> None:
        raise ValueError("no")

    handle = task_admin.enqueue(url, "mail", fail.call())
    assert isinstance(handle, sync.SyncTaskHandle)
    assert "no_worker" == task_admin.why(url, handle.id).cause
    assert 1 == queue.drain().dead
    assert [1] == [each.dead for each in task_admin.stats(url)]
    assert [handle.id] == [each.id for each in task_admin.tasks(url, "mail", states=("dead",)).tasks]
    task_admin.pause(url, "mail")
    assert (1, "paused") == (task_admin.redrive(url, handle.id), task_admin.why(url, handle.id).cause)


def test_a_queue_of_either_form_is_had_in_both(queue):
    other = apportion.Queue.of(queue)
    assert (apportion.Queue, sync.Queue) == (type(other), type(other.sync))
    assert queue is sync.Queue.of(queue)
    assert (queue.url, queue.name, queue.statistics) == (other.url, other.name, other.sync.statistics)
    with pytest.raises(InvalidInput, match="a queue"):
        apportion.Queue.of("mail")


@pytest.mark.timeout(60)
def test_an_error_of_the_begin_is_raised_in_the_block_and_no_thread_stays():
    queue = sync.Queue("postgresql://nobody@127.0.0.1:1/none", "mail")
    with pytest.raises(apportion.errors.StoreUnavailable), queue.worker():
        pass
    until(lambda: "apportion-worker" not in [each.name for each in threading.enumerate()])


def test_a_worker_is_for_one_with_block_and_for_no_async_one(queue):
    with pytest.raises(InvalidInput, match="async with"):
        asyncio.run(entered(queue.worker()))
    worker = queue.worker()
    with worker:
        pass
    with pytest.raises(InvalidInput, match="is 2"), worker:
        pass


async def entered(worker):
    async with worker:
        pass


@pytest.mark.timeout(60)
def test_an_error_of_the_block_ends_the_worker_and_is_raised(queue):
    with pytest.raises(ValueError, match="planted"), queue.worker():
        raise ValueError("planted")
    assert "apportion-worker" not in [each.name for each in threading.enumerate()]


def test_outside_of_a_task_there_is_no_running_task():
    with pytest.raises(InvalidInput, match="current task"):
        sync.current_task()


PROGRAM = """
import sys, time
from apportion import sync
from apportion.work import AttemptReleased

queue = sync.Queue(sys.argv[1], "mail")

@queue.task()
def hold() -> None:
    print("begun", flush=True)
    time.sleep(0.5)

queue.enqueue_many([hold.call(), hold.call()])
with queue.worker(concurrency=1) as worker:
    worker.until_left()
print("left", queue.statistics.done, len(queue.pending(hold)), flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_ctrl_c_ends_the_program_once_its_running_task_has_ended(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert b"begun\n" == process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert (-signal.SIGINT, True) == (process.returncode, errors.endswith(b"KeyboardInterrupt\n"))
    assert (1, 0) == ((numbers := task_admin.stats(url)[0]).ready, numbers.claimed)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_sigterm_ends_the_worker_once_its_running_task_has_ended(tmp_path):
    command = [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path}/work.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert "begun\n" == process.stdout.readline()
        os.kill(process.pid, signal.SIGTERM)
        assert "left 1 1\n" == process.stdout.readline()
    assert 0 == process.returncode


def test_the_worker_command_takes_a_queue_of_a_plain_program(tmp_path, monkeypatch):
    module = "from apportion import sync\nqueue = sync.Queue('memory://plain', 'mail')\n@queue.task()\ndef run(): ...\n"
    (tmp_path / "plain_app.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    (queue,) = queues_at(["plain_app:queue"])
    assert (apportion.Queue, ["run"]) == (type(queue), list(queue.task_names))
