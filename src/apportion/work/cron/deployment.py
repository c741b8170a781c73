"""Deployment: makes the stored schedules of a queue equal to those that a program declares.

Promises: the last slot and a pause of a changed schedule stay, and a new rule fires no slot of the past. A change is
written only if the stored version is still the one that was compared. Otherwise the change is computed anew.
Refuses: to change a schedule that `queue.schedule` made, even if the program declares its name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from apportion.errors.brief import brief
from apportion.stores.schedules.values import TaskSchedule
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import StoreTime
from apportion.work.cron.declaration import changed, placed

Act = Literal["add", "change", "remove", "keep"]
_FIELDS = (
    "rule", "zone", "gap", "fold", "missed", "overlap", "jitter_ms", "task", "arguments", "codec", "lane", "most_deaths"
)  # fmt: skip


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """A difference between the stored and the declared schedule of a name.

    `keep`: `queue.schedule` made the stored schedule, and it stays. `fields` are the names of the fields that differ.
    """

    act: Act
    name: str
    declared: TaskSchedule | None = None
    stored: TaskSchedule | None = None
    fields: tuple[str, ...] = ()


def compared(declared: Mapping[str, TaskSchedule], stored: Sequence[TaskSchedule]) -> tuple[ScheduleChange, ...]:
    """Return the differences of a queue, sorted by name; none for equal schedules. Pure."""
    found = {each.name: each for each in stored if isinstance(each.name, str)}  # any other name is damage
    names = sorted({*declared, *(name for name, each in found.items() if each.is_declared)})
    return tuple(change for name in names for change in _change(name, declared.get(name), found.get(name)))


async def deployed(tasks: TaskStore, queue: str, declared: Mapping[str, TaskSchedule]) -> tuple[ScheduleChange, ...]:
    """Make each change once, and return the changes in the order in which they were made."""
    made: dict[str, ScheduleChange] = {}
    while True:
        left = [each for each in compared(declared, await tasks.schedules.listed(queue)) if each.act != "keep"]
        left = [each for each in left if each.name not in made]
        if not left:
            return tuple(made.values())
        for each in left:
            if await _made(tasks, queue, each):
                made[each.name] = each


def _change(name: str, declared: TaskSchedule | None, stored: TaskSchedule | None) -> Iterator[ScheduleChange]:
    if declared is None:
        yield ScheduleChange(act="remove", name=name, stored=stored)
    elif stored is None:
        yield ScheduleChange(act="add", name=name, declared=declared)
    elif not stored.is_declared:
        yield ScheduleChange(act="keep", name=name, declared=declared, stored=stored)
    else:
        fields = tuple(each for each in _FIELDS if getattr(declared, each) != getattr(stored, each))
        if fields or stored.damage:
            yield ScheduleChange(act="change", name=name, declared=declared, stored=stored, fields=fields)


async def _made(tasks: TaskStore, queue: str, change: ScheduleChange) -> bool:
    """Make one change; return False, and change nothing, if another process was faster."""
    schedules, stored, declared = tasks.schedules, change.stored, change.declared
    now = await tasks.query(StoreTime())
    if declared is None:
        version = None if stored is None or stored.damage else stored.version
        return bool(await schedules.remove(queue, [change.name], version=version))
    if stored is not None and not stored.damage:
        return await schedules.change(changed(declared, stored, now), version=stored.version)
    if stored is not None:  # its last and next slot cannot be trusted, so it begins anew
        await schedules.remove(queue, [change.name])
    return bool(await schedules.register([placed(declared, now)]))
