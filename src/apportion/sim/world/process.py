"""Processes of a world: which one runs now, and how its callbacks are treated while it is paused or dead.

A process is a name and a context variable: everything that its first coroutine starts inherits it. No part of a dead
process ever runs again, not even a `finally`. Its remains are kept until the world ends, and thrown away then.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from random import Random
from typing import Any

from apportion.errors import UnknownOption
from apportion.runtime.clock import Clock
from apportion.runtime.simulated import MACHINE
from apportion.sim.world.loop import VirtualLoop
from apportion.sim.world.machine import NOWHERE, WorldMachine
from apportion.stores.catalog import CONNECT_HERE, CONNECT_TASKS_HERE

CURRENT: "ContextVar[Process | None]" = ContextVar("process", default=None)
OUTSIDE = "(outside)"
VANDAL = "(vandal)"  # the process that damages data; names in brackets belong to no member
BEGIN_OF_TIME = 1_700_000_000.0  # seconds since 1970 when a world begins
_MOST_WAITS = 20
_SLOWEST, _FASTEST = 0.998, 1.002  # rates of elapsed clocks


class ProcessState(Enum):
    """The state of a process."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """One life of a named process, with the differences of its clocks from the true time."""

    def __init__(self, name: str, *, draw: Random) -> None:
        self.name = name
        self.wall_offset: float = draw.uniform(-300, 300)
        self.rate: float = draw.uniform(_SLOWEST, _FASTEST)
        self.boot_seconds: float = draw.uniform(0, 1e6)
        self.state = ProcessState.RUNNING
        self.pauses = 0
        self.held: list[asyncio.Handle] = []
        self.mail: asyncio.Queue[object] = asyncio.Queue()
        self.machine: WorldMachine = NOWHERE

    @property
    def lives(self) -> bool:
        """Whether this life still lasts: the process was not killed."""
        return self.state is not ProcessState.DEAD

    def context(self) -> Context:
        """Return a context in which this process is the current one."""
        context = copy_context()
        context.run(CURRENT.set, self)
        context.run(MACHINE.set, self.machine)
        context.run(CONNECT_HERE.set, self.machine.connect)
        context.run(CONNECT_TASKS_HERE.set, self.machine.connect_tasks)
        return context


class TrueClock(Clock):
    """The clock of the world itself, by which a store ends leases."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def elapsed(self) -> float:
        return self._loop.time()


class ProcessClock(Clock):
    """The elapsed clock of one process: it counts from the start of its machine, and is a little fast or slow."""

    def __init__(self, loop: VirtualLoop, process: Process) -> None:
        self._loop = loop
        self._process = process

    def elapsed(self) -> float:
        return self._process.boot_seconds + self._loop.time() * self._process.rate


class Processes:
    """All processes of a world."""

    def __init__(self, loop: VirtualLoop, draw: Random) -> None:
        self._loop = loop
        self._draw = draw
        self._of_name: dict[str, Process] = {}
        self._graves: list[asyncio.Task[Any]] = []

    @property
    def names(self) -> list[str]:
        """The processes that are not dead, sorted."""
        return sorted(name for name, process in self._of_name.items() if process.state is not ProcessState.DEAD)

    def ever(self) -> frozenset[str]:
        """Return the names of all processes, including dead ones."""
        return frozenset(self._of_name)

    def living(self, name: str) -> Process:
        """Return the live process of that name, or a new one if there is none."""
        process = self._of_name.get(name)
        if process is None or process.state is ProcessState.DEAD:
            process = self._of_name[name] = Process(name, draw=self._draw)
        return process

    def known(self, name: str) -> Process:
        """Return the latest process of that name; `UnknownOption` when there never was one."""
        if name not in self._of_name:
            raise UnknownOption("process", name, self._of_name)
        return self._of_name[name]

    def pause(self, name: str, seconds: float) -> None:
        """Hold all callbacks of a process for some time."""
        process = self.known(name)
        if process.state is not ProcessState.DEAD:
            process.state = ProcessState.PAUSED
            process.pauses += 1
            self._loop.call_later(seconds, self._resume, process, context=outside())

    def resume_all(self) -> None:
        """End all pauses."""
        for process in self._of_name.values():
            while process.state is ProcessState.PAUSED:
                self._resume(process)

    def kill(self, name: str) -> None:
        """Drop all callbacks of a process for ever. Its tasks are kept: a collected task would run its `finally`."""
        process = self.known(name)
        self._graves.extend(asyncio.all_tasks(self._loop))
        process.state = ProcessState.DEAD
        process.held.clear()

    def deliver(self, name: str, message: object) -> None:
        """Put a message into the mail of a process, if it lives."""
        if name in self.names:
            self.known(name).mail.put_nowait(message)

    def bury(self) -> None:
        """Close the loop, and throw away all waiting tasks: a `finally` that runs then has no effect."""
        left = {*asyncio.all_tasks(self._loop), *self._graves}
        self._graves.clear()
        self._loop.close()
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            for _ in range(_MOST_WAITS):
                if getattr(coroutine, "cr_frame", None) is not None:
                    with suppress(Exception):
                        outside().run(coroutine.close)

    def _resume(self, process: Process) -> None:
        process.pauses -= 1
        if process.pauses <= 0 and process.state is ProcessState.PAUSED:
            process.state, process.pauses = ProcessState.RUNNING, 0
            self._loop.wake(process.held)
            process.held = []


class Senses:
    """The running process's view of time and chance. The fences use it."""

    def __init__(self, loop: VirtualLoop, draw: Random) -> None:
        self._loop = loop
        self.random_bytes: Callable[[int], bytes] = draw.randbytes

    def elapsed(self) -> float:
        """Return elapsed seconds."""
        process = CURRENT.get()
        return self._loop.time() if process is None else ProcessClock(self._loop, process).elapsed()

    def wall(self) -> float:
        """Return seconds since 1970, by the clock of the process."""
        process = CURRENT.get()
        return BEGIN_OF_TIME + self._loop.time() + (0.0 if process is None else process.wall_offset)

    def host(self) -> str:
        """Return the name of the machine, which is the name of the process."""
        return running_name()


def gate(handle: asyncio.Handle) -> bool:
    """Return whether a callback may run now; keep it while its process is paused, drop it after its death."""
    process = handle._context.get(CURRENT)  # type: ignore[attr-defined]
    if process is None or process.state is ProcessState.RUNNING:
        return True
    if process.state is ProcessState.PAUSED:
        process.held.append(handle)
    return False


def outside() -> Context:
    """Return a context without a current process: code that runs in it outlives the process that began it."""
    context = copy_context()
    context.run(CURRENT.set, None)
    context.run(MACHINE.set, NOWHERE)
    context.run(CONNECT_HERE.set, NOWHERE.connect)
    context.run(CONNECT_TASKS_HERE.set, NOWHERE.connect_tasks)
    return context


def running_name() -> str:
    """Return the name of the process that runs now."""
    process = CURRENT.get()
    return OUTSIDE if process is None else process.name
