"""The values of schedules in a task store: a schedule as it is stored, its slots, and one firing.

All times are milliseconds since 1970 on the clock of the store. The stored `next_slot` is the only truth about the slot
that comes next: a worker with other zone data fires it all the same.
"""

from dataclasses import dataclass, field
from typing import Literal

from apportion.errors.brief import brief
from apportion.stores.task_values import NewTask

Gap = Literal["run-after", "skip"]
Fold = Literal["first", "last", "both"]
Missed = Literal["skip", "last", "all"]
Overlap = Literal["allow", "skip", "queue-one", "cancel-old"]
Mark = Literal["fired", "skipped", "missed"]

MOST_DUE_SCHEDULES = 100  # the most schedules that fire in one commit
KEPT_MARKS = 100  # the most slots in the history of each schedule
MOST_LANE = 3
END_OF_TIME = 253_402_300_800_000  # the year 10 000


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSchedule:
    """A schedule as it is stored: its rule and policies, the call that each slot enqueues, and its place in time.

    `rule` is a cron rule, or `every 300000ms`. `version` grows with every change of the rule, a policy or the call. No
    slot up to `last_slot` fires; at first it is the time of the registration. `tzdata` names the zone data from which
    `next_slot` was computed. `is_declared`: it came from the code of a program, and not from data; that never changes.
    `latest` is the newest slot of the history, None before the first; `listed` alone reads it.
    """

    queue: str
    name: str
    rule: str
    task: str
    arguments: bytes
    zone: str = "UTC"
    gap: Gap = "run-after"
    fold: Fold = "first"
    missed: Missed = "last"
    overlap: Overlap = "skip"
    jitter_ms: int = 0
    codec: str = "json"
    lane: int = 2
    most_deaths: int | None = 5
    version: int = 1
    last_slot: int
    next_slot: int
    is_paused: bool = False
    is_declared: bool = False
    tzdata: str = ""
    latest: int | None = field(default=None, compare=False)

    @property
    def damage(self) -> str:
        """The first field that no release writes, with its value; empty for a sound row.

        An unknown word is no damage: a later release may have written it.
        """
        texts = ("queue", "name", "rule", "zone", "gap", "fold", "missed", "overlap", "task", "codec", "tzdata")
        sound = {
            **{each: isinstance(getattr(self, each), str) for each in texts},
            "arguments": isinstance(self.arguments, bytes),
            "jitter_ms": _is_count(self.jitter_ms),
            "lane": _is_count(self.lane) and self.lane <= MOST_LANE,
            "most_deaths": self.most_deaths is None or _is_count(self.most_deaths),
            "version": _is_count(self.version),
            "last_slot": _is_count(self.last_slot),
            "next_slot": _is_count(self.next_slot) and _is_count(self.last_slot) and self.last_slot < self.next_slot,
        }
        wrong = next((each for each, is_sound in sound.items() if not is_sound), None)
        return "" if wrong is None else f"{wrong} is {getattr(self, wrong)!r}"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedule:
    """A schedule that is due, with its open tasks: those that wait, and those that run."""

    schedule: TaskSchedule
    waiting: tuple[str, ...] = ()
    running: tuple[str, ...] = ()


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One firing of a schedule. It counts if the stored row has this `version` and `last_slot`, and `slot` is later.

    One commit writes `slot` as the last slot and the new next slot, cancels the tasks of `cancels`, and enqueues
    `tasks`. `skipped` are slots that an open task held back. A firing that `resumes` ends a pause.
    """

    queue: str
    name: str
    version: int
    last_slot: int
    slot: int
    next_slot: int
    tzdata: str
    tasks: tuple[NewTask, ...] = ()
    skipped: tuple[int, ...] = ()
    cancels: tuple[str, ...] = ()
    resumes: bool = False


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMark:
    """One slot in the history of a schedule: when it was fired or passed over, by which worker, and its task."""

    slot: int
    at: int
    by: str
    mark: Mark
    task: str = ""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class FireAnswer:
    """The firings of one commit, the schedules that the caller could not evaluate, and the next slot of all others.

    `now` is the time of the store.
    """

    now: int
    firings: tuple[Firing, ...] = ()
    unable: tuple[tuple[str, str], ...] = ()
    next_slot: int | None = None


def _is_count(value: object) -> bool:
    """Whether a field is a count or a time up to the year 9999."""
    return isinstance(value, int) and 0 <= value < END_OF_TIME


def marks_of(firing: Firing, *, at: int, by: str) -> tuple[SlotMark, ...]:
    """Return the history of a firing, by slot."""
    fired = [SlotMark(slot=task.slot or 0, at=at, by=by, mark="fired", task=task.id) for task in firing.tasks]
    skipped = [SlotMark(slot=slot, at=at, by=by, mark="skipped") for slot in firing.skipped]
    passed = [] if fired or skipped or firing.resumes else [SlotMark(slot=firing.slot, at=at, by=by, mark="missed")]
    return tuple(sorted([*fired, *skipped, *passed], key=lambda each: each.slot))
