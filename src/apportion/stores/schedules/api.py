"""ScheduleStore: the schedules beside the tasks of a store. A slot fires once, even if clocks or zone data differ.

- A firing counts by compare-and-set on the version and the last slot of the stored row, and only for later slots.
- The tasks of a firing are enqueued in the commit that moves the last slot: both are there, or none.
- A caller that cannot evaluate one schedule still fires all others.

All times are milliseconds since 1970 on the clock of the store.
Refuses: to evaluate rules. The caller decides, by a pure function, within the transaction.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from apportion.stores.schedules.values import (
    MOST_DUE_SCHEDULES,
    DueSchedule,
    FireAnswer,
    Firing,
    SlotMark,
    TaskSchedule,
)

Decide: TypeAlias = Callable[[DueSchedule, int], Firing | None]


class ScheduleStore(Protocol):
    """The schedules of one handle of a `TaskStore`; errors are those of the handle."""

    async def register(self, schedules: Sequence[TaskSchedule]) -> tuple[str, ...]:
        """Add the schedules with new names, and change no other; return the names that were added."""

    async def change(self, schedule: TaskSchedule, *, version: int) -> bool:
        """Replace rule, policies and call of a stored schedule of this version; the last slot and a pause stay.

        Its origin, `is_declared`, stays too. The next slot becomes that of `schedule`. Return False if the stored
        schedule has another version, or if a firing has passed this next slot meanwhile. Nothing is changed then.
        """

    async def remove(self, queue: str, names: Sequence[str], *, version: int | None = None) -> int:
        """Forget schedules and their histories; return how many there were. Their tasks stay.

        `version`: only those of this version.
        """

    async def pause(self, queue: str, names: Sequence[str]) -> int:
        """Pause schedules; return how many of them were not paused before. A firing with `resumes` ends the pause."""

    async def fire(
        self,
        queues: Collection[str],
        decide: Decide,
        *,
        by: str,
        without: Collection[tuple[str, str]] = (),
        most: int = MOST_DUE_SCHEDULES,
    ) -> FireAnswer:
        """Fire up to `most` due schedules, those with the oldest slot first, in one commit.

        `decide` gets a due schedule and the time, and returns its firing; None: the caller cannot evaluate it.
        `without` are the queues and names of schedules to leave out. `by` names the caller in the history.
        """

    async def trigger(self, firing: Firing, *, by: str) -> bool:
        """Make one firing; return whether it counted."""

    async def listed(self, queue: str | None = None, name: str | None = None) -> tuple[TaskSchedule, ...]:
        """Return the schedules of a queue, or of all queues, sorted by queue and name, damaged ones too.

        `name`: only the schedule of this name in the queue. O(log schedules).
        """

    async def history(self, queue: str, name: str) -> tuple[SlotMark, ...]:
        """Return the last slots of a schedule, up to `KEPT_MARKS`, oldest first."""
