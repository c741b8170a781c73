"""Faults of schedules: their calls take the way that the tasks of their process take, and fail as these do.

A slot is decided in the process that fires it, by its own zone data.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol, TypeVar

from apportion.sim.facts import ScheduleAct
from apportion.stores.schedules.api import Decide, ScheduleStore
from apportion.stores.schedules.values import (
    MOST_DUE_SCHEDULES,
    DueSchedule,
    FireAnswer,
    Firing,
    SlotMark,
    TaskSchedule,
)

Result = TypeVar("Result")


class Send(Protocol):
    """The way to the store."""

    async def __call__(self, what: str, perform: Callable[[], Awaitable[Result]], **request: Any) -> Result:  # noqa: ANN401
        """Send a request; `StoreUnavailable` if no reply comes."""


class FaultySchedules(ScheduleStore):
    """The schedules as one process reaches them, with faults; made by `FaultyTasks`."""

    def __init__(self, inner: ScheduleStore, send: Send) -> None:
        self._inner, self._send = inner, send

    async def register(self, schedules: Sequence[TaskSchedule]) -> tuple[str, ...]:
        act = ScheduleAct(kind="register", schedules=tuple(schedules))
        return await self._send("register", lambda: self._inner.register(schedules), act=act)

    async def change(self, schedule: TaskSchedule, *, version: int) -> bool:
        act = ScheduleAct(kind="change", schedules=(schedule,), version=version)
        return await self._send("change", lambda: self._inner.change(schedule, version=version), act=act)

    async def remove(self, queue: str, names: Sequence[str], *, version: int | None = None) -> int:
        act = ScheduleAct(kind="remove", version=version)
        return await self._send("remove", lambda: self._inner.remove(queue, names, version=version), act=act)

    async def pause(self, queue: str, names: Sequence[str]) -> int:
        return await self._send("pause", lambda: self._inner.pause(queue, names), act=ScheduleAct(kind="pause"))

    async def fire(
        self,
        queues: Collection[str],
        decide: Decide,
        *,
        by: str,
        without: Collection[tuple[str, str]] = (),
        most: int = MOST_DUE_SCHEDULES,
    ) -> FireAnswer:
        context = copy_context()

        def _decide(due: DueSchedule, now: int) -> Firing | None:
            return context.run(decide, due, now)

        perform = partial(self._inner.fire, queues, _decide, by=by, without=tuple(without), most=most)
        return await self._send("fire", perform, act=ScheduleAct(kind="fire"))

    async def trigger(self, firing: Firing, *, by: str) -> bool:
        act = ScheduleAct(kind="trigger", firing=firing)
        return await self._send("trigger", lambda: self._inner.trigger(firing, by=by), act=act)

    async def listed(self, queue: str | None = None, name: str | None = None) -> tuple[TaskSchedule, ...]:
        return await self._send("schedules", lambda: self._inner.listed(queue, name))

    async def history(self, queue: str, name: str) -> tuple[SlotMark, ...]:
        return await self._send("history", lambda: self._inner.history(queue, name))
