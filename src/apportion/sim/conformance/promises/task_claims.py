"""Claims: each task has one claim at most, in the order of priorities and positions, under a session that lives.

The store keeps the priority of a task without a key, 0 to 3, as its lane.
"""

import asyncio
from dataclasses import replace

from apportion.errors import LeaseLost
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.task_stage import TaskStage, done, ended, task_case
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Listing
from apportion.stores.task_values import Receipt, Worker

_MANY, _ROUNDS = 60, 40


@task_case()
async def each_task_goes_to_one_of_the_workers_that_claim_at_once(stage: TaskStage) -> None:
    """Handles that claim at the same time get each task once, and together get them all."""
    ids = await stage.add(*[stage.new() for _ in range(_MANY)])
    handles = [stage.tasks, *[await stage.handle() for _ in range(3)]]
    workers = [await stage.worker() for _ in handles]
    claimed: list[str] = []

    async def _work(tasks: TaskStore, worker: Worker) -> None:
        for _ in range(_ROUNDS):
            claims = (await tasks.turn(worker, want=3)).claims
            claimed.extend(claim.task for claim in claims)
            await stage.settle(worker, *map(done, claims), of=tasks)

    await asyncio.gather(*map(_work, handles, workers))
    same(sorted(ids), sorted(claimed), "the tasks, each claimed once")
    same((), await stage.rows(), "the tasks that are left")


@task_case()
async def claims_are_no_more_than_wanted_and_the_oldest_first(stage: TaskStage) -> None:
    """A turn claims up to the wanted number, in the order of the enqueues."""
    ids = await stage.add(*[stage.new() for _ in range(5)])
    worker = await stage.worker()
    found = [[claim.task for claim in await stage.claim(worker, want=want)] for want in (2, 0, 9, 9)]
    same([list(ids[:2]), [], list(ids[2:]), []], found, "the claims of four turns")


@task_case()
async def of_eight_places_one_goes_to_the_lane_that_waited_longest(stage: TaskStage) -> None:
    """Priorities are served in their order, but every eighth claim is the oldest task, so no priority starves."""
    await stage.add(*[replace(stage.new(), lane=3) for _ in range(2)])
    began = await stage.now_ms()
    while await stage.now_ms() <= began:
        await asyncio.sleep(0.001)
    await stage.add(*[replace(stage.new(), lane=lane) for lane in (1, 0) for _ in range(9)])
    lanes = [claim.lane for claim in await stage.claim(await stage.worker(), want=16)]
    same([0] * 7 + [3, 0, 0] + [1] * 5 + [3], lanes, "the lanes of the claims")


@task_case()
async def attempts_only_grow(stage: TaskStage) -> None:
    """Each claim of a task has an attempt of its own, also after a release: no receipt comes twice."""
    await stage.add(stage.new())
    worker = await stage.worker()
    receipts: list[Receipt] = []
    for fate in ("released", "retry", "released", "crashed", "released"):
        (claim,) = await stage.claim(worker)
        receipts.append(claim.receipt)
        await stage.settle(worker, ended(claim, fate))
    same([1, 2, 3, 4, 5], [receipt.attempt for receipt in receipts], "the attempts")
    same({worker.session}, {receipt.session for receipt in receipts}, "the sessions")


@task_case()
async def a_session_that_has_ended_claims_nothing(stage: TaskStage) -> None:
    """A turn that wants tasks under an ended session raises `LeaseLost`, and settles nothing either."""
    await stage.add(stage.new(), stage.new())
    worker = await stage.worker()
    (claim,) = await stage.claim(worker)
    await stage.end(worker)
    before = await stage.rows()
    await raises(LeaseLost, stage.tasks.turn(worker, want=1), "a turn under an ended session")
    await raises(LeaseLost, stage.tasks.turn(worker, [done(claim)], want=1), "a turn that also settles")
    same(before, await stage.rows(), "the tasks after the turns")


@task_case()
async def a_claim_is_read_back_by_its_session(stage: TaskStage) -> None:
    """The open claims of a session are listed with their attempts, so that a worker finds claims it never heard of."""
    await stage.add(*[stage.new() for _ in range(3)])
    worker, other = await stage.worker(), await stage.worker()
    claims = await stage.claim(worker, want=2)
    await stage.claim(other)
    rows = await stage.find(Listing(session=worker.session, states=("claimed",)))
    found = [Receipt(task=row.id, attempt=row.attempt, session=row.session or 0) for row in rows]
    same([claim.receipt for claim in claims], found, "the receipts that were read back")


@task_case()
async def an_idle_worker_is_known_until_its_session_ends(stage: TaskStage) -> None:
    """A worker that found nothing to claim is listed as it described itself, as long as its session lives."""
    worker = await stage.worker()
    same((), await stage.claim(worker), "the claims of an idle worker")
    same([worker], [each for each in (await stage.overview()).workers if each == worker], "the worker in the list")
    await stage.end(worker)
    sessions = {each.session for each in (await stage.overview()).workers}
    holds(worker.session not in sessions, "a worker is not listed after the end of its session")
