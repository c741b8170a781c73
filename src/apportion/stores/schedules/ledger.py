"""TaskSchedule ledger: the rules of a `ScheduleStore` as plain data, beside the task ledger that gets the tasks.

The memory store keeps one, and the statements on real engines are compared with it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from apportion.stores import task_admin
from apportion.stores.schedules.api import Decide
from apportion.stores.schedules.values import (
    KEPT_MARKS,
    MOST_DUE_SCHEDULES,
    DueSchedule,
    FireAnswer,
    Firing,
    SlotMark,
    TaskSchedule,
    marks_of,
)
from apportion.stores.task_control import Cancel
from apportion.stores.task_ledger import TaskLedger


@dataclass(slots=True, kw_only=True)
class ScheduleLedger:
    """All schedules of one store; each call gets the time `now` where it needs one."""

    tasks: TaskLedger
    rows: dict[tuple[str, str], TaskSchedule] = field(default_factory=dict)
    marks: dict[tuple[str, str], tuple[SlotMark, ...]] = field(default_factory=dict)

    def register(self, schedules: Sequence[TaskSchedule]) -> tuple[str, ...]:
        """See `ScheduleStore.register`."""
        added = []
        for each in schedules:
            if (each.queue, each.name) not in self.rows:
                self.rows[each.queue, each.name] = each
                added.append(each.name)
        return tuple(added)

    def change(self, schedule: TaskSchedule, *, version: int) -> bool:
        """See `ScheduleStore.change`."""
        place = schedule.queue, schedule.name
        row = self.rows.get(place)
        if row is None or row.version != version or row.last_slot >= schedule.next_slot:
            return False
        self.rows[place] = replace(
            schedule,
            version=version + 1,
            last_slot=row.last_slot,
            is_paused=row.is_paused,
            is_declared=row.is_declared,
        )
        return True

    def remove(self, queue: str, names: Sequence[str], *, version: int | None = None) -> int:
        """See `ScheduleStore.remove`."""
        gone = [row for row in self.listed(queue) if row.name in names and version in (None, row.version)]
        for row in gone:
            self.marks.pop((queue, row.name), None)
            del self.rows[queue, row.name]
        return len(gone)

    def pause(self, queue: str, names: Sequence[str]) -> int:
        """See `ScheduleStore.pause`."""
        active = [row for row in self.listed(queue) if row.name in names and not row.is_paused]
        self.rows.update({(queue, row.name): replace(row, is_paused=True) for row in active})
        return len(active)

    def fire(
        self,
        queues: Collection[str],
        decide: Decide,
        *,
        by: str,
        without: Collection[tuple[str, str]] = (),
        most: int = MOST_DUE_SCHEDULES,
        now: int,
    ) -> FireAnswer:
        """See `ScheduleStore.fire`."""
        firings, unable = [], []
        for row in [row for row in self._served(queues, without) if row.next_slot <= now][:most]:
            firing = decide(self._due(row), now)
            if firing is None:
                unable.append((row.queue, row.name))
            elif self.trigger(firing, by=by, now=now):
                firings.append(firing)
        left = self._served(queues, {*without, *unable})
        return FireAnswer(
            now=now, firings=tuple(firings), unable=tuple(unable), next_slot=left[0].next_slot if left else None
        )

    def trigger(self, firing: Firing, *, by: str, now: int) -> bool:
        """See `ScheduleStore.trigger`."""
        place = firing.queue, firing.name
        row = self.rows.get(place)
        if row is None or (row.version, row.last_slot) != (firing.version, firing.last_slot):
            return False
        if firing.slot <= row.last_slot:
            return False
        is_paused = row.is_paused and not firing.resumes
        self.rows[place] = replace(
            row, last_slot=firing.slot, next_slot=firing.next_slot, tzdata=firing.tzdata, is_paused=is_paused
        )
        self.marks[place] = (*self.marks.get(place, ()), *marks_of(firing, at=now, by=by))[-KEPT_MARKS:]
        task_admin.control(self.tasks, Cancel(tasks=firing.cancels), now=now)
        self.tasks.enqueue(firing.tasks, now=now)
        return True

    def listed(self, queue: str | None = None, name: str | None = None) -> tuple[TaskSchedule, ...]:
        """See `ScheduleStore.listed`."""
        places = [each for each in sorted(self.rows) if queue in (None, each[0]) and name in (None, each[1])]
        newest = {place: max(each.slot for each in marks) for place, marks in self.marks.items() if marks}
        return tuple(replace(self.rows[place], latest=newest.get(place)) for place in places)

    def history(self, queue: str, name: str) -> tuple[SlotMark, ...]:
        """See `ScheduleStore.history`."""
        return self.marks.get((queue, name), ())

    def _served(self, queues: Collection[str], without: Collection[tuple[str, str]]) -> list[TaskSchedule]:
        """Return the schedules that may fire, those with the oldest next slot first."""
        rows = [row for place, row in self.rows.items() if row.queue in queues and place not in without]
        active = [row for row in rows if not row.is_paused]
        return sorted(active, key=lambda row: (row.next_slot, row.queue, row.name))

    def _due(self, row: TaskSchedule) -> DueSchedule:
        opened = [
            task for task in self.tasks.by_position() if (task.new.queue, task.new.schedule) == (row.queue, row.name)
        ]
        return DueSchedule(
            schedule=row,
            waiting=tuple(task.id for task in opened if task.session is None),
            running=tuple(task.id for task in opened if task.session is not None),
        )
