"""The schedules of a memory store: a ledger within this process, beside that of the tasks."""

from collections.abc import Callable, Collection, Sequence

from apportion.stores.memory.store import Memory
from apportion.stores.schedules.api import Decide, ScheduleStore
from apportion.stores.schedules.ledger import ScheduleLedger
from apportion.stores.schedules.values import MOST_DUE_SCHEDULES, FireAnswer, Firing, SlotMark, TaskSchedule


class MemorySchedules(ScheduleStore):
    """The schedules of one handle of the tasks of a `Memory`; `allowed` raises once the handle is closed."""

    def __init__(self, memory: Memory, *, allowed: Callable[[], object]) -> None:
        self._memory, self._allowed = memory, allowed

    async def register(self, schedules: Sequence[TaskSchedule]) -> tuple[str, ...]:
        return self._ledger().register(schedules)

    async def change(self, schedule: TaskSchedule, *, version: int) -> bool:
        return self._ledger().change(schedule, version=version)

    async def remove(self, queue: str, names: Sequence[str], *, version: int | None = None) -> int:
        return self._ledger().remove(queue, names, version=version)

    async def pause(self, queue: str, names: Sequence[str]) -> int:
        return self._ledger().pause(queue, names)

    async def fire(
        self,
        queues: Collection[str],
        decide: Decide,
        *,
        by: str,
        without: Collection[tuple[str, str]] = (),
        most: int = MOST_DUE_SCHEDULES,
    ) -> FireAnswer:
        answer = self._ledger().fire(queues, decide, by=by, without=without, most=most, now=self._memory.now_ms())
        if answer.firings:
            self._memory.changed()
        return answer

    async def trigger(self, firing: Firing, *, by: str) -> bool:
        counts = self._ledger().trigger(firing, by=by, now=self._memory.now_ms())
        self._memory.changed()
        return counts

    async def listed(self, queue: str | None = None, name: str | None = None) -> tuple[TaskSchedule, ...]:
        return self._ledger().listed(queue, name)

    async def history(self, queue: str, name: str) -> tuple[SlotMark, ...]:
        return self._ledger().history(queue, name)

    def _ledger(self) -> ScheduleLedger:
        self._allowed()
        return self._memory.schedules
