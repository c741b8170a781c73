"""A worker in this process: its claims, its places, its end, and the database that it hides from handlers."""

import asyncio
import logging
import os
import signal
import sqlite3
import time
from contextlib import closing, suppress
from datetime import timedelta

import pytest

import apportion
from apportion.errors import ApportionError, InvalidInput, TaskDead
from apportion.stores.sqlite.tasks import SqliteTasks
from apportion.work.claimant import _MOST_CLAIMS, Claimant
from apportion.work.facade import Queue

TTL = timedelta(seconds=1)


@pytest.fixture
def queue(tmp_path):
    return Queue(f"sqlite:///{tmp_path}/work.db", "mail", lease_ttl=TTL)


def played(play):
    """Run an async test body for at most half a minute."""
    return asyncio.run(asyncio.wait_for(play, 30))


async def until(is_so):
    """Wait until a condition holds."""
    while not is_so():
        await asyncio.sleep(0.01)


def rows(queue, statement):
    """Return rows of the file of a queue."""
    path = queue.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        return connection.execute(statement).fetchall()


def test_sigterm_ends_the_block_and_running_tasks_end_in_peace(queue):
    begun, ended = asyncio.Event(), []

    @queue.task()
    async def work() -> None:
        begun.set()
        await asyncio.sleep(0.2)
        ended.append("done")

    async def _play():
        await queue.enqueue_many([work.call(), work.call()])
        async with queue.worker(concurrency=1):
            await begun.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        assert (["done"], 0) == (ended, asyncio.current_task().cancelling())
        assert [(None, 0)] == rows(queue, "SELECT session, failures FROM task")

    played(_play())


def test_sigterm_ends_the_blocks_of_two_workers_in_one_process(queue):
    other, seen = Queue(queue.url, "other", lease_ttl=TTL), []

    @queue.task()
    async def first() -> None:
        seen.append("first")

    @other.task()
    def second() -> None:
        seen.append("second")

    async def _play():
        await queue.enqueue(first.call())
        await other.enqueue(second.call())
        async with queue.worker(), other.worker():
            await until(lambda: len(seen) == 2)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        assert ["first", "second"] == sorted(seen)

    played(_play())


def test_a_cancelled_program_stays_cancelled(queue):
    async def _work():
        async with queue.worker():
            await asyncio.Event().wait()

    async def _play():
        working = asyncio.ensure_future(_work())
        await asyncio.sleep(0.1)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    played(_play())


def test_runs_that_take_too_long_at_the_end_are_given_back_even_from_a_thread(queue):
    begun, release = [], []

    @queue.task()
    async def patient() -> None:
        begun.append("async")
        await asyncio.Event().wait()

    @queue.task()
    def stubborn() -> None:
        begun.append("plain")
        while not release:
            time.sleep(0.01)

    async def _play():
        await queue.enqueue_many([patient.call(), stubborn.call()])
        worker = queue.worker()
        worker._leave_seconds = 0.1
        began = time.monotonic()
        async with worker:
            await until(lambda: len(begun) == 2)
        assert time.monotonic() - began < 5
        assert 2 * [(None, 0, "the worker left")] == rows(queue, "SELECT session, failures, reason FROM task")
        release.append(1)

    played(_play())


@pytest.mark.slow
def test_claims_that_are_not_started_within_the_time_to_live_are_given_back(queue):
    begun, release = [], asyncio.Event()

    @queue.task()
    async def quick() -> None: ...

    @queue.task()
    async def slow() -> None:
        begun.append(apportion.current_task().attempt)
        await release.wait()

    async def _play():
        await queue.enqueue_many([quick.call() for _ in range(300)])
        await queue.enqueue_many([slow.call() for _ in range(50)])
        async with queue.worker(concurrency=2):
            held = "SELECT count(*) FROM task WHERE session IS NOT NULL"
            await until(lambda: len(begun) == 2 and rows(queue, held)[0][0] > 2)
            await until(lambda: rows(queue, held) == [(2,)])
            reasons = rows(queue, "SELECT DISTINCT reason FROM task WHERE attempt > 0 AND session IS NULL")
            assert [("not started within the time to live",)] == reasons
            release.set()
            await until(lambda: rows(queue, "SELECT count(*) FROM task") == [(0,)])
        assert 50 == len(begun)

    played(_play())


@pytest.mark.slow
def test_a_worker_that_gave_tasks_back_does_not_claim_them_all_again(queue):
    begun = []

    @queue.task()
    async def quick() -> None: ...

    @queue.task()
    async def slow() -> None:
        begun.append(apportion.current_task().attempt)
        await asyncio.sleep(0.25)

    async def _play():
        await queue.enqueue_many([quick.call() for _ in range(300)])
        await queue.enqueue_many([slow.call() for _ in range(500)])
        async with queue.worker(concurrency=2):
            await until(lambda: len(begun) >= 40)
            assert rows(queue, "SELECT max(attempt) FROM task")[0][0] <= 2

    played(_play())


def test_a_suspect_that_no_child_can_import_runs_alone(queue):
    together, seen = set(), []

    @queue.task()
    async def work(number: int) -> None:
        together.add(number)
        seen.append((number, set(together)))
        await asyncio.sleep(0.05)
        together.discard(number)

    async def _play():
        handles = await queue.enqueue_many([work.call(number) for number in range(6)])
        rows(queue, f"UPDATE task SET crashes = 1 WHERE id = '{handles[2].id}'")
        await queue.drain()
        assert [(2, {2})] == [each for each in seen if 2 in each[1]]
        assert 6 == len(seen)

    played(_play())


def test_a_locked_database_reaches_no_handler(queue):
    seen, begun = [], asyncio.Event()

    @queue.task()
    async def work(number: int) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        seen.append(number)

    async def _play():
        await queue.enqueue_many([work.call(number) for number in range(20)])
        async with queue.worker(concurrency=2):
            await begun.wait()
            with closing(sqlite3.connect(queue.url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                await asyncio.sleep(0.5)  # the time of the lock, shorter than the lease
                connection.execute("ROLLBACK")
            await until(lambda: rows(queue, "SELECT count(*) FROM task") == [(0,)])
        assert list(range(20)) == sorted(seen)

    played(_play())


class _Base(BaseException):
    pass


class _Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SystemExit(3), "RuntimeError: the function raised SystemExit(3)"),
        (KeyboardInterrupt("own"), "RuntimeError: the function raised KeyboardInterrupt('own')"),
        (GeneratorExit("own"), "GeneratorExit: own"),
        (_Base("own"), "_Base: own"),
        (_Mute(), "_Mute: no text, because str() raised an error"),
        (ValueError("\udcff"), "ValueError: ?"),
    ],
)
@pytest.mark.parametrize("form", ["async", "plain"])
def test_a_function_that_exits_or_raises_a_strange_error_has_failed_and_the_worker_goes_on(
    queue, form, error, reason, monkeypatch
):
    monkeypatch.setattr(logging.getLogger("apportion.work"), "disabled", True)  # no report can carry such a text
    seen = []

    @queue.task(failures=1, name="async")
    async def leave() -> None:
        raise error

    @queue.task(failures=1, name="plain")
    def leave_plainly() -> None:
        raise error

    @queue.task()
    async def work() -> None:
        seen.append(1)

    async def _play():
        await queue.enqueue_many([(leave if form == "async" else leave_plainly).call(), work.call()])
        drained = await queue.drain()
        assert (1, 1, [1]) == (drained.dead, drained.done, seen)
        (found,) = rows(queue, "SELECT reason FROM outcome")
        assert found[0] in (
            reason,
            "RuntimeError: no text",
        )  # OpenTelemetry, where it is loaded, asks for the text first

    played(_play())


def test_an_async_function_moves_its_limit_and_a_task_without_one_is_told_so(queue):
    @queue.task(failures=1, keep_result=True, time_limit=timedelta(seconds=0.3))
    async def longer(seconds: float) -> str:
        apportion.current_task().extend(timedelta(seconds=seconds))
        await asyncio.sleep(0.6)
        return "in time"

    @queue.task(failures=1)
    async def unlimited() -> None:
        apportion.current_task().extend(timedelta(seconds=5))

    async def _play():
        good, short, free = await queue.enqueue_many([longer.call(5), longer.call(0.1), unlimited.call()])
        async with queue.worker():
            assert "in time" == await good.result()
            for each, told in ((short, "TimeoutError"), (free, "time_limit is None")):
                with pytest.raises(TaskDead, match=told):
                    await each.result()

    played(_play())


def in_fork(act):
    """Run an act in a forked child; return the name of the error that it raises."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        told = "none"
        with suppress(BaseException):
            try:
                act()
            except ApportionError as error:
                told = type(error).__name__
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        told = answers.read()
    os.waitpid(pid, 0)
    return told


def test_a_queue_that_was_used_before_a_fork_names_the_mistake_in_the_child(queue):
    @queue.task()
    def work() -> None: ...

    async def _open():
        await queue.enqueue(work.call())

    async def _again():
        await asyncio.wait_for(queue.enqueue(work.call()), 10)

    played(_open())
    assert "StoreClosed" == in_fork(lambda: asyncio.run(_again()))


def test_a_worker_serves_beside_the_requests_of_a_web_process(queue):
    seen = []

    @queue.task()
    def work(number: int) -> None:
        seen.append(number)

    async def _answer(reader, writer):
        number = int(await reader.readline())
        await queue.enqueue(work.call(number))
        writer.write(b"accepted\n")
        await writer.drain()
        writer.close()

    async def _asked(port, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{number}\n".encode())
        answer = await reader.readline()
        writer.close()
        return answer

    async def _play():
        async with await asyncio.start_server(_answer, "127.0.0.1", 0) as server, queue.worker(concurrency=3):
            port = server.sockets[0].getsockname()[1]
            answers = await asyncio.gather(*(_asked(port, number) for number in range(10)))
            await until(lambda: len(seen) == 10)
        assert (10 * [b"accepted\n"], list(range(10))) == (answers, sorted(seen))

    played(_play())


def test_a_wrong_number_of_processes_is_refused(queue):
    for wrong in (-1, 1_001, 2.0, True):
        with pytest.raises(InvalidInput, match="processes"):
            queue.worker(processes=wrong)


def test_a_worker_that_cannot_go_on_ends_its_block_with_the_error(queue, monkeypatch):
    async def _broken(_):
        raise ZeroDivisionError

    async def _play():
        async with queue.worker():
            monkeypatch.setattr("apportion.work.claimant.Claimant._turn", _broken)
            await queue.enqueue(apportion.work.Call(name="f", arguments=b"{}"))
            await asyncio.Event().wait()

    with pytest.raises(ZeroDivisionError):
        played(_play())


def test_a_worker_that_the_store_refuses_ends_its_block_with_the_error(tmp_path, monkeypatch):
    async def _play():
        async with Queue(f"sqlite:///{tmp_path}/work.db", "mail", lease_ttl=timedelta(milliseconds=1)).worker():
            await asyncio.Event().wait()

    opened = Claimant.begin

    async def _late(*given, **options):
        claimant = await opened(*given, **options)
        await asyncio.sleep(0.1)  # the worker fails before its block begins
        return claimant

    with pytest.raises(InvalidInput, match="lease_ttl"):
        played(_play())
    monkeypatch.setattr(Claimant, "begin", _late)
    with pytest.raises(InvalidInput, match="lease_ttl"):
        played(_play())


def test_an_idle_worker_rests_between_its_turns(queue, monkeypatch):
    turns, turn = [], SqliteTasks.turn

    async def _turn(tasks, *given, **named):
        turns.append(1)
        return await turn(tasks, *given, **named)

    async def _play():
        async with queue.worker() as worker:
            await worker.until_drained()
            monkeypatch.setattr(SqliteTasks, "turn", _turn)
            await asyncio.sleep(0.3)

    asyncio.run(_play())
    assert len(turns) <= 4


def test_short_tasks_settle_together_and_the_next_claims_come_with_them_half_of_the_most_at_once(queue, monkeypatch):
    turns, turn = [], SqliteTasks.turn

    async def noted(self, worker, settlements=(), *, want=0):
        turns.append((len(settlements), want))
        return await turn(self, worker, settlements, want=want)

    @queue.task()
    async def work() -> None: ...

    async def _play():
        await queue.enqueue_many([work.call()] * 1_000)
        await queue.enqueue_many([work.call()] * 1_000)
        monkeypatch.setattr(SqliteTasks, "turn", noted)
        async with queue.worker(concurrency=1) as worker:
            await worker.until_drained()
        assert [(0,)] == rows(queue, "SELECT count(*) FROM task")

    played(_play())
    assert 2_000 == sum(settled for settled, _ in turns)
    assert len(turns) < 1_000
    assert any(settled and want for settled, want in turns)
    assert 1 < max(want for _, want in turns) <= _MOST_CLAIMS // 2


def test_an_end_waits_for_no_other_while_no_claim_waits(queue, monkeypatch):
    monkeypatch.setattr("apportion.work.worker._TOGETHER_SECONDS", 60.0)

    @queue.task()
    async def work(waits: bool) -> None:
        if waits:
            await asyncio.Event().wait()

    async def _play():
        await queue.enqueue_many([work.call(True), work.call(False)])
        async with queue.worker(concurrency=2) as worker:
            worker._leave_seconds = 0.1
            await until(lambda: rows(queue, "SELECT count(*) FROM task") == [(1,)])

    played(_play())
