"""The order in which the runs of a worker begin, and which claims it gives back."""

import asyncio
import logging
import os
import time
from contextlib import suppress

import pytest

import apportion
from apportion.runtime.clock import SystemClock
from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.task_values import Claim, Receipt
from apportion.work.attempts import Attempts
from apportion.work.function import TaskFunction, TaskOptions
from apportion.work.retry_budget import Budget
from apportion.work.runs import Runs
from apportion.work.wrappers import Wrappers


class _Desk:
    """Keeps the settlements; `left` are the seconds that the session of each claim has left."""

    def __init__(self):
        self.settled, self.reasons, self.left = [], [], {1: 60.0}
        self.attempts = Attempts(queue="q", worker="w", clock=SystemClock())

    def seconds_left(self, session):
        return self.left[session]

    def started(self, receipt):
        pass

    def settle(self, settlement):
        self.settled.append((settlement.receipt.task, settlement.fate))
        self.reasons.append(settlement.reason)


def _claim(task, *, deaths=0, lane=2, session=1):
    return Claim(
        receipt=Receipt(task=task, attempt=1, session=session), queue="q", lane=lane, name="n", codec="json",
        arguments=b"{}", failures=0, deaths=deaths, crashes=0, enqueued=0, trace="",
    )  # fmt: skip


async def _given_back():
    desk = _Desk()
    runs = Runs("memory://runs", {}, concurrency=1, processes=0, ttl_seconds=0.05, desk=desk)
    for claims in ([_claim("plain")], [_claim("a", deaths=1), _claim("late")], [_claim("b", deaths=1)]):
        runs.start(claims, incarnation=1)
    async with asyncio.timeout(10):
        while len(desk.settled) < 2:
            await asyncio.sleep(0.01)
    overdue, desk.settled = desk.settled, []
    runs.give_back()
    await runs.close()
    return overdue, desk.settled


def test_suspects_go_first_in_their_order_and_are_not_given_back_for_having_waited():
    overdue, left = asyncio.run(_given_back())
    assert [("plain", "released"), ("late", "released")] == overdue
    assert [("a", "released"), ("b", "released")] == left


def test_claims_that_come_after_the_end_of_a_worker_are_given_back_and_not_begun():
    async def _late():
        desk = _Desk()
        runs = Runs("memory://runs", {}, concurrency=1, processes=0, ttl_seconds=60, desk=desk)
        runs.open()
        runs.give_back()
        runs.start([_claim("late")], incarnation=1)
        await runs.close()
        return desk.reasons

    assert ["the worker left"] == asyncio.run(_late())


def test_a_claim_whose_session_has_no_time_left_is_given_back_and_holds_up_no_other():
    async def _late():
        desk = _Desk()
        desk.left |= {1: 0.0, 2: 60.0}
        runs = Runs("memory://runs", {}, concurrency=1, processes=0, ttl_seconds=60, desk=desk)
        runs.open()
        late = [_claim("suspect", deaths=1), _claim("late")]
        runs.start([*late, _claim("next", session=2)], incarnation=1)
        await runs.close()
        return list(zip(desk.settled, desk.reasons, strict=True))

    lapsed = "its session had no time left"
    others = (("next", "released"), "this worker has no task function 'n'")
    assert [(("suspect", "released"), lapsed), (("late", "released"), lapsed), others] == asyncio.run(_late())


def test_tasks_that_have_not_begun_in_lanes_that_move_are_given_back_and_no_others():
    async def _moved():
        desk = _Desk()
        runs = Runs("memory://runs", {}, concurrency=1, processes=0, ttl_seconds=60, desk=desk)
        lanes = (KEYED_LANES + 2, KEYED_LANES + 3, 2)
        suspect = _claim("suspect", deaths=1, lane=KEYED_LANES + 2)
        runs.start([*(_claim(f"lane {lane}", lane=lane) for lane in lanes), suspect], incarnation=1)
        runs.give_back(frozenset({2, 7}))
        moved, desk.settled = desk.settled, []
        runs.give_back()
        await runs.close()
        return moved, desk.settled

    moved, rest = asyncio.run(_moved())
    assert [("suspect", "released"), (f"lane {KEYED_LANES + 2}", "released")] == moved
    assert [(f"lane {KEYED_LANES + 3}", "released"), ("lane 2", "released")] == rest


def check_that_the_forked_process_ends(queue, fork, forked):
    """Run a task that forks, and wait for the process that it notes in `forked`."""

    async def _run():
        await queue.enqueue(fork.call())
        return await queue.drain()

    assert 1 == asyncio.run(asyncio.wait_for(_run(), 20)).done
    deadline = time.monotonic() + 10
    while (ended := os.waitpid(forked[0], os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (forked[0], 0) == ended


def test_a_process_that_a_function_forks_and_lets_return_ends(tmp_path):
    queue = apportion.Queue(f"sqlite:///{tmp_path}/work.db", "mail")
    forked = []

    @queue.task()
    def fork() -> None:
        pid = os.fork()
        if pid:
            forked.append(pid)

    check_that_the_forked_process_ends(queue, fork, forked)


def test_a_process_that_an_async_function_forks_and_lets_return_ends(tmp_path):
    queue = apportion.Queue(f"sqlite:///{tmp_path}/work.db", "mail")
    forked = []

    @queue.task()
    async def fork() -> None:
        if pid := os.fork():
            forked.append(pid)

    check_that_the_forked_process_ends(queue, fork, forked)


class _Broken(logging.Handler):
    def __init__(self, error):
        super().__init__()
        self._error = error

    def handle(self, record):
        raise self._error


@pytest.fixture(params=[OSError("the disk of the log is full"), SystemExit("a handler that ends programs")], ids=repr)
def broken_log(request):
    """A handler of the log of tasks that raises."""
    logger, handler = logging.getLogger("apportion.work"), _Broken(request.param)
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


@pytest.mark.usefixtures("broken_log")
def test_a_log_handler_that_raises_stops_no_task(tmp_path):
    queue = apportion.Queue(f"sqlite:///{tmp_path}/work.db", "mail")

    @queue.task(failures=1)
    async def fail() -> None:
        raise ValueError("no")

    @queue.task()
    async def work() -> None: ...

    async def _run():
        await queue.enqueue_many([fail.call(), work.call()])
        return await queue.drain()

    drained = asyncio.run(asyncio.wait_for(_run(), 20))
    assert (1, 1) == (drained.dead, drained.done)


async def _waiting() -> None:
    await asyncio.Event().wait()


async def _completing() -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


async def _stopped(stop, n=_waiting, *, begins=False):
    """Begin a run that waits, stop it in some way, perhaps after its first step, and return the settlements."""
    desk, functions = _Desk(), {"n": TaskFunction(n, TaskOptions(name="n", budget=Budget()), Wrappers())}
    runs = Runs("memory://runs", functions, concurrency=1, processes=0, ttl_seconds=10, desk=desk)
    runs.open()
    runs.start([_claim("a")], incarnation=1)
    if begins:
        await asyncio.sleep(0)
    stop(runs)
    async with asyncio.timeout(10):
        await runs.until_idle()
    await runs.close()
    return desk.settled


def test_a_run_that_is_cancelled_before_its_first_step_is_settled_as_cancelled():
    receipt = _claim("a").receipt
    assert [("a", "cancelled")] == asyncio.run(_stopped(lambda runs: runs.cancel([receipt])))


def test_a_run_that_completes_in_spite_of_its_cancellation_is_done():
    receipt = _claim("a").receipt
    settled = asyncio.run(_stopped(lambda runs: runs.cancel([receipt]), _completing, begins=True))
    assert [("a", "done")] == settled


def test_a_run_whose_session_is_over_is_settled_by_nobody_even_if_it_was_to_be_cancelled():
    def _stop(runs):
        runs.cancel([_claim("a").receipt])
        runs.lose(1)

    assert [] == asyncio.run(_stopped(_stop))


def test_a_run_that_the_program_cancels_is_given_back():
    def _stop(_):
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()

    assert [("a", "released")] == asyncio.run(_stopped(_stop))
