"""The world: processes, a store, a network and clocks, all in one thread and drawn from one seed.

Promises: the same seed gives the same run, whatever the machine does. No part of a killed process has a later effect.
Every transition of the store is checked against the invariants. A handler in a world runs under faults. A handler
that iterates over a set of `str` follows the order of PYTHONHASHSEED, which is the run's second seed.
Refuses: calls that the fences refuse (threads, sockets, subprocesses), and processes that share more than the world.

A process that opens a group, an election, a table or a store of `apportion` finds those of this world (see
`machine`).

    world = World(7)
    world.spawn("a", handler(world.store("a")))
    world.pause("a", 3.0)
    world.run(until=10.0)
"""

import asyncio
import gc
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar

from apportion.errors import InvalidInput, InvariantBroken
from apportion.runtime.clock import Clock
from apportion.sim.facts import Calm, Died, Entered, Fact, Left, Writing, Wrote
from apportion.sim.invariants.handlers import INVARIANTS
from apportion.sim.invariants.keys import INVARIANTS as OF_KEYS
from apportion.sim.invariants.schedules import INVARIANTS as OF_SCHEDULES
from apportion.sim.invariants.store import Checker, Invariant, Violation
from apportion.sim.invariants.tasks import INVARIANTS as OF_TASKS
from apportion.sim.world.backings import Backing, MemoryBacking
from apportion.sim.world.children import ChildProcesses
from apportion.sim.world.failures import Failures
from apportion.sim.world.fences import fenced, fences_of
from apportion.sim.world.log_lines import logged
from apportion.sim.world.loop import VirtualLoop
from apportion.sim.world.machine import NOWHERE, Machines
from apportion.sim.world.network import GROUP, STORE, TASKS, Network
from apportion.sim.world.process import (
    CURRENT,
    ProcessClock,
    Processes,
    Senses,
    TrueClock,
    gate,
    outside,
    running_name,
)
from apportion.sim.world.sites.site import MakeBacking, Site
from apportion.sim.world.task_faults import FaultyTasks
from apportion.sim.world.trace import Trace
from apportion.sim.world.troubles import Troubles
from apportion.stores import CoordinationStore
from apportion.stores.task_api import TaskStore

Result = TypeVar("Result")
_GROUP_HOST = "(group)"  # its clock ends the leases of the group; no member has a name in brackets
_OF_HOLDS, _OF_EVERYBODY = (Entered, Left, Writing, Wrote), (Calm, Died)


class World(AbstractContextManager["World", None]):
    """A seeded world. It injects no more than `fault_limit` faults; `story` keeps the lines of the trace.

    `invariants` hold for everything that runs; the default is all of `sim.invariants.store`. With this default, those
    of `sim.invariants.handlers` hold too, once a process opens any part of `apportion`. Those of
    `sim.invariants.tasks`, `.keys` and `.schedules` hold once a process opens tasks. A broken invariant ends `run` with
    `InvariantBroken`. With `collect`, the violation is only added to `checker.violations`. A world that runs more than
    `step_limit` callbacks ends `run` with `InvariantBroken` too, also with `collect`.

    With `group_url`, the world has a second store, in memory: processes find it under this URL, and open groups there.
    The attribute `group` is this store, with faults, lives and a clock of its own. Without `group_url`, `group` is the
    one store, `site`.
    """

    machines: Machines
    group_url: str | None

    def __init__(
        self,
        seed: int,
        *,
        store: MakeBacking = MemoryBacking,
        group_url: str | None = None,
        invariants: Iterable[type[Invariant]] | None = None,
        fault_limit: int | None = None,
        story: bool = False,
        collect: bool = False,
        step_limit: int = 10_000_000,
    ) -> None:
        self.seed = seed
        self._step_limit = step_limit
        self.loop: VirtualLoop = VirtualLoop(self.draws("order"), gate=gate, after_step=self._after_step)
        self._failures = Failures(self.loop.time, self.record)
        self.loop.refused = self._failures.refused
        self.loop.set_exception_handler(self._failures.unawaited)
        self.trace: Trace = Trace(self.loop.time, keep=story, fault_limit=fault_limit)
        self.processes: Processes = Processes(self.loop, self.draws("processes"))
        self.network: Network = Network(
            self.draws("network"), now=self.loop.time, inject=self.trace.inject, processes=self.processes.ever
        )
        self.group_url = group_url
        held, violations = None if invariants is None else tuple(invariants), list[Violation]()
        self.backing: Backing = store(TrueClock(self.loop), self.loop.time)
        self.site: Site = Site(self, self.backing, STORE, TASKS, invariants=held, violations=violations)
        self.troubles: Troubles = self.site.troubles[0]
        self.task_troubles: Troubles = self.site.troubles[1]
        self.checker: Checker = self.site.checker
        self.group: Site = self.site
        if group_url is not None:
            drifting = ProcessClock(self.loop, self.processes.living(_GROUP_HOST))
            beside = MemoryBacking(drifting, self.loop.time)
            self.group = Site(self, beside, GROUP, invariants=held, violations=violations)
            self.network.places.add(GROUP)
        self.sites: tuple[Site, ...] = (self.site,) if self.group is self.site else (self.site, self.group)
        self.group_checker: Checker = self.group.checker
        self.checker.history.group = self.group_checker.history
        self.machines = Machines(
            self,
            number=self.troubles.number,
            held=INVARIANTS if invariants is None else (),
            held_of_tasks=(*OF_TASKS, *OF_KEYS, *OF_SCHEDULES) if invariants is None else (),
        )
        self.children: ChildProcesses = ChildProcesses(self.processes, self.machines.machine, self.kill)
        self._fences = fences_of(Senses(self.loop, self.draws("bytes")))
        self._collect = collect
        self._closed = False
        self._look()

    @property
    def now(self) -> float:
        """The true time: virtual seconds since the world began."""
        return self.loop.time()

    def draws(self, purpose: str) -> Random:
        """Return a random source of this seed for one purpose, so that one use does not disturb another."""
        return Random(f"{self.seed} {purpose}")  # noqa: S311 - it must repeat

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Start a coroutine in the live process of that name. If none is live, a new life of it begins.

        An error that leaves the coroutine ends `run` with it.
        """
        process = self.processes.living(name)
        if process.machine is NOWHERE:
            process.machine = self.machines.machine(name)
        task = self.loop.create_task(coroutine, context=process.context())
        task.add_done_callback(partial(self._failures.ended, name), context=outside())
        self.trace.say(f"{name} starts")
        return task

    def store(self, name: str, url: str | None = None) -> CoordinationStore:
        """Return a new handle of the store for a process, with this world's faults in between.

        With `group_url` as the `url`, the store is that of the groups.
        """
        site = self.site if url is None or url != self.group_url else self.group
        return site.handle(name, self.clock(name))

    def tasks(self, name: str) -> TaskStore:
        """Return a new handle of the tasks in the store for a process, with faults in between; see `task_troubles`."""
        places = self.network.places
        places.add(TASKS)
        inner = self.backing.tasks(self.clock(name))
        self._look()
        return FaultyTasks(name, inner, self.task_troubles, look=self._look, now=self.loop.time)

    def clock(self, name: str) -> Clock:
        """Return the elapsed clock of a process: it is a little faster or slower than the true time."""
        return ProcessClock(self.loop, self.processes.living(name))

    def run(self, until: float | Coroutine[Any, Any, Result]) -> Result | None:
        """Run up to a true time, or until a coroutine has returned; return its result."""
        if self._closed:
            raise InvalidInput("world", "closed", "one that is still open", "Make a new one.")
        with fenced(self._fences, seed=f"{self.seed} random {self.now}"), _without_collector(), logged(self.trace):
            if isinstance(until, int | float):
                return self.loop.run_until_complete(asyncio.sleep(max(0.0, until - self.now)))
            return outside().run(self.loop.run_until_complete, until)

    def pause(self, name: str, seconds: float) -> None:
        """Stop a process for some time, in the middle of its work; messages and timers wait for it."""
        self.processes.pause(name, seconds)
        self.trace.say(f"{name} is paused for {seconds:.3f} s")

    def kill(self, name: str) -> None:
        """End a process at its next await, for good: no part of it runs again, not even a `finally`."""
        if self.processes.known(name).lives:
            self.processes.kill(name)
            self.children.ended(name)
            for site in self.sites:
                site.forget(name)
            self.trace.say(f"{name} is killed")
            self.record(Died(at=self.now, process=name))

    def terminate(self, name: str) -> None:
        """Ask a process to end, as SIGTERM does: its groups leave.

        A process without groups is killed. A second call kills the process in any case.
        """
        process = self.processes.known(name)
        leaving = list(process.machine.leaving.values())
        process.machine.leaving.clear()
        if not leaving:
            self.kill(name)
        for leave in leaving:
            self.loop.call_soon(leave, context=process.context())
        self.trace.say(f"{name} is terminated")

    def partition(self, source: str, target: str, seconds: float, *, one_way: bool = False) -> None:
        """Let no message through between two processes, or between a process and "store", for some time.

        A name that never belonged to a process or a store raises `UnknownOption`.
        """
        self.network.partition(source, target, seconds, one_way=one_way)
        self.trace.say(f"{source} and {target} are parted for {seconds:.3f} s{' in one way' if one_way else ''}")

    def send(self, target: str, message: object) -> None:
        """Send a message to the process of that name; it may be lost, late, double, or out of order."""
        for delay in self.network.journeys(running_name(), target):
            self.loop.call_later(delay, self.processes.deliver, target, message, context=outside())

    async def receive(self) -> object:
        """Return the next message for the running process."""
        process = CURRENT.get()
        if process is None:
            raise InvalidInput("receiver", "(outside of every process)", "a process", "Start it with World.spawn.")
        return await process.mail.get()

    def restore(self, copy: object, why: str) -> None:
        """Replace the store's data by an old copy: another life of the store begins, and old connections end."""
        self.site.restore(copy, why)

    def record(self, fact: Fact) -> None:
        """Take a fact: write it to the trace, and check it against the invariants of the store that it is about."""
        (self.group if isinstance(fact, _OF_HOLDS) else self.site).record(fact)
        if isinstance(fact, _OF_EVERYBODY) and self.group is not self.site:
            self.group.take(fact)

    def close(self) -> None:
        """End the world. Waiting tasks are thrown away, and have no more effect on anything in the world."""
        if not self._closed:
            self._closed = True
            for site in self.sites:
                site.is_closed = True
            self.processes.bury()
            for site in self.sites:
                site.backing.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _after_step(self) -> None:
        self._look()
        if self.checker.violations and not self._collect:
            hint = "Then correct the store or the handler. If it is a part of apportion, report the failure."
            raise InvariantBroken(f"seed {self.seed}: {self.checker.violations[0]}", _again(self.seed, hint))
        if self.loop.steps > self._step_limit:
            hint = "Look for a loop that waits for nothing, or raise step_limit."
            turns = f"the run has no end after {self.loop.steps} steps"
            raise InvariantBroken(f"seed {self.seed}: {turns}", _again(self.seed, hint))
        failure = self._failures.take()
        if failure is not None and not (self._collect and self.checker.violations):
            raise failure

    def _look(self) -> None:
        for site in self.sites:
            site.look()


def _again(seed: int, hint: str) -> str:
    return f"Play it again with World({seed}, story=True) and read world.trace.lines. {hint}"


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the cyclic collector off: the order of its work depends on the earlier life of this process."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
