"""Enqueues: tasks that are added once, found again as they were, named, delayed, and cancelled when they expire."""

import asyncio
from dataclasses import replace

from apportion.sim.conformance.context import LATENESS_SECONDS
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.task_stage import TaskStage, done, ended, task_case
from apportion.stores.task_control import Cancel
from apportion.stores.task_values import Worker

_DELAY_MS = 400
_LARGE_BYTES = 1 << 20
_MANY = 1_000


@task_case()
async def an_acknowledged_task_stays_until_it_is_settled(stage: TaskStage) -> None:
    """A task is there for every handle from the acknowledgement of its enqueue to the settlement of its claim."""
    (task,) = await stage.add(stage.new())
    other, worker = await stage.handle(), await stage.worker()
    same([task], [row.id for row in await stage.rows("ready", of=other)], "the tasks that another handle sees")
    (claim,) = await stage.claim(worker, of=other)
    same([task], [row.id for row in await stage.rows("claimed")], "the tasks that are claimed")
    await stage.settle(worker, done(claim))
    same((), await stage.rows(of=other), "the tasks after the end")


@task_case()
async def a_claim_has_all_that_was_enqueued(stage: TaskStage) -> None:
    """Arguments come back byte for byte, texts sign for sign, and numbers as they were."""
    arguments = bytes(range(256)) + "päyload \N{SNOWMAN}".encode()
    new = replace(stage.new(), name="näme \N{SNOWMAN}", codec="json2", arguments=arguments, lane=1, trace="00-ab-cd-01")
    await stage.add(new)
    before = await stage.now_ms()
    (claim,) = await stage.claim(await stage.worker())
    found = (claim.task, claim.queue, claim.lane, claim.name, claim.codec, claim.arguments, claim.trace)
    same((new.id, new.queue, 1, new.name, "json2", arguments, new.trace), found, "the claim")
    same((0, 0, 0), (claim.failures, claim.deaths, claim.crashes), "the counts of a new task")
    holds(before - 60_000 < claim.enqueued <= before, "the time of the enqueue is that of the store")


@task_case()
async def arguments_of_a_mebibyte_come_back(stage: TaskStage) -> None:
    """The largest arguments that a queue accepts are kept whole."""
    large = bytes(range(256)) * (_LARGE_BYTES // 256)
    await stage.add(replace(stage.new(), arguments=large), stage.new())
    first, second = await stage.claim(await stage.worker(), want=2)
    holds((first.arguments, second.arguments) == (large, b"[]"), "arguments of 1 MiB come back")


@task_case()
async def a_task_enqueued_twice_with_one_id_is_one_task(stage: TaskStage) -> None:
    """A known id is answered with False, whether its task waits, runs, is dead or is cancelled."""
    waiting, running, dead, cancelled = made = [stage.new() for _ in range(4)]
    await stage.add(running, dead)
    worker = await stage.worker()
    _, doomed = await stage.claim(worker, want=2)
    await stage.settle(worker, ended(doomed, "dead"))
    await stage.add(waiting, cancelled)
    await stage.tasks.control(Cancel(tasks=(cancelled.id,)))
    before = await stage.rows()
    again = await stage.tasks.enqueue(made)
    same([(each.id, False) for each in made], list(again), "the answer to the second enqueue")
    same(before, await stage.rows(), "the tasks after the second enqueue")


@task_case()
async def many_tasks_are_enqueued_together_in_their_order(stage: TaskStage) -> None:
    """One call adds a thousand tasks; their claims come in the order of the call."""
    ids = await stage.add(*[stage.new() for _ in range(_MANY)])
    claims = await stage.claim(await stage.worker(), want=_MANY)
    same(list(ids), [claim.task for claim in claims], "the order of the claims")


@task_case()
async def an_id_twice_in_one_call_is_one_task(stage: TaskStage) -> None:
    """A call that names an id twice adds one task, and says so."""
    new = stage.new()
    same(((new.id, True), (new.id, False)), await stage.tasks.enqueue([new, new]), "the answer")
    same([new.id], [row.id for row in await stage.rows()], "the tasks")


@task_case()
async def a_unique_name_is_that_of_one_open_task(stage: TaskStage) -> None:
    """An enqueue of a unique name gets the id of the open task with that name. The end of that task frees the name."""
    first = replace(stage.new(), unique="u")
    elsewhere = replace(stage.new(), unique="u", queue=f"{stage.queue}2")
    await stage.add(first, elsewhere)
    second = replace(stage.new(), unique="u")
    same(((first.id, False),), await stage.tasks.enqueue([second]), "the answer while the first waits")
    worker = await stage.worker()
    (claim,) = await stage.claim(worker)
    same(((first.id, False),), await stage.tasks.enqueue([second]), "the answer while the first runs")
    await stage.settle(worker, done(claim))
    same(((second.id, True),), await stage.tasks.enqueue([second]), "the answer after the end of the first")


@task_case()
async def of_many_enqueues_of_one_unique_name_at_once_one_makes_a_task(stage: TaskStage) -> None:
    """Handles that enqueue one unique name at the same time get one id, and one enqueue adds the task."""
    handles = [stage.tasks, *[await stage.handle() for _ in range(3)]]
    calls = [each.enqueue([replace(stage.new(), unique="u")]) for each in handles for _ in range(5)]
    answers = [answer for (answer,) in await asyncio.gather(*calls)]
    same(1, len({task for task, _ in answers}), "ids that were answered")
    same(1, sum(is_made for _, is_made in answers), "tasks that were made")
    same(1, len(await stage.rows()), "tasks that are open")


@task_case()
async def a_waiting_task_that_is_replaced_gets_the_new_call(stage: TaskStage) -> None:
    """`replace` gives a waiting task the new call and the last place of its priority. Its id stays; none is added."""
    old, beside = replace(stage.new(), unique="u", arguments=b"old", delay_ms=60_000), stage.new()
    await stage.add(old, beside)
    newer = replace(stage.new(), unique="u", arguments=b"new", on_duplicate="replace")
    same(((old.id, False),), await stage.tasks.enqueue([newer]), "the answer")
    claims = await stage.claim(await stage.worker(), want=3)
    found = [(claim.task, claim.arguments) for claim in claims]
    same([(beside.id, b"[]"), (old.id, b"new")], found, "the claims")


@task_case()
async def a_running_task_that_is_replaced_is_not_retried(stage: TaskStage) -> None:
    """`replace` takes the name from a running task: the new call waits beside it, and a failure ends the old one."""
    old, newer = [replace(stage.new(), unique="u", on_duplicate="replace") for _ in range(2)]
    await stage.add(old)
    worker = await stage.worker()
    (claim,) = await stage.claim(worker)
    same(((newer.id, True),), await stage.tasks.enqueue([newer]), "the answer")
    same(["claimed", "ready"], await stage.states(old.id, newer.id), "the states after the replacement")
    await stage.settle(worker, ended(claim, "retry"))
    same(["cancelled", "ready"], await stage.states(old.id, newer.id), "the states after the failure")


@task_case()
async def a_delayed_task_is_not_claimed_before_it_is_due(stage: TaskStage) -> None:
    """A task with a delay, or with a time, waits for it, and is claimed soon after; due tasks come in their order."""
    now, worker = await stage.now_ms(), await stage.worker()
    later = replace(stage.new(), due_at=now + 2 * _DELAY_MS)
    sooner = replace(stage.new(), delay_ms=_DELAY_MS)
    past = replace(stage.new(), due_at=5)
    await stage.add(later, sooner, past)
    same(["delayed", "delayed", "ready"], await stage.states(later.id, sooner.id, past.id), "the states")
    for new, due in ((past, 0), (sooner, now + _DELAY_MS), (later, now + 2 * _DELAY_MS)):
        claim = await stage.claimed(worker, within=2 * _DELAY_MS / 1_000 + LATENESS_SECONDS)
        same(new.id, claim.task, "the next claim")
        holds(await stage.now_ms() >= due, "no claim comes before the task is due")


@task_case()
async def an_expired_task_is_cancelled_and_not_claimed(stage: TaskStage) -> None:
    """A task that nobody claimed before its time is cancelled when its turn comes; the task behind it is claimed."""
    stale, fresh = replace(stage.new(), expires_at=5), replace(stage.new(), expires_at=await stage.now_ms() + 60_000)
    await stage.add(stale, fresh)
    (claim,) = await stage.claim(await stage.worker())
    same(fresh.id, claim.task, "the claim")
    row = await stage.row(stale.id)
    same(("cancelled", "expired", 0), row and (row.state, row.reason, row.attempt), "the expired task")


@task_case()
async def queues_do_not_see_each_other(stage: TaskStage) -> None:
    """A worker claims from its own queues alone, also if the name of another one begins alike."""
    other = f"{stage.queue}2"
    own = await stage.add(stage.new())
    foreign = await stage.add(replace(stage.new(), queue=other))
    workers: list[Worker] = [await stage.worker(), await stage.worker(other)]
    claims = [[claim.task for claim in await stage.claim(each, want=5)] for each in workers]
    same([list(own), list(foreign)], claims, "the claims of both workers")
