"""Lives of workers: tasks of an ended session go to other sessions.

The end of a session counts as a death. If its process tells later that it lives on, the end was a lapse and no death.
"""

import asyncio
from dataclasses import replace

from apportion.sim.conformance.context import LATENESS_SECONDS
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.task_stage import TaskStage, done, ended, task_case
from apportion.stores.task_values import Claim, NewTask, Worker

_MANY = 6


async def _orphan(stage: TaskStage, new: NewTask, deaths: int) -> list[Worker]:
    """Let sessions end, one after another, each with a claim of the same task; return their workers."""
    await stage.add(new)
    dead = []
    for _ in range(deaths):
        worker = await stage.worker()
        claim = await stage.claimed(worker)
        same(new.id, claim.task, "the task that is claimed")
        await stage.end(worker)
        dead.append(worker)
    return dead


@task_case()
async def a_claim_is_taken_over_only_after_the_end_of_its_session(stage: TaskStage) -> None:
    """Another session gets the task soon after the lease of the claimant has ended, and not before."""
    (task,) = await stage.add(stage.new())
    granted, other = stage.stage.clock.elapsed(), await stage.worker()
    worker = await stage.worker(ttl_seconds=stage.stage.ttl_seconds)
    (first,) = await stage.claim(worker)
    claim = await stage.claimed(other, within=stage.stage.ttl_seconds + LATENESS_SECONDS)
    lived = stage.stage.clock.elapsed() - granted
    holds(lived >= stage.stage.ttl_seconds, f"the claim lasts as long as the lease: {lived:.3f} s")
    same((task, first.attempt + 1, 1), (claim.task, claim.attempt, claim.deaths), "the claim of the other session")
    holds(claim.is_suspect, "a task is a suspect after the death of its claimant")
    await stage.refused(worker, first.receipt)


@task_case()
async def a_worker_that_never_waits_takes_over_too(stage: TaskStage) -> None:
    """A handle that claims again and again, and never waits, takes part in ending the leases of dead sessions."""
    await stage.add(stage.new())
    dead, heir = await stage.worker(ttl_seconds=stage.stage.ttl_seconds), await stage.worker()
    busy = await stage.handle()
    (first,) = await stage.claim(dead, of=busy)
    ends = stage.stage.clock.elapsed() + stage.stage.ttl_seconds + LATENESS_SECONDS
    while not (claims := await stage.claim(heir, of=busy)):
        holds(stage.stage.clock.elapsed() < ends, "the task of a dead session is claimed")
        await asyncio.sleep(0.02)
    same(first.task, claims[0].task, "the task that was taken over")


@task_case()
async def the_tasks_of_a_renewed_session_stay_its_own(stage: TaskStage) -> None:
    """A session that renews its lease keeps its claims for many times to live."""
    await stage.add(stage.new())
    worker, other = await stage.worker(ttl_seconds=stage.stage.ttl_seconds), await stage.worker()
    (claim,) = await stage.claim(worker)
    ends = stage.stage.clock.elapsed() + 3 * stage.stage.ttl_seconds
    while stage.stage.clock.elapsed() < ends:
        same({worker.session}, await stage.stage.store.renew([worker.session]), "the sessions that are alive")
        same((), await stage.claim(other), "the claims of the other session")
        await stage.tasks.wait(stage.stage.ttl_seconds / 10)
    await stage.settle(worker, done(claim))


@task_case()
async def work_of_ended_sessions_comes_first_in_half_of_the_places(stage: TaskStage) -> None:
    """A turn takes over old claims, oldest first, in up to half of its places, and new work in the others."""
    ids = await stage.add(*[stage.new() for _ in range(2 * _MANY)])
    dead, heir = await stage.worker(), await stage.worker()
    await stage.claim(dead, want=_MANY)
    await stage.end(dead)
    first = [claim.task for claim in await stage.claim(heir, want=4)]
    same([*ids[:2], *ids[_MANY : _MANY + 2]], first, "the claims of the first turn")
    second = [claim.task for claim in await stage.claim(heir, want=4)]
    same([*ids[2:4], *ids[_MANY + 2 : _MANY + 4]], second, "the claims of the second turn")


@task_case()
async def the_tasks_of_many_ended_sessions_are_all_taken_over(stage: TaskStage) -> None:
    """No claim of an ended session is forgotten, however many sessions ended at once."""
    ids = await stage.add(*[stage.new() for _ in range(_MANY)])
    dead, heir = [await stage.worker() for _ in ids], await stage.worker()
    for each in dead:
        await stage.claim(each)
    await stage.end(*dead)
    claims = [claim for _ in range(3) for claim in await stage.claim(heir, want=2 * _MANY)]
    same(sorted(ids), sorted(claim.task for claim in claims), "the tasks that were taken over")
    same({(2, 1)}, {(claim.attempt, claim.deaths) for claim in claims}, "their attempts and deaths")


@task_case()
async def a_task_of_an_ended_session_goes_to_one_of_the_workers_that_take_over_at_once(stage: TaskStage) -> None:
    """Handles that take over at the same time share the tasks of ended sessions; none gets the task of another."""
    handles = [stage.tasks, *[await stage.handle() for _ in range(3)]]
    heirs = [await stage.worker() for _ in handles]
    for _ in range(_MANY):
        ids = await stage.add(*[stage.new() for _ in range(_MANY)])
        dead = await stage.worker()
        same(_MANY, len(await stage.claim(dead, want=_MANY)), "claims of the worker that dies")
        await stage.end(dead)
        claimed: list[Claim] = []
        while len(claimed) < _MANY:
            turns = [each.turn(heir, want=2 * _MANY) for each, heir in zip(handles, heirs, strict=True)]
            claimed += [claim for answer in await asyncio.gather(*turns) for claim in answer.claims]
        same(sorted(ids), sorted(claim.task for claim in claimed), "the tasks that were taken over, each once")
        await stage.settle(heirs[0], *map(done, claimed))


@task_case()
async def a_task_waits_after_its_second_death(stage: TaskStage) -> None:
    """After the first death a task is taken over at once; after the second it waits a second, and is still served."""
    new = stage.new()
    await _orphan(stage, new, deaths=2)
    heir = await stage.worker()
    same((), await stage.claim(heir), "the claims at once")
    row = await stage.row(new.id)
    same(("delayed", 2, 2), row and (row.state, row.deaths, row.attempt), "the task after its second death")
    claim = await stage.claimed(heir, within=1 + LATENESS_SECONDS)
    same((3, 2), (claim.attempt, claim.deaths), "the claim after the pause")


@task_case()
async def a_task_with_two_deaths_is_claimed_beside_no_other_suspect(stage: TaskStage) -> None:
    """While a session runs a task with two deaths, it claims no other suspect. So its end has one cause."""
    ids = await stage.add(stage.new(), stage.new())
    for _ in range(2):
        worker = await stage.worker()
        same(2, len(await stage.claim(worker, want=4)), "claims of a worker that dies")
        await stage.end(worker)
    same((), await stage.claim(await stage.worker(), want=4), "the claims after the second death")
    heir, beside = await stage.worker(), await stage.worker()
    claim = await stage.claimed(heir)
    ends = stage.stage.clock.elapsed() + 1.5
    while stage.stage.clock.elapsed() < ends:
        same((), await stage.claim(heir, want=5), "the claims beside a task with two deaths")
        await stage.tasks.wait(0.1)
    other = await stage.claimed(beside)
    same(set(ids), {claim.task, other.task}, "the tasks of both sessions")


@task_case()
async def ended_sessions_condemn_a_task_at_its_limit_and_no_task_without_one(stage: TaskStage) -> None:
    """A task with as many deaths as it may have is dead, with a reason; without a limit it goes on."""
    condemned, free = replace(stage.new(), most_deaths=1), replace(stage.new(), most_deaths=None)
    await stage.add(condemned, free)
    worker, heir = await stage.worker(), await stage.worker()
    await stage.claim(worker, want=2)
    await stage.end(worker)
    claims = await stage.claim(heir, want=4)
    same([free.id], [claim.task for claim in claims], "the task that goes on")
    row = await stage.row(condemned.id)
    same(("dead", 1, True), row and (row.state, row.deaths, bool(row.reason)), "the condemned task")


@task_case()
async def a_lapse_is_no_death(stage: TaskStage) -> None:
    """A process tells that it outlived its session. The death no longer counts, and a condemned task comes back."""
    struck, condemned = stage.new(), replace(stage.new(), most_deaths=1)
    await stage.add(struck, condemned)
    lapsed, heir = await stage.worker(), await stage.worker()
    await stage.claim(lapsed, want=2)
    await stage.end(lapsed)
    same([struck.id], [claim.task for claim in await stage.claim(heir, want=4)], "the claims of the heir")
    same(["dead"], await stage.states(condemned.id), "the condemned task")
    awake = replace(await stage.worker(), former=(lapsed.session,))
    same([condemned.id], [claim.task for claim in await stage.claim(awake, want=4)], "the task that came back")
    rows = [await stage.row(each.id) for each in (struck, condemned)]
    same([0, 0], [row and row.deaths for row in rows], "the deaths after the lapse")


@task_case()
async def a_lapse_is_told_without_a_claim_too(stage: TaskStage) -> None:
    """A turn that claims nothing also reports former sessions. Their deaths no longer count."""
    condemned = replace(stage.new(), most_deaths=1)
    (lapsed,) = await _orphan(stage, condemned, deaths=1)
    await stage.claim(await stage.worker(), want=2)
    same(["dead"], await stage.states(condemned.id), "the condemned task")
    await stage.tasks.turn(replace(await stage.worker(), former=(lapsed.session,)))
    same(["ready"], await stage.states(condemned.id), "the task after the lapse was told")


@task_case()
async def a_failed_run_clears_the_deaths_of_a_task(stage: TaskStage) -> None:
    """A run that ended by itself, though it failed, shows that the task kills nobody."""
    new = stage.new()
    await _orphan(stage, new, deaths=1)
    heir = await stage.worker()
    (claim,) = await stage.claim(heir, want=2)
    await stage.settle(heir, ended(claim, "retry"))
    row = await stage.row(new.id)
    same((1, 0), row and (row.failures, row.deaths), "the counts")
    again: Claim = await stage.claimed(heir)
    holds(not again.is_suspect, "the task is no suspect any more")


@task_case()
async def a_task_that_was_to_be_cancelled_is_not_taken_over(stage: TaskStage) -> None:
    """The death of a worker ends its tasks that were to be cancelled, or had been replaced."""
    old, newer = [replace(stage.new(), unique="u", on_duplicate="replace") for _ in range(2)]
    await stage.add(old)
    worker, heir = await stage.worker(), await stage.worker()
    await stage.claim(worker)
    await stage.tasks.enqueue([newer])
    await stage.end(worker)
    same([newer.id], [claim.task for claim in await stage.claim(heir, want=4)], "the claims")
    same(["cancelled"], await stage.states(old.id), "the task that had been replaced")
