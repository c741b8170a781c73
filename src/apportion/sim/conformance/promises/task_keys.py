"""Keys: the tasks of one key run one at a time, in order, in the lanes of their owner."""

import asyncio
from dataclasses import replace

from apportion.errors import InvalidInput, KeyedTasksOpen
from apportion.model.epoch import FencingToken
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.task_stage import TaskStage, done, ended, task_case
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, KeyHead, KeyStats, OwnerOfLane
from apportion.stores.lanes.values import KEYED_LANES, AgreePartitions, MendLane, OwnedLane, ResizePartitions
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import Cancel, Hasten, Redrive
from apportion.stores.task_values import Claim, NewTask, OnDead, Worker

_ROUNDS = 60


def lane(stage: TaskStage, partition: int = 0, *, epoch: int = 1, holder: str = "h") -> OwnedLane:
    """Return an owned lane of the queue."""
    token = FencingToken(resource=stage.queue, holder=holder, incarnation=1, epoch=epoch)
    return OwnedLane(queue=stage.queue, partition=partition, token=token)


def keyed(stage: TaskStage, key: str, partition: int = 0, *, on_dead: OnDead = "skip") -> NewTask:
    """Return a new task of a key."""
    return replace(stage.new(), key=key, lane=KEYED_LANES + partition, on_dead=on_dead)


async def owner(stage: TaskStage, *partitions: int, epoch: int = 1, holder: str = "h") -> Worker:
    """Return a worker that owns the lanes of some partitions."""
    lanes = tuple(lane(stage, each, epoch=epoch, holder=holder) for each in partitions or (0,))
    return replace(await stage.worker(), lanes=lanes)


def only(claims: tuple[Claim, ...]) -> Claim:
    """Return the one claim of a turn."""
    same(1, len(claims), "the number of claims")
    return claims[0]


@task_case()
async def tasks_of_a_key_run_one_at_a_time_in_order(stage: TaskStage) -> None:
    """While a task of a key is claimed the others wait, and the oldest of them is the next; other keys go on."""
    ids = await stage.add(*[keyed(stage, key) for key in ("a", "a", "b", "a")])
    worker, order = await owner(stage), list[str]()
    claims = await stage.claim(worker, want=9)
    same([ids[0], ids[2]], [claim.task for claim in claims], "the first claims")
    same(["a", "b"], [claim.key for claim in claims], "the keys of the claims")
    same((), await stage.claim(worker, want=9), "claims while both keys are busy")
    claims = claims[:1]
    while claims:
        order.append(claims[0].task)
        claims = (await stage.tasks.turn(worker, [done(claims[0])], want=9)).claims
    same([ids[0], ids[1], ids[3]], order, "the tasks of the key, each claimed in the turn that settles the one before")


@task_case()
async def a_keyed_task_keeps_its_place_until_it_has_ended(stage: TaskStage) -> None:
    """A retry, a release and the end of a session keep a task before the later ones of its key."""
    ids = await stage.add(keyed(stage, "a"), keyed(stage, "a"))
    worker = await owner(stage)
    for fate in ("retry", "released", "crashed"):
        claim = only(await stage.claim(worker, want=9))
        same(ids[0], claim.task, f"the task before it was {fate}")
        await stage.settle(worker, ended(claim, fate))
    await stage.claim(worker, want=9)
    await stage.end(worker)
    claim = only(await stage.claim(await owner(stage, epoch=2), want=9))
    same((ids[0], True), (claim.task, claim.is_retaken), "the task that is taken over")


@task_case()
async def a_key_goes_on_after_a_dead_or_a_cancelled_task(stage: TaskStage) -> None:
    """The next task of a key runs once the earlier one is dead or cancelled. A redriven task goes to the end."""
    ids = await stage.add(*[keyed(stage, "a") for _ in range(4)])
    worker = await owner(stage)
    claim = only(await stage.claim(worker, want=9))
    second = only((await stage.tasks.turn(worker, [ended(claim, "dead")], want=9)).claims)
    same(ids[1], second.task, "the task after a dead one")
    same(1, await stage.tasks.control(Cancel(tasks=(ids[2],))), "tasks that were cancelled while they waited")
    same(1, await stage.tasks.control(Redrive(tasks=(ids[0],))), "tasks that were redriven")
    fourth = only((await stage.tasks.turn(worker, [done(second)], want=9)).claims)
    same(ids[3], fourth.task, "the task after a cancelled one")
    last = only((await stage.tasks.turn(worker, [done(fourth)], want=9)).claims)
    same(ids[0], last.task, "the task that was redriven")


@task_case()
async def a_dead_task_that_blocks_its_key_runs_there_first_after_a_redrive(stage: TaskStage) -> None:
    """Under "block" a dead task holds its key until it is redriven, and then runs first; a cancel frees the key."""
    ids = await stage.add(keyed(stage, "a", on_dead="block"), keyed(stage, "a"))
    worker = await owner(stage)
    for _ in range(2):
        claim = only(await stage.claim(worker, want=9))
        same(ids[0], claim.task, "the first task of the key")
        same((), (await stage.tasks.turn(worker, [ended(claim, "dead")], want=9)).claims, "claims behind a dead task")
        same(["dead", "ready"], await stage.states(*ids), "the states")
        head = await stage.tasks.query(HeadOfKey(queue=stage.queue, key="a"))
        same(KeyHead(task=ids[0], state="dead"), head, "the head of the key")
        same(1, await stage.tasks.control(Redrive(tasks=(ids[0],))), "tasks that were redriven")
    same(2, len(await stage.rows()), "the tasks that are listed")
    claim = only(await stage.claim(worker, want=9))
    await stage.settle(worker, ended(claim, "dead"))
    same(1, await stage.tasks.control(Cancel(tasks=(ids[0],))), "tasks that were cancelled")
    same(["cancelled", "ready"], await stage.states(*ids), "the states after a cancel")
    same([ids[1]], [each.task for each in await stage.claim(worker, want=9)], "the claims after a cancel")


@task_case()
async def a_worker_claims_keyed_tasks_in_its_lanes_alone(stage: TaskStage) -> None:
    """New work and the work of ended sessions alike are claimed by the owner of their lane, and by no other worker."""
    ids = await stage.add(keyed(stage, "a"), keyed(stage, "b", 1), stage.new())
    first = await owner(stage, 0, 1)
    same(3, len(await stage.claim(first, want=9)), "the claims of the owner of both lanes")
    await stage.end(first)
    second, plain = await owner(stage, 1, epoch=2), await stage.worker()
    same(
        [ids[1]],
        [each.task for each in await stage.claim(second, want=2)],
        "the tasks that the owner of one lane takes over",
    )
    same(
        [ids[2]],
        [each.task for each in await stage.claim(plain, want=9)],
        "those that a worker without lanes takes over",
    )
    third = await owner(stage, 0, epoch=2)
    same([ids[0]], [each.task for each in await stage.claim(third, want=9)], "those of the owner of the other lane")


@task_case()
async def a_task_without_a_death_passes_those_that_must_run_alone(stage: TaskStage) -> None:
    """A session that runs a task with two deaths goes on behind other such tasks, those of keys and plain ones."""
    for suspects in ([stage.new() for _ in "abc"], [keyed(stage, key) for key in "abc"]):
        ids = await stage.add(*suspects)
        for _ in range(2):
            worker = await owner(stage)
            same(3, len(await stage.claim(worker, want=6)), "claims of a worker that dies")
            await stage.end(worker)
        heir = await owner(stage)
        same((), await stage.claim(heir, want=6), "the claims after the second death")
        same(3, await stage.tasks.control(Hasten(tasks=ids)), "tasks that were hastened")
        (later,) = await stage.add(replace(suspects[0], id=stage.new().id, key=suspects[0].key and "d"))
        same(2, only(await stage.claim(heir)).deaths, "the deaths of the first task")
        same(later, only(await stage.claim(heir)).task, "the task beside it")
        same((), await stage.claim(heir, want=6), "the claims of other tasks with two deaths")
        await stage.tasks.control(Cancel(tasks=(*ids, later)))


@task_case()
async def an_older_token_of_a_lane_claims_nothing_there(stage: TaskStage) -> None:
    """Once a newer token was seen in a lane, a former owner is told, and claims nothing; its claims still settle."""
    ids = await stage.add(keyed(stage, "a"), keyed(stage, "b"), keyed(stage, "c", 1))
    old, new = await owner(stage, 0, 1), await owner(stage, 0, epoch=2, holder="k")
    claim = only(await stage.claim(old, want=1))
    answer = await stage.tasks.turn(new, want=1)
    same(([ids[1]], ()), ([each.task for each in answer.claims], answer.fenced), "the turn of the new owner")
    await stage.add(keyed(stage, "d"))
    answer = await stage.tasks.turn(old, [done(claim)], want=9)
    same(((), old.lanes[:1]), (answer.refused, answer.fenced), "refused receipts and fenced lanes of the old owner")
    same([ids[2]], [each.task for each in answer.claims], "the claims of the old owner")
    twin = await owner(stage, 0, epoch=2, holder="l")
    same(twin.lanes, (await stage.tasks.turn(twin, want=9)).fenced, "the lanes of another holder of an equal token")
    found = await stage.tasks.query(OwnerOfLane(queue=stage.queue, partition=0))
    same(
        None if found is None else (found.owned.token.holder, found.session, found.is_alive),
        ("k", new.session, True),
        "the owner of the lane",
    )
    mends = [await stage.tasks.control(MendLane(owned=old.lanes[0], session=old.session)) for _ in range(2)]
    same(([1, 0], ()), (mends, (await stage.tasks.turn(old, want=9)).fenced), "mends, and lanes fenced afterwards")
    same((), (await stage.tasks.turn(new, want=9)).fenced, "the lanes of a later owner after that")
    same(0, await stage.tasks.control(MendLane(owned=new.lanes[0], session=new.session)), "lanes with an equal token")
    mends = [await stage.tasks.control(MendLane(owned=twin.lanes[0], session=twin.session)) for _ in range(2)]
    same([1, 0], mends, "mends of an equal token of another holder")


@task_case()
async def a_new_owner_waits_for_the_claim_of_the_old_one(stage: TaskStage) -> None:
    """After a lane moved, a key that the old owner still runs waits; it goes on when that claim is settled."""
    ids = await stage.add(keyed(stage, "a"), keyed(stage, "a"), keyed(stage, "b"))
    old, new = await owner(stage), await owner(stage, epoch=2)
    claim = only(await stage.claim(old, want=1))
    same([ids[2]], [each.task for each in await stage.claim(new, want=9)], "the claims of the new owner")
    await stage.settle(old, done(claim))
    same([ids[1]], [each.task for each in await stage.claim(new, want=9)], "its claims after the old claim has ended")


@task_case()
async def keyed_tasks_rank_with_the_default_priority_by_age(stage: TaskStage) -> None:
    """A turn claims keyed tasks and those of the default priority in the order of their enqueues."""
    plain = [replace(stage.new(), lane=each) for each in (3, 2, 0, 2)]
    ids = await stage.add(plain[0], plain[1], keyed(stage, "a"), plain[2], keyed(stage, "b"), plain[3])
    claims = await stage.claim(await owner(stage), want=6)
    same([ids[each] for each in (3, 1, 2, 4, 5, 0)], [each.task for each in claims], "the claims")


@task_case()
async def no_task_of_a_key_is_left_behind_by_enqueues_and_completions_at_once(stage: TaskStage) -> None:
    """A task that is added while the previous task ends is claimed soon, and after the previous task."""
    worker, other = await owner(stage), await stage.handle()
    order, added = list[str](), list(await stage.add(keyed(stage, "a")))

    async def _add(tasks: TaskStore) -> None:
        new = keyed(stage, "a")
        await tasks.enqueue([new])
        added.append(new.id)

    for _ in range(_ROUNDS):
        claim = await stage.claimed(worker)
        order.append(claim.task)
        await asyncio.gather(stage.settle(worker, done(claim)), _add(other))
    order.append((await stage.claimed(worker)).task)
    same(added, order, "the tasks in the order of their claims")


@task_case()
async def keys_keep_their_order_while_workers_claim_at_once(stage: TaskStage) -> None:
    """Owners of several lanes that claim at once run each key in its order, and one task of a key at a time."""
    keys, tasks = "abcdefgh", list[NewTask]()
    for number in range(_ROUNDS):
        key = keys[number % 5 if number % 3 else number % 8]
        tasks.append(keyed(stage, key, keys.index(key) % 4))
    await stage.add(*tasks)
    wanted = {key: [task.id for task in tasks if task.key == key] for key in keys}
    found: dict[str, list[str]] = {key: [] for key in keys}
    handles = [stage.tasks, *[await stage.handle() for _ in range(3)]]
    workers = [await owner(stage, partition) for partition in range(4)]

    async def _work(tasks: TaskStore, worker: Worker) -> None:
        claims = (await tasks.turn(worker, want=3)).claims
        while claims:
            holds(len({each.key for each in claims}) == len(claims), "no two claims have one key")
            for each in claims:
                found[str(each.key)].append(each.task)
            claims = (await tasks.turn(worker, [done(each) for each in claims], want=3)).claims

    await asyncio.gather(*map(_work, handles, workers))
    same(wanted, found, "the tasks of each key in the order of their claims")


@task_case()
async def the_number_of_partitions_is_agreed_and_changes_while_no_keyed_task_is_open(stage: TaskStage) -> None:
    """The store keeps the first number until a resize, and refuses any other. An open keyed task prevents a resize."""
    agree, resize = AgreePartitions(queue=stage.queue, partitions=8), ResizePartitions(queue=stage.queue, partitions=9)
    for _ in range(2):
        await stage.tasks.control(agree)
    await raises(InvalidInput, stage.tasks.control(replace(agree, partitions=9)), "another number of partitions")
    ids = await stage.add(keyed(stage, "a"), keyed(stage, "b"), keyed(stage, "b"))
    busiest = await stage.tasks.query(BusiestKeys(queue=stage.queue, most=1))
    same((KeyStats(key="b", lane=KEYED_LANES, waiting=2),), busiest, "the busiest key")
    await raises(KeyedTasksOpen, stage.tasks.control(resize), "a resize while keyed tasks are open")
    await stage.tasks.control(Cancel(tasks=ids))
    await stage.tasks.control(resize)
    (stats,) = [each for each in (await stage.overview()).queues if each.queue == stage.queue]
    same(9, stats.partitions, "the number of partitions after the resize")


@task_case()
async def keyed_tasks_that_were_placed_by_another_number_of_partitions_are_refused(stage: TaskStage) -> None:
    """A caller that missed a resize adds nothing, neither the task nor others of the same call."""
    new = replace(keyed(stage, "a"), partitions=8)
    await raises(InvalidInput, stage.tasks.enqueue([new]), "a task for a queue without a number of partitions")
    await stage.tasks.control(AgreePartitions(queue=stage.queue, partitions=8))
    await stage.tasks.control(ResizePartitions(queue=stage.queue, partitions=9))
    for tasks in ([new], [stage.new(), new], [replace(new, partitions=9), new]):
        await raises(InvalidInput, stage.tasks.enqueue(tasks), "a task that was placed by the former number")
    same((), await stage.rows(), "the tasks after the refusals")
    await stage.add(replace(new, partitions=9), stage.new(), replace(keyed(stage, "b"), partitions=9))
    same(3, len(await stage.rows()), "the tasks that were placed by the number of the queue")


@task_case()
async def a_dead_task_that_is_redriven_after_a_resize_goes_to_the_lane_of_its_key(stage: TaskStage) -> None:
    """The lane of a redriven task is that of its key under the number of partitions that the queue has now."""
    await stage.tasks.control(AgreePartitions(queue=stage.queue, partitions=1))
    (task,) = await stage.add(replace(keyed(stage, "tenant-42"), partitions=1))
    worker = await owner(stage)
    await stage.settle(worker, ended(only(await stage.claim(worker, want=9)), "dead"))
    await stage.tasks.control(ResizePartitions(queue=stage.queue, partitions=64))
    same(1, await stage.tasks.control(Redrive(tasks=(task,))), "tasks that were redriven")
    same([KEYED_LANES + 59], [each.lane for each in await stage.rows()], "the lane of the task")
