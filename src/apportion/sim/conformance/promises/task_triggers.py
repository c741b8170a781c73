"""Triggers: a slot of a schedule gets its task once, whatever node, clock, lost reply or crash comes between."""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from apportion.errors import StoreUnavailable
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.task_stage import TaskStage, task_case
from apportion.stores.schedules.values import DueSchedule, FireAnswer, Firing, SlotMark, TaskSchedule
from apportion.stores.task_api import TaskStore

_HOUR_MS = 3_600_000
_HANDLES, _SCHEDULES, _SLOTS = 4, 20, 3
_MOST_REQUESTS, _MOST_LOOKS = 12, 100


async def _scheduled(stage: TaskStage, *names: str, behind_ms: int = 60_000) -> tuple[TaskSchedule, ...]:
    """Return stored schedules. Their next slot came `behind_ms` ago."""
    slot = await stage.now_ms() - behind_ms
    hourly = TaskSchedule(
        queue=stage.queue, name="", rule="0 * * * *", task="f", arguments=b"[]", last_slot=slot - 1, next_slot=slot
    )
    made = tuple(replace(hourly, name=each) for each in names)
    schedules = stage.tasks.schedules
    same(names, await schedules.register(made), "the schedules that were added")
    return made


def _firing(stage: TaskStage, row: TaskSchedule, slot: int, *, last: int | None = None) -> Firing:
    """Return the firing of a slot by a node that knows this row. `last` replaces the last slot of the row."""
    return Firing(
        queue=row.queue,
        name=row.name,
        version=row.version,
        last_slot=row.last_slot if last is None else last,
        slot=slot,
        next_slot=slot + _HOUR_MS,
        tzdata="",
        tasks=(replace(stage.new(), schedule=row.name, slot=slot),),
    )


async def _fired(
    stage: TaskStage, *, without: Collection[tuple[str, str]] = (), unable: str = "", of: TaskStore | None = None
) -> FireAnswer:
    """Look once: fire the next slot of each due schedule except `unable`, and leave later slots to later looks."""

    def _decide(due: DueSchedule, _: int) -> Firing | None:
        row = due.schedule
        return None if row.name == unable else _firing(stage, row, row.next_slot)

    schedules = (of or stage.tasks).schedules
    return await schedules.fire([stage.queue], _decide, by="w", without=without)


async def _triggered(stage: TaskStage, firing: Firing, *, of: TaskStore | None = None) -> bool:
    schedules = (of or stage.tasks).schedules
    return await schedules.trigger(firing, by="w")


async def _history(stage: TaskStage, name: str) -> tuple[SlotMark, ...]:
    schedules = stage.tasks.schedules
    return await schedules.history(stage.queue, name)


async def _stored(stage: TaskStage, name: str) -> TaskSchedule:
    schedules = stage.tasks.schedules
    return next(each for each in await schedules.listed(stage.queue) if each.name == name)


@task_case()
async def a_slot_that_many_handles_trigger_at_once_gets_one_task(stage: TaskStage) -> None:
    """If many triggers know the same row, one of them counts, and only the task of that one is there."""
    (row,) = await _scheduled(stage, "s")
    handles = [await stage.handle() for _ in range(_HANDLES)]
    firings = [_firing(stage, row, row.next_slot) for _ in handles]
    pairs = zip(handles, firings, strict=True)
    made = await asyncio.gather(*[_triggered(stage, firing, of=each) for each, firing in pairs])
    same(1, sum(made), "the triggers that counted")
    counted = [firing.tasks[0].id for firing, counts in zip(firings, made, strict=True) if counts]
    same(counted, [each.id for each in await stage.rows()], "the tasks")
    same(counted, [each.task for each in await _history(stage, "s")], "the history")


@task_case()
async def no_slot_up_to_the_last_one_is_triggered(stage: TaskStage) -> None:
    """A late node replays old slots, and names any slot as the last one. It fires none and enqueues nothing."""
    (row,) = await _scheduled(stage, "s")
    slots = [row.next_slot + each * _HOUR_MS for each in range(5)]
    for slot in slots:
        holds(await _triggered(stage, _firing(stage, await _stored(stage, "s"), slot)), "a later slot is triggered")
    now = await _stored(stage, "s")
    for slot in (*slots, row.last_slot):
        for last in (now.last_slot, slot - 1, row.last_slot):
            same(False, await _triggered(stage, _firing(stage, now, slot, last=last)), "a trigger of an old slot")
    same(len(slots), len(await stage.rows()), "the tasks")
    same(now, await _stored(stage, "s"), "the schedule after triggers of old slots")


@task_case()
async def a_trigger_counts_at_its_version_and_last_slot_alone(stage: TaskStage) -> None:
    """After a change or another firing, a trigger that knows the former row enqueues and cancels nothing."""
    before, _ = await _scheduled(stage, "s", "t")
    schedules = stage.tasks.schedules
    (waiting,) = await stage.add(stage.new())
    holds(await schedules.change(replace(before, rule="30 * * * *"), version=1), "a change at the version counts")
    same(False, await schedules.change(before, version=1), "a change at an older version")
    for version, last in ((1, before.last_slot), (3, before.last_slot), (2, before.last_slot - 1)):
        known = replace(before, version=version, last_slot=last)
        firing = replace(_firing(stage, known, before.next_slot), cancels=(waiting,))
        same(False, await _triggered(stage, firing), f"a trigger at version {version}")
    same([waiting], [each.id for each in await stage.rows()], "the tasks")
    row = await _stored(stage, "s")
    same((2, before.last_slot), (row.version, row.last_slot), "version and last slot")
    same(0, await schedules.remove(before.queue, ["s"], version=1), "the schedules removed at an older version")
    same(1, await schedules.remove(before.queue, ["s", "t"], version=2), "the schedules removed at the version")


@task_case()
async def due_slots_fire_once_among_handles(stage: TaskStage) -> None:
    """Handles that fire at the same time fire each due slot once, in order, and leave none behind."""
    behind = (_SLOTS - 1) * _HOUR_MS + 60_000
    await _scheduled(stage, *[f"s{each:02}" for each in range(_SCHEDULES)], behind_ms=behind)
    handles = [await stage.handle() for _ in range(_HANDLES)]

    async def _fire(tasks: TaskStore) -> None:
        for _ in range(_MOST_LOOKS):
            answer = await _fired(stage, of=tasks)
            if answer.next_slot is None or answer.next_slot > answer.now:
                return
        holds(answer.firings, f"no schedule is due after {_MOST_LOOKS} looks")

    await asyncio.gather(*map(_fire, handles))
    schedules = stage.tasks.schedules
    for each in await schedules.listed(stage.queue):
        expected = [each.last_slot - back * _HOUR_MS for back in reversed(range(_SLOTS))]
        same(expected, [mark.slot for mark in await _history(stage, each.name)], f"the slots of {each.name}")
    same(_SLOTS * _SCHEDULES, len(await stage.rows()), "the tasks")


@task_case()
async def a_schedule_that_a_node_cannot_evaluate_fires_on_another_one(stage: TaskStage) -> None:
    """The node leaves this schedule out of its next look, and fires all others. Another node fires this schedule."""
    names = tuple(f"s{each}" for each in range(5))
    await _scheduled(stage, *names)
    first = await _fired(stage, unable="s2")
    same(((stage.queue, "s2"),), first.unable, "the schedules that the node cannot evaluate")
    same({*names} - {"s2"}, {each.name for each in first.firings}, "the schedules that have fired")
    again = await _fired(stage, unable="s2", without=first.unable)
    same(((), ()), (again.firings, again.unable), "the next look of the node")
    holds(again.next_slot is not None and again.next_slot > again.now, "the node rests until the next slot")
    last = await _fired(stage, of=await stage.handle())
    same(["s2"], [each.name for each in last.firings], "the schedules that another node has fired")


@task_case()
async def a_paused_schedule_fires_nothing_until_a_firing_resumes_it(stage: TaskStage) -> None:
    """No slot of a pause gets a task from a look, and the end of the pause moves the last slot."""
    (row,) = await _scheduled(stage, "s")
    schedules = stage.tasks.schedules
    same((1, 0), (await schedules.pause(row.queue, ["s"]), await schedules.pause(row.queue, ["s"])), "pauses")
    answer = await _fired(stage)
    same(((), None), (answer.firings, answer.next_slot), "the look at a paused schedule")
    end = replace(_firing(stage, row, answer.now), tasks=(), resumes=True)
    holds(await _triggered(stage, end), "the pause ends")
    answer = await _fired(stage)
    same(((), ()), (answer.firings, await stage.rows()), "the look after the pause, and the tasks")


@task_case()
async def a_step_of_the_clock_fires_a_slot_late_and_never_twice(stage: TaskStage) -> None:
    """When the clock of the store steps back by an hour, the next slot comes late; no old slot fires again."""
    await _scheduled(stage, "s")
    fired: list[int] = []

    async def _look() -> None:
        fired.extend(each.slot for each in (await _fired(stage)).firings)

    await _look()
    for seconds in (-3_600, 3_600):
        async with stage.stage.rig.stepped(seconds):
            await stage.stage.available(_look)
        await stage.stage.available(_look)
    same(sorted(set(fired)), fired, "the slots in the order of their firings")
    same(len(fired), len(await stage.rows()), "the tasks")


@task_case("multi_host")
async def a_trigger_with_a_lost_reply_is_sent_again_and_counts_once(stage: TaskStage) -> None:
    """When any reply is lost, a repeat of the trigger counts, or is refused; the slot has one task in the end."""
    proxy = await stage.stage.proxy()
    tasks = await stage.handle(address=proxy.address)
    await _scheduled(stage, "s")
    slots = 0
    for nth in range(1, _MOST_REQUESTS + 1):
        row = await _stored(stage, "s")
        firing, lost = _firing(stage, row, row.next_slot), proxy.lost
        proxy.lose_reply(nth)
        try:
            await _triggered(stage, firing, of=tasks)
        except StoreUnavailable:
            await stage.stage.available(partial(_triggered, stage, firing, of=tasks))
        slots += 1
        if proxy.lost == lost:
            break
    proxy.lose_reply(None)
    holds(proxy.lost, "a reply was lost")
    same(slots, len(await stage.rows()), "the tasks")
    history = [each.slot for each in await _history(stage, "s")]
    same((slots, sorted(set(history))), (len(history), history), "the slots that were triggered")


@task_case("durable")
async def a_crash_loses_no_trigger_that_counted(stage: TaskStage) -> None:
    """After kill -9 each slot that was triggered has its task, and is not triggered again."""
    await _scheduled(stage, "s")
    firings = []
    for _ in range(5):
        row = await _stored(stage, "s")
        firings.append(_firing(stage, row, row.next_slot))
        holds(await _triggered(stage, firings[-1]), "a later slot is triggered")
    await stage.stage.crash()
    rows = await stage.stage.available(stage.rows)
    same({each.tasks[0].id for each in firings}, {each.id for each in rows}, "the tasks after the crash")
    for each in firings:
        same(False, await _triggered(stage, each), "a trigger that is repeated after the crash")
