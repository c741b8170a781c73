"""The SQLite store: one file that many processes of one host share; the default for a single machine.

Promises: an acknowledged commit survives a power cut (`synchronous=FULL`). Only renewals use `synchronous=NORMAL`,
since a lost renewal only shortens a lease. Revisions come from one counter in the file. A reaper watches leases and
ends them.
Refuses: several hosts, and so any file system over a network. Does not notice by itself: a copy written over the file.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from apportion.errors import Compacted, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import Clock
from apportion.stores import api
from apportion.stores.lookout import LONGEST_PAUSE_SECONDS
from apportion.stores.requests import Space, checked_after, checked_lease, checked_leases, checked_ttl, went_back
from apportion.stores.sqlite import ledger
from apportion.stores.sqlite import statements as sql
from apportion.stores.sqlite.connection import Connection
from apportion.stores.sqlite.file import InDoubt
from apportion.stores.sqlite.ledger import LedgerState
from apportion.stores.sqlite.place import file_system, is_in_memory
from apportion.stores.sqlite.scan import SqliteScan
from apportion.stores.sqlite.shared_file import SharedFile
from apportion.stores.url import StoreUrl
from apportion.stores.watchers import Watcher

Result = TypeVar("Result")
_log = logging.getLogger("apportion.stores")
CAPABILITIES = api.Capabilities(
    linearizable=True,
    durable=True,
    fencing=True,
    gapless_watch=True,
    multi_host=False,
    watch_delay_seconds=LONGEST_PAUSE_SECONDS,
    lease_end="reaper",
    min_ttl_seconds=0.5,
)


class SqliteStore(api.CoordinationStore):
    """One handle of a file, within a namespace. It shares the connection with other handles of the process."""

    def __init__(self, shared: SharedFile, namespace: str, seen: LedgerState) -> None:
        self._shared = shared
        self._file = shared.file
        self._lookout = shared.lookout
        self._space = Space(namespace)
        self._seen = seen
        self._capabilities = replace(CAPABILITIES, durable=not is_in_memory(file_system(self._file.path)))
        self._watchers: set[Watcher] = set()
        self._closed = False

    async def scan(self, prefix: str) -> api.Scan:
        """See `CoordinationStore`. O(items found)."""
        span = self._space.span(prefix)
        self._require_open()
        if self._file.moved:
            await self._file.reopen()
        scanning = SqliteScan(*span, self._space.item)
        before = self._seen
        found = await self._file.read(scanning.step)
        while not scanning.is_complete:
            self._require_open()
            found = await self._file.read(scanning.step)
        if self._seen is before or not self._is_later(self._seen, found):
            self._seen = found
        return api.Scan(items=scanning.items(), revision=found.revision, incarnation=found.incarnation)

    async def commit(
        self, *, when: Sequence[api.Compare], puts: Sequence[api.Put] = (), deletes: Sequence[str] = ()
    ) -> api.Outcome:
        """See `CoordinationStore`. One write to the disk."""
        request = self._space.request(when, puts, deletes, CAPABILITIES)
        seen = self._seen  # the caller's view: while this call waits for a lock, a scan may accept a new incarnation

        def _work(connection: Connection) -> api.Committed | api.Refused:
            known = self._same(connection, seen)
            revision = ledger.commit(connection, known, request)
            return api.Refused(revision=known.revision) if revision is None else api.Committed(revision=revision)

        try:
            outcome = await self._file.write(_work)
        except InDoubt as doubt:
            self._lookout.wrote()
            return await self._settled(doubt)
        self._met(seen._replace(revision=outcome.revision))
        if isinstance(outcome, api.Committed):
            keys = [*(key for key, _, _ in request.puts), *request.deletes]
            self._lookout.wrote(keys, at=outcome.revision)
        return outcome

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[api.StoreChange, None]:
        span = self._space.span(prefix)
        checked_after(after)
        self._require_open()
        incarnation = self._seen.incarnation
        watcher = self._lookout.join(*span)
        self._watchers.add(watcher)
        try:
            while not self._closed:
                self._lookout.require_running()
                next_change = watcher.next_change()
                found = await self._next(span, after, incarnation)
                if found is None:
                    continue
                after, change = found
                if change is None:
                    await next_change.wait()
                else:
                    yield change
        finally:
            self._watchers.discard(watcher)
            self._lookout.leave(watcher)

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> api.Lease:
        ttl_seconds, lease = checked_ttl(ttl_seconds, CAPABILITIES), checked_lease(lease)
        granted = await self._file.write(self._checked(lambda connection: ledger.grant(connection, ttl_seconds, lease)))
        self._lookout.leases.add(granted)
        return api.Lease(id=granted, ttl_seconds=ttl_seconds)

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`. The renewal goes before all other writes of the process."""
        wanted = checked_leases(leases)
        return await self._file.renew(self._checked(lambda connection: ledger.renew(connection, wanted)))

    async def revoke(self, lease: int) -> None:
        (wanted,) = checked_leases([lease])
        await self._file.write(self._checked(lambda connection: ledger.end(connection, wanted)))
        self._lookout.leases.discard(wanted)
        self._lookout.wrote()

    def capabilities(self) -> api.Capabilities:
        return self._capabilities

    async def close(self) -> None:
        if self._closed or not self._file.is_ours:
            return
        self._closed = True
        for watcher in self._watchers:
            watcher.wake()
        self._shared.give_back()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed(self._file.name)
        self._file.require_open()

    def _checked(self, work: Callable[[Connection], Result]) -> Callable[[Connection], Result]:
        """Return work that runs only on the store that this handle knows now. A retry repeats the check."""
        self._require_open()
        seen = self._seen

        def _work(connection: Connection) -> Result:
            self._same(connection, seen)
            return work(connection)

        return _work

    async def _settled(self, doubt: InDoubt) -> api.Outcome:
        """Resolve a commit in doubt by one more write: then the disk surely has the commit, or surely lacks it."""
        try:
            found = await self._file.write(_touched)
        except (StoreUnavailable, StoreDenied, StoreWentBack):
            return api.Unknown(reason=doubt.reason)
        if isinstance(doubt.result, api.Committed) and found.revision < doubt.result.revision:
            raise StoreUnavailable(self._file.name, doubt.reason) from doubt
        return api.Unknown(reason=doubt.reason)

    def _same(self, connection: Connection, seen: LedgerState) -> LedgerState:
        """Return the state; `StoreWentBack` if its incarnation is not that of `seen`, or its revision is lower."""
        self._require_open()
        found = ledger.state(connection)
        if found.incarnation != seen.incarnation or found.revision < seen.revision:
            raise went_back(self._file.name, seen=seen[:2], found=found[:2])
        self._met(found)
        return found

    def _met(self, found: LedgerState) -> None:
        """Accept a later state of the incarnation that this handle knows."""
        if self._is_later(found, self._seen):
            self._seen = found

    @staticmethod
    def _is_later(one: LedgerState, other: LedgerState) -> bool:
        return one.incarnation == other.incarnation and one.revision > other.revision

    async def _next(
        self, span: tuple[bytes, bytes], after: int, incarnation: int
    ) -> tuple[int, api.StoreChange | None] | None:
        """Return the next change and its revision, or the last revision and no change. None means: read again."""

        def _work(connection: Connection) -> tuple[int, api.StoreChange | None]:
            known = self._same(connection, self._seen)
            if known.incarnation != incarnation or known.revision < after:
                raise went_back(self._file.name, seen=(incarnation, after), found=known[:2])
            if after < known.compacted:
                raise Compacted(after, known.compacted)
            found = ledger.next_change(connection, *span, after)
            if found is None:
                return known.revision, None
            return found[0], api.StoreChange(revision=found[0], events=self._space.events(found[1]))

        try:
            return await self._file.read(_work)
        except (StoreUnavailable, StoreDenied):
            await asyncio.sleep(LONGEST_PAUSE_SECONDS)
        except StoreClosed:
            if not self._closed:
                raise
        return None


def _touched(connection: Connection) -> LedgerState:
    connection.execute(sql.TOUCH)
    return ledger.state(connection)


async def in_file(shared: SharedFile, namespace: str) -> SqliteStore:
    """Open the file, and return a handle of the store in it."""
    with ExitStack() as undo:
        undo.callback(shared.give_back)
        await shared.file.open()
        store = SqliteStore(shared, namespace, await shared.file.read(ledger.state))
        undo.pop_all()
    return store


async def connected(url: StoreUrl, clock: Clock) -> SqliteStore:
    """Open the file of a URL; log a warning if a power cut would lose the file."""
    shared = SharedFile.taken(url, clock)
    store = await in_file(shared, url.namespace)
    if not store.capabilities().durable:
        _log.warning("%s is in memory, and a power cut would lose it: use a file on a disk.", shared.file.name)
    return store
