"""Shared store: what all groups of a process have in common on one store: the handle, and the session in it.

Promises: the handle is opened by the first group that names a URL, and closed after the last one has left. A forked
child shares nothing with its parent. Refuses: other loops than that of the I/O thread.
"""

import asyncio
import os
from contextlib import AsyncExitStack

from apportion.cluster.session import Sessions
from apportion.stores.api import CoordinationStore, Need
from apportion.stores.catalog import connect
from apportion.stores.clock import SystemClock

_NEEDS: tuple[Need, ...] = ("fencing", "gapless_watch", "linearizable")


class SharedStore:
    """The store of a URL, for as long as a group of this process uses it; made by `taken`."""

    store: CoordinationStore
    sessions: Sessions

    def __init__(self, url: str) -> None:
        self.clock = SystemClock()
        self._key = (os.getpid(), url)
        self._opening = asyncio.ensure_future(self._open(url))
        self._users = 0

    @classmethod
    async def taken(cls, url: str) -> "SharedStore":
        """Connect, or join those who did; errors are those of `stores.connect`."""
        shared = _shared.get((os.getpid(), url)) or cls(url)
        _shared[shared._key] = shared
        shared._users += 1
        async with AsyncExitStack() as undo:
            undo.push_async_callback(shared.let_go)
            await asyncio.shield(shared._opening)
            undo.pop_all()
        return shared

    async def let_go(self) -> None:
        """Use it no more; the last one closes it."""
        self._users -= 1
        if self._users:
            return
        _shared.pop(self._key, None)
        self._opening.cancel()  # does nothing to what is done
        await asyncio.wait([self._opening])
        if not self._opening.cancelled() and self._opening.exception() is None:
            await self.store.close()

    async def _open(self, url: str) -> None:
        self.store = await connect(url, needs=_NEEDS)
        self.sessions = Sessions(self.store, self.clock)


_shared: dict[tuple[int, str], SharedStore] = {}
