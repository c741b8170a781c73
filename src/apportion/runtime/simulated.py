"""The hook for simulation: a simulated process takes its clock and its loop from here instead of the operating system.

A simulated process names its machine in `MACHINE`. In a real process, `simulated()` returns None. Stores
have hooks of their own: `CONNECT_HERE` and `CONNECT_TASKS_HERE` in `stores.catalog`.
"""

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from apportion.model.epoch import FencingToken
from apportion.runtime.clock import Clock, SystemClock

Result = TypeVar("Result")
Undo = Callable[[Result], Coroutine[object, object, None]]


class Runner(Protocol):
    """The place that runs stores, renewals and all other work that must go on in time."""

    @property
    def runs(self) -> bool:
        """Whether this place can be called."""

    async def hop(
        self, work: Coroutine[object, object, Result], *, undo: Undo[Result] | None = None, is_prompt: bool = False
    ) -> Result:
        """Run a coroutine there, and wait for it; `undo` gets the result if the caller was cancelled before that.

        The first step of prompt work may be made without a task.
        """

    def wait(
        self, work: Coroutine[object, object, Result], *, undo: Undo[Result] | None = None, is_prompt: bool = False
    ) -> Result:
        """Run a coroutine there, from a thread without an event loop, and wait for it; for the rest see `hop`."""

    async def finish(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine there to its end, and wait for it; a caller that is cancelled stops waiting."""

    def wait_finished(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine there to its end, from a thread without an event loop; Ctrl-C ends only the wait."""

    def send(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine there to its end, without waiting for it."""


class WorkObserver(Protocol):
    """Notes when work on a held partition begins and ends. The working thread calls the methods in order."""

    def entered(self, work: object, token: FencingToken, since: float) -> None:
        """Note that work has begun on a partition that was granted at `since`, a time of the clock."""

    def left(self, work: object) -> None:
        """Note that work has ended."""


class Machine(Runner, WorkObserver, Protocol):
    """A simulated machine, for one life of one process.

    `shared` is the common state of its groups. `leaving` holds the functions that a SIGTERM calls, each under a key of
    its own.
    """

    shared: dict[object, Any]
    leaving: dict[object, Callable[[], None]]

    @property
    def clock(self) -> Clock:
        """The elapsed clock of the process."""

    async def in_child(self, work: Coroutine[object, object, Result]) -> Result | None:
        """Run a coroutine in a child of the process, and wait for it; None if the child ended before it returned.

        The child ends if its parent ends or its caller is cancelled.
        """


MACHINE: ContextVar[Machine | None] = ContextVar("machine", default=None)


def simulated() -> Machine | None:
    """Return the machine of the simulated process that asks; None for a real one."""
    return MACHINE.get()


def clock_here() -> Clock:
    """Return the clock of the machine that this process runs on, real or simulated."""
    machine = simulated()
    return SystemClock() if machine is None else machine.clock
