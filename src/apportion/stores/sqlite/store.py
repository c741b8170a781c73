"""The SQLite store: one file that many processes of one host share; the default for a single machine.

Promises: what was acknowledged survives a power cut (`synchronous=FULL`; renewals alone are NORMAL, since losing one
only shortens a lease); revisions come from one counter in the file; leases are ended by a reaper that watches them.
Refuses: several hosts, and so any file system over a network; to see by itself that a copy was written over the file.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from apportion.errors import ApportionError, Compacted, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.model.clock import Clock
from apportion.stores.api import (
    Capabilities,
    Change,
    Committed,
    Compare,
    Event,
    Item,
    Lease,
    Outcome,
    Put,
    Refused,
    Scan,
    Unknown,
)
from apportion.stores.polling import LONGEST_PAUSE_SECONDS, Polling
from apportion.stores.reaper import Reaper
from apportion.stores.requests import Space, checked_after, checked_leases, checked_ttl
from apportion.stores.spec import StoreSpec
from apportion.stores.sqlite import ledger
from apportion.stores.sqlite import statements as sql
from apportion.stores.sqlite.administration import SqliteAdministration
from apportion.stores.sqlite.connection import Connection
from apportion.stores.sqlite.file import InDoubt, SqliteFile
from apportion.stores.sqlite.ledger import State
from apportion.stores.sqlite.place import file_system, is_in_memory, path_of
from apportion.stores.sqlite.scan import Scanning
from apportion.stores.url import StoreUrl

Result = TypeVar("Result")
_log = logging.getLogger("apportion.stores")
CAPABILITIES = Capabilities(
    linearizable=True,
    durable=True,
    fencing=True,
    gapless_watch=True,
    multi_host=False,
    watch_delay_seconds=LONGEST_PAUSE_SECONDS,
    lease_end="reaper",
    min_ttl_seconds=0.5,
)


class SqliteStore:
    """One handle of a file, within a namespace. `connected` makes it; the file is open and its schema the newest."""

    def __init__(self, file: SqliteFile, namespace: str, clock: Clock, seen: State) -> None:
        self._file = file
        self._space = Space(namespace)
        self._clock = clock
        self._seen = seen
        self._capabilities = replace(CAPABILITIES, durable=not is_in_memory(file_system(file.path)))
        self._polling = Polling(self._look, clock)
        self._polled = (0, 0)
        self._noticed = seen
        self._reaper = Reaper()
        self._reap_at = clock.elapsed()

    async def scan(self, prefix: str) -> Scan:
        """See `CoordinationStore`. O(items found)."""
        span = self._space.span(prefix)
        if not self._file.closed and self._file.moved:
            await self._file.open()
        scanning = Scanning(*span, self._item)
        found = await self._file.read(scanning.step)
        while not scanning.is_complete:
            found = await self._file.read(scanning.step)
        is_another = found.incarnation != self._seen.incarnation
        if is_another or found.revision < self._seen.revision:
            self._reaper.forget()
            self._noticed = found  # its revisions are given again: those that were noticed say nothing of it
            self._polling.noticed()
        self._seen = found
        return Scan(items=scanning.items(), revision=found.revision, incarnation=found.incarnation)

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        """See `CoordinationStore`. One write to the disk."""
        request = self._space.request(when, puts, deletes, CAPABILITIES)
        seen = self._seen  # as the caller knows it: while this waits for a lock, a scan may accept another life

        def _work(connection: Connection) -> Committed | Refused:
            known = self._same(connection, seen)
            revision = ledger.commit(connection, known, request)
            return Refused(revision=known.revision) if revision is None else Committed(revision=revision)

        try:
            outcome = await self._file.write(_work, durable=True)
        except InDoubt as doubt:
            return await self._settled(doubt)
        self._seen = self._seen._replace(revision=outcome.revision)
        if isinstance(outcome, Committed):
            self._polling.noticed()
        return outcome

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[Change, None]:
        """See `CoordinationStore`."""
        span = self._space.span(prefix)
        checked_after(after)
        self._file.require_open()
        incarnation = self._seen.incarnation
        self._polling.join()
        try:
            while not self._file.closed:
                next_change = self._polling.next_change()
                found = await self._next(span, after, incarnation)
                if found is None:
                    continue
                after, change = found
                if change is None:
                    await next_change.wait()
                else:
                    yield change
        finally:
            self._polling.leave()

    async def grant(self, *, ttl_seconds: float) -> Lease:
        """See `CoordinationStore`."""
        ttl_seconds = checked_ttl(ttl_seconds, CAPABILITIES)
        lease = await self._write(lambda connection: ledger.grant(connection, ttl_seconds))
        return Lease(id=lease, ttl_seconds=ttl_seconds)

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`."""
        wanted = checked_leases(leases)
        return await self._write(lambda connection: ledger.renew(connection, wanted), durable=False)

    async def revoke(self, lease: int) -> None:
        """See `CoordinationStore`."""
        (wanted,) = checked_leases([lease])
        await self._write(lambda connection: ledger.end(connection, wanted))
        self._polling.noticed()

    def capabilities(self) -> Capabilities:
        """See `CoordinationStore`."""
        return self._capabilities

    async def close(self) -> None:
        """See `CoordinationStore`."""
        self._file.close()
        if self._file.closed:
            self._polling.stop()

    async def _write(self, work: Callable[[Connection], Result], *, durable: bool = True) -> Result:
        """Run what may be asked twice: in doubt, it is no more than `StoreUnavailable`."""
        seen = self._seen

        def _checked(connection: Connection) -> Result:
            self._same(connection, seen)
            return work(connection)

        return await self._file.write(_checked, durable=durable)

    async def _settled(self, doubt: InDoubt) -> Outcome:
        """Find out what became of a commit: one more write confirms what the disk has, or takes its place."""
        try:
            found = await self._file.write(_touched, durable=True)
        except (StoreUnavailable, StoreDenied, StoreWentBack):
            return Unknown(reason=doubt.reason)
        if isinstance(doubt.result, Committed) and found.revision < doubt.result.revision:
            raise StoreUnavailable(self._file.name, doubt.reason) from doubt
        return Unknown(reason=doubt.reason)

    def _same(self, connection: Connection, seen: State) -> State:
        """Return the state if it is that of the store that was seen: not another life of it, nor an older state."""
        found = ledger.state(connection)
        if found.incarnation != seen.incarnation or found.revision < seen.revision:
            before = f"revision {seen.revision} of incarnation {seen.incarnation}"
            raise StoreWentBack(self._file.name, before, f"it is at {found.revision} of {found.incarnation}")
        return found

    async def _next(self, span: tuple[bytes, bytes], after: int, incarnation: int) -> tuple[int, Change | None] | None:
        """Return the next change with its revision, or no change and up to where there is none; None to ask again."""

        def _work(connection: Connection) -> tuple[int, Change | None]:
            known = self._same(connection, self._seen)
            if known.incarnation != incarnation or known.revision < after:
                seen = f"revision {after} of incarnation {incarnation}"
                raise StoreWentBack(self._file.name, seen, f"it is at {known.revision} of {known.incarnation}")
            if after < known.compacted:
                raise Compacted(after, known.compacted)
            found = ledger.next_change(connection, *span, after)
            return (known.revision, None) if found is None else (found[0], self._change(*found))

        try:
            return await self._file.read(_work)
        except (StoreUnavailable, StoreDenied):
            await asyncio.sleep(LONGEST_PAUSE_SECONDS)
        except StoreClosed:
            if not self._file.closed:
                raise
        return None

    def _item(self, row: ledger.Row) -> Item:
        key, value, revision, lease = row
        return Item(key=self._space.text(key), value=value, revision=revision, lease=lease)

    def _change(self, revision: int, writes: Sequence[ledger.Write]) -> Change:
        events = tuple(Event(key=self._space.text(key), value=value, lease=lease) for key, value, lease in writes)
        return Change(revision=revision, events=events)

    async def _look(self) -> None:
        """Look once for what others did, and for leases that have ended."""
        try:
            polled = await self._file.data_version()
            if polled != self._polled or self._file.moved:
                self._polled = polled
                await self._compare()
            if self._clock.elapsed() >= self._reap_at:
                await self._reap()
        except StoreWentBack:
            self._polling.noticed()  # those who watch are told when they read
        except (StoreUnavailable, StoreDenied):
            self._reaper.forget()  # while the store is away, no holder can renew

    async def _compare(self) -> None:
        """Tell those who watch when the revision is another than was seen; renewals change the file, but not that."""
        seen = self._seen
        found = await self._file.read(lambda connection: self._same(connection, seen))
        if found.revision != self._noticed.revision or found.incarnation != self._noticed.incarnation:
            self._seen = self._noticed = found
            self._polling.noticed()

    async def _reap(self) -> None:
        """Read all counters of leases, and end those that have not moved for their time to live."""
        started = self._clock.elapsed()
        counters = await self._file.read(ledger.counters)
        finished = self._clock.elapsed()
        ended = self._reaper.ended(counters, started=started, finished=finished)
        self._reap_at = finished + self._reaper.pause_seconds()
        if ended:
            await self._write(lambda connection: ledger.reap(connection, ended))
            self._polling.noticed()


def _touched(connection: Connection) -> State:
    connection.execute(sql.TOUCH)
    return ledger.state(connection)


async def connected(file: SqliteFile, namespace: str, clock: Clock) -> SqliteStore:
    """Open the file, and return a handle of the store in it."""
    try:
        await file.open()
        return SqliteStore(file, namespace, clock, await file.read(ledger.state))
    except (ApportionError, sqlite3.Error, OSError):
        file.close()
        raise


async def _connect(url: StoreUrl, clock: Clock) -> SqliteStore:
    file = SqliteFile(path_of(url), str(url), clock)
    store = await connected(file, url.namespace, clock)
    if not store.capabilities().durable:
        _log.warning("%s stands in memory and is gone after a power cut: use a file on a disk.", file.name)
    return store


SPEC = StoreSpec(
    name="sqlite",
    schemes=("sqlite",),
    example="sqlite:///work.db",
    connect=_connect,
    administration=SqliteAdministration,
)
