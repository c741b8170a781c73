"""The PostgreSQL store: members on many hosts, on a database that is there already.

A commit is one round trip: one function of the schema (`migrations/postgres.py`) compares and writes, under the lock
of the one row that counts revisions. A change is told by NOTIFY, which is a hint only: what counts is the history,
which every watch reads on from where it was. Leases are rows that a reaper ends. A handle has one connection for
requests, and one for hints once it watches.

Promises: all that `CoordinationStore` says, where the server flushes (`fsync` and `full_page_writes` are on); behind a
transaction pooler too, then without hints. On a server that does not flush it is neither `durable` nor `fencing`.
Refuses: standbys, servers before version 12, a schema from the future.
After a failover to an asynchronous standby the last commits may be gone; the timeline then differs, so that another
incarnation begins.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import cast

from apportion.errors import (
    ApportionError,
    Compacted,
    InvalidInput,
    LeaseLost,
    StoreClosed,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
)
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
from apportion.stores.polling import pause_seconds as poll_pause_seconds
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.administration import PostgresAdministration
from apportion.stores.postgres.driver import Parameter, Row
from apportion.stores.postgres.hints import Hints
from apportion.stores.postgres.link import Link, NoReply, Server
from apportion.stores.reaper import Counter, Reaper
from apportion.stores.requests import Space, checked_after, checked_leases, checked_ttl, lease_id
from apportion.stores.spec import StoreSpec
from apportion.stores.url import StoreUrl

CAPABILITIES = Capabilities(
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
_ITEMS_AT_A_TIME = 1_000
_EVENTS_AT_A_TIME = 64
_AWAY_SECONDS = 0.25
_HINTED_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class State:
    """Which life of the store it was, and its revision then."""

    incarnation: int
    revision: int


class PostgresStore:
    """One handle of a store in PostgreSQL, within a namespace."""

    def __init__(self, link: Link, server: Server, seen: State, namespace: str, clock: Clock) -> None:
        self._link = link
        self._space = Space(namespace)
        self._capabilities = replace(CAPABILITIES, durable=server.durable, fencing=server.durable)
        self._clock = clock
        self._seen = self._polled = seen
        self._polling = Polling(self._look, clock, pause=self._pause_seconds)
        self._hints = Hints(link, self._polling.noticed, pooled=server.pooled)
        self._reaper = Reaper()
        self._reap_at = clock.elapsed()

    async def scan(self, prefix: str) -> Scan:
        """See `CoordinationStore`. One round trip."""
        start, end = self._space.span(prefix)
        before = self._seen
        rows = await self._link.ask(sql.SCAN, {"start": start, "end": end}, seconds=_SCAN_SECONDS)
        seen = _state(rows[0])
        items: list[Item] = []
        for begin in range(0, len(rows), _ITEMS_AT_A_TIME):
            items += map(self._item, rows[begin : begin + _ITEMS_AT_A_TIME] if rows[0][2] is not None else ())
            if begin:
                await asyncio.sleep(0)  # others of this loop have leases to renew
        # Only now, that nothing which others send meanwhile is taken by another life; and what they met may be newer.
        if self._seen is before or self._seen.incarnation != seen.incarnation or self._seen.revision < seen.revision:
            self._seen = seen
        return Scan(items=tuple(items), revision=seen.revision, incarnation=seen.incarnation)

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        """See `CoordinationStore`. One round trip, one flush."""
        request = self._space.request(when, puts, deletes, self._capabilities)
        parameters: list[Parameter] = [
            [key for key, _ in request.compares],
            [revision for _, revision in request.compares],
            [key for key, _, _ in request.puts],
            [value for _, value, _ in request.puts],
            [lease for _, _, lease in request.puts],
            list(request.deletes),
        ]
        try:
            [(verdict, incarnation, revision, lost)] = await self._link.send(sql.COMMIT, [*self._known(), *parameters])
        except NoReply as error:
            self._polling.noticed()
            return Unknown(reason=error.reason)
        met = self._met(verdict, incarnation, revision)
        if verdict == "lease lost":
            raise LeaseLost(_int(lost))
        if verdict == "refused":
            return Refused(revision=met.revision)
        self._polling.noticed()
        return Committed(revision=met.revision)

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[Change, None]:
        """See `CoordinationStore`. One round trip for each look, and 64 events or one revision in memory."""
        start, end = self._space.span(prefix)
        checked_after(after)
        incarnation = self._seen.incarnation
        self._link.require_open()
        self._hints.start()
        self._polling.join()
        try:
            while not self._link.closed:
                next_change = self._polling.next_change()
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
            self._polling.leave()

    async def grant(self, *, ttl_seconds: float) -> Lease:
        """See `CoordinationStore`. A grant whose reply was lost is asked for once more, and is the same one."""
        ttl_seconds = checked_ttl(ttl_seconds, self._capabilities)
        lease = Lease(id=lease_id(), ttl_seconds=ttl_seconds)
        [(verdict, incarnation, revision)] = await self._link.ask(sql.GRANT, [*self._known(), lease.id, ttl_seconds])
        self._met(verdict, incarnation, revision)
        return lease

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`. One round trip, no flush."""
        wanted = list(checked_leases(leases))
        [(verdict, incarnation, revision, alive)] = await self._link.ask(sql.RENEW, [*self._known(), wanted])
        self._met(verdict, incarnation, revision)
        return frozenset(cast("list[int]", alive or []))

    async def revoke(self, lease: int) -> None:
        """See `CoordinationStore`."""
        [wanted] = checked_leases([lease])
        [(verdict, incarnation, revision)] = await self._link.ask(sql.END, [*self._known(), wanted, None])
        self._met(verdict, incarnation, revision)
        self._polling.noticed()

    def capabilities(self) -> Capabilities:
        """See `CoordinationStore`."""
        return self._capabilities

    async def close(self) -> None:
        """See `CoordinationStore`."""
        if self._link.ours:
            self._link.shut()
            self._polling.stop()
            await self._hints.close()
            await self._link.close()

    async def _history(self, start: bytes, end: bytes, after: int) -> list[Row]:
        """Return the next events, in a row of its own the state alone when there are none; nothing to ask again."""
        try:
            return await self._link.ask(
                sql.HISTORY, {"after": after, "start": start, "end": end, "most": _EVENTS_AT_A_TIME}
            )
        except (StoreUnavailable, StoreDenied):  # a right that was taken may come back
            await asyncio.sleep(_AWAY_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        except StoreClosed:
            if not self._link.closed:
                raise
        return []

    async def _look(self) -> None:
        """Look once for what others did, and for leases that have ended."""
        try:
            polled = _state((await self._link.ask(sql.STATE))[0])
            if polled.incarnation != self._polled.incarnation:
                self._reaper.forget()
            if polled != self._polled:
                self._polled = polled
                self._polling.noticed()
            if self._clock.elapsed() >= self._reap_at:
                await self._reap()
        except (StoreUnavailable, StoreDenied, StoreClosed, InvalidInput):  # a watch that reads says so
            self._reaper.forget()  # while the store is away, no holder can renew
            await asyncio.sleep(_AWAY_SECONDS)

    async def _reap(self) -> None:
        """Read all counters of leases, and end those that have not moved for their time to live."""
        started = self._clock.elapsed()
        rows = cast("list[tuple[int, int, float]]", await self._link.ask(sql.COUNTERS))
        counters = [Counter(lease=lease, renewals=renewals, ttl_seconds=ttl) for lease, renewals, ttl in rows]
        finished = self._clock.elapsed()
        ended_leases = self._reaper.ended(counters, started=started, finished=finished)
        self._reap_at = finished + self._reaper.pause_seconds() * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        for ended in ended_leases:
            await self._link.ask(sql.END, [*self._known(), ended.lease, ended.renewals])
            self._polling.noticed()

    def _pause_seconds(self, quiet_seconds: float) -> float:
        pause = _HINTED_PAUSE_SECONDS if self._hints.arrive else poll_pause_seconds(quiet_seconds)
        return max(0.0, min(pause, self._reap_at - self._clock.elapsed()))

    def _known(self) -> tuple[int, int]:
        return self._seen.incarnation, self._seen.revision

    def _met(self, verdict: object, incarnation: object, revision: object) -> State:
        """Take what a write met: `StoreWentBack` where that is not what this handle knows."""
        met = State(_int(incarnation), _int(revision))
        if verdict == "went back":
            raise self._went_back(self._seen, met)
        if met.incarnation == self._seen.incarnation and met.revision > self._seen.revision:
            self._seen = met
        return met

    def _went_on(self, row: Row, incarnation: int, after: int) -> State:
        """Take what a look at the history met: `StoreWentBack`, or `Compacted`, where a watch cannot go on."""
        now = _state(row)
        if now.incarnation != incarnation or now.revision < after:
            raise self._went_back(State(incarnation, after), now)
        if after < _int(row[2]):
            raise Compacted(after, _int(row[2]))
        return now

    def _went_back(self, seen: State, found: State) -> StoreWentBack:
        return StoreWentBack(
            self._link.name,
            f"revision {seen.revision} of incarnation {seen.incarnation}",
            f"it is at {found.revision} of {found.incarnation}",
        )

    def _item(self, row: Row) -> Item:
        _, _, key, value, revision, lease = cast("tuple[int, int, bytes, bytes, int, int | None]", row)
        return Item(key=self._space.text(key), value=value, revision=revision, lease=lease)

    def _changes(self, rows: list[Row]) -> list[Change]:
        events = cast("list[tuple[int, bytes, bytes | None, int | None]]", [row[3:] for row in rows if row[3]])
        return [
            Change(
                revision=revision,
                events=tuple(
                    Event(key=self._space.text(key), value=value, lease=lease) for _, key, value, lease in together
                ),
            )
            for revision, together in groupby(events, key=itemgetter(0))
        ]


def _state(row: Row) -> State:
    return State(_int(row[0]), _int(row[1]))


def _int(value: object) -> int:
    return cast("int", value)


async def _connect(url: StoreUrl, clock: Clock) -> PostgresStore:
    link = Link(url)
    try:
        server = await link.open()
        [seen] = await link.ask(sql.STATE)
    except ApportionError:
        await link.close()
        raise
    if server.pooled:
        _log.warning(
            "%s: a transaction pooler stands between, so watches poll: connect directly to the server.", link.name
        )
    if not server.durable:
        _log.warning("%s does not flush, and a power cut loses commits: turn on fsync and full_page_writes.", link.name)
    return PostgresStore(link, server, _state(seen), url.namespace, clock)


SPEC = StoreSpec(
    name="postgresql",
    schemes=("postgresql",),
    example="postgresql://user@host:5432/database",
    connect=_connect,
    administration=PostgresAdministration,
)
