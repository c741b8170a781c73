"""A queue on each store that keeps tasks: every task is done once, fails by its budget, and is cancelled on request."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import apportion
from apportion.errors import ClaimLost, InvalidInput, NotPromised, TaskDead, TimedOut
from apportion.stores.task_values import MOST_EXPIRED
from apportion.work.facade import Queue, TaskHandle

TTL = timedelta(seconds=2)


@pytest.fixture(params=["memory://{}", "sqlite:///{}/work.db"])
def url(request, tmp_path):
    return request.param.format(tmp_path if "sqlite" in request.param else f"q{tmp_path.name}")


@pytest.fixture
def queue(url):
    return Queue(url, "mail", lease_ttl=TTL)


def played(play):
    """Run an async test body for at most half a minute."""
    return asyncio.run(asyncio.wait_for(play, 30))


def test_async_and_plain_functions_are_each_run_once(queue):
    seen = []

    @queue.task(keep_result=True)
    async def greet(name: str, *, times: int = 1) -> str:
        seen.append(name)
        return name * times

    @queue.task()
    def note(at: datetime) -> None:
        seen.append((at, threading.current_thread() is threading.main_thread()))

    async def _play():
        at = datetime(2026, 11, 24, tzinfo=UTC)
        handle = await queue.enqueue(greet.call("ann", times=2))
        await queue.enqueue(note.call(at))
        async with queue.worker(concurrency=2):
            assert "annann" == await handle.result()
            assert "done" == await handle.state()
        assert (0, 0, 0) == ((drained := await queue.drain()).done, drained.failed, drained.dead)
        assert ["ann", (at, False)] == sorted(seen, key=str)[::-1]

    played(_play())


def test_to_call_a_task_function_runs_it_here(queue):
    @queue.task()
    def double(number: int) -> int:
        return 2 * number

    assert 6 == double(3)


def test_a_failed_run_comes_back_until_its_budget_is_spent(queue):
    runs = []

    @queue.task(failures=3, first_delay=timedelta(milliseconds=1), keep_result=True)
    def fail() -> None:
        runs.append(apportion.current_task().attempt)
        raise ValueError("no")

    async def _play():
        handle = await queue.enqueue(fail.call())
        async with queue.worker():
            with pytest.raises(TaskDead, match="is dead: 'ValueError: no'"):
                await handle.result()
        assert [1, 2, 3] == runs

    played(_play())


def test_a_handler_gives_up_at_once_or_comes_back_without_a_failure(queue):
    runs = []

    @queue.task(give_up_on=(KeyError,))
    def never() -> None:
        raise KeyError("gone")

    @queue.task()
    def hopeless() -> None:
        raise apportion.GiveUp("nobody has this address")

    @queue.task(failures=1, keep_result=True)
    def later() -> str:
        runs.append(1)
        if len(runs) < 3:
            raise apportion.Snooze(after=timedelta(milliseconds=5))
        return "at last"

    async def _play():
        dead = await queue.enqueue_many([never.call(), hopeless.call()])
        handle = await queue.enqueue(later.call())
        async with queue.worker():
            assert "at last" == await handle.result()
            for each in dead:
                with pytest.raises(TaskDead):
                    await each.result()

    played(_play())


def test_a_running_task_is_cancelled_and_a_waiting_one_never_runs(queue):
    begun, ended = asyncio.Event(), []

    @queue.task()
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def _play():
        running, waiting = await queue.enqueue_many([wait.call(), wait.call().options(delay=timedelta(hours=1))])
        async with queue.worker():
            await begun.wait()
            assert await waiting.cancel()
            assert await running.cancel()
            while await running.state() != "cancelled":
                await asyncio.sleep(0.01)
        assert (["cancelled"], "cancelled") == (ended, await waiting.state())
        assert not await waiting.cancel()

    played(_play())


def test_a_unique_task_is_kept_or_replaced(queue):
    seen = []

    @queue.task()
    def report(version: int) -> None:
        seen.append(version)

    async def _play():
        first = await queue.enqueue(report.call(1), unique="report")
        kept = await queue.enqueue(report.call(2), unique="report")
        assert (first.id, True, False) == (kept.id, first.created, kept.created)
        await queue.enqueue(report.call(3), unique="report", on_duplicate="replace")
        await queue.drain()
        assert [3] == seen

    played(_play())


def test_priorities_go_first_and_delayed_tasks_when_they_are_due(queue):
    seen = []

    @queue.task()
    async def note(what: str) -> None:  # on the event loop, so in the order of the claims
        seen.append(what)

    async def _play():
        await queue.enqueue(note.call("later"), delay=timedelta(hours=1))
        await queue.enqueue(note.call("low"), priority=3)
        await queue.enqueue(note.call("first"), priority=0)
        await queue.drain()
        assert ["first", "low"] == seen
        assert [note.call("later").arguments] == [call.arguments for call in await queue.pending(note)]
        await queue.drain(ahead=timedelta(hours=2))
        assert ["first", "low", "later"] == seen

    played(_play())


def test_what_this_worker_does_not_know_is_given_back(queue):
    @queue.task(name="known")
    def known() -> None: ...

    other = Queue(queue.url, "mail", lease_ttl=TTL)

    @other.task()
    def unknown() -> None: ...

    async def _play():
        handle = await other.enqueue(unknown.call())
        await queue.drain()
        assert "delayed" == await handle.state()
        (row,) = await _rows(queue)
        assert ("this worker has no task function 'unknown'", 0) == (row.reason, row.failures)

    played(_play())


async def _rows(queue):
    from apportion.runtime.io_thread import io_thread
    from apportion.stores.task_control import Listing

    return await io_thread().hop(queue._opened.rows(Listing()))


def test_a_receipt_settles_from_anywhere_and_only_once(queue):
    receipts = []

    @queue.task()
    async def hand_out() -> None:
        receipts.append(apportion.current_task().receipt)
        await queue.complete(receipts[-1])

    async def _play():
        await queue.enqueue(hand_out.call())
        await queue.drain()
        for call in (queue.complete, queue.release, lambda each: queue.fail(each, "late")):
            with pytest.raises(ClaimLost):
                await call(receipts[0])
        assert [] == await queue.pending(hand_out)

    played(_play())


def test_effect_and_completion_are_one_commit(tmp_path):
    queue = Queue(f"sqlite:///{tmp_path}/work.db", "mail", lease_ttl=TTL)
    with closing(sqlite3.connect(tmp_path / "work.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")

    @queue.task(failures=1)
    def pay(amount: int) -> None:
        with apportion.current_task().transaction() as connection:
            connection.execute("INSERT INTO paid VALUES (?)", (amount,))
            if amount < 0:
                raise ValueError(amount)

    async def _play():
        await queue.enqueue_many([pay.call(5), pay.call(-1)])
        with closing(sqlite3.connect(tmp_path / "work.db")) as connection, connection:
            connection.execute("CREATE TABLE paid (amount INTEGER)")
        await queue.drain()
        with closing(sqlite3.connect(tmp_path / "work.db")) as connection:
            assert [(5,)] == connection.execute("SELECT amount FROM paid").fetchall()

    played(_play())


def test_a_block_that_ends_gives_back_the_tasks_that_it_has_not_started(queue):
    begun = asyncio.Event()

    @queue.task()
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(0.05)

    async def _play():
        handles = await queue.enqueue_many([slow.call() for _ in range(5)])
        async with queue.worker(concurrency=1):
            await begun.wait()
        states = [await each.state() for each in handles]
        assert {"missing", "ready"} == set(states)

    played(_play())


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda q: Queue("sqlite:///x.db", "no blanks"), "name of the queue"),
        (lambda q: q.task()(lambda: None), "not a lambda"),
        (lambda q: (q.task(name="a")(played), q.task(name="a")(played)), "name of the task"),
        (lambda q: q.task()(_yielding), "without yield"),
        (lambda q: q.task(name="a\0b"), "name of the task"),
        (lambda q: q.task(name=7), "name of the task"),
        (lambda q: q.task(priority=4), "priority"),
        (lambda q: q.task(time_limit=timedelta(0)), "time_limit is .*, expected a time above 0"),
        (lambda q: q.task()(_typed).call("x"), "number of _typed is 'x', expected the annotated type .Expected `int`"),
        (lambda q: q.task(_typed), r"(?s)task is a function, .*Write @queue.task\(\)"),
        (lambda q: q.task(keep_result="yes"), "keep_result"),
        (lambda q: q.task(failures=0), "failures"),
        (lambda q: q.task(first_delay=5), "first_delay"),
        (lambda q: q.task(give_up_on=ValueError), "give_up_on"),
        (lambda q: q.task(time_limit=timedelta(0)), "time_limit"),
        (lambda q: q.task()(_typed).call(1, 2, 3), "arguments of _typed"),
        (lambda q: q.task()(_typed).call({1, 2}), "number of _typed|arguments of _typed"),
        (lambda q: q.task()(_typed).call(float("nan")), "arguments of _typed|number of _typed"),
        (lambda q: q.task()(_anything).call("x" * 2_000_000), "at most 1048576 bytes"),
        (lambda q: q.task()(_anything).call(_nested(100_000)), "arguments of _anything"),
        (lambda q: q.task()(_typed).call(1).options(unique="half \udcff"), "unique"),
        (lambda q: q.task()(_typed).call(1).options(unique="a\0b"), "unique"),
        (lambda q: q.task()(_typed).call(1).options(priority=4), "priority"),
        (lambda q: q.task()(_typed).call(1).options(delay=timedelta(seconds=-1)), "delay"),
        (lambda q: q.task()(_typed).call(1).options(at=datetime(2026, 1, 1)), "at"),  # noqa: DTZ001
        (lambda q: q.task()(_typed).call(1).options(at=datetime.now(UTC), delay=TTL), "no delay when `at` is given"),
        (
            lambda q: q.task()(_typed).call(1).options(at=datetime.max.replace(tzinfo=UTC)),
            "a time before the year 10000",
        ),
        (lambda q: q.task()(_typed).call(1).options(expires=timedelta(0)), "expires"),
        (lambda q: q.task()(_typed).call(1).options(delay=TTL, expires=TTL), "expires"),
        (lambda q: q.task()(_typed).call(1).options(on_duplicate="drop"), "on_duplicate"),
        (lambda q: q.task()(_typed).call(1).options(on_duplicate="replace"), "a unique name beside it"),
        (lambda q: q.worker(concurrency=0), "concurrency"),
        (lambda q: apportion.current_task(), "current task"),
    ],
)
def test_a_mistake_names_the_field(make, told, tmp_path):
    with pytest.raises(InvalidInput, match=told):
        make(Queue(f"sqlite:///{tmp_path}/w.db", "q"))


def _yielding():
    yield


def _typed(number: int) -> None:
    raise AssertionError(number)


def _anything(value) -> None:
    raise AssertionError(value)


def test_the_calls_of_a_handle_name_their_mistakes(queue):
    @queue.task()
    def quiet() -> None: ...

    async def _play():
        with pytest.raises(InvalidInput, match="a call of a task function"):
            await queue.enqueue(quiet)
        with pytest.raises(InvalidInput, match="a list of calls"):
            await queue.enqueue_many(quiet.call())
        with pytest.raises(InvalidInput, match="a task function"):
            await queue.pending("quiet")
        for rules in ({}, {"cron": "0 9 * * *", "every": timedelta(minutes=5)}):
            with pytest.raises(InvalidInput, match=f"{'given both' if rules else None}.*, expected one of the two"):
                await queue.schedule("twice", quiet.call(), **rules)
        for each in ("none", "t.1.2.3", "t." + 30 * "9" + ".2", f"t.1.{1 << 63}", "\udcff.1.2", "a\0b.1.2"):
            with pytest.raises(InvalidInput, match="receipt"):
                await queue.complete(each)
        handle = await queue.enqueue(quiet.call())
        with pytest.raises(TimedOut):
            await handle.result(timeout=timedelta(0))
        await queue.drain()
        with pytest.raises(InvalidInput, match="keeps its result"):
            await handle.result()
        await queue.close()
        assert "missing" == await handle.state()

    played(_play())


def test_a_drain_passes_all_expired_tasks(queue):
    async def _play():
        ran = []

        @queue.task()
        async def note(number: int) -> None:
            ran.append(number)

        old = replace(note.call(1), expires=timedelta(0))  # `options` refuses it
        await queue.enqueue_many([*(MOST_EXPIRED + 20) * [old], note.call(2)])
        assert 1 == (await queue.drain()).done
        assert [2] == ran

    played(_play())


class _Later:
    def __await__(self):
        yield from ()


def test_a_plain_function_that_returns_an_awaitable_has_not_run(queue):
    async def _play():
        @queue.task()
        def handed_on() -> object:
            return _Later()

        handle = await queue.enqueue(handed_on.call())
        assert (0, 1) == ((drained := await queue.drain()).done, drained.dead)
        with pytest.raises(TaskDead, match="returned a _Later that nobody awaits"):
            await handle.result()

    played(_play())


def test_a_result_is_read_without_its_function_and_one_of_another_type_is_refused(queue):
    async def _play():
        @queue.task(keep_result=True)
        async def number() -> int:
            return "seven"  # type: ignore[return-value]

        handle = await queue.enqueue(number.call())
        await queue.drain()
        with pytest.raises(InvalidInput, match=r"result of task .* expected JSON of the type of number"):
            await handle.result()
        other = TaskHandle(Queue(queue.url, queue.name), handle.id, True)
        assert "seven" == await other.result()

    played(_play())


def test_a_store_without_tasks_is_refused_at_first_use():
    queue = Queue("etcd://localhost:2379", "mail")
    with pytest.raises(NotPromised):
        played(queue.close() if False else queue.enqueue_many([]))
