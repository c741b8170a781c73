"""The memory store: a ledger within this process, for tests, for first trials, and for the simulated world.

Refuses: to survive its process. Handles of one name share a ledger as long as one of them is open. All of them belong
to one event loop.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Sequence

from apportion.errors import InvalidInput, StoreClosed
from apportion.runtime.clock import Clock
from apportion.stores import api
from apportion.stores.administration import Administration, Finding
from apportion.stores.ledger import Entry, Ledger
from apportion.stores.reaper import Counter
from apportion.stores.requests import Space, checked_after, checked_lease, checked_leases, checked_ttl, went_back
from apportion.stores.schedules.ledger import ScheduleLedger
from apportion.stores.task_ledger import TaskLedger

CAPABILITIES = api.Capabilities(
    linearizable=True,
    durable=False,
    fencing=True,
    gapless_watch=True,
    multi_host=False,
    watch_delay_seconds=0.0,
    lease_end="store",
    min_ttl_seconds=0.1,
)
_KEPT_REVISIONS = 10_000
_SHORTEST_PAUSE_SECONDS = 0.001  # a pause shorter than the clock's resolution would never end


class Memory:
    """A ledger, its tasks and its schedules, shared by several handles, and the event on which their watches wait.

    `began_ms` is the time since 1970 at which the clock stood at 0.
    """

    def __init__(self, clock: Clock, *, incarnation: int = 1, began_ms: int = 0) -> None:
        self.ledger: Ledger = Ledger(incarnation=incarnation)
        self.tasks: TaskLedger = TaskLedger()
        self.schedules: ScheduleLedger = ScheduleLedger(tasks=self.tasks)
        self.clock = clock
        self.began_ms = began_ms
        self._changed: asyncio.Event | None = None
        self._handles = 0

    def take(self) -> "Memory":
        """Count one more handle."""
        self._handles += 1
        return self

    def let_go(self) -> None:
        """Count one handle less. After the last handle, the ledger can no longer be found by its name."""
        self._handles -= 1
        if self._handles == 0:
            for name in [name for name, memory in SHARED.items() if memory is self]:
                del SHARED[name]
        self.changed()

    @property
    def incarnation(self) -> int:
        """The life of the store."""
        return self.ledger.incarnation

    def now_ms(self) -> int:
        """Return the time of the tasks: milliseconds since 1970."""
        return self.began_ms + round(self.clock.elapsed() * 1_000)

    def now(self) -> Ledger:
        """Return the ledger as it is now, after ending the leases whose time has come."""
        before = self.ledger.revision
        self.ledger.expire(self.clock.elapsed())
        if self.ledger.revision != before:
            self.changed()
        return self.ledger

    def changed(self) -> None:
        """Wake the waiting watches after the ledger got another revision."""
        if self.ledger.revision - self.ledger.compacted > 2 * _KEPT_REVISIONS:
            self.ledger.compact(self.ledger.revision - _KEPT_REVISIONS)
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait(self) -> None:
        """Return after the next change, or when the next lease may have ended."""
        if self._changed is None:
            self._changed = asyncio.Event()
        ends = min((held.ends_at for held in self.ledger.leases.values()), default=None)
        pause = None if ends is None else max(_SHORTEST_PAUSE_SECONDS, ends - self.clock.elapsed())
        try:
            async with asyncio.timeout(pause):  # in Python 3.11, `wait_for` can lose a cancellation
                await self._changed.wait()
        except TimeoutError:
            return


SHARED: dict[str, Memory] = {}


class MemoryStore(api.CoordinationStore):
    """One handle of a `Memory`, within a namespace."""

    def __init__(self, memory: Memory, namespace: str, name: str = "memory://") -> None:
        self._memory = memory.take()
        self._space = Space(namespace)
        self._name = name
        self._seen = (memory.ledger.incarnation, 0)
        self._pid = os.getpid()
        self._closed = False

    async def scan(self, prefix: str) -> api.Scan:
        """See `CoordinationStore`. O(items of the store)."""
        span = self._space.span(prefix)
        ledger = self._open()
        self._seen = (ledger.incarnation, ledger.revision)
        items = tuple(
            api.Item(key=self._space.text(key), value=record.value, revision=record.revision, lease=record.lease)
            for key, record in ledger.within(*span)
        )
        return api.Scan(items=items, revision=ledger.revision, incarnation=ledger.incarnation)

    async def commit(
        self, *, when: Sequence[api.Compare], puts: Sequence[api.Put] = (), deletes: Sequence[str] = ()
    ) -> api.Outcome:
        request = self._space.request(when, puts, deletes, CAPABILITIES)
        ledger = self._same()
        revision = ledger.commit(request)
        if revision is None:
            return api.Refused(revision=ledger.revision)
        self._seen = (ledger.incarnation, revision)
        self._memory.changed()
        return api.Committed(revision=revision)

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[api.StoreChange, None]:
        start, end = self._space.span(prefix)
        checked_after(after)
        self._open()
        incarnation, _ = self._seen  # a scan may accept another incarnation; this watch stays with the one it began in
        while not self._closed:
            ledger = self._same()
            if ledger.incarnation != incarnation or after > ledger.revision:
                found = (ledger.incarnation, ledger.revision)
                raise went_back(self._name, seen=(incarnation, after), found=found)
            for entry in ledger.since(after):
                after = entry.revision
                change = self._change(entry, start, end)
                if change.events:
                    yield change
                    break  # the ledger may have changed while the consumer was busy
            else:
                await self._memory.wait()

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> api.Lease:
        ttl_seconds, lease = checked_ttl(ttl_seconds, CAPABILITIES), checked_lease(lease)
        granted = self._same().grant(ttl_seconds, self._memory.clock.elapsed(), lease)
        return api.Lease(id=granted, ttl_seconds=ttl_seconds)

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        wanted = checked_leases(leases)
        return self._same().renew(wanted, self._memory.clock.elapsed())

    async def revoke(self, lease: int) -> None:
        for each in checked_leases([lease]):
            self._same().end(each)
        self._memory.changed()

    def capabilities(self) -> api.Capabilities:
        return CAPABILITIES

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._memory.let_go()

    def _open(self) -> Ledger:
        if os.getpid() != self._pid:
            raise StoreClosed(self._name, "it belongs to the parent of this forked process")
        if self._closed:
            raise StoreClosed(self._name)
        return self._memory.now()

    def _same(self) -> Ledger:
        """Return the ledger if its incarnation is the known one and its revision is not older than seen."""
        ledger = self._open()
        incarnation, revision = self._seen
        if ledger.incarnation != incarnation or ledger.revision < revision:
            raise went_back(self._name, seen=self._seen, found=(ledger.incarnation, ledger.revision))
        return ledger

    def _change(self, entry: Entry, start: bytes, end: bytes) -> api.StoreChange:
        changed = (
            (key, None, None) if record is None else (key, record.value, record.lease)
            for key, record in entry.records
            if start <= key < end
        )
        return api.StoreChange(revision=entry.revision, events=self._space.events(changed))


class MemoryAdministration(Administration):
    """The administration of a memory store: nothing needs care, because the store is as new as its process."""

    async def inspect(self) -> tuple[Finding, ...]:
        advice = "Use sqlite:///file for data that must outlive the process."
        return (Finding(subject="durability", found="none: ends with its process", verdict="warning", advice=advice),)

    def upgrade_statements(self) -> tuple[str, ...]:
        return ()

    async def upgrade(self) -> tuple[int, int]:
        return (1, 1)

    def grants(self, user: str) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's
        return ()

    async def renewals(self) -> tuple[Counter, ...]:
        return ()

    async def restored(self) -> tuple[int, int]:
        """See `Administration`. A store that ends with its process cannot be restored."""
        hint = "A memory store has no copy to be restored from; name the URL of the store that was restored."
        raise InvalidInput("store", "memory://", "one that outlives its process", hint)
