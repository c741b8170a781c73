"""Acts on the schedules of a store: add, change, remove, trigger, pause or resume a schedule.

`kept`, `triggered` and `resumed` read the stored row and write it by compare-and-set. They try again if another process
has changed the row in between.
"""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from apportion.errors import AlreadyTriggered, InvalidInput
from apportion.stores.schedules.values import Firing, TaskSchedule
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import StoreTime
from apportion.stores.task_rows import clean
from apportion.stores.task_values import NewTask
from apportion.work.cron.declaration import changed, placed
from apportion.work.cron.due_slots import next_slot, stored_rule, task_of
from apportion.work.cron.zone_data import zone_data_version

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def kept(tasks: TaskStore, schedule: TaskSchedule) -> bool:
    """Add a schedule, or change the stored one of its name; return whether it is new. No slot of the past fires."""
    while True:
        now = await tasks.query(StoreTime())
        if await tasks.schedules.register([placed(schedule, now)]):
            return True
        stored = await found(tasks, schedule.queue, schedule.name)
        if stored is None:
            continue
        if stored.damage:  # its last and next slot cannot be trusted, so it begins anew
            await tasks.schedules.remove(schedule.queue, [schedule.name])
        elif await tasks.schedules.change(changed(schedule, stored, now), version=stored.version):
            return False


async def triggered(tasks: TaskStore, queue: str, name: str, slot: datetime, *, by: str) -> str:
    """Enqueue the task of a slot, and return its id. `AlreadyTriggered` for a slot that has passed."""
    moment = milliseconds_of("slot", slot)
    while True:
        stored = await existing(tasks, queue, name)
        rule = stored_rule(stored)
        if moment <= stored.last_slot:
            raise AlreadyTriggered(name, slot, told(stored.last_slot))
        task = task_of(stored, moment, uuid4().hex)
        after = next_slot(rule, moment) if moment >= stored.next_slot else stored.next_slot
        if await tasks.schedules.trigger(_firing(stored, moment, after, tasks=(task,)), by=by):
            return task.id


async def run_now(tasks: TaskStore, queue: str, name: str, *, by: str) -> str:
    """Enqueue the task of the slot that is due, or else a task for this moment; return its id.

    `AlreadyTriggered` if the last fired slot lies in the future. Later slots stay as they are, and a pause continues.
    """
    stored, now = await existing(tasks, queue, name), await tasks.query(StoreTime())
    stored_rule(stored)  # refuses a damaged row
    moment = stored.next_slot if stored.last_slot < stored.next_slot <= now else now
    return await triggered(tasks, queue, name, _EPOCH + timedelta(milliseconds=moment), by=by)


async def paused(tasks: TaskStore, queue: str, name: str) -> bool:
    """Stop the firing of a schedule; return False if it was paused before."""
    await existing(tasks, queue, name)
    return bool(await tasks.schedules.pause(queue, [name]))


async def removed(tasks: TaskStore, queue: str, name: str) -> None:
    """Remove a schedule; `InvalidInput` if there is none of this name."""
    await existing(tasks, queue, name)
    await tasks.schedules.remove(queue, [name])


async def resumed(tasks: TaskStore, queue: str, name: str, *, by: str) -> bool:
    """End the pause of a schedule; no slot of the pause fires. Return False if it was not paused."""
    while True:
        stored, now = await existing(tasks, queue, name), await tasks.query(StoreTime())
        rule = stored_rule(stored)
        if not stored.is_paused:
            return False
        passed = max(now, stored.last_slot + 1)
        firing = _firing(stored, passed, next_slot(rule, passed), resumes=True)
        if await tasks.schedules.trigger(firing, by=by):
            return True


async def existing(tasks: TaskStore, queue: str, name: str) -> TaskSchedule:
    """Return a stored schedule; `InvalidInput` if there is none of this name."""
    stored = await found(tasks, queue, name)
    if stored is None:
        raise InvalidInput("schedule", name, "the name of a schedule of the queue", "List them: apportion cron ls")
    return stored


async def found(tasks: TaskStore, queue: str, name: str) -> TaskSchedule | None:
    """Return a stored schedule, None if there is none of this name."""
    if not isinstance(name, str) or clean(name) != name:  # no store can keep such a name
        return None
    return next(iter(await tasks.schedules.listed(queue, name)), None)


def milliseconds_of(field: str, moment: datetime) -> int:
    """Return a moment in milliseconds since 1970; `InvalidInput` without a zone, or from the year 9999 on."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        hint = f"Write {field}=datetime(2026, 11, 24, 9, tzinfo=UTC)"
        given = f"{moment}" if isinstance(moment, datetime) else moment
        raise InvalidInput(field, given, "a datetime with a time zone", hint)
    if moment.year >= 9_999:
        raise InvalidInput(field, str(moment), "a time before the year 9999", "Pass an earlier time.")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def told(moment_ms: int) -> str:
    """Return a time of the store as text, in UTC."""
    return (_EPOCH + timedelta(milliseconds=moment_ms)).isoformat()


def _firing(
    stored: TaskSchedule, slot: int, after: int, *, tasks: tuple[NewTask, ...] = (), resumes: bool = False
) -> Firing:
    return Firing(
        queue=stored.queue,
        name=stored.name,
        version=stored.version,
        last_slot=stored.last_slot,
        slot=slot,
        next_slot=after,
        tzdata=zone_data_version(),
        tasks=tasks,
        resumes=resumes,
    )
