"""The tasks' scenario: workers run tasks by the shipped code, while workers, enqueuers, operators and the store fail.

The seed draws one to three workers and their concurrency, the tasks and their options, the acts of an operator, and
the faults. Tasks can be cut off while leases are renewed, and the other way round.
"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from apportion.errors import (
    InvariantBroken,
    LeaseLost,
    OutcomeUnknown,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
)
from apportion.sim.invariants.store import ALL
from apportion.sim.invariants.tasks import INVARIANTS
from apportion.sim.world.nemesis import Nemesis
from apportion.sim.world.world import World
from apportion.stores.task_records import OpenTask
from apportion.work import admin
from apportion.work.call import Call
from apportion.work.facade import Queue
from apportion.work.function import TaskFunction
from apportion.work.worker import QueueWorker
from tests.sim.scenarios.survival import NobodyFails
from tests.sim.scenarios.task_functions import BAD, FUNCTIONS, LIMIT_SECONDS, NAME, STAGE, URL, USUAL, Stage, quick
from tests.sim.scenarios.task_nemesis import drawn

HELD = (*ALL, NobodyFails, *INVARIANTS)
TTL_SECONDS, SAFETY_SECONDS = 2.0, 8.0
_MOST_MS = 10_000
_OUTAGES = (LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack)


class TaskPlay:
    """One seed of the scenario."""

    damage_ratio = 0.3

    def __init__(self, world: World) -> None:
        self.world = world
        self.draw = draw = world.draws("tasks")
        self.safety_seconds, self.liveness_seconds = SAFETY_SECONDS, 40.0
        self._concurrency = {f"w{number}": draw.choice([1, 2, 5]) for number in range(1, draw.randint(1, 3) + 1)}
        self._enqueuers = [f"e{number}" for number in range(1, draw.randint(1, 2) + 1)]
        self._pause_seconds = draw.choice([0.1, 0.3, 0.6])
        self._bad_ratio = draw.choice([0.0, 0.1, 0.4])
        self._ruling_seconds = draw.choice([0.5, 1.5, 4.0])
        self._leaving: dict[str, asyncio.Event] = {}
        self._enqueuing: set[str] = set()
        self._number = 0
        self.usual: Sequence[TaskFunction[[int], Any]] = USUAL
        self.nemesis = Nemesis(world, drawn(world.seed, damage_ratio=self.damage_ratio), start=self.start)
        self._is_lifted = False

    @property
    def has_suspects(self) -> bool:
        """Always False: all deaths are over when everything is served."""
        return False

    def begin(self) -> None:
        """Start all processes."""
        self.stage = Stage(self.world, has_transactions=self.world.backing.has_transactions)
        STAGE.set(self.stage)
        for process in (*self._concurrency, *self._enqueuers, "o"):
            self.start(process)
        self._dying = asyncio.create_task(self._revive())

    def start(self, process: str) -> None:
        """Start a process, or a new life of it."""
        if process in self._concurrency:
            self.world.spawn(process, self._work(process))
        elif process in self._enqueuers:
            self._enqueuing.add(process)
            self.world.spawn(process, self._enqueue(process))
        else:
            self.world.spawn(process, self._rule())

    def rest(self) -> None:
        """Let functions be quick, and let the operator lift all limits."""
        self.stage.calmed.set()

    def unsettled(self, calm: float) -> list[str]:
        """Return the tasks that are open; `InvariantBroken` for one that waits longer than promised."""
        tasks = self.world.checker.history.tasks
        if tasks is None or not self._is_lifted:
            return ["the limits are not lifted"]
        if self._enqueuing:
            return [f"{sorted(self._enqueuing)} cannot enqueue"]
        now_ms = self.world.backing.now_ms()
        patience_seconds = 1.0 + LIMIT_SECONDS * len(tasks.open)
        since = max(calm, self.stage.last_trouble)
        for task in tasks.open.values():
            waits_seconds = min(self._waits_seconds(task, now_ms), self.world.now - since - TTL_SECONDS)
            if task.session is None and waits_seconds > patience_seconds:
                raise InvariantBroken(f"task {task.id} waits for {waits_seconds:.3f} s, and is not served: {task}")
        return [f"{task.id} is {task.state}" for task in tasks.open.values()]

    @staticmethod
    def _waits_seconds(task: OpenTask, now_ms: int) -> float:
        return (now_ms - (task.ready_at if task.due is None else task.due)) / 1_000

    async def _work(self, process: str) -> None:
        """Work until nothing is left to do; now and then leave, and come back."""
        while True:
            self._leaving[process] = asyncio.Event()
            with suppress(*_OUTAGES):
                worker = self._worker(process)
                worker._leave_seconds = random.choice([0.1, 1.0])
                await self._given_time(self._serve(worker, self._leaving[process]))
            await asyncio.sleep(random.uniform(0.05, 0.5))

    def _worker(self, process: str) -> QueueWorker:
        return self._queue().worker(concurrency=self._concurrency[process])

    def _queue(self) -> Queue:
        queue = Queue(URL, NAME, lease_ttl=timedelta(seconds=TTL_SECONDS))
        queue._functions.update(FUNCTIONS)
        return queue

    async def _serve(self, worker: QueueWorker, leaving: asyncio.Event) -> None:
        async with worker:
            await leaving.wait()
            self.world.trace.cover("a worker leaves")

    async def _given_time(self, serving: Coroutine[Any, Any, None]) -> None:
        """Serve, but in some seeds be cancelled after some turns of the loop."""
        odds = self.world.task_troubles.odds
        task = asyncio.create_task(serving)
        if random.random() < odds.cancelled and self.world.trace.inject("caller cancelled", "of a worker"):
            self.world.loop.at_step(self.world.loop.steps + int(random.expovariate(1 / 400)) + 1, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    async def _enqueue(self, process: str) -> None:
        queue = self._queue()
        while not await self.stage.is_calm_after(random.expovariate(1 / self._pause_seconds)):
            calls = [self._call() for _ in range(random.choice([1, 1, 1, 4]))]
            try:
                await queue.enqueue_many(calls)
            except OutcomeUnknown:
                self.world.trace.cover("an enqueue is unknown")
            except _OUTAGES as error:
                self.world.trace.cover(f"an enqueue ends: {type(error).__name__}")
        while True:
            try:
                await queue.enqueue(quick.call(0))
                break
            except _OUTAGES:
                await asyncio.sleep(0.1)
        await queue.close()
        self._enqueuing.remove(process)

    def _call(self) -> Call:
        self._number += 1
        functions: Sequence[TaskFunction[[int], Any]] = BAD if random.random() < self._bad_ratio else self.usual
        call = random.choice(functions).call(self._number)
        draw = random.random()
        if draw < 0.15:
            return call.options(delay=timedelta(seconds=random.uniform(0, 3)))
        if draw < 0.3:
            return call.options(unique=f"u{random.randrange(3)}", on_duplicate=random.choice(["keep", "replace"]))
        if draw < 0.4:
            return call.options(expires=timedelta(seconds=random.uniform(0.1, 2)))
        if draw < 0.5:
            return call.options(priority=random.randrange(4))
        return call

    async def _rule(self) -> None:
        """Give the commands of an operator; once nothing fails any more, lift all limits."""
        while not await self.stage.is_calm_after(random.expovariate(1 / self._ruling_seconds)):
            with suppress(*_OUTAGES):
                await self._command()
        while not self._is_lifted:
            with suppress(*_OUTAGES):
                await admin.resume(URL, NAME)
                await admin.limit(URL, NAME)
                await self._hasten()
                self.stage.note_trouble()
                self._is_lifted = True

    async def _command(self) -> None:
        tasks = self.world.checker.history.tasks
        known = SimpleNamespace(open=[], ended=[]) if tasks is None else tasks
        opened, ended = list(known.open), list(known.ended)
        draw = random.random()
        if draw < 0.3 and opened:
            await admin.cancel(URL, *random.sample(opened, min(2, len(opened))))
        elif draw < 0.45 and ended:
            await admin.redrive(URL, random.choice(ended))
        elif draw < 0.6:
            await admin.pause(URL, NAME)
            await self.stage.is_calm_after(random.uniform(0.1, 1.5))
            await admin.resume(URL, NAME)
        elif draw < 0.75:
            await admin.limit(URL, NAME, running=random.choice([None, 1, 3]), rate=random.choice([None, 5]))
        elif draw < 0.85 and opened:
            await admin.retry(URL, *opened)
        elif draw < 0.9:
            await admin.purge(URL, NAME, "dead")
        elif draw < 0.95 and self._leaving:
            self._leaving[random.choice(sorted(self._leaving))].set()

    async def _hasten(self) -> None:
        """Make tasks ready that a clock of the store had delayed before it was put right."""
        tasks, now_ms = self.world.checker.history.tasks, self.world.backing.now_ms()
        late = [] if tasks is None else [task.id for task in tasks.open.values() if (task.due or 0) > now_ms + _MOST_MS]
        if late:
            await admin.retry(URL, *late)

    async def _revive(self) -> None:
        """Start workers that a task has ended, as a supervisor does."""
        while True:
            await asyncio.sleep(0.2)
            names, down = self.world.processes.names, self.nemesis.down
            for process in self._concurrency:
                if process not in names and process not in down:
                    self.start(process)
