"""The vandal: steps of a store's clock, and damage to its data, as an intruder or a broken disk might do it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError
from apportion.groups.view.keys import GROUPS, LIVE, GroupKeys
from apportion.sim.facts import ClockStepped, ScheduleAct, TaskCall, TaskDamaged, TaskServed
from apportion.sim.world.process import VANDAL
from apportion.stores import Put, Unchanged
from apportion.stores.schedules.values import TaskSchedule

if TYPE_CHECKING:
    from apportion.sim.world.world import World

SCHEDULE_DAMAGE: tuple[dict[str, object], ...] = (
    {"rule": "30 2 * *"},
    {"zone": "Mars/Olympus"},
    {"missed": "some"},
    {"next_slot": -1},
    {"version": -1},
    {"arguments": b"\xff"},
)
_NOT_UTF8 = "\udcff"
TASK_DAMAGE: tuple[Mapping[str, object], ...] = (
    {},
    *({each: value} for each in ("attempt", "failures", "crashes", "lane") for value in ("x", -1, 2**63 - 1)),
    *({each: value} for each in ("due", "expires", "ready_at", "enqueued") for value in ("x", b"\0", -(2**63))),
    *({each: value} for each in ("name", "queue", "codec", "trace", "reason") for value in (b"x", _NOT_UTF8)),
    *({"deaths_of": value, "deaths": 2} for value in ("x,y", ",", b"\xff", _NOT_UTF8)),
    *({each: "x"} for each in ("arguments", "progress", "most_deaths", "cancelling", "replaced", "on_dead")),
    *({"session": value} for value in ("x", -1)),
    {"uniq": b"x"},
    {"note": b"x"},
)


async def damage_record(world: "World", draw: Random) -> None:
    """Overwrite a record with an invalid or foreign value, as an intruder might."""
    items = [item for key, item in sorted(world.group_checker.history.items.items()) if key.startswith(LIVE)]
    if not items:
        return
    item = draw.choice(items)
    values = [b"", b"{}", b"\xff\x00", b"[" * 9_999, item.value[: len(item.value) // 2]]
    values += [other.value for other in items if GroupKeys.parsed(other.key)[1] != GroupKeys.parsed(item.key)[1]]
    if world.trace.inject("damaged record", item.key):
        put = Put(key=item.key, value=draw.choice(values), lease=draw.choice([None, item.lease]))
        store = world.store(VANDAL, world.group_url)
        with suppress(ApportionError):  # the write comes too late, or the store is away
            await store.scan(GROUPS)
            await store.commit(when=[Unchanged(key=item.key, revision=item.revision)], puts=[put])


def damage_schedule(world: "World", draw: Random) -> None:
    """Overwrite a field of a schedule with a value that no release writes."""
    tasks = world.checker.history.tasks
    rows = [] if tasks is None else [row for _, row in sorted(tasks.schedules.items())]
    if rows and world.trace.inject("damaged schedule", (row := draw.choice(rows)).name):
        fields: dict[str, Any] = draw.choice(SCHEDULE_DAMAGE)
        _overwrite(world, replace(row, **fields))


def damage_task(world: "World", draw: Random) -> None:
    """Lose the row of a task, or overwrite one of its columns with a value that no release writes."""
    tasks = world.checker.history.tasks
    known = [] if tasks is None else [*sorted(tasks.open), *sorted(tasks.ended)]
    values = draw.choice(TASK_DAMAGE)
    said = ", ".join(f"{column}={value!r}" for column, value in values.items()) or "gone"
    if known and world.trace.inject("damaged task", f"{(task := draw.choice(known))[:6]} {said}"):
        world.record(TaskDamaged(at=world.now, task=task))
        world.backing.damage(task, values)
        for fact in world.backing.look():
            world.record(fact)


def _overwrite(world: "World", schedule: TaskSchedule) -> None:
    """Overwrite the row of a schedule; the invariants learn that this is damage."""
    call = world.task_troubles.number()
    act = ScheduleAct(kind="damage", schedules=(schedule,))
    world.record(TaskCall(at=world.now, call=call, process=VANDAL, act=act))
    world.backing.overwrite(schedule)
    for fact in world.backing.look():
        world.record(fact)
    world.record(TaskServed(at=world.now, call=call))


def step_clock(world: "World", milliseconds: int) -> None:
    """Step the clock of the tasks and schedules of a world."""
    world.backing.step_clock(milliseconds)
    world.record(ClockStepped(at=world.now, now_ms=world.backing.now_ms()))
