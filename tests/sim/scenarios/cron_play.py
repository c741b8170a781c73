"""The cron scenario: nodes run the same schedules in several zones, over a compressed time with both clock changes.

The seed draws two or three nodes, the schedules and their policies, the acts of an operator, and the faults. Releases
of the program are applied while nodes fire. A late caller sends old firings again. The third node, if there is one, has
other zone data.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from apportion.errors import (
    AlreadyTriggered,
    InvalidInput,
    InvariantBroken,
    LeaseLost,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
)
from apportion.runtime.io_thread import io_thread
from apportion.sim.invariants import schedules
from apportion.sim.invariants.store import ALL
from apportion.sim.invariants.tasks import INVARIANTS
from apportion.sim.slot_walk import instant
from apportion.sim.world.nemesis import _ASKED_FOR, BLOWS, OF_TASKS, Mix, Nemesis
from apportion.sim.world.vandal import step_clock
from apportion.sim.world.world import World
from apportion.stores.schedules.values import Firing, TaskSchedule
from apportion.stores.task_api import TaskStore
from apportion.work.cron.acts import resumed
from apportion.work.cron.declaration import one_schedule
from apportion.work.cron.deployment import deployed
from apportion.work.cron.due_slots import task_of
from apportion.work.cron.scheduler import _BROKEN_SECONDS
from apportion.work.facade import Queue
from tests.sim.scenarios import cron_schedules as drawn
from tests.sim.scenarios.deployments import DEPLOYER, DeploymentsKeepSlots, Releases
from tests.sim.scenarios.survival import NobodyFails
from tests.sim.scenarios.task_functions import FUNCTIONS, NAME, STAGE, URL, Stage

Result = TypeVar("Result")
HELD = (*ALL, NobodyFails, *INVARIANTS, *schedules.INVARIANTS, DeploymentsKeepSlots)
KINDS = tuple(name for name in BLOWS if name in {*OF_TASKS, "damaged schedule"} or name not in _ASKED_FOR)
TTL_SECONDS, SAFETY_SECONDS = 2.0, 7.0
_LATE_SECONDS = TTL_SECONDS + 1.0 + 1.0  # a time to live, the back-off of a look, and a second
_OUTAGES = (LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack)


class CronPlay:
    """One seed of the scenario."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.draw = draw = world.draws("cron")
        self.safety_seconds, self.liveness_seconds = SAFETY_SECONDS, 40.0
        self._nodes = [f"n{number}" for number in range(1, draw.randint(2, 3) + 1)]
        self._full_name = Queue(URL, NAME)._full_name
        self._releases = Releases(draw, self._schedule)
        self._of_data = [f"s{number}" for number in range(draw.randint(1, 3))]
        self._times: Iterator[datetime] = drawn.times(draw)
        self._leaving: dict[str, asyncio.Event] = {}
        self._due_since: dict[tuple[str, str], float] = {}
        self._mended: set[str] = set()
        self._written: set[str] = set()  # by the operator, who may have been killed half-way
        self._is_deployed = self._is_mended = self._is_over = False
        self.nemesis = Nemesis(world, Mix.drawn(world.seed, blows=KINDS), start=self.start)

    @property
    def has_suspects(self) -> bool:
        """Always False: this scenario counts no deaths."""
        return False

    def begin(self) -> None:
        """Start all processes, and the calendar."""
        self.stage = Stage(self.world, has_transactions=False)
        STAGE.set(self.stage)
        self._step_to(next(self._times))
        for process in (*self._nodes, "o", "late", DEPLOYER):
            self.start(process)
        self._calendar = asyncio.create_task(self._run_calendar())

    def start(self, process: str) -> None:
        """Start a process, or a new life of it."""
        plays = {"o": self._rule, "late": self._replay, DEPLOYER: self._deploy}
        self.world.spawn(process, plays[process]() if process in plays else self._work(process))

    def rest(self) -> None:
        """Let functions be quick, and let the operator mend and resume all schedules."""
        self.stage.calmed.set()

    def unsettled(self, calm: float) -> list[str]:
        """Return the schedules that are due; `InvariantBroken` for one that waits longer than promised."""
        tasks = self.world.checker.history.tasks
        if tasks is None or not self._is_mended:
            return ["the operator has not mended all"]
        now_ms, now = self.world.backing.now_ms(), self.world.now
        due = {place: row for place, row in tasks.schedules.items() if row.next_slot <= now_ms and not row.is_paused}
        self._due_since = {place: self._due_since.get(place, now) for place in due}
        for place, since in self._due_since.items():
            patience_seconds = _LATE_SECONDS + (_BROKEN_SECONDS if place[1] in self._mended else 0.0)
            if now - max(since, calm, self.stage.last_trouble) > patience_seconds:
                raise InvariantBroken(f"{place} is due since {since:.3f} s, and does not fire: {due[place]}")
        absent = {*self._releases.now, *self._of_data} - {name for _, name in tasks.schedules}
        running = [] if self._is_over else ["the calendar runs"]
        opened = [f"{task.id} is {task.state}" for task in tasks.open.values() if (task.due or 0) <= now_ms]
        return [*running, *sorted(absent), *map(str, due), *opened]

    def _schedule(self, name: str) -> TaskSchedule:
        rule: dict[str, Any] = {"cron": None, "every": None} | drawn.rule(self.draw)
        return one_schedule(self._full_name, name, drawn.call(self.draw), drawn.policies(self.draw), **rule)

    async def _run_calendar(self) -> None:
        """Step the clock of the store through both changes; half of the way once nothing fails any more."""
        times = list(self._times)
        for number, now in enumerate(times):
            if number == len(times) // 2:
                await self.stage.calmed.wait()
                await self._until_mended()
            await asyncio.sleep(self.draw.uniform(0.1, 2 * SAFETY_SECONDS / len(times)))
            self._step_to(now)
        self._is_over = True

    async def _until_mended(self) -> None:
        while not self._is_mended:
            await asyncio.sleep(0.1)

    def _step_to(self, moment: datetime) -> None:
        """Let the store have a time, and the error of its clock that a fault made."""
        step_clock(self.world, instant(moment) + self.nemesis.stepped_ms - self.world.backing.now_ms())

    async def _work(self, process: str) -> None:
        """Run the schedules and their tasks; now and then leave, and come back."""
        while True:
            self._leaving[process] = asyncio.Event()
            queue = Queue(URL, NAME, lease_ttl=timedelta(seconds=TTL_SECONDS))
            queue._functions.update(FUNCTIONS)
            queue._schedules.update(self._releases.now)
            with suppress(*_OUTAGES):
                worker = queue.worker(concurrency=5)
                worker._leave_seconds = 0.1
                async with worker:
                    await self._leaving[process].wait()
                    self.world.trace.cover("a node leaves")
            await asyncio.sleep(random.uniform(0.05, 0.5))

    async def _rule(self) -> None:
        """Give the commands of an operator; once nothing fails any more, mend and resume all."""
        queue = Queue(URL, NAME)
        while not await self.stage.is_calm_after(random.expovariate(1 / 0.5)):
            with suppress(*_OUTAGES, AlreadyTriggered, InvalidInput):
                await self._command(queue, random.choice([*self._releases.now, *self._of_data]))
        while not self._is_deployed:
            await asyncio.sleep(0.1)
        while not self._is_mended:
            with suppress(*_OUTAGES):
                await self._mend(queue)
                self.stage.note_trouble()
                self._is_mended = True
        await queue.close()

    async def _command(self, queue: Queue, name: str) -> None:
        kinds = ["pause", "resume", "trigger", "schedule", "leave"]
        kind = random.choice([*kinds, "unschedule"] if name in self._of_data else kinds)
        self.world.trace.cover(f"an operator: {kind}")
        if kind == "pause":
            await _asked(queue, lambda store: store.schedules.pause(self._full_name, [name]))
        elif kind == "resume":
            await self._resume(queue, name)
        elif kind == "trigger":
            hours = timedelta(hours=random.choice([-30, -1, 0, 1, 7]))
            now = datetime.fromtimestamp(self.world.backing.now_ms() // 60_000 * 60, UTC)
            await queue.trigger(name, now + hours)
        elif kind == "schedule":
            self._written.add(name)
            await queue.schedule(name, drawn.call(self.draw), **drawn.rule(self.draw), **drawn.policies(self.draw))
        elif kind == "unschedule":
            await queue.unschedule(name)
        else:
            self._leaving[random.choice(sorted(self._leaving))].set()

    async def _resume(self, queue: Queue, name: str) -> None:
        await _asked(queue, lambda store: resumed(store, self._full_name, name, by="o"))

    async def _mend(self, queue: Queue) -> None:
        """Write absent and damaged schedules anew, and end all pauses."""
        listed = await _asked(queue, lambda store: store.schedules.listed(self._full_name))
        rows = {row.name: row for row in listed}
        for name in (*self._releases.now, *self._of_data):
            is_absent = name not in rows and name in {*self._of_data, *self._written}  # nodes add those of the program
            if is_absent or (name in rows and self._is_damaged(rows[name])):
                self._mended.add(name)
                await queue.schedule(name, drawn.call(self.draw), **drawn.rule(self.draw), **drawn.policies(self.draw))
            with suppress(InvalidInput):
                await self._resume(queue, name)

    async def _deploy(self) -> None:
        """Apply one release after the other; once nothing fails any more, apply the last one for certain."""
        queue = Queue(URL, NAME)
        while not await self.stage.is_calm_after(random.expovariate(1 / 1.5)):
            self._releases.next()
            with suppress(*_OUTAGES):
                await _asked(queue, self._applied)
        while not self._is_deployed:
            with suppress(*_OUTAGES):
                await _asked(queue, self._applied)
                self._is_deployed = True
        await queue.close()

    async def _applied(self, store: TaskStore) -> None:
        """Do as `cron apply` does; nodes that left a damaged schedule out look at it again some seconds later."""
        rows = await store.schedules.listed(self._full_name)
        self._mended |= {row.name for row in rows if self._is_damaged(row)}
        for each in await deployed(store, self._full_name, self._releases.now):
            self.world.trace.cover(f"a release: {each.act}")

    @staticmethod
    def _is_damaged(row: TaskSchedule) -> bool:
        is_read = schedules.is_readable(row) and row.missed in ("skip", "last", "all") and row.zone in drawn.ZONES
        return bool(row.damage) or not is_read or row.arguments.startswith(b"\xff")

    async def _replay(self) -> None:
        """Send firings that must not count: old slots, and those of a caller that knows an older row."""
        queue = Queue(URL, NAME)
        while not await self.stage.is_calm_after(random.expovariate(1 / 0.7)):
            with suppress(*_OUTAGES):
                rows = await _asked(queue, lambda store: store.schedules.listed(self._full_name))
                for firing in [_late_firing(row) for row in rows if not row.damage]:
                    await _asked(queue, partial(_triggered, firing))
        await queue.close()


async def _triggered(firing: Firing, store: TaskStore) -> bool:
    return await store.schedules.trigger(firing, by="late")


async def _asked(queue: Queue, ask: Callable[[TaskStore], Awaitable[Result]]) -> Result:
    """Ask the store of a queue, in its new life too."""
    return await io_thread().hop(queue._opened._asked(ask))


def _late_firing(row: TaskSchedule) -> Firing:
    """Return the firing of an old slot, or one that an older row was read for."""
    slot = row.last_slot - random.choice([0, 0, 1, 3_600_000])
    firing = Firing(
        queue=row.queue,
        name=row.name,
        version=row.version,
        last_slot=row.last_slot,
        slot=slot,
        next_slot=row.next_slot,
        tzdata=row.tzdata,
        tasks=(task_of(row, slot, uuid4().hex),),
    )
    newer = replace(firing, slot=row.last_slot + 1)
    return random.choice(
        [firing, replace(newer, version=row.version - 1), replace(newer, last_slot=row.last_slot - 60_000)]
    )
