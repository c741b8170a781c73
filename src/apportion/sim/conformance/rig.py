"""Rig: a store that a suite may do things to, such as killing its server or putting an old copy of its data back.

One rig is made for a suite and used by one case after another, each in a namespace and an event loop of its own, so it
keeps nothing that belongs to a loop. What a kind of store has no means for raises `Impossible` with the capability that
says so; the case is then skipped by that name. A promise that the store does make excuses nothing.
"""

from abc import ABC, abstractmethod

from apportion.runtime.clock import Clock
from apportion.stores import CoordinationStore, connect


class Impossible(Exception):
    """This kind of store has no such thing; `capability` is the field of `Capabilities` that says so."""

    def __init__(self, capability: str, why: str) -> None:
        super().__init__(f"{capability}: {why}")
        self.capability = capability


class Rig(ABC):
    """What a suite needs of a kind of store. All methods but `url` and `connect` may raise `Impossible`."""

    name: str

    @abstractmethod
    def url(self, namespace: str, *, address: tuple[str, int] | None = None) -> str:
        """Return the URL of the store; `address` is that of a proxy to go through instead of the server's own."""

    async def connect(
        self, namespace: str, *, address: tuple[str, int] | None = None, clock: Clock | None = None
    ) -> CoordinationStore:
        """Return a new handle."""
        return await connect(self.url(namespace, address=address), clock=clock)

    def url_elsewhere(self, namespace: str) -> str:
        """Return the URL by which another process reaches the store; `Impossible` where none can."""
        return self.url(namespace)

    @abstractmethod
    def address(self) -> tuple[str, int]:
        """Return where the server listens, so that a proxy can be put before it."""

    @abstractmethod
    async def kill(self) -> None:
        """Kill the server without warning (SIGKILL, with all its processes), so that only what it wrote remains."""

    @abstractmethod
    async def start(self) -> None:
        """Start the killed server on its data, at the same address, and return when it answers."""

    @abstractmethod
    async def compact(self) -> None:
        """Make the store forget the history of all changes up to now."""

    @abstractmethod
    async def save(self) -> None:
        """Keep a copy of all data as it is now, as a backup does."""

    @abstractmethod
    async def restore(self) -> None:
        """Put the kept copy in the place of the data, as an operator restores a backup; the server runs again."""

    @abstractmethod
    async def restore_in_place(self) -> None:
        """Put the kept copy back so that the store keeps its identity: the id of its cluster or system, or its file."""

    @abstractmethod
    async def deny(self) -> None:
        """Take from the user of the URL the right to change anything, as a wrong grant or a rotated password does."""

    @abstractmethod
    async def allow(self) -> None:
        """Give the right back."""

    @abstractmethod
    async def fill(self) -> None:
        """Leave no room on the store's disk (or in its quota), so that 10 MB more, in values of 256 KiB, do not fit."""

    @abstractmethod
    async def relieve(self) -> None:
        """Give the room back."""

    @abstractmethod
    async def step_clock(self, seconds: float) -> None:
        """Step the wall clock that the server sees; 0 sets it right again."""

    @abstractmethod
    async def close(self) -> None:
        """Stop the server by its process id and remove its files."""
