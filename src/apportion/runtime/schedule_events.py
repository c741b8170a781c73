"""Schedule events: the fate of the slots of schedules, for logs, metrics and observers.

Promises: the worker that fired a slot tells the event, after the store has answered. Slots of one firing come in order.
An observer that raises costs one log line per event and nothing else.
Refuses: to wait. An observer is called on the I/O thread, and must not block.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from datetime import datetime

from apportion.errors.brief import brief
from apportion.runtime.events import Spared

logger: logging.Logger = logging.getLogger("apportion.work")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEvent:
    """An event of a schedule; `at` is a time of the worker's elapsed clock, in seconds."""

    queue: str
    worker: str
    schedule: str
    at: float

    def as_dict(self) -> dict[str, object]:
        """Return the name of the event and its fields, as values that JSON can have."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in said.items()}
        return {"event": type(self).__name__} | plain


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFired(ScheduleEvent):
    """A slot got its task, `late_seconds` after its time, on the clock of the store."""

    slot: datetime
    late_seconds: float
    task: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSkipped(ScheduleEvent):
    """A slot got no task, because a task of the schedule was open."""

    slot: datetime


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsMissed(ScheduleEvent):
    """Slots got no task, because no worker ran at their time. `slot` is the newest due slot.

    The largest count is 100.
    """

    slot: datetime
    count: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDisagreed(ScheduleEvent):
    """The stored slot is no slot of the rule by the zone data of this host. Told once per schedule.

    `stored_tzdata` is the version of the zone data with which the slot was computed, `tzdata` that of this host.
    """

    slot: datetime
    stored_tzdata: str
    tzdata: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleUnable(ScheduleEvent):
    """This worker cannot evaluate the schedule, and leaves it to others. Told once per schedule."""

    problem: str


ScheduleObserver = Callable[[ScheduleEvent], None]


def tell_schedules(observers: Iterable[ScheduleObserver], event: ScheduleEvent) -> None:
    """Tell an event to observers, in order."""
    for observer in observers:
        with Spared(logger, event.queue, observer, event):
            observer(event)
