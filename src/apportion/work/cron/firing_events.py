"""Firing events: passes the fate of each slot to the observers of a worker, after the answer of the store.

Promises: a decision that the store did not commit gives no event. A disagreement gives one event per schedule. A
schedule that this process cannot evaluate gives one event, and another one only if the problem changes.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from apportion.runtime.schedule_events import (
    ScheduleDisagreed,
    ScheduleEvent,
    ScheduleObserver,
    ScheduleUnable,
    SlotFired,
    SlotSkipped,
    SlotsMissed,
    tell_schedules,
)
from apportion.runtime.simulated import clock_here
from apportion.stores.schedules.values import FireAnswer, Firing, TaskSchedule
from apportion.work.cron.due_slots import Decision, missed_slots
from apportion.work.cron.zone_data import zone_data_version

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Who(TypedDict):
    queue: str
    worker: str
    schedule: str
    at: float


class FiringEvents:
    """The events of one worker's schedules."""

    def __init__(self, observers: tuple[ScheduleObserver, ...], *, worker: str) -> None:
        self._observers, self._worker, self._clock = observers, worker, clock_here()
        self._decided: dict[tuple[str, str], tuple[TaskSchedule, Decision]] = {}
        self._problems: dict[tuple[str, str], str] = {}
        self._unable: dict[tuple[str, str], str] = {}  # the problem of the last event
        self._disagreed: set[tuple[str, str]] = set()

    def note(self, schedule: TaskSchedule, decision: Decision) -> None:
        """Note a decision, before its commit."""
        self._decided[schedule.queue, schedule.name] = schedule, decision

    def note_unable(self, schedule: TaskSchedule, error: Exception) -> None:
        """Note the reason why this process cannot evaluate a schedule."""
        self._problems[schedule.queue, f"{schedule.name}"] = str(error)

    def tell(self, answer: FireAnswer) -> None:
        """Pass the events of the committed firings to the observers, and drop the other decisions."""
        decided, self._decided = self._decided, {}
        problems, self._problems = self._problems, {}
        for queue, name in answer.unable:
            problem = problems.get((queue, name), "")
            if self._unable.get((queue, name)) != problem:
                self._unable[queue, name] = problem
                self._tell(ScheduleUnable(**self._who(queue, name), problem=problem))
        for firing in answer.firings:
            for event in self._events(firing, *decided[firing.queue, firing.name], answer.now):
                self._tell(event)

    def _events(self, firing: Firing, schedule: TaskSchedule, decision: Decision, now: int) -> Iterator[ScheduleEvent]:
        """Yield the events of a firing, by its last decision."""
        who = self._who(firing.queue, firing.name)
        if decision.disagrees and (firing.queue, firing.name) not in self._disagreed:
            self._disagreed.add((firing.queue, firing.name))
            stored, ours = _time(schedule.next_slot), zone_data_version()
            yield ScheduleDisagreed(**who, slot=stored, stored_tzdata=schedule.tzdata, tzdata=ours)
        if (missed := missed_slots(schedule, firing)) > 0:
            yield SlotsMissed(**who, slot=_time(firing.slot), count=missed)
        for slot in firing.skipped:
            yield SlotSkipped(**who, slot=_time(slot))
        for task in firing.tasks:
            slot = task.slot or 0
            yield SlotFired(**who, slot=_time(slot), late_seconds=(now - slot) / 1_000, task=task.id)

    def _who(self, queue: str, name: str) -> _Who:
        short = queue.rpartition("/")[2]
        return {"queue": short, "worker": self._worker, "schedule": name, "at": self._clock.elapsed()}

    def _tell(self, event: ScheduleEvent) -> None:
        tell_schedules(self._observers, event)


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
