"""Rig: a store that a suite may disturb: it may kill the server, or put an old copy of the data back.

One rig is made for a suite and used by one case after another. Each case has a namespace and an event loop of its
own, so the rig keeps nothing that belongs to a loop. If a kind of store cannot offer a method, the method raises
`Impossible`, which names the capability that is missing. The case is then skipped, and the report gives that name. A
case is never skipped for a capability that the store promises.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from apportion.runtime.clock import Clock
from apportion.stores import CoordinationStore, connect
from apportion.stores.catalog import connect_tasks
from apportion.stores.task_api import TaskStore


class Impossible(Exception):
    """This kind of store cannot do this. `capability` is the field of `Capabilities` that says so."""

    def __init__(self, capability: str, why: str) -> None:
        super().__init__(f"{capability}: {why}")
        self.capability = capability


class Rig(ABC):
    """The demands of a suite on a kind of store. All methods but `url` and `connect` may raise `Impossible`."""

    name: str

    @abstractmethod
    def url(self, namespace: str, *, address: tuple[str, int] | None = None) -> str:
        """Return the URL of the store. The `address` of a proxy replaces the server's own address in the URL."""

    async def connect(
        self, namespace: str, *, address: tuple[str, int] | None = None, clock: Clock | None = None
    ) -> CoordinationStore:
        """Return a new handle."""
        return await connect(self.url(namespace, address=address), clock=clock)

    async def connect_tasks(self, namespace: str, *, address: tuple[str, int] | None = None) -> TaskStore:
        """Return a new handle of the tasks in the store; `NotPromised` if the store keeps none."""
        return await connect_tasks(self.url(namespace, address=address))

    def url_elsewhere(self, namespace: str) -> str:
        """Return the URL for another process; raise `Impossible` if no other process can reach the store."""
        return self.url(namespace)

    @abstractmethod
    def address(self) -> tuple[str, int]:
        """Return the address of the server, so that a proxy can be put in front of it."""

    @abstractmethod
    async def kill(self) -> None:
        """Kill the server without warning (SIGKILL, with all its processes), so that only its written data remains."""

    @abstractmethod
    async def start(self) -> None:
        """Start the killed server on its data, at the same address, and return when it answers."""

    @abstractmethod
    async def compact(self) -> None:
        """Make the store forget the history of all changes up to now."""

    @abstractmethod
    async def save(self) -> None:
        """Keep a copy of all present data, as a backup does."""

    @abstractmethod
    async def restore(self) -> None:
        """Replace the data by the kept copy, as an operator restores a backup; the server runs again."""

    @abstractmethod
    async def restore_in_place(self) -> None:
        """Put the kept copy back so that the store keeps its identity: the id of its cluster or system, or its file."""

    @abstractmethod
    async def deny(self) -> None:
        """Take all rights to change data from the user of the URL, as a wrong grant or a rotated password does."""

    @abstractmethod
    async def allow(self) -> None:
        """Give the right back."""

    def denied(self) -> AbstractAsyncContextManager[None]:
        """The user of the URL has no right to change anything within the block."""
        return _between(self.deny(), self.allow)

    @abstractmethod
    async def fill(self) -> None:
        """Leave no room on the store's disk (or in its quota): 10 MB more, in values of 256 KiB, must not fit."""

    @abstractmethod
    async def relieve(self) -> None:
        """Give the room back."""

    def full(self) -> AbstractAsyncContextManager[None]:
        """The store has no room within the block."""
        return _between(self.fill(), self.relieve)

    @abstractmethod
    async def step_clock(self, seconds: float) -> None:
        """Step the wall clock that the server sees; 0 sets it right again."""

    def stepped(self, seconds: float) -> AbstractAsyncContextManager[None]:
        """The server's wall clock is stepped within the block."""
        return _between(self.step_clock(seconds), partial(self.step_clock, 0))

    @abstractmethod
    async def close(self) -> None:
        """Stop the server by its process id and remove its files."""


@asynccontextmanager
async def _between(begun: Awaitable[None], end: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    await begun
    try:
        yield
    finally:
        await end()
