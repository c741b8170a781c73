"""Declaration: schedules as a program declares them, checked when they are declared."""

from dataclasses import replace
from datetime import timedelta
from typing import TypedDict

from apportion.errors import InvalidInput
from apportion.stores.schedules.values import Fold, Gap, Missed, Overlap, TaskSchedule
from apportion.work.call import CODEC, Call
from apportion.work.cron.calendar import Cron, Every
from apportion.work.cron.due_slots import next_slot, rule_of
from apportion.work.cron.zone_data import zone_data_version
from apportion.work.function import AnyTaskFunction, TaskFunction
from apportion.work.retry_budget import length, milliseconds

_MOST_CHARACTERS = 200
_OF_SLOTS = ("rule", "zone", "gap", "fold")
_LONGEST_JITTER = timedelta(days=1)


class Policies(TypedDict, total=False):
    """The options of a schedule besides its rule; see `Queue.cron`."""

    zone: str
    missed: Missed
    overlap: Overlap
    gap: Gap
    fold: Fold
    jitter: timedelta


def cron_schedule(queue: str, name: str, call: Call, rule: str, policies: Policies) -> TaskSchedule:
    """Return a schedule of a cron rule, without last and next slot; `InvalidInput` for a wrong option."""
    schedule = _unruled(queue, name, call, policies)
    Cron(rule=rule, zone=schedule.zone, gap=schedule.gap, fold=schedule.fold)
    return _evaluated(replace(schedule, rule=rule))


def every_schedule(queue: str, name: str, call: Call, period: timedelta, policies: Policies) -> TaskSchedule:
    """Return a schedule of a period, without last and next slot; `InvalidInput` for a wrong option."""
    Every(period=period)
    schedule = _unruled(queue, name, call, policies)
    Cron(rule="@daily", zone=schedule.zone, gap=schedule.gap, fold=schedule.fold)  # refuses a wrong zone, gap or fold
    return _evaluated(replace(schedule, rule=f"every {milliseconds(period)}ms"))


def one_schedule(
    queue: str, name: str, call: Call, policies: Policies, *, cron: str | None, every: timedelta | None
) -> TaskSchedule:
    """Return a schedule of a cron rule or of a period; `InvalidInput` for none or both."""
    if cron is not None and every is None:
        return cron_schedule(queue, name, call, cron, policies)
    if every is not None and cron is None:
        return every_schedule(queue, name, call, every, policies)
    given = None if cron is None else "given both"
    raise InvalidInput(
        "cron or every", given, "one of the two", "Write cron='0 9 * * *', or every=timedelta(minutes=5)"
    )


def scheduled_call(function: AnyTaskFunction) -> Call:
    """Return the call of a task that needs no arguments; `InvalidInput` for any other function."""
    if not isinstance(function, TaskFunction):
        raise InvalidInput("task", function, "a task of the queue", "Write @queue.cron(...) above @queue.task().")
    return function.call()


def placed(schedule: TaskSchedule, now: int) -> TaskSchedule:
    """Return a schedule that begins now: no slot up to now fires."""
    after = next_slot(rule_of(schedule), now)
    return replace(schedule, last_slot=now, next_slot=after, tzdata=zone_data_version())


def changed(schedule: TaskSchedule, stored: TaskSchedule, now: int) -> TaskSchedule:
    """Return a schedule that replaces the stored one.

    The next slot stays, unless the rule, `zone`, `gap` or `fold` changes. So a change of another option or of the call
    loses no slot that is due and has not fired yet.
    """
    if all(getattr(schedule, each) == getattr(stored, each) for each in _OF_SLOTS):
        return replace(schedule, last_slot=stored.last_slot, next_slot=stored.next_slot, tzdata=stored.tzdata)
    return placed(schedule, max(now, stored.last_slot))


def _evaluated(schedule: TaskSchedule) -> TaskSchedule:
    """Return a schedule that this process can evaluate, or raise."""
    rule_of(schedule)
    return schedule


def checked_schedule_name(name: str) -> str:
    """Return the name of a schedule; `InvalidInput` for a name that no schedule can have."""
    if not isinstance(name, str) or not 0 < len(name) <= _MOST_CHARACTERS or not name.isprintable():
        expected = f"1 to {_MOST_CHARACTERS} printable characters"
        raise InvalidInput("name of the schedule", name, expected, "Write name='tenant-7/report'")
    return name


def _unruled(queue: str, name: str, call: Call, policies: Policies) -> TaskSchedule:
    checked_schedule_name(name)
    for field in ("delay", "at", "expires", "unique", "key"):
        value = getattr(call, field)
        if value is not None:
            raise InvalidInput(field, value, "none in the call of a schedule", "Leave it out of the call.")
    jitter = length("jitter", policies.get("jitter", timedelta(0)))
    if jitter > _LONGEST_JITTER:
        raise InvalidInput("jitter", f"{jitter}", "at most a day", "Write jitter=timedelta(minutes=5)")
    return TaskSchedule(
        queue=queue,
        name=name,
        rule="",
        task=call.name,
        arguments=call.arguments,
        codec=CODEC,
        lane=call.priority,
        most_deaths=call.deaths,
        zone=policies.get("zone", "UTC"),
        missed=policies.get("missed", "last"),
        overlap=policies.get("overlap", "skip"),
        gap=policies.get("gap", "run-after"),
        fold=policies.get("fold", "first"),
        jitter_ms=milliseconds(jitter),
        last_slot=0,
        next_slot=0,
    )
