"""Due slots: the slots of a due schedule that get a task now, and its next slot. Pure.

Promises: no slot up to `last_slot` is fired, independent of the clock and the zone data of this process. A slot has one
task at most. The newest slot that has come is fired, unless the policy for missed slots finds it too late. A task of
the schedule may also hold the slot back: an open task, or the task that an earlier missed slot gets now.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Protocol, get_args

from xxhash import xxh3_64_intdigest

from apportion.errors import InvalidInput
from apportion.stores.schedules.values import DueSchedule, Firing, Missed, Overlap, TaskSchedule
from apportion.stores.task_values import NewTask
from apportion.work.cron.calendar import Cron, Every

LATE_MS = 60_000  # missed="skip" fires a slot that is at most this late
MOST_MISSED = 100  # missed="all" fires at most this number of slots
OLDEST_MISSED_MS = 24 * 3_600 * 1_000  # missed="all" fires no slot that is older than this
MOST_COUNTED = 100  # `missed_slots` counts up to this number
_LOOKS_BACK_MS = (120_000, 3_600_000, OLDEST_MISSED_MS, 32 * 24 * 3_600_000, 400 * 24 * 3_600_000)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_EVERY = re.compile(r"every ([0-9]{1,15})ms")


class SlotRule(Protocol):
    """A rule that yields slots: `Cron` or `Every`."""

    def slots(self, after: datetime) -> Iterator[datetime]:
        """Yield the slots after an instant, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A firing. `disagrees`: the stored next slot is not a slot of the rule, as this process evaluates the rule."""

    firing: Firing
    disagrees: bool


def stored_rule(schedule: TaskSchedule) -> SlotRule:
    """Return the rule of a stored schedule; `InvalidInput` for a damaged row, and the errors of `rule_of`."""
    if schedule.damage:
        hint = "Schedule it again under this name, or remove it."
        raise InvalidInput("schedule", schedule.name, f"an undamaged row; {schedule.damage}", hint)
    return rule_of(schedule)


def rule_of(schedule: TaskSchedule) -> SlotRule:
    """Return the rule of a schedule; `InvalidInput` if this process cannot evaluate it."""
    for field, value, known in (
        ("missed", schedule.missed, get_args(Missed)),
        ("overlap", schedule.overlap, get_args(Overlap)),
    ):
        if value not in known:
            hint = "Pick one of them. If a later release stored this schedule, upgrade apportion on this host."
            raise InvalidInput(field, value, f"one of {', '.join(known)}", hint)
    if (period := period_of(schedule)) is not None:
        return Every(period=period)
    return Cron(rule=schedule.rule, zone=schedule.zone, gap=schedule.gap, fold=schedule.fold)


def period_of(schedule: TaskSchedule) -> timedelta | None:
    """Return the period of a schedule; None for a cron rule."""
    found = _EVERY.fullmatch(schedule.rule) if isinstance(schedule.rule, str) else None
    return None if found is None else int(found[1]) * _MILLISECOND


def next_slot(rule: SlotRule, after: int) -> int:
    """Return the first slot of a rule after a time; `InvalidInput` if there is none before the year 9999."""
    slot = next(_slots(rule, after), None)
    if slot is None:
        given = f"{_EPOCH + after * _MILLISECOND}"
        raise InvalidInput("slot", given, "a time long before the year 9999", "Choose an earlier slot.")
    return slot


def decide(due: DueSchedule, *, now: int, new_id: Callable[[], str], tzdata: str) -> Decision:
    """Return the firing of a schedule that is due. Pure, except for the ids of its tasks.

    `now` is the time of the store; `tzdata` names the zone data of this process.
    """
    schedule, rule = due.schedule, stored_rule(due.schedule)
    newest = _newest(rule, schedule.next_slot, now)
    wanted = _wanted(schedule, rule, newest, now)
    fired, cancels = _beside_open_tasks(due, wanted)
    after = next_slot(rule, max(newest, now))
    firing = Firing(
        queue=schedule.queue,
        name=schedule.name,
        version=schedule.version,
        last_slot=schedule.last_slot,
        slot=newest,
        next_slot=after,
        tzdata=tzdata,
        tasks=tuple(task_of(schedule, slot, new_id()) for slot in fired),
        cancels=cancels,
        skipped=tuple(slot for slot in wanted if slot not in fired),
    )
    return Decision(firing=firing, disagrees=disagrees(schedule, rule))


def missed_slots(schedule: TaskSchedule, firing: Firing) -> int:
    """Return the number of slots that a firing leaves out, up to `MOST_COUNTED`. O(this number)."""
    if firing.slot == schedule.next_slot:
        count = 1
    else:
        later = _between(rule_of(schedule), schedule.next_slot, firing.slot)
        count = 1 + sum(1 for _ in islice(later, MOST_COUNTED - 1))
    return max(0, count - len(firing.tasks) - len(firing.skipped))


def disagrees(schedule: TaskSchedule, rule: SlotRule) -> bool:
    """Whether the stored next slot is not a slot of the rule, as this process evaluates the rule."""
    return next_slot(rule, schedule.next_slot - 1) != schedule.next_slot


def _newest(rule: SlotRule, earliest: int, now: int) -> int:
    """Return the newest slot up to now, or else `earliest`. A long outage of a frequent rule costs few steps."""
    for back in _LOOKS_BACK_MS:
        found = list(_between(rule, max(earliest, now - back), now))
        if found:
            return found[-1]
    return earliest


def _wanted(schedule: TaskSchedule, rule: SlotRule, newest: int, now: int) -> tuple[int, ...]:
    """Return the slots that the policy for missed slots wants to fire, oldest first."""
    if schedule.missed == "skip":
        return (newest,) if now - newest <= LATE_MS else ()
    if schedule.missed == "last":
        return (newest,)
    found: tuple[int, ...] = ()
    for back in _LOOKS_BACK_MS:
        begin = max(schedule.next_slot, now - back)
        first = (schedule.next_slot,) if begin == schedule.next_slot else ()
        found = (*first, *_between(rule, begin, now))
        if len(found) >= MOST_MISSED or back == OLDEST_MISSED_MS:
            break
    return found[-MOST_MISSED:]


def _beside_open_tasks(due: DueSchedule, wanted: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the slots to fire beside the open tasks of the schedule, and the open tasks to cancel."""
    overlap, is_open = due.schedule.overlap, bool(due.waiting or due.running)
    if overlap == "skip":
        return () if is_open else wanted[:1], ()
    if overlap == "queue-one":
        room = 0 if due.waiting else 1 if due.running else 2
        return wanted[:room], ()
    if overlap == "cancel-old":
        return wanted[-1:], (*due.waiting, *due.running) if wanted else ()
    return wanted, ()


def _between(rule: SlotRule, after: int, until: int) -> Iterator[int]:
    """Yield the slots after one time and up to another."""
    return takewhile(lambda slot: slot <= until, _slots(rule, after))


def _slots(rule: SlotRule, after: int) -> Iterator[int]:
    return ((slot - _EPOCH) // _MILLISECOND for slot in rule.slots(_EPOCH + after * _MILLISECOND))


def task_of(schedule: TaskSchedule, slot: int, task_id: str) -> NewTask:
    """Return the task of a slot. Jitter moves the task, never the slot, and is equal on every node."""
    return NewTask(
        id=task_id,
        queue=schedule.queue,
        name=schedule.task,
        arguments=schedule.arguments,
        codec=schedule.codec,
        lane=schedule.lane,
        due_at=slot + jitter_ms(schedule, slot) if schedule.jitter_ms else None,
        most_deaths=schedule.most_deaths,
        schedule=schedule.name,
        slot=slot,
    )


def jitter_ms(schedule: TaskSchedule, slot: int) -> int:
    """Return the wait of the task of a slot, in ms, within the jitter of its schedule; equal in every process."""
    return xxh3_64_intdigest(f"{schedule.queue}/{schedule.name}/{slot}".encode()) % (schedule.jitter_ms or 1)
