"""Faults under tasks: lost replies, silence, half-open and cut connections, denials, crashes, a full disk."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

from apportion.errors import (
    OutcomeUnknown,
    StoreDenied,
    StoreUnavailable,
)
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.proxy import Proxy
from apportion.sim.conformance.task_stage import TaskStage, done, task_case
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Listing, TaskRow
from apportion.stores.task_values import Claim, Receipt, Settlement, Worker

_MOST_REQUESTS = 12
_BOUND_SECONDS = 20.0
_BUSY_TASKS = 25
_PAUSE_SECONDS = 0.005
_DENIED = 5
_LARGE_BYTES, _MOST_LARGE = 256 * 1024, 40


class _Told:
    """Enqueues, and the answer of each call."""

    def __init__(self, stage: TaskStage) -> None:
        self._stage = stage
        self.kept: set[str] = set()
        self.failed: set[str] = set()
        self.unsure: set[str] = set()

    async def add(self, tasks: TaskStore) -> None:
        """Enqueue a task, and record the answer."""
        new = self._stage.new()
        try:
            await tasks.enqueue([new])
        except OutcomeUnknown as error:
            same((new.id,), error.ids, "the ids of an unknown outcome")
            self.unsure.add(new.id)
        except (StoreUnavailable, StoreDenied):
            self.failed.add(new.id)
        else:
            self.kept.add(new.id)

    async def hold(self) -> None:
        """Fail when something false was said."""
        stage = self._stage
        rows = await stage.stage.available(stage.rows)
        found = {row.id for row in rows}
        same(set(), self.kept - found, "tasks that were acknowledged and are not there")
        same(set(), self.failed & found, "tasks that were said to have failed and are there")


@task_case("multi_host")
async def a_lost_reply_to_an_enqueue_is_never_called_a_failure(stage: TaskStage) -> None:
    """When any reply is lost, an enqueue is acknowledged and done, or unknown with the ids of its tasks."""
    proxy, told = await stage.stage.proxy(), _Told(stage)
    tasks = await stage.handle(address=proxy.address)
    for nth in range(1, _MOST_REQUESTS + 1):
        lost = proxy.lost
        proxy.lose_reply(nth)
        await told.add(tasks)
        if proxy.lost == lost:
            break
    proxy.lose_reply(None)
    holds(proxy.lost, "a reply was lost")
    await told.hold()
    await stage.stage.available(lambda: tasks.enqueue([stage.new()]))


@task_case("multi_host")
async def claims_of_a_lost_reply_are_read_back(stage: TaskStage) -> None:
    """When the reply to a turn is lost, its claims are in the list of the session; a repeat settles nothing twice."""
    proxy, worker = await stage.stage.proxy(), await stage.worker()
    tasks = await stage.handle(address=proxy.address)
    held = 0
    for nth in range(1, _MOST_REQUESTS + 1):
        await stage.add(stage.new())
        lost = proxy.lost
        proxy.lose_reply(nth)
        try:
            heard = len((await tasks.turn(worker, want=1)).claims)
        except StoreUnavailable:
            heard = 0
        proxy.lose_reply(None)
        rows = await stage.find(Listing(session=worker.session, states=("claimed",)))
        holds(len(rows) >= held + heard, "every claim that was heard of is in the list")
        held = len(rows)
        if proxy.lost == lost:
            break
    holds(proxy.lost, "a reply was lost")
    for row in await stage.find(Listing(session=worker.session, states=("claimed",))):
        await _settled_though_a_reply_is_lost(stage, proxy, tasks, worker, row)


async def _settled_though_a_reply_is_lost(
    stage: TaskStage, proxy: Proxy, tasks: TaskStore, worker: Worker, row: TaskRow
) -> None:
    receipt = Receipt(task=row.id, attempt=row.attempt, session=worker.session)
    settlement = Settlement(receipt=receipt, fate="done")
    proxy.lose_reply(1)
    try:
        await tasks.turn(worker, [settlement])
    except StoreUnavailable:
        again = await stage.stage.available(lambda: tasks.turn(worker, [settlement]))
        holds(again.refused in ((), (receipt,)), "a repeat counts, or is refused")
    proxy.lose_reply(None)
    same(["missing"], await stage.states(row.id), "the task after its settlement")


@task_case("multi_host")
async def a_silent_server_keeps_no_worker_waiting(stage: TaskStage) -> None:
    """Behind a network that swallows everything, calls on tasks end in time, say nothing false, and work afterwards."""
    proxy, worker, told = await stage.stage.proxy(), await stage.worker(), _Told(stage)
    tasks = await stage.handle(address=proxy.address)
    await told.add(tasks)
    proxy.silence()
    began = stage.stage.clock.elapsed()
    await asyncio.gather(
        told.add(tasks),
        raises(StoreUnavailable, tasks.turn(worker, want=1), "a turn at a silent server"),
        raises(StoreUnavailable, tasks.beat(worker.session), "a beat at a silent server"),
        raises(StoreUnavailable, stage.rows(of=tasks), "a listing at a silent server"),
    )
    waited = stage.stage.clock.elapsed() - began
    holds(waited < _BOUND_SECONDS, f"calls end within {_BOUND_SECONDS:g} s: {waited:.1f} s")
    proxy.heal()
    await stage.stage.available(lambda: told.add(tasks))
    await told.hold()


@task_case("multi_host")
async def connections_of_tasks_that_answer_no_more_are_given_up_in_time(stage: TaskStage) -> None:
    """When open connections fall silent, while new ones work, turns and enqueues are answered again soon."""
    proxy = await stage.stage.proxy()
    tasks, worker = await stage.handle(address=proxy.address), await stage.worker()
    await asyncio.gather(tasks.enqueue([stage.new()]), tasks.turn(worker, want=1), tasks.wait(0.1))
    proxy.half_open()
    began, told = stage.stage.clock.elapsed(), _Told(stage)
    while not told.kept:
        await told.add(tasks)
    await stage.stage.available(lambda: tasks.turn(worker, want=5))
    waited = stage.stage.clock.elapsed() - began
    holds(waited < _BOUND_SECONDS, f"calls are answered within {_BOUND_SECONDS:g} s: {waited:.1f} s")


@task_case("multi_host")
async def a_wait_goes_on_after_its_connection_was_cut(stage: TaskStage) -> None:
    """A cut connection blocks no wait for ever: the next turn finds the tasks, and later waits work."""
    proxy = await stage.stage.proxy()
    tasks, worker = await stage.handle(address=proxy.address), await stage.worker()
    for _ in range(3):
        waiting = stage.stage.beside(tasks.wait(0.5))
        proxy.cut()
        (task,) = await stage.add(stage.new())
        await stage.stage.until(waiting.done, "a wait ends")
        claims = await stage.stage.available(lambda: stage.claim(worker, want=5, of=tasks))
        same([task], [claim.task for claim in claims], "the claims after a cut")


@task_case()
async def a_right_to_tasks_that_is_taken_for_a_moment_is_missed_and_then_works_again(stage: TaskStage) -> None:
    """A handle of tasks without rights raises `StoreDenied` and changes nothing. When the rights are back, it works."""
    (task,) = await stage.add(stage.new())
    worker, told = await stage.worker(), _Told(stage)
    async with stage.stage.rig.denied():
        await _denied(stage, lambda: told.add(stage.tasks), told)
    (claim,) = await _allowed(stage, lambda: stage.claim(worker))
    same(task, claim.task, "the claim")
    await stage.settle(worker, done(claim))
    await told.hold()


async def _denied(stage: TaskStage, ask: Callable[[], Awaitable[None]], told: _Told) -> None:
    """Repeat an enqueue until `_DENIED` of them have failed. A broken connection may first have to be made again."""
    ends = stage.stage.clock.elapsed() + stage.stage.patience_seconds
    while len(told.failed) < _DENIED:
        await ask()
        same(set(), told.kept, "tasks that were acknowledged without a right")
        holds(stage.stage.clock.elapsed() < ends, "a handle without its rights is denied")


async def _allowed(stage: TaskStage, ask: Callable[[], Awaitable[tuple[Claim, ...]]]) -> tuple[Claim, ...]:
    ends = stage.stage.clock.elapsed() + stage.stage.patience_seconds
    while True:
        try:
            return await stage.stage.available(ask)
        except StoreDenied as error:
            holds(stage.stage.clock.elapsed() < ends, f"a handle with its rights is allowed again: {error}")


@task_case("durable")
async def a_crash_loses_no_task_that_was_acknowledged(stage: TaskStage) -> None:
    """Tasks that were acknowledged before kill -9 are there after it, and no settled task comes back."""
    settled = await _some_settled(stage)
    handles, told = [stage.tasks, await stage.handle()], _Told(stage)

    async def _enqueue(tasks: TaskStore) -> None:
        while True:
            await told.add(tasks)
            await asyncio.sleep(_PAUSE_SECONDS)

    writers = [stage.stage.beside(_enqueue(each)) for each in handles]
    await stage.stage.until(lambda: len(told.kept) >= _BUSY_TASKS, "tasks are enqueued before the crash")
    await stage.stage.crash()
    wanted = len(told.kept) + _BUSY_TASKS
    await stage.stage.until(lambda: len(told.kept) >= wanted, "tasks are enqueued after the crash")
    for writer in writers:
        writer.cancel()
    await asyncio.wait(writers)
    await told.hold()
    same(["missing"] * len(settled), await stage.states(*settled), "tasks that were settled before the crash")


async def _some_settled(stage: TaskStage) -> tuple[str, ...]:
    ids = await stage.add(*[stage.new() for _ in range(5)])
    worker = await stage.worker()
    await stage.settle(worker, *map(done, await stage.claim(worker, want=5)))
    return ids


@task_case("durable")
async def a_full_disk_loses_no_task_that_was_acknowledged(stage: TaskStage) -> None:
    """A store without room refuses tasks, keeps all that it acknowledged, and goes on when there is room again."""
    told, large = _Told(stage), replace(stage.new(), arguments=os.urandom(_LARGE_BYTES))
    await told.add(stage.tasks)
    refusals = 0
    async with stage.stage.rig.full():
        for _ in range(_MOST_LARGE):
            try:
                await stage.tasks.enqueue([replace(large, id=stage.new().id)])
            except (OutcomeUnknown, StoreUnavailable):
                refusals += 1
            if refusals == 3:
                break
    same(3, refusals, "enqueues that were refused on a full disk")
    await stage.stage.available(lambda: told.add(stage.tasks))
    await told.hold()
