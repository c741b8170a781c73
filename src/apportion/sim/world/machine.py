"""Machines of a world: the thread, clock and store that `apportion.open_group` and the like find there.

So production code runs in a world unchanged: the shipped groups, elections, tables, queues and stores. They use the
loop and the clock of their process. They use the world's one store, under any URL that all processes share. Under the
`group_url` of the world, they use its store for groups. The tasks of a store have their own way through the network. A
child process is a process of the world.

Promises: the world learns when work on a group's holdings begins and ends, and checks it against the invariants of
groups. Refuses: calls of `apportion.sync`, which wait in a thread; any other store; calls outside a process.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn, Protocol, TypeVar

from apportion.model.epoch import FencingToken
from apportion.runtime.clock import Clock
from apportion.runtime.endings import begun, to_its_end
from apportion.runtime.simulated import Machine, Undo
from apportion.runtime.thread_call import ThreadCall
from apportion.sim.facts import Entered, Fact, Left
from apportion.sim.invariants.store import Checker, Invariant
from apportion.sim.world.refusal import refuse
from apportion.stores import CoordinationStore
from apportion.stores.task_api import TaskStore

Result = TypeVar("Result")


class RunsChildren(Protocol):
    """The child processes of a world."""

    async def run(self, parent: str, work: Coroutine[object, object, Result]) -> Result | None:
        """Run a coroutine in a new child of a process."""


class Place(Protocol):
    """The functions that machines need from their world."""

    checker: Checker
    group_checker: Checker
    group_url: str | None

    @property
    def children(self) -> RunsChildren:
        """The child processes."""

    @property
    def now(self) -> float:
        """The true time."""

    def store(self, name: str, url: str | None = None) -> CoordinationStore:
        """Return a new handle for a process, of the store that has the URL."""

    def tasks(self, name: str) -> TaskStore:
        """Return a new handle of the tasks for a process."""

    def clock(self, name: str) -> Clock:
        """Return the clock of a process."""

    def record(self, fact: Fact) -> None:
        """Take a fact."""


class WorldMachine(Machine, Protocol):
    """A machine of a world, which gives access to the store of that world."""

    async def connect(self, url: str) -> CoordinationStore:
        """Return a new handle of the store that a URL stands for, with every guarantee."""

    async def connect_tasks(self, url: str) -> TaskStore:
        """Return a new handle of the tasks in the store that a URL stands for."""


class Machines:
    """The machines of one world and its stores.

    The invariants in `held` apply once a process opens a store. Those in `held_of_tasks` apply once it opens tasks.
    """

    def __init__(
        self,
        world: Place,
        *,
        number: Callable[[], int],
        held: Iterable[type[Invariant]],
        held_of_tasks: Iterable[type[Invariant]],
    ) -> None:
        self._world, self._number = world, number
        self._held = {"store": tuple(held), "tasks": tuple(held_of_tasks), "group": tuple(held)}
        self._url = ""

    def machine(self, process: str) -> WorldMachine:
        """Return the machine of one life of a process."""
        return _Machine(process, self._world, number=self._number, opened=self._opened)

    def _opened(self, url: str, part: str) -> None:
        world = self._world
        if part == "store" and url == world.group_url:
            world.group_checker.hold(self._held.pop("group", ()))
            return
        if self._url not in ("", url):
            refuse(f"a second store, {url},", f"one URL for all processes of a world; this world has {self._url}")
        self._url = url
        world.checker.hold(self._held.pop(part, ()))


class _Machine:
    """See `Machine`."""

    runs = True

    def __init__(self, process: str, world: Place, *, number: Callable[[], int], opened: Callable[..., None]) -> None:
        self.clock = world.clock(process)
        self.shared: dict[object, Any] = {}
        self.leaving: dict[object, Callable[[], None]] = {}
        self._process, self._world, self._number, self._opened = process, world, number, opened
        self._numbers: dict[object, int] = {}

    async def hop(
        self, work: Coroutine[object, object, Result], *, undo: Undo[Result] | None = None, is_prompt: bool = False
    ) -> Result:
        """See `Runner`. As with a thread, the work goes on for a turn or two after its caller was cancelled."""
        return await ThreadCall(_loop(work), work, undo, is_prompt=is_prompt).heard()

    def wait(
        self,
        work: Coroutine[object, object, Result],
        *,
        undo: Undo[Result] | None = None,  # noqa: ARG002
        is_prompt: bool = False,  # noqa: ARG002
    ) -> Result:
        """Refuse: a caller that waits without a loop would block the whole world."""
        work.close()
        refuse("a call of apportion.sync (it waits in a thread)", "the same call of apportion, awaited")

    async def finish(self, work: Coroutine[object, object, None]) -> None:
        """See `Runner`."""
        _loop(work)
        await to_its_end(work)

    def wait_finished(self, work: Coroutine[object, object, None]) -> None:
        """Refuse, as `wait` does."""
        self.wait(work)

    def send(self, work: Coroutine[object, object, None]) -> None:
        """See `Runner`."""
        begun(work)

    async def connect(self, url: str) -> CoordinationStore:
        """See `WorldMachine`."""
        self._opened(url, "store")
        return self._world.store(self._process, url)

    async def connect_tasks(self, url: str) -> TaskStore:
        """See `WorldMachine`."""
        self._opened(url, "tasks")
        return self._world.tasks(self._process)

    async def in_child(self, work: Coroutine[object, object, Result]) -> Result | None:
        """See `Machine`."""
        children = self._world.children
        return await children.run(self._process, work)

    def entered(self, work: object, token: FencingToken, since: float) -> None:
        """See `WorkObserver`."""
        self._numbers[work] = number = self._number()
        self._world.record(
            Entered(
                at=self._world.now,
                hold=number,
                process=self._process,
                resource=token.resource,
                holder=token.holder,
                incarnation=token.incarnation,
                epoch=token.epoch,
                since=since,
            )
        )

    def left(self, work: object) -> None:
        """See `WorkObserver`."""
        self._world.record(Left(at=self._world.now, hold=self._numbers.pop(work)))


class _Nowhere:
    """The machine of code in a world that runs outside every process: nothing can be opened there."""

    runs = True
    shared: dict[object, Any] = {}  # noqa: RUF012 - nothing is ever put into it
    leaving: dict[object, Callable[[], None]] = {}  # noqa: RUF012

    @property
    def clock(self) -> Clock:
        """Refuse."""
        _refuse()

    def _refused(self, work: Coroutine[object, object, object], **_: object) -> NoReturn:
        work.close()
        _refuse()

    hop: Any = _refused
    wait: Any = _refused
    finish: Any = _refused
    wait_finished: Any = _refused
    send: Any = _refused

    async def connect(self, url: str) -> CoordinationStore:  # noqa: ARG002
        """Refuse."""
        _refuse()

    async def connect_tasks(self, url: str) -> TaskStore:  # noqa: ARG002
        """Refuse."""
        _refuse()

    async def in_child(self, work: Coroutine[object, object, Result]) -> Result | None:
        """Refuse."""
        work.close()
        _refuse()

    def entered(self, work: object, token: FencingToken, since: float) -> None:
        """Nothing is held here."""

    def left(self, work: object) -> None:
        """Nothing is held here."""


def _loop(work: Coroutine[object, object, object]) -> asyncio.AbstractEventLoop:
    loop = asyncio._get_running_loop()
    if loop is None:  # a `finally` runs at the end of the world
        work.close()
        _refuse()
    return loop


def _refuse() -> NoReturn:
    refuse("a call of apportion outside of every process", "World.spawn(name, ...), and call it there")


NOWHERE = _Nowhere()
