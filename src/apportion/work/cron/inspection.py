"""Inspection: the trouble of stored schedules, as this process sees it. Pure.

Refuses: to judge for other hosts, which may have other zone data. Inspect the schedules there too.
"""

from dataclasses import dataclass
from typing import Literal

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.stores.damage.rows import UNREADABLE
from apportion.stores.schedules.values import TaskSchedule
from apportion.work.cron.due_slots import disagrees, stored_rule

Trouble = Literal["", "damaged", "unable", "schedule_disagrees", "late"]
LATE_MS = 60_000


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedSchedule:
    """A stored schedule, and its trouble as this process sees it.

    - `damaged`: no release writes such a row.
    - `unable`: this process cannot evaluate the schedule; other workers may.
    - `schedule_disagrees`: the stored next slot is not a slot of the rule, as this process evaluates the rule.
    - `late`: the next slot came more than a minute ago, and no worker has fired it. A paused schedule is never late.
    - empty: no trouble.

    `problem` explains the trouble in words.
    """

    schedule: TaskSchedule
    trouble: Trouble = ""
    problem: str = ""


def inspected(schedule: TaskSchedule, *, now: int, tzdata: str) -> InspectedSchedule:
    """Return a schedule with its trouble. `now` is the time of the store, `tzdata` the zone data of this process.

    >>> times = {"last_slot": 0, "next_slot": 1_800_000_000_005}
    >>> hourly = TaskSchedule(queue="q", name="s", rule="0 * * * *", task="f", arguments=b"", **times)
    >>> inspected(hourly, now=0, tzdata="2026a").trouble
    'schedule_disagrees'
    """
    if schedule.damage:
        return InspectedSchedule(schedule=schedule, trouble="damaged", problem=f"its row is damaged: {schedule.damage}")
    try:
        is_other = disagrees(schedule, stored_rule(schedule))
    except UNREADABLE as error:  # `InvalidInput` too
        problem = error.problem if isinstance(error, InvalidInput) else repr(error)
        return InspectedSchedule(
            schedule=schedule, trouble="unable", problem=f"this host cannot evaluate it: {problem}"
        )
    if is_other:
        theirs = schedule.tzdata or "unknown"
        problem = f"zone data {theirs} gave its next slot; with {tzdata} here, the rule has no such slot"
        return InspectedSchedule(schedule=schedule, trouble="schedule_disagrees", problem=problem)
    if schedule.next_slot < now - LATE_MS and not schedule.is_paused:
        return InspectedSchedule(schedule=schedule, trouble="late", problem="no worker has fired its next slot yet")
    return InspectedSchedule(schedule=schedule)
