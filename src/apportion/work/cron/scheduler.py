"""Scheduler: fires the schedules of the queues of a worker, on the I/O thread. Every worker has one; none is a leader.

Promises: it reads the due schedules once a second, and at the next slot that it knows. A schedule that this process
cannot evaluate is reported once, and left to other workers. The scheduler tries it again some seconds later, because an
operator may have mended it. All other schedules fire meanwhile.
Refuses: to decide by the clock of this machine. A slot has come when the clock of the store has reached it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import uuid4

from apportion.errors import StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.log_report import report
from apportion.runtime.schedule_events import ScheduleObserver
from apportion.stores.damage.rows import UNREADABLE
from apportion.stores.schedules.values import MOST_DUE_SCHEDULES, DueSchedule, FireAnswer, Firing, TaskSchedule
from apportion.stores.task_api import TaskStore
from apportion.stores.task_control import StoreTime
from apportion.work.cron.declaration import placed
from apportion.work.cron.due_slots import decide
from apportion.work.cron.firing_events import FiringEvents
from apportion.work.cron.zone_data import zone_data_version

logger: logging.Logger = logging.getLogger("apportion.work")
LOOK_SECONDS = 1.0
_BROKEN_SECONDS = 5.0
_LEAST_SECONDS = 0.05  # the wait if other workers hold the due rows
_OUTAGES = (StoreDenied, StoreUnavailable, StoreWentBack)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledHere:
    """The schedules that a program declares, added to the store if absent, and the observers of all firings here."""

    declared: Collection[TaskSchedule]
    observers: tuple[ScheduleObserver, ...] = ()


class Scheduler:
    """Fires the schedules of some queues.

    `life` returns the life of the store, 0 while it is unknown. After a restore, the store may lack declared schedules.
    `failed` is called if an error ends the firing.
    """

    def __init__(
        self,
        tasks: TaskStore,
        queues: Collection[str],
        here: ScheduledHere,
        *,
        by: str,
        life: Callable[[], int] = lambda: 0,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._tasks, self._schedules, self._queues, self._by = tasks, tasks.schedules, queues, by
        self._declared, self._told = list(here.declared), FiringEvents(here.observers, worker=by)
        self._life, self._registered_in = life, -1
        self._unable: set[tuple[str, str]] = set()
        self._unable_until = 0.0
        self._most = MOST_DUE_SCHEDULES
        self._running = asyncio.ensure_future(self._run())
        self._running.add_done_callback(lambda ended: None if ended.cancelled() else failed())

    async def end(self) -> None:
        """Fire nothing more. Raises the error that ended the firing, if any."""
        self._running.cancel()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()

    async def _run(self) -> None:
        while True:
            try:
                seconds = await self._look()
            except _OUTAGES as error:
                report(logger, logging.INFO, "schedules: the store does not answer; the next try follows: %s", error)
                seconds, self._most = LOOK_SECONDS, max(1, self._most // 4)  # a large commit may take too long
            except UNREADABLE as error:  # a row that cannot even be read; an operator may mend it
                report(logger, logging.ERROR, "schedules: no schedule of this worker fires now: %r", error)
                seconds = _BROKEN_SECONDS
            await asyncio.sleep(seconds)

    async def _look(self) -> float:
        """Fire the schedules that are due; return the seconds until the next look."""
        await self._register()
        now = asyncio.get_running_loop().time()
        if now >= self._unable_until:
            self._unable.clear()
            self._unable_until = now + _BROKEN_SECONDS
        most = self._most
        answer = await self._schedules.fire(self._queues, self._decide, by=self._by, without=self._unable, most=most)
        self._most = min(2 * most, MOST_DUE_SCHEDULES)
        self._unable.update(answer.unable)
        self._told.tell(answer)
        return _rest_seconds(answer)

    async def _register(self) -> None:
        """Add the declared schedules that are absent, once in each life of the store."""
        life = self._life()
        if self._declared and (self._registered_in < 0 or life not in (0, self._registered_in)):
            now = await self._tasks.query(StoreTime())
            await self._schedules.register([placed(each, now) for each in self._declared])
            self._registered_in = life

    def _decide(self, due: DueSchedule, now: int) -> Firing | None:
        """Return the firing of a schedule, or None. No event is reported, because the store may call this again."""
        try:
            decision = decide(due, now=now, new_id=lambda: uuid4().hex, tzdata=zone_data_version())
        except UNREADABLE as error:  # `InvalidInput` too
            self._told.note_unable(due.schedule, error)
            return None
        self._told.note(due.schedule, decision)
        return decision.firing


def _rest_seconds(answer: FireAnswer) -> float:
    if answer.next_slot is None:
        return LOOK_SECONDS
    if answer.next_slot > answer.now:
        return min(LOOK_SECONDS, (answer.next_slot - answer.now) / 1_000)
    if answer.firings:
        return 0.0
    return LOOK_SECONDS if answer.unable else _LEAST_SECONDS
