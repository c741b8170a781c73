"""Task view: the tasks of a store as the world looks at them after every step."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from apportion.sim.facts import SchedulePlace, TasksChanged
from apportion.stores.schedules.values import SlotMark, TaskSchedule
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_records import EndedTask, OpenTask


class TaskView:
    """The tasks as they were at the last look, without those that were damaged. `now` is the true time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last: TasksChanged | None = None
        self.damaged: set[str] = set()

    def hide(self, task: str) -> None:
        """Show a task no more, since it is damaged."""
        self.damaged.add(task)

    def begin(self) -> None:
        """Forget the last look: another life of the store begins."""
        self._last = None

    def look(
        self,
        tasks: TaskLedger,
        *,
        incarnation: int,
        now_ms: int,
        alive: Collection[int],
        effects: Mapping[str, int],
        schedules: Mapping[SchedulePlace, TaskSchedule],
        marks: Mapping[SchedulePlace, tuple[SlotMark, ...]],
    ) -> list[TasksChanged]:
        """Return the change since the last look, if there is one."""
        before, tasks = self._last, self._sound(tasks)
        is_same = before is not None and (schedules, marks) == (before.schedules, before.marks)
        if before is not None and is_same and self._is_same(before, tasks, alive, effects):
            return []
        copy = copied(tasks)
        self._last = TasksChanged(
            at=self._now(),
            incarnation=incarnation,
            now_ms=now_ms,
            changed=() if before is None else tuple(sorted(_changed(before, tasks))),
            open=copy.open,
            ended=copy.ended,
            controls=copy.controls,
            workers=frozenset(copy.workers),
            alive=frozenset(alive),
            effects=dict(effects),
            schedules=dict(schedules),
            marks=dict(marks),
            lanes=copy.lanes,
            is_first=before is None,
        )
        return [self._last]

    def _sound(self, tasks: TaskLedger) -> TaskLedger:
        if not self.damaged:
            return tasks
        opened = {each: task for each, task in tasks.open.items() if each not in self.damaged}
        ended = {each: end for each, end in tasks.ended.items() if each not in self.damaged}
        return replace(tasks, open=opened, ended=ended)

    @staticmethod
    def _is_same(before: TasksChanged, tasks: TaskLedger, alive: Collection[int], effects: Mapping[str, int]) -> bool:
        return (
            tasks.open == before.open
            and tasks.ended == before.ended
            and tasks.controls == before.controls
            and tasks.lanes == before.lanes
            and tasks.workers.keys() == before.workers
            and frozenset(alive) == before.alive
            and effects == before.effects
        )


def copied(tasks: TaskLedger) -> TaskLedger:
    """Return tasks that share only immutable parts."""
    controls = {queue: replace(control) for queue, control in tasks.controls.items()}
    return replace(
        tasks,
        open=dict(tasks.open),
        ended=dict(tasks.ended),
        workers=dict(tasks.workers),
        controls=controls,
        lanes=dict(tasks.lanes),
        log=dict(tasks.log),
    )


def _changed(before: TasksChanged, tasks: TaskLedger) -> set[str]:
    return _differing(before.open, tasks.open) | _differing(before.ended, tasks.ended)


def _differing(
    before: Mapping[str, OpenTask] | Mapping[str, EndedTask], after: Mapping[str, OpenTask] | Mapping[str, EndedTask]
) -> set[str]:
    return {each for each in {*before, *after} if before.get(each) != after.get(each)}
