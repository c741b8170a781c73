"""The PostgreSQL store: for members on many hosts, in a database that they may already have.

A commit is one round trip: one function of the schema (`migrations.py`) compares and writes, under the lock
of the one row that counts revisions. NOTIFY announces a change, but only as a hint: every watch reads the history
after its own position. Leases are rows, and a reaper ends them.

Promises: all promises of `CoordinationStore`, if the server flushes. They also hold behind a transaction pooler, but
without hints. docs/stores/postgresql.md names the losses by a server without flushes and by an asynchronous failover.
Refuses: standbys, servers before version 12, the schema of a later release.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import cast

from apportion.errors import Compacted, LeaseLost, StoreClosed, StoreDenied, StoreUnavailable
from apportion.runtime.clock import Clock
from apportion.runtime.endings import or_undo
from apportion.stores import api
from apportion.stores.lookout import LONGEST_PAUSE_SECONDS
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.door import Server
from apportion.stores.postgres.driver import Parameter, Row
from apportion.stores.postgres.links import Links
from apportion.stores.postgres.lookout import SeenState, state_of
from apportion.stores.postgres.scan import PostgresScan
from apportion.stores.postgres.wire import PostgresNoReply
from apportion.stores.requests import (
    Space,
    checked_after,
    checked_lease,
    checked_leases,
    checked_ttl,
    lease_id,
    went_back,
)
from apportion.stores.url import StoreUrl
from apportion.stores.watchers import Watcher

CAPABILITIES = api.Capabilities(
    linearizable=True,
    durable=True,
    fencing=True,
    gapless_watch=True,
    multi_host=True,
    watch_delay_seconds=LONGEST_PAUSE_SECONDS,
    lease_end="reaper",
    min_ttl_seconds=0.5,
)
_log = logging.getLogger("apportion.stores")
_SCAN_SECONDS = 30.0
_EVENTS_AT_A_TIME = 64
_AWAY_SECONDS = 0.25
_ROUND_TRIPS_PER_TTL = 30  # a new connection takes some 12 round trips, two fifths of a time to live


class PostgresStore(api.CoordinationStore):
    """One handle of a store in PostgreSQL, within a namespace. The handles of a process share links."""

    def __init__(self, links: Links, server: Server, seen: SeenState, namespace: str, clock: Clock) -> None:
        self._links, self._leases, self._lookout = links, links.leases, links.lookout
        self._watching, self._committing = links.watching, links.committing
        self._space = Space(namespace)
        self._capabilities = _capabilities(server, links.committing.round_trip_seconds)
        self._clock = clock
        self._seen = seen
        self._watchers: set[Watcher] = set()
        self._closed = False

    async def scan(self, prefix: str) -> api.Scan:
        """See `CoordinationStore`. One round trip per portion."""
        scanning = PostgresScan(*self._space.span(prefix), self._space.item)
        before, ends = self._seen, self._clock.elapsed() + _SCAN_SECONDS
        while not scanning.is_complete:
            if self._clock.elapsed() > ends:
                raise StoreUnavailable(self._name, f"a scan took longer than {_SCAN_SECONDS:g} s")
            rows = await self._committing.ask(sql.SCAN, scanning.wanted(), allowed=self._require_open)
            seen = scanning.take(rows)
        # The state is noted only now. Callers that send requests during the scan know the earlier incarnation, so the
        # requests must fail in another one. A newer state that other calls have noted meanwhile is kept.
        if self._seen is before or self._seen.incarnation != seen.incarnation or self._seen.revision < seen.revision:
            self._seen = seen
        return api.Scan(items=scanning.items(), revision=seen.revision, incarnation=seen.incarnation)

    async def commit(
        self, *, when: Sequence[api.Compare], puts: Sequence[api.Put] = (), deletes: Sequence[str] = ()
    ) -> api.Outcome:
        """See `CoordinationStore`. One round trip, one flush."""
        request = self._space.request(when, puts, deletes, self._capabilities)
        parameters: list[Parameter] = [
            [key for key, _ in request.compares],
            [revision for _, revision in request.compares],
            [key for key, _, _ in request.puts],
            [value for _, value, _ in request.puts],
            [lease for _, _, lease in request.puts],
            list(request.deletes),
            self._leases.lock_milliseconds,
        ]
        sending = self._committing.send(sql.COMMIT, [*self._known(), *parameters], allowed=self._require_open)
        try:
            [(verdict, incarnation, revision, lost)] = await sending
        except PostgresNoReply as error:
            self._lookout.wrote()
            return api.Unknown(reason=error.reason)
        met = self._met(verdict, incarnation, revision)
        if verdict == "lease lost":
            raise LeaseLost(_int(lost))
        if verdict == "refused":
            return api.Refused(revision=met.revision)
        self._lookout.wrote([*(key for key, _, _ in request.puts), *request.deletes], at=met)
        return api.Committed(revision=met.revision)

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[api.StoreChange, None]:
        """See `CoordinationStore`. One round trip per look. It holds 64 events or one revision in memory."""
        start, end = self._space.span(prefix)
        checked_after(after)
        self._require_open()
        incarnation = self._seen.incarnation
        watcher = self._lookout.join(start, end)
        self._watchers.add(watcher)
        try:
            while not self._closed:
                self._lookout.require_running()
                next_change = watcher.next_change()
                rows = await self._history(start, end, after)
                if not rows:
                    continue
                now = self._went_on(rows[0], incarnation, after)
                for change in self._changes(rows):
                    after = change.revision
                    yield change
                if len(rows) < _EVENTS_AT_A_TIME:
                    after = now.revision
                    await next_change.wait()
        finally:
            self._watchers.discard(watcher)
            self._lookout.leave(watcher)

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> api.Lease:
        """See `CoordinationStore`. If the reply is lost, the same grant is requested once more."""
        ttl_seconds = checked_ttl(ttl_seconds, self._capabilities)
        granted = api.Lease(id=checked_lease(lease) or lease_id(), ttl_seconds=ttl_seconds)
        asked = [*self._known(), granted.id, ttl_seconds, self._leases.lock_milliseconds]
        [(verdict, *met)] = await self._committing.ask(sql.GRANT, asked, allowed=self._require_open)
        self._met(verdict, *met)
        self._leases.add(granted.id, ttl_seconds)
        return granted

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`. One round trip, no flush."""
        wanted = list(checked_leases(leases))
        asked: list[Parameter] = [*self._known(), wanted]
        [(verdict, *met, found)] = await self._watching.ask(sql.RENEW, asked, allowed=self._require_open)
        self._met(verdict, *met)
        alive = frozenset(cast("list[int]", found or []))
        self._leases.forget(set(wanted) - alive)
        return alive

    async def revoke(self, lease: int) -> None:
        [wanted] = checked_leases([lease])
        asked: list[Parameter] = [*self._known(), wanted, None, self._leases.lock_milliseconds]
        [(verdict, *met)] = await self._committing.ask(sql.END, asked, allowed=self._require_open)
        self._met(verdict, *met)
        self._leases.forget([wanted])
        self._lookout.wrote()

    def capabilities(self) -> api.Capabilities:
        return self._capabilities

    async def close(self) -> None:
        if self._closed or not self._links.ours:
            return
        self._closed = True
        for watcher in self._watchers:
            watcher.wake()
        await self._links.give_back()

    @property
    def _name(self) -> str:
        return self._links.door.name

    def _require_open(self) -> None:
        if not self._links.ours:
            raise StoreClosed(self._name, "it belongs to the parent of this forked process")
        if self._closed:
            raise StoreClosed(self._name)

    async def _history(self, start: bytes, end: bytes, after: int) -> list[Row]:
        """Return the rows of the next events, or one row with only the state if there are none.

        After a failed read, wait a moment and return no rows.
        """
        asked: dict[str, Parameter] = {"after": after, "start": start, "end": end, "most": _EVENTS_AT_A_TIME}
        try:
            return await self._watching.ask(sql.HISTORY, asked, allowed=self._require_open)
        except (StoreUnavailable, StoreDenied):  # a renewal reports this; a watch reads again
            await asyncio.sleep(_AWAY_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        except StoreClosed:
            if not self._closed:
                raise
        return []

    def _known(self) -> tuple[int, int]:
        return self._seen.incarnation, self._seen.revision

    def _met(self, verdict: object, incarnation: object, revision: object) -> SeenState:
        """Note the state that a write found; `StoreWentBack` if the write was refused because the store went back."""
        met = SeenState(_int(incarnation), _int(revision))
        if verdict in ("went back", "moved"):
            self._links.doubt()
            raise went_back(self._name, seen=self._known(), found=(met.incarnation, met.revision))
        if met.incarnation == self._seen.incarnation and met.revision > self._seen.revision:
            self._seen = met
        return met

    def _went_on(self, row: Row, incarnation: int, after: int) -> SeenState:
        """Return the state that a watch read; `StoreWentBack` or `Compacted` if the watch cannot go on."""
        now = state_of(row)
        if now.incarnation != incarnation or now.revision < after:
            raise went_back(self._name, seen=(incarnation, after), found=(now.incarnation, now.revision))
        if after < _int(row[2]):
            raise Compacted(after, _int(row[2]))
        return now

    def _changes(self, rows: list[Row]) -> list[api.StoreChange]:
        events = cast("list[tuple[int, bytes, bytes | None, int | None]]", [row[3:] for row in rows if row[3]])
        return [
            api.StoreChange(revision=revision, events=self._space.events(event[1:] for event in together))
            for revision, together in groupby(events, key=itemgetter(0))
        ]


def _int(value: object) -> int:
    return cast("int", value)


def _capabilities(server: Server, round_trip_seconds: float) -> api.Capabilities:
    least = max(CAPABILITIES.min_ttl_seconds, round(_ROUND_TRIPS_PER_TTL * round_trip_seconds, 1))
    return replace(CAPABILITIES, durable=server.durable, fencing=server.durable, min_ttl_seconds=least)


async def connected(url: StoreUrl, clock: Clock) -> PostgresStore:
    """Connect to the server of a URL; log a warning if watches poll there, or if commits are not durable."""
    links = Links.taken(url, clock)
    async with or_undo(links.give_back):
        server = await links.committing.open()
        [seen] = await links.committing.ask(sql.STATE)
    name = links.door.name
    if server.pooled and not links.door.is_polled:
        _log.warning("%s: watches poll behind a transaction pooler. Connect directly to the server.", name)
    if not server.durable:
        _log.warning("%s does not flush: a power cut may lose commits. Turn on fsync and full_page_writes.", name)
    return PostgresStore(links, server, state_of(seen), url.namespace, clock)
