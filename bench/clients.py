"""Simulated processes in a PostgreSQL store: each has the connections, the lease and the reaper of a process.

They share one event loop and one interpreter: their cost for the server is real, that for a machine is not.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from apportion.errors import StoreUnavailable
from apportion.stores import Absent, Committed, CoordinationStore, Put, connect

RENEWALS_PER_TTL = 4


@dataclass(slots=True, kw_only=True)
class Client:
    """One simulated process: it holds a lease with a key, renews it, and watches the keys of the others."""

    name: str
    url: str
    ttl_seconds: float
    gone_at: dict[str, float] = field(default_factory=dict)
    has_lost: bool = False
    _store: CoordinationStore | None = None
    _tasks: "list[asyncio.Task[None]]" = field(default_factory=list)

    async def start(self) -> None:
        """Take part."""
        # Another name of the application makes other connections, as another process has them.
        self._store = store = await connect(f"{self.url}&application_name={self.name}")
        lease = await store.grant(ttl_seconds=self.ttl_seconds)
        key = f"member/{self.name}"
        written = await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"", lease=lease.id)])
        if not isinstance(written, Committed):
            raise TypeError(f"{key} could not be written: {written}")
        running = (self._renew(store, lease.id), self._watch(store, written.revision))
        self._tasks = [asyncio.create_task(each) for each in running]

    async def kill(self) -> None:
        """End without a word."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._store is not None:
            await self._store.close()

    async def _renew(self, store: CoordinationStore, lease: int) -> None:
        while not self.has_lost:
            await asyncio.sleep(self.ttl_seconds / RENEWALS_PER_TTL)
            with suppress(StoreUnavailable):
                self.has_lost = lease not in await store.renew([lease])

    async def _watch(self, store: CoordinationStore, after: int) -> None:
        async for change in store.watch("member/", after=after):
            for event in change.events:
                if event.value is None:
                    self.gone_at.setdefault(event.key.removeprefix("member/"), monotonic())


async def fleet(url: str, count: int, *, ttl_seconds: float, at_a_time: int = 10) -> list[Client]:
    """Start so many simulated processes, some at a time."""
    clients = [Client(name=f"p{number}", url=url, ttl_seconds=ttl_seconds) for number in range(count)]
    for begin in range(0, count, at_a_time):
        await asyncio.gather(*(client.start() for client in clients[begin : begin + at_a_time]))
    return clients
