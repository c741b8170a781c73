"""Controls: pauses, limits, cancels, redrives and purges, and the answers to an operator's questions."""

import asyncio
from dataclasses import replace

from apportion.sim.conformance.context import LATENESS_SECONDS
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.task_stage import TaskStage, done, ended, task_case
from apportion.stores.task_control import Cancel, Hasten, Listing, Pause, Purge, QueueStats, Redrive, SetLimit
from apportion.stores.task_values import Settlement

_PER_MS = 1_000


@task_case()
async def a_paused_queue_is_not_claimed_and_its_runs_go_on(stage: TaskStage) -> None:
    """Nobody claims from a paused queue, or takes over its old work. Its open claims can still be settled."""
    ids = await stage.add(*[stage.new() for _ in range(3)])
    worker, dead = await stage.worker(), await stage.worker()
    (claim,) = await stage.claim(worker)
    await stage.claim(dead)
    await stage.end(dead)
    same(1, await stage.tasks.control(Pause(queue=stage.queue)), "the queues that were paused")
    same((), await stage.claim(worker, want=5, of=await stage.handle()), "the claims while the queue is paused")
    await stage.settle(worker, done(claim))
    await stage.tasks.control(Pause(queue=stage.queue, is_paused=False))
    claims = await stage.claim(worker, want=5)
    same(list(ids[1:]), sorted((each.task for each in claims), key=ids.index), "the claims afterwards")


@task_case()
async def a_limit_of_open_claims_holds_for_all_workers(stage: TaskStage) -> None:
    """Workers that claim at once never hold more claims of a queue than its limit, and use it whole."""
    await stage.add(*[stage.new() for _ in range(20)])
    await stage.tasks.control(SetLimit(queue=stage.queue, open_claims=3))
    handles = [stage.tasks, *[await stage.handle() for _ in range(3)]]
    workers, finished = [await stage.worker() for _ in handles], 0
    for _ in range(40):
        answers = await asyncio.gather(*[each.turn(own, want=2) for each, own in zip(handles, workers, strict=True)])
        claims = [claim for answer in answers for claim in answer.claims]
        holds(len(claims) <= 3, f"at most 3 claims are open: {len(claims)}")
        await stage.settle(workers[0], *map(done, claims))
        finished += len(claims)
    same(20, finished, "tasks that were done")


@task_case()
async def a_rate_holds_for_all_workers(stage: TaskStage) -> None:
    """A queue with a rate lets no more claims begin than it allows, and goes on when time has passed."""
    await stage.add(*[stage.new() for _ in range(7)])
    began = await stage.now_ms()
    await stage.tasks.control(SetLimit(queue=stage.queue, rate=3, per_ms=_PER_MS))
    worker, other = await stage.worker(), await stage.worker()
    first = [*await stage.claim(worker, want=2), *await stage.claim(other, want=5)]
    spent = await stage.now_ms() - began
    holds(3 <= len(first) <= 3 + 3 * spent / _PER_MS, f"claims of the first {spent} ms: {len(first)}")
    for number in range(len(first), 7):
        await stage.claimed(worker, within=_PER_MS / 1_000 + LATENESS_SECONDS)
        spent = await stage.now_ms() - began
        holds(number + 1 <= 3 + 3 * spent / _PER_MS, f"claims of the first {spent} ms: {number + 1}")
    await stage.tasks.control(SetLimit(queue=stage.queue))
    await stage.add(*[stage.new() for _ in range(9)])
    same(9, len(await stage.claim(worker, want=9)), "claims without a limit")


@task_case()
async def a_waiting_task_is_cancelled_at_once(stage: TaskStage) -> None:
    """A ready or a delayed task that is cancelled is kept as cancelled, and never claimed."""
    ready, delayed = stage.new(), replace(stage.new(), delay_ms=60_000)
    await stage.add(ready, delayed)
    same(2, await stage.tasks.control(Cancel(tasks=(ready.id, delayed.id, "0"))), "tasks that were cancelled")
    same(["cancelled", "cancelled"], await stage.states(ready.id, delayed.id), "the states")
    same((), await stage.claim(await stage.worker(), want=5), "the claims")


@task_case()
async def a_running_task_that_is_cancelled_is_named_to_its_worker(stage: TaskStage) -> None:
    """Each beat of the claimant names the claim to cancel. A release of this claim ends the task as cancelled."""
    ids = await stage.add(stage.new(), stage.new())
    worker, other = await stage.worker(), await stage.worker()
    (claim,) = await stage.claim(worker)
    await stage.claim(other)
    same((), (await stage.tasks.beat(worker.session)).cancels, "the claims to cancel, before")
    same(1, await stage.tasks.control(Cancel(tasks=ids[:1])), "tasks that were cancelled")
    for _ in range(2):
        same((claim.receipt,), (await stage.tasks.beat(worker.session)).cancels, "the claims to cancel")
        same((), (await stage.tasks.beat(other.session)).cancels, "the claims of another session to cancel")
    await stage.settle(worker, ended(claim, "released"))
    same(["cancelled", "claimed"], await stage.states(*ids), "the states")
    same((), (await stage.tasks.beat(worker.session)).cancels, "the claims to cancel, afterwards")


@task_case()
async def a_completion_that_came_first_wins_over_a_cancel(stage: TaskStage) -> None:
    """A task that its worker completes in spite of a cancel is done. A cancel after the end changes nothing."""
    (task,) = await stage.add(stage.new())
    worker = await stage.worker()
    (claim,) = await stage.claim(worker)
    await stage.tasks.control(Cancel(tasks=(task,)))
    await stage.settle(worker, Settlement(receipt=claim.receipt, fate="done", result=b"r"))
    same(0, await stage.tasks.control(Cancel(tasks=(task,))), "tasks that were cancelled after the end")
    same(["done"], await stage.states(task), "the state")


@task_case()
async def a_dead_and_a_cancelled_task_are_redriven_with_fresh_budgets(stage: TaskStage) -> None:
    """A redriven task is ready, keeps its id and attempts, and has no failures or deaths. A done task stays done."""
    dead, cancelled, finished = ids = await stage.add(*[stage.new() for _ in range(3)])
    worker = await stage.worker()
    claims = await stage.claim(worker, want=3)
    ends = [ended(claims[0], "dead"), ended(claims[1], "cancelled"), done(claims[2])._replace(result=b"r")]
    await stage.settle(worker, *ends)
    same(2, await stage.tasks.control(Redrive(tasks=ids)), "tasks that were redriven")
    same(["ready", "ready", "done"], await stage.states(dead, cancelled, finished), "the states")
    row = await stage.row(dead)
    same((1, 0, 0, 0), row and (row.attempt, row.failures, row.deaths, row.crashes), "the counts")
    same({2}, {claim.attempt for claim in await stage.claim(worker, want=3)}, "the attempts of the next claims")


@task_case()
async def a_redrive_takes_no_unique_name_from_an_open_task(stage: TaskStage) -> None:
    """A dead task stays dead as long as another task has its unique name."""
    first, second = [replace(stage.new(), unique="u") for _ in range(2)]
    await stage.add(first)
    worker = await stage.worker()
    (claim,) = await stage.claim(worker)
    await stage.settle(worker, ended(claim, "dead"))
    await stage.add(second)
    same(0, await stage.tasks.control(Redrive(tasks=(first.id,))), "tasks that were redriven")
    same(["dead", "ready"], await stage.states(first.id, second.id), "the states")
    await stage.tasks.control(Cancel(tasks=(second.id,)))
    same(1, await stage.tasks.control(Redrive(tasks=(first.id,))), "tasks that were redriven once the name was free")


@task_case()
async def a_delayed_task_is_hastened(stage: TaskStage) -> None:
    """A delayed task that an operator hastens is ready at once; a ready one keeps its place."""
    delayed, ready = replace(stage.new(), delay_ms=60_000), stage.new()
    await stage.add(delayed, ready)
    same(1, await stage.tasks.control(Hasten(tasks=(delayed.id, ready.id))), "tasks that were hastened")
    claims = await stage.claim(await stage.worker(), want=2)
    same([ready.id, delayed.id], [claim.task for claim in claims], "the claims")


@task_case()
async def a_purge_forgets_a_queue_and_no_claimed_task(stage: TaskStage) -> None:
    """A purge removes the tasks of one queue in the named states; a claimed task and other queues stay."""
    elsewhere = replace(stage.new(), queue=f"{stage.queue}2")
    (running, *_) = await stage.add(*[stage.new() for _ in range(4)], replace(stage.new(), delay_ms=60_000), elsewhere)
    worker = await stage.worker()
    claims = await stage.claim(worker, want=2)
    await stage.settle(worker, ended(claims[1], "dead"))
    same(2, await stage.tasks.control(Purge(queue=stage.queue, states=("ready",))), "ready tasks that were purged")
    found = [row.state for row in await stage.rows()]
    same(["claimed", "dead", "delayed"], sorted(found), "the states that are left")
    every = Purge(queue=stage.queue, states=("ready", "delayed", "claimed", "dead", "cancelled", "done"))
    same(2, await stage.tasks.control(every), "tasks that were purged")
    same([running], [row.id for row in await stage.rows()], "the tasks that are left")
    same(["ready"], await stage.states(elsewhere.id), "the task of another queue")


@task_case()
async def a_purge_is_bounded(stage: TaskStage) -> None:
    """A purge removes at most the wanted number of tasks of each state."""
    await stage.add(*[stage.new() for _ in range(3)], *[replace(stage.new(), delay_ms=60_000) for _ in range(3)])
    worker = await stage.worker()
    dead = await stage.add(*[replace(stage.new(), lane=0) for _ in range(3)])
    claims = await stage.claim(worker, want=3)
    same(sorted(dead), sorted(claim.task for claim in claims), "the tasks of the first lane")
    await stage.settle(worker, *[ended(claim, "dead") for claim in claims])
    some = Purge(queue=stage.queue, states=("ready", "delayed", "dead"), most=2)
    same([6, 3, 0], [await stage.tasks.control(some) for _ in range(3)], "tasks that each purge removed")


@task_case()
async def a_listing_is_paged_by_position_and_filtered(stage: TaskStage) -> None:
    """Pages of a listing hold each open task once, in the order of claims; state, name and session narrow it."""
    ids = await stage.add(*[replace(stage.new(), name=name) for name in "fgfgf"])
    worker = await stage.worker()
    await stage.claim(worker)
    pages, after = list[str](), 0
    while rows := await stage.find(Listing(queue=stage.queue, after=after, most=2)):
        holds(len(rows) <= 2, "a page has at most the wanted number of tasks")
        pages += [row.id for row in rows]
        after = rows[-1].position
    same(list(ids), pages, "the tasks of all pages")
    asked = Listing(queue=stage.queue, name="f", states=("ready",))
    same([ids[2], ids[4]], [row.id for row in await stage.find(asked)], "the ready tasks with a name")
    asked = Listing(session=worker.session)
    same([ids[0]], [row.id for row in await stage.find(asked)], "the tasks of a session")


@task_case()
async def the_numbers_of_a_queue_are_those_of_its_tasks(stage: TaskStage) -> None:
    """The overview counts each state of a queue, its workers and its limits, and knows how long the oldest waits."""
    await stage.add(*[stage.new() for _ in range(4)], replace(stage.new(), delay_ms=60_000))
    worker = await stage.worker()
    claims = await stage.claim(worker, want=3)
    await stage.settle(worker, ended(claims[0], "dead"), ended(claims[1], "cancelled"))
    await stage.tasks.control(SetLimit(queue=stage.queue, open_claims=7, rate=9, per_ms=5))
    await stage.tasks.control(Pause(queue=stage.queue))
    (found,) = [each for each in (await stage.overview()).queues if each.queue == stage.queue]
    holds(0 <= found.oldest_ready_ms < 60_000, f"the oldest ready task has waited for {found.oldest_ready_ms} ms")
    counts = {"ready": 1, "delayed": 1, "claimed": 1, "dead": 1, "cancelled": 1, "workers": 1}
    expected = QueueStats(queue=stage.queue, **counts, is_paused=True, open_claims=7, rate=9, per_ms=5, starts_left=9.0)
    same(expected, replace(found, oldest_ready_ms=0), "the numbers")
