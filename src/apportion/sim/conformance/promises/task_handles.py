"""Handles of tasks: the end of a handle, forks, other lives of the store, and waits for new work."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import cast

from apportion.errors import ApportionError, OutcomeUnknown, StoreClosed, StoreWentBack
from apportion.sim.conformance.context import LATENESS_SECONDS
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.task_stage import TaskStage, task_case
from apportion.stores import administration
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Pause, Survey
from apportion.stores.task_values import Note, Receipt, Settlement, Worker


@task_case("durable")
async def a_handle_of_tasks_sees_that_an_old_copy_was_restored(stage: TaskStage) -> None:
    """After a reported restore, every call raises `StoreWentBack` until a listing has shown the present tasks."""
    (kept,) = await stage.add(stage.new())
    worker = await stage.worker()
    await stage.stage.rig.save()
    await stage.stage.available(lambda: stage.add(stage.new()))
    (stale,) = await stage.claim(worker)
    await stage.stage.rig.restore()
    await administration(stage.stage.rig.url(stage.stage.namespace)).restored()
    for name, call in _calls(stage.tasks, worker, stage).items():
        await _went_back(stage, call, name)
    await stage.stage.available(lambda: stage.stage.store.scan(""))
    rows = await stage.stage.available(stage.rows)
    same([(kept, "ready")], [(row.id, row.state) for row in rows], "the tasks of the copy")
    await stage.refused(worker, stale.receipt)
    fresh = await stage.worker()
    same([kept], [claim.task for claim in await stage.claim(fresh, want=5)], "the claims after the restore")
    await stage.refused(fresh, stale.receipt)


async def _went_back(stage: TaskStage, ask: Callable[[], Awaitable[object]], what: str) -> None:
    """Fail unless a call reports that the store went back. The handle may first have to connect again."""
    ends = stage.stage.clock.elapsed() + stage.stage.patience_seconds
    while True:
        try:
            answer = await stage.stage.available(ask)
        except StoreWentBack:
            return
        except OutcomeUnknown as error:
            answer = error
        holds(isinstance(answer, OutcomeUnknown), f"{what} after a restore raises StoreWentBack: {answer}")
        holds(stage.stage.clock.elapsed() < ends, f"{what} after a restore raises StoreWentBack")


@task_case()
async def a_closed_handle_of_tasks_is_dead(stage: TaskStage) -> None:
    """After `close` every call on tasks raises `StoreClosed`; closing twice is no error, and other handles go on."""
    tasks, worker = await stage.handle(), await stage.worker()
    await tasks.close()
    await tasks.close()
    for name, call in _calls(tasks, worker, stage).items():
        await raises(StoreClosed, call(), f"{name} of a closed handle")
    await raises(StoreClosed, tasks.wait(0.01), "a wait of a closed handle")
    await stage.add(stage.new())


@task_case()
async def a_forked_child_holds_a_dead_handle_of_tasks(stage: TaskStage) -> None:
    """In a forked child every call on tasks raises `StoreClosed`, closing does nothing, and the parent goes on."""
    await stage.add(stage.new())
    worker = await stage.worker()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, _dead(stage.tasks, worker, stage).encode())
        finally:
            os._exit(0)  # the child must not run any exit handler of the parent
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = await asyncio.to_thread(pipe.read)
    os.waitpid(child, 0)
    same("dead", said, "the handle in the child")
    same(1, len(await stage.claim(worker)), "claims of the parent")


def _dead(tasks: TaskStore, worker: Worker, stage: TaskStage) -> str:
    """Return "dead" if every call is refused before it waits; else return the first call that was not."""
    for name, call in _calls(tasks, worker, stage).items():
        said = _said(call())
        if said != "StoreClosed":
            return f"{name}: {said}"
    closed = _said(tasks.close())
    return "dead" if closed == "answered" else f"close: {closed}"


def _said(call: Awaitable[object]) -> str:
    """Take one step of a call, without a loop: the loop belongs to the parent."""
    try:
        cast("Coroutine[object, None, object]", call).send(None)
    except StopIteration:
        return "answered"
    except StoreClosed:
        return "StoreClosed"
    except (ApportionError, RuntimeError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return "waits"


def _calls(tasks: TaskStore, worker: Worker, stage: TaskStage) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return the calls that compare the life of the store."""
    receipt = Receipt(task="0", attempt=1, session=worker.session)
    return {
        "enqueue": lambda: tasks.enqueue([stage.new()]),
        "turn": lambda: tasks.turn(worker, want=1),
        "settle": lambda: tasks.turn(worker, [Settlement(receipt=receipt, fate="done")]),
        "beat": lambda: tasks.beat(worker.session, [Note(receipt=receipt, progress=0.5)]),
        "control": lambda: tasks.control(Pause(queue=f"{stage.queue}2")),
        "overview": lambda: tasks.query(Survey()),
    }


@task_case()
async def a_wait_ends_when_another_handle_enqueues(stage: TaskStage) -> None:
    """A hint ends a wait soon after new work came, and a wait without new work ends after its time."""
    other = await stage.handle()
    for _ in range(3):
        waiting = stage.stage.beside(stage.tasks.wait(30))
        ends = stage.stage.clock.elapsed() + LATENESS_SECONDS
        while not waiting.done():  # the first enqueue may come before the wait has begun
            holds(stage.stage.clock.elapsed() < ends, f"a wait ends within {LATENESS_SECONDS:g} s")
            await other.enqueue([stage.new()])
            await asyncio.wait([waiting], timeout=0.2)
        await waiting
    began = stage.stage.clock.elapsed()
    await stage.tasks.wait(0.2)
    holds(stage.stage.clock.elapsed() - began < LATENESS_SECONDS, "a wait without new work ends after its time")
