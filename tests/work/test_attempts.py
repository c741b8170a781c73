"""Events of attempts: each claimed attempt has one end, told once the store has answered, and one log line."""

import asyncio
import json
import logging
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta

import pytest

import apportion
from apportion.errors import InvalidInput
from apportion.runtime.attempt_events import (
    AttemptCancelled,
    AttemptClaimed,
    AttemptCrashed,
    AttemptDead,
    AttemptDone,
    AttemptEnded,
    AttemptFailed,
    AttemptLost,
    AttemptRefused,
    AttemptReleased,
    AttemptStarted,
)
from apportion.stores.catalog import connect_tasks, parsed_url
from apportion.stores.task_control import TaskRow
from apportion.stores.task_values import Claim, Receipt, Settlement
from apportion.work.attempts import Attempts
from apportion.work.facade import Queue
from apportion.work.observers.statistics import TaskStatistics

WHOLE = [AttemptClaimed, AttemptStarted]


class Hand:
    """A clock that a test sets."""

    now = 10.0

    def elapsed(self):
        return self.now


@pytest.fixture(params=["memory://{}", "sqlite:///{}/work.db"])
def queue(request, tmp_path):
    where = tmp_path if "sqlite" in request.param else f"q{tmp_path.name}"
    return Queue(request.param.format(where), "mail", lease_ttl=timedelta(seconds=2))


def heard(queue, *calls, until):
    """Return the events of a worker that runs calls, up to the end that `until` is true of."""
    events = []

    async def _run():
        over, loop = asyncio.Event(), asyncio.get_running_loop()

        def observe(event):
            if events and until(events[-1]):
                return  # on a busy machine the retry begins before the worker ends
            events.append(event)
            if until(event):
                loop.call_soon_threadsafe(over.set)

        await queue.enqueue_many(calls)
        async with queue.worker(observer=observe):
            await over.wait()

    asyncio.run(asyncio.wait_for(_run(), 30))
    return events


def heard_of(queue, enqueue):
    """Return the events of the first attempt of a task that is written to the store."""
    events = []

    async def _run():
        over, loop = asyncio.Event(), asyncio.get_running_loop()

        def observe(event):
            events.append(event)
            if is_end(event):
                loop.call_soon_threadsafe(over.set)

        store = await connect_tasks(queue.url)
        await enqueue(store)
        async with queue.worker(observer=observe):
            await over.wait()
        await store.close()

    asyncio.run(asyncio.wait_for(_run(), 30))
    return events


def is_end(event):
    return isinstance(event, AttemptEnded)


def kinds(events):
    return [type(each) for each in events]


def test_an_attempt_is_claimed_then_started_then_done(queue):
    @queue.task()
    async def greet() -> None: ...

    events = heard(queue, greet.call(), until=is_end)
    assert [*WHOLE, AttemptDone] == kinds(events)
    assert {("mail", "greet", 1)} == {(each.queue, each.name, each.attempt) for each in events}
    assert 1 == len({(each.task, each.worker) for each in events})
    assert 0 <= events[0].waited_seconds <= events[1].waited_seconds < 30
    assert not events[0].is_retaken
    assert 0 <= events[2].run_seconds <= events[2].at - events[0].at


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (apportion.GiveUp("no address"), AttemptDead, "GiveUp: no address"),
        (apportion.Snooze(after=timedelta(hours=1)), AttemptReleased, "Snooze: again in 1:00:00"),
        (ValueError("no"), AttemptFailed, "ValueError: no"),
    ],
    ids=["dead", "released", "failed"],
)
def test_an_attempt_that_raises_ends_as_the_error_says(queue, error, kind, reason):
    @queue.task(first_delay=timedelta(hours=1))
    def fail() -> None:
        raise error

    events = heard(queue, fail.call(), until=is_end)
    assert [*WHOLE, kind] == kinds(events)
    assert reason == events[-1].reason
    if kind is AttemptReleased:
        assert 3_600 == events[-1].retry_seconds
    else:
        assert error is events[-1].error


def test_a_task_without_a_function_is_given_back_without_a_start(queue):
    other = Queue(queue.url, "mail")

    @other.task()
    def unknown() -> None: ...

    events = heard(queue, unknown.call(), until=is_end)
    assert [AttemptClaimed, AttemptReleased] == kinds(events)
    assert (None, 5.0) == (events[-1].run_seconds, events[-1].retry_seconds)


def test_a_task_in_a_format_of_another_release_is_given_back(queue, monkeypatch):
    @queue.task()
    def run() -> None: ...

    with monkeypatch.context() as patched:
        patched.setattr("apportion.work.call.CODEC", "cbor")
        later = run.call().task("0" * 32, f"{parsed_url(queue.url).namespace}/mail", 0)

    assert "cbor" == later.codec
    events = heard_of(queue, lambda store: store.enqueue([later]))
    assert ([AttemptClaimed, AttemptReleased], "this worker cannot read 'cbor'") == (kinds(events), events[-1].reason)


@pytest.mark.slow
def test_a_completion_of_an_attempt_that_another_process_ended_is_refused(queue):
    @queue.task()
    async def end_elsewhere() -> None:
        await queue.complete(apportion.current_task().receipt)

    events = heard(queue, end_elsewhere.call(), until=is_end)
    assert [*WHOLE, AttemptRefused] == kinds(events)
    assert "done" == events[-1].fate


def test_an_attempt_that_completed_itself_in_a_transaction_is_done(tmp_path):
    queue = Queue(f"sqlite:///{tmp_path}/work.db", "mail")

    @queue.task()
    def pay() -> None:
        with apportion.current_task().transaction() as connection:
            connection.execute("CREATE TABLE paid (amount)")

    events = heard(queue, pay.call(), until=is_end)
    assert [*WHOLE, AttemptDone] == kinds(events)
    with closing(sqlite3.connect(tmp_path / "work.db")) as connection:
        assert [(1,)] == connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'paid'").fetchall()


def test_a_cancelled_attempt_says_so(queue):
    @queue.task()
    async def wait() -> None:
        await handles[0].cancel()
        await asyncio.Event().wait()

    handles = []
    events = []

    async def _run():
        handles.append(await queue.enqueue(wait.call()))
        async with queue.worker(observer=events.append):
            while await handles[0].state() != "cancelled":
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(_run(), 30))
    assert [*WHOLE, AttemptCancelled] == kinds(events)


def test_each_attempt_has_one_log_line_with_the_error_of_a_failure(queue, caplog):
    caplog.set_level(logging.INFO, "apportion.work")
    error = ValueError("no")

    @queue.task(failures=2, first_delay=timedelta(milliseconds=1))
    def fail() -> None:
        raise error

    @queue.task()
    async def greet() -> None: ...

    events = heard(queue, fail.call(), greet.call(), until=lambda event: type(event) is AttemptDead)
    lines = [each for each in caplog.records if each.name == "apportion.work"]
    levels = {"greet": [logging.INFO], "fail": [logging.WARNING, logging.ERROR]}
    for name, expected in levels.items():
        assert expected == [each.levelno for each in lines if f"({name})" in each.getMessage()]
    assert 3 == len(lines) == sum(map(is_end, events))
    assert [error, error] == [each.exc_info[1] for each in lines if each.exc_info]
    assert any("attempt 2 failed, and the task is dead after" in each.getMessage() for each in lines)


def test_an_observer_that_raises_stops_neither_the_worker_nor_the_log(queue, caplog):
    @queue.task(keep_result=True)
    def greet() -> str:
        return "hello"

    def broken(event):
        raise ValueError("planted")

    async def _run():
        handle = await queue.enqueue(greet.call())
        async with queue.worker(observer=broken):
            assert "hello" == await handle.result()

    asyncio.run(asyncio.wait_for(_run(), 30))
    assert 3 == sum("failed on Attempt" in each for each in caplog.messages)


@pytest.mark.parametrize("observer", [7, lambda: None], ids=["int", "too few"])
def test_an_object_that_is_no_observer_is_refused_with_an_example(queue, observer):
    with pytest.raises(InvalidInput, match="observer") as caught:
        queue.worker(observer=observer)
    assert "Write queue.worker(…, observer=log) with: def log(event): ..." == caught.value.hint


def test_an_event_can_be_written_as_json(queue):
    @queue.task()
    def fail() -> None:
        raise ValueError("no")

    *_, failed = heard(queue, fail.call(), until=is_end)
    written = json.loads(json.dumps(failed.as_dict()))
    assert {"event": "AttemptFailed", "error": "no", "name": "fail"}.items() <= written.items()


RECEIPT = Receipt(task="t", attempt=1, session=7)


def noted(crashes=0, **rest):
    """Return the attempts of a worker with one claim, their clock, and the events that are heard."""
    events, clock = [], Hand()
    attempts = Attempts(events.append, queue="q", worker="w", clock=clock)
    rest = {"queue": "ns/q", "lane": 2, "name": "f", "codec": "json", "arguments": b"{}", "failures": 0} | rest
    claim = Claim(receipt=RECEIPT, deaths=0, crashes=crashes, enqueued=0, trace="", waited_ms=1_500, **rest)
    attempts.claimed([claim])
    return attempts, clock, events


def test_times_are_those_of_the_runs_begin_and_end():
    attempts, clock, events = noted()
    clock.now = 10.5
    attempts.begin(RECEIPT)
    attempts.started([RECEIPT])
    clock.now = 12.5
    attempts.end(RECEIPT)
    clock.now = 20.0
    attempts.settled([Settlement(receipt=RECEIPT, fate="done")], ())
    assert [(1.5, 10.0), (2.0, 10.5)] == [(each.waited_seconds, each.at) for each in events[:2]]
    assert (2.0, 20.0) == (events[2].run_seconds, events[2].at)


@pytest.mark.parametrize(("crashes", "kind"), [(0, AttemptCrashed), (1, AttemptDead)])
def test_the_second_crash_of_a_child_is_the_death_of_the_task(crashes, kind):
    attempts, _, events = noted(crashes)
    attempts.settled([Settlement(receipt=RECEIPT, fate="crashed", reason="its process ended")], ())
    assert [AttemptClaimed, kind] == kinds(events)


def test_a_lost_attempt_ends_once_though_its_claim_is_found_again_and_given_back():
    attempts, _, events = noted()
    attempts.lose(8)
    assert [AttemptClaimed] == kinds(events)
    attempts.lose(7)
    attempts.found(TaskRow(id="t", queue="q", name="f", state="claimed"), RECEIPT)
    attempts.settled([Settlement(receipt=RECEIPT, fate="released")], ())
    attempts.lose()
    assert [AttemptClaimed, AttemptLost] == kinds(events)


def test_an_attempt_whose_end_is_on_its_way_is_not_lost_before_the_answer():
    attempts, _, events = noted()
    attempts.begin(RECEIPT)
    attempts.end(RECEIPT)
    attempts.lose(7)
    attempts.settled([Settlement(receipt=RECEIPT, fate="done")], ())
    assert [AttemptClaimed, AttemptDone] == kinds(events)


def test_an_end_that_was_never_answered_is_lost_when_the_worker_is_over():
    attempts, _, events = noted()
    attempts.end(RECEIPT)
    attempts.lose()
    assert [AttemptClaimed, AttemptLost] == kinds(events)


def test_a_claim_of_which_no_reply_told_is_released():
    attempts, _, events = noted()
    unknown = Receipt(task="u", attempt=3, session=7)
    attempts.found(TaskRow(id="u", queue="q", name="g", state="claimed"), unknown)
    attempts.settled([Settlement(receipt=unknown, fate="released")], ())
    assert [("t", "f"), ("u", "g")] == [(each.task, each.name) for each in events]
    assert AttemptReleased is type(events[-1])


HOLDER = """
import sys, time
from datetime import timedelta
from apportion import sync

queue = sync.Queue(sys.argv[1], "mail", lease_ttl=timedelta(seconds=1))

@queue.task()
def hold() -> None:
    print("begun", flush=True)
    time.sleep(60)

queue.enqueue(hold.call())
with queue.worker():
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_task_of_a_killed_worker_is_told_as_retaken(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"
    with subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True) as process:
        assert "begun\n" == process.stdout.readline()
        process.kill()
    queue = Queue(url, "mail", lease_ttl=timedelta(seconds=1))

    @queue.task()
    def hold() -> None: ...

    events = heard_of(queue, lambda _: asyncio.sleep(0))
    assert ([*WHOLE, AttemptDone], [2, 2, 2]) == (kinds(events), [each.attempt for each in events])
    assert (True, 1) == (events[0].is_retaken, queue.statistics.retaken)


@pytest.mark.parametrize("observers", [(), (lambda _: None,)], ids=["unheard", "heard"])
def test_statistics_count_a_run_whether_an_observer_hears_of_it_or_not(observers):
    clock, statistics = Hand(), TaskStatistics()
    attempts = Attempts(*observers, statistics=statistics, queue="q", worker="w", clock=clock)
    claim = Claim(
        receipt=Receipt(task="t", attempt=1, session=1), queue="q", lane=2, name="n", codec="json", arguments=b"{}",
        failures=0, deaths=0, crashes=0, enqueued=0, trace="", waited_ms=500,
    )  # fmt: skip
    attempts.claimed([claim])
    assert (True, False) == (attempts.begin(claim.receipt), attempts.begin(claim.receipt))
    attempts.started([claim.receipt])
    clock.now += 2
    attempts.end(claim.receipt)
    attempts.settled([Settlement(receipt=claim.receipt, fate="done")], ())
    assert (1, 0.5, 2.0) == (statistics.done, statistics.start_latency.seconds, statistics.runs.seconds)
