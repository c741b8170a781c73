"""The Redis store: fast, for members and published tables, where a loss of data costs only a new start.

Promises: each commit happens whole or not at all, by one script on the server. A watch is in order, and without a gap
while the server runs. Every handle with a watch also ends leases. It times their renewals by its own clock, never by
the server's. A handle notices a restart or a fail-over (`StoreWentBack`), and then its member joins again.
Refuses: fencing tokens, because a server may give a revision twice after a restart or a promotion. It also refuses
Redis Cluster. See docs/stores/redis.md.
"""

import asyncio
import random
import struct
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import suppress

from apportion.errors import (
    Compacted,
    LeaseLost,
    StoreClosed,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
)
from apportion.runtime.clock import Clock
from apportion.runtime.endings import or_undo
from apportion.stores import api
from apportion.stores.reaper import Counter, Reaper
from apportion.stores.redis import scripts
from apportion.stores.redis.link import RedisLink, Reply, Unanswered
from apportion.stores.requests import (
    CommitRequest,
    Space,
    checked_after,
    checked_lease,
    checked_leases,
    checked_ttl,
    went_back,
)
from apportion.stores.url import StoreUrl

CAPABILITIES = api.Capabilities(
    linearizable=False,
    durable=False,
    fencing=False,
    gapless_watch=False,
    multi_host=True,
    watch_delay_seconds=0.1,
    lease_end="reaper",
    min_ttl_seconds=1.0,  # one request must end within a quarter of this time
)
_LENGTHS = struct.Struct(">II")
_ENTRIES_AT_ONCE = 64
_HINT_MILLISECONDS = 500
_HISTORY = scripts.NAMES[-1]
_LEASES = scripts.NAMES[-2]
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0


class RedisStore(api.CoordinationStore):
    """One handle: a link to the server, within a namespace."""

    def __init__(self, link: RedisLink, namespace: str, clock: Clock) -> None:
        self._link = link
        self._space = Space(namespace)
        self._clock = clock
        self._incarnation = self._revision = 0
        self._watches = 0
        self._reaping: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Read the store's incarnation and revision."""
        _, self._revision, self._incarnation = await self._link.run(scripts.ENTER)

    async def scan(self, prefix: str) -> api.Scan:
        """See `CoordinationStore`. A scan of 10^6 items takes seconds, and the server does nothing else meanwhile."""
        span = self._space.span(prefix)
        reply = await self._link.run(scripts.SCAN, *span)
        self._revision, self._incarnation, listed = reply[1:]
        pairs = zip(listed[::2], listed[1::2], strict=True)
        items = tuple(self._item(key, packed) for key, packed in pairs if self._space.has(key))
        return api.Scan(items=items, revision=self._revision, incarnation=self._incarnation)

    async def commit(
        self, *, when: Sequence[api.Compare], puts: Sequence[api.Put] = (), deletes: Sequence[str] = ()
    ) -> api.Outcome:
        request = self._space.request(when, puts, deletes, CAPABILITIES)
        try:
            word, *rest = await self._run(scripts.COMMIT, *_words(request))
        except Unanswered as error:
            return api.Unknown(reason=error.reason)
        if word == "lost":
            raise LeaseLost(int(rest[0]))
        self._revision = max(self._revision, rest[0])
        return api.Committed(revision=rest[0]) if word == "ok" else api.Refused(revision=rest[0])

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[api.StoreChange, None]:
        """See `CoordinationStore`. One connection waits for hints. Without hints, a watch reads twice a second."""
        start, end = self._space.span(prefix)
        checked_after(after)
        incarnation = self._incarnation
        pause = _FIRST_PAUSE_SECONDS
        self._link.require_open()
        self._begin_to_watch()
        try:
            while not self._link.closed:
                try:
                    entries = await self._since(after, incarnation)
                    pause = _FIRST_PAUSE_SECONDS
                except (StoreUnavailable, StoreDenied):
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - to spread, not to hide
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                    continue
                for change in self._changes(entries, start, end):
                    yield change
                after = entries[-1][0] if entries else after
        except StoreClosed:
            if not self._link.closed:
                raise
        finally:
            self._end_to_watch()

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> api.Lease:
        ttl_seconds, lease = checked_ttl(ttl_seconds, CAPABILITIES), checked_lease(lease)
        _, granted = await self._run(scripts.GRANT, round(ttl_seconds * 1000), lease or 0)
        self._link.granted(ttl_seconds)
        return api.Lease(id=int(granted), ttl_seconds=ttl_seconds)

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        _, alive = await self._run(scripts.RENEW, *checked_leases(leases))
        return frozenset(map(int, alive))

    async def revoke(self, lease: int) -> None:
        await self._run(scripts.END, *checked_leases([lease]), "")

    def capabilities(self) -> api.Capabilities:
        return CAPABILITIES

    async def close(self) -> None:
        await self._link.aclose()
        if self._reaping is not None and self._link.closed:
            self._reaping.cancel()

    async def _run(self, script: str, *arguments: str | bytes | int) -> Reply:
        """Run a script that first compares incarnation and revision with those that this handle knows."""
        reply = await self._link.run(script, self._incarnation, self._revision, *arguments)
        if reply[0] == "back":
            raise went_back(self._link.name, seen=(self._incarnation, self._revision), found=(reply[2], reply[1]))
        return reply

    async def _since(self, after: int, incarnation: int) -> list[tuple[int, bytes]]:
        """Return the revisions that follow `after`, each with its packed change.

        If there are none yet, wait up to half a second for a hint, and return none.
        """
        reply = await self._link.run(scripts.SINCE, incarnation, after, _ENTRIES_AT_ONCE)
        if reply[0] == "back":
            raise went_back(self._link.name, seen=(incarnation, after), found=(reply[2], reply[1]))
        if reply[0] == "compacted":
            raise Compacted(after, reply[1])
        entries = [(int(name.partition(b"-")[0]), fields[1]) for name, fields in reply[1]]
        if entries and incarnation == self._incarnation:
            self._revision = max(self._revision, entries[-1][0])
        if not entries:  # the reply of XREAD is only a hint, since it does not name its server
            words = ("XREAD", "COUNT", 1, "BLOCK", _HINT_MILLISECONDS, "STREAMS", _HISTORY, f"{after}-0")
            await self._link.ask(*words, within=_HINT_MILLISECONDS / 1000)
        return entries

    def _changes(self, entries: list[tuple[int, bytes]], start: bytes, end: bytes) -> Iterator[api.StoreChange]:
        for revision, packed in entries:
            ours = ((key, value) for key, value in _unpacked(packed) if start <= key < end and self._space.has(key))
            events = tuple(self._event(key, value) for key, value in ours)
            if self._link.closed:
                return
            if events:
                yield api.StoreChange(revision=revision, events=events)

    def _begin_to_watch(self) -> None:
        self._watches += 1
        if self._reaping is None:
            self._reaping = asyncio.create_task(self._reap())

    def _end_to_watch(self) -> None:
        self._watches -= 1
        if self._watches == 0 and self._reaping is not None:
            self._reaping.cancel()
            self._reaping = None

    async def _reap(self) -> None:
        """End leases while a watch is open. A failed round is tried again. The watch reports a store that went back."""
        reaper = Reaper()
        while not self._link.closed:
            with suppress(StoreUnavailable, StoreDenied, StoreWentBack, StoreClosed):
                started = self._clock.elapsed()
                listed = await self._link.ask("HGETALL", _LEASES)
                counters = [_counter(lease, held) for lease, held in zip(listed[::2], listed[1::2], strict=True)]
                ended = reaper.ended(counters, started=started, finished=self._clock.elapsed())
                if ended:
                    await self._run(scripts.END, *(word for each in ended for word in (each.lease, each.renewals)))
            await asyncio.sleep(reaper.pause_seconds())

    def _item(self, key: bytes, packed: bytes) -> api.Item:
        revision, lease, value = packed.split(b" ", 2)
        held = int(lease) if lease else None
        return api.Item(key=self._space.text(key), value=value, revision=int(revision), lease=held)

    def _event(self, key: bytes, packed: bytes) -> api.Event:
        if not packed:
            return api.Event(key=self._space.text(key), value=None)
        item = self._item(key, packed)
        return api.Event(key=item.key, value=item.value, lease=item.lease)


def _words(request: CommitRequest) -> list[str | bytes | int]:
    writes = [(key, b"put", b"" if lease is None else b"%d" % lease, value) for key, value, lease in request.puts]
    writes += [(key, b"delete", b"", b"") for key in request.deletes]
    compares = [(key, b"" if revision is None else b"%d" % revision) for key, revision in request.compares]
    return [len(compares), *(word for words in (*compares, *sorted(writes)) for word in words)]


def _unpacked(change: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys of a change, each with its new packed state. The state of a deleted key is empty."""
    found, at = [], 0
    while at < len(change):
        key_bytes, packed_bytes = _LENGTHS.unpack_from(change, at)
        key_at = at + _LENGTHS.size
        at = key_at + key_bytes + packed_bytes
        found.append((change[key_at : key_at + key_bytes], change[key_at + key_bytes : at]))
    return found


def _counter(lease: bytes, held: bytes) -> Counter:
    renewals, milliseconds = held.split()
    return Counter(lease=int(lease), renewals=int(renewals), ttl_seconds=int(milliseconds) / 1000)


async def connected(url: StoreUrl, clock: Clock) -> RedisStore:
    """Connect to the server of a URL, and read the state of the store."""
    store = RedisStore(RedisLink(url), url.namespace, clock)
    async with or_undo(store.close):
        await store.begin()
    return store
