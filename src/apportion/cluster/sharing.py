"""Sharing: the session that all groups of a process have in common on one store.

Promises: it is opened by the first group that names a store, and closed after the last one has left. It has a handle of
its own: what a group's handle has seen of the store is for that group alone to judge. A forked child shares nothing
with its parent, nor a simulated process with another. Refuses: other loops than that of the I/O thread.
"""

import asyncio
import os
from contextlib import AsyncExitStack

from apportion.cluster.session import Sessions
from apportion.runtime.simulated import clock_here, simulated
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import connect, parsed_url
from apportion.stores.url import StoreUrl


class SharedSessions:
    """The sessions of this process in the store of a URL, for as long as one of its groups uses them; see `taken`."""

    sessions: Sessions

    def __init__(self, url: str) -> None:
        self._key = _key(url)
        self._opening = asyncio.ensure_future(self._open(url))
        self._users = 0

    @classmethod
    async def taken(cls, url: str) -> "SharedSessions":
        """Connect, or join those who did; errors are those of `stores.connect`."""
        machine = simulated()
        there = _shared if machine is None else machine.shared
        shared = there.get(_key(url)) or cls(url)
        there[shared._key] = shared
        shared._users += 1
        async with AsyncExitStack() as undo:
            undo.push_async_callback(shared.let_go)
            await asyncio.shield(shared._opening)
            undo.pop_all()
        return shared

    async def let_go(self) -> None:
        """Use them no more; the last one closes the handle."""
        self._users -= 1
        if self._users:
            return
        machine = simulated()
        (_shared if machine is None else machine.shared).pop(self._key, None)
        self._opening.cancel()  # does nothing to what is done
        await asyncio.wait([self._opening])
        if not self._opening.cancelled() and self._opening.exception() is None:
            await self._opening.result().close()

    async def _open(self, url: str) -> CoordinationStore:
        store = await connect(url)
        self.sessions = Sessions(store, clock_here())
        return store


def _key(url: str) -> tuple[int, StoreUrl]:
    """Return what tells stores apart, however their URL is written, and wherever the process has moved meanwhile."""
    return os.getpid(), parsed_url(url).canonical()


_shared: dict[tuple[int, StoreUrl], SharedSessions] = {}
