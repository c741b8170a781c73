"""Faults: any store, seen through a network and on a machine that fails.

A request travels to the store and is carried out there, also when its caller is gone; the reply travels back. So a
lost request changes nothing, and a lost reply hides a change from the caller. A late request arrives long after its
caller has given up. The world makes no fault that the store's promises exclude. The copy of a repeated request
follows at once: no connection delivers a copy later. When a life of the store ends, messages on their way are lost.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from apportion.errors import ApportionError, Compacted, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.sim.facts import Answered, Asked, Delivered, Granted, Renewed, Revoked, Scanned, Watching
from apportion.sim.world.loop import settle
from apportion.sim.world.losses import Way
from apportion.sim.world.network import STORE
from apportion.sim.world.process import CURRENT, outside
from apportion.sim.world.troubles import Troubles
from apportion.stores import Capabilities, Compare, CoordinationStore, Lease, Outcome, Put, Scan, StoreChange, Unknown

Result = TypeVar("Result")
_NAME = "the simulated store"
_LOOK_SECONDS = 0.05
_KEPT_SCANS = 6


class _NoReply(Exception):
    """The caller gave up, or its connection broke after the request was sent."""


class FaultyStore(CoordinationStore):
    """A handle of one process on a store that may fail; made by `World.store`."""

    def __init__(
        self, process: str, inner: CoordinationStore, troubles: Troubles, *, incarnation: int, now: float
    ) -> None:
        self._process = process
        self._inner = inner
        self._troubles = troubles
        self._incarnation = incarnation
        # The last life of the store that the inner handle scanned, and the last that our caller knows of.
        self._scanned_life = self._heard_life = troubles.life
        self._seen_revision = 0
        self._connected_at = now
        self._is_closed = False
        troubles.open_handles[process] += 1

    async def scan(self, prefix: str) -> Scan:
        since = asyncio.get_running_loop().time()
        troubles = self._troubles

        async def _perform() -> tuple[int, Scan, bool]:
            life = troubles.life
            older = self._older(prefix, life)
            if older is not None and troubles.happens(troubles.odds.stale_scan, "stale scan", self._process):
                return life, older, True
            scan = await self._inner.scan(prefix)
            self._scanned_life = life
            troubles.recent.setdefault(prefix, deque(maxlen=_KEPT_SCANS)).append((life, scan))
            return life, scan, False

        life, scan, stale = await self._certain("scan", _perform, changes=False)
        self._heard_life, self._incarnation, self._seen_revision = life, scan.incarnation, scan.revision
        troubles.record(
            Scanned(
                at=self._now(),
                since=since,
                process=self._process,
                prefix=prefix,
                items=scan.items,
                revision=scan.revision,
                incarnation=scan.incarnation,
                stale=stale,
            )
        )
        return scan

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        troubles = self._troubles
        call, lost = troubles.number(), troubles.losses.of(self._process)
        troubles.record(
            Asked(
                at=self._now(),
                call=call,
                process=self._process,
                incarnation=self._incarnation,
                when=tuple(when),
                puts=tuple(puts),
                deletes=tuple(deletes),
            )
        )
        outcome: Outcome | None = None
        try:
            if lost is Way.ERROR:
                raise StoreUnavailable(_NAME, "the connection broke before it was sent")
            perform = partial(self._inner.commit, when=when, puts=puts, deletes=deletes)
            outcome = await self._ask("commit", perform, lost=lost)
        except _NoReply as error:
            outcome = Unknown(reason=str(error))
        except ApportionError:
            troubles.record(Answered(at=self._now(), call=call, outcome=None))
            raise
        troubles.record(Answered(at=self._now(), call=call, outcome=outcome))
        return outcome

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[StoreChange, None]:
        troubles = self._troubles
        number = troubles.number()
        await self._arrival()
        if self._scanned_life != self._heard_life:
            raise StoreWentBack(_NAME, f"life {self._heard_life}", f"life {self._scanned_life}")
        troubles.record(Watching(at=self._now(), watch=number, process=self._process, prefix=prefix, after=after))
        changes, arrived = self._inner.watch(prefix, after=after), -1.0
        try:
            while True:
                try:
                    change = await anext(changes)
                except StopAsyncIteration:
                    return
                except (Compacted, StoreWentBack) as error:
                    await self._arrival()
                    troubles.trace.cover(f"watch: {type(error).__name__}")
                    raise
                # Changes that arrive at one time are given together.
                await (asyncio.sleep(0) if arrived == self._now() else self._arrival())
                arrived = self._now()
                if troubles.happens(troubles.odds.watch_gap, "watch gap", self._process):
                    raise Compacted(after, change.revision)
                after = change.revision
                self._seen_revision = max(self._seen_revision, after)
                troubles.record(Delivered(at=self._now(), watch=number, revision=after, events=change.events))
                yield change
        finally:
            if isinstance(changes, AsyncGenerator):
                await changes.aclose()

    async def grant(self, *, ttl_seconds: float) -> Lease:

        asks = CURRENT.get()

        async def _perform() -> Lease:
            lease = await self._inner.grant(ttl_seconds=ttl_seconds)
            granted = Granted(
                at=self._now(),
                incarnation=self._incarnation,
                lease=lease.id,
                ttl_seconds=lease.ttl_seconds,
                process=self._process if asks is None or asks.lives else "",
            )
            self._troubles.record(granted)
            self._troubles.granted(self._process, lease.ttl_seconds)
            return lease

        return await self._certain("grant", _perform, changes=True)

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        asked, since, incarnation = frozenset(leases), self._now(), self._incarnation

        async def _perform() -> frozenset[int]:
            alive = await self._inner.renew(asked)
            self._troubles.record(
                Renewed(at=self._now(), since=since, incarnation=incarnation, asked=asked, alive=alive)
            )
            return alive

        return await self._certain("renew", _perform, changes=True)

    async def revoke(self, lease: int) -> None:
        incarnation = self._incarnation
        self._troubles.record(Revoked(at=self._now(), incarnation=incarnation, lease=lease))

        async def _perform() -> None:
            await self._inner.revoke(lease)
            self._troubles.record(Revoked(at=self._now(), incarnation=incarnation, lease=lease, done=True))

        await self._certain("revoke", _perform, changes=True)

    def capabilities(self) -> Capabilities:
        """See `CoordinationStore`. A store with scans that may be stale says so."""
        capabilities = self._inner.capabilities()
        return replace(capabilities, linearizable=False) if self._troubles.odds.stale_scan else capabilities

    async def close(self) -> None:
        self._troubles.open_handles[self._process] -= not self._is_closed
        self._is_closed = True
        await self._inner.close()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _older(self, prefix: str, life: int) -> Scan | None:
        """Return an older answer that is possible here: of this life, and not older than a revision seen before."""
        found = [
            scan
            for of_life, scan in self._troubles.recent.get(prefix, ())
            if of_life == life == self._heard_life and scan.revision >= self._seen_revision
        ]
        return self._troubles.draw.choice(found) if found else None

    async def _certain(self, what: str, perform: Callable[[], Awaitable[Result]], *, changes: bool) -> Result:
        """Send a request that may be repeated without harm; raise `StoreUnavailable` if no reply comes."""
        try:
            return await self._ask(what, perform, changes=changes)
        except _NoReply as error:
            raise StoreUnavailable(_NAME, str(error), "Try again.") from None

    async def _ask(
        self, what: str, perform: Callable[[], Awaitable[Result]], *, changes: bool = True, lost: Way | None = None
    ) -> Result:
        """Send a request, and wait for its reply for `patience_seconds`. Then give up its connection too."""
        loop, troubles = asyncio.get_running_loop(), self._troubles
        reply: asyncio.Future[Result] = loop.create_future()
        silence = troubles.silence_of(self._process, self._connected_at)
        lost = silence.way if lost is None and silence is not None else lost
        answer = loop.create_future() if lost is Way.REPLY else reply
        journeys = troubles.network.journeys(self._process, STORE)
        if journeys and lost is not Way.REQUEST:
            serving = self._serve(what, perform, answer, journeys, changes=changes)
            troubles.keep(loop.create_task(serving, context=outside()))
        patience_seconds = troubles.patience_seconds(self._process)
        timer = loop.call_later(patience_seconds, settle, reply, _NoReply("no reply came in time"))
        try:
            return await reply
        except _NoReply:
            self._connected_at = self._now()
            raise
        finally:
            timer.cancel()

    async def _serve(
        self,
        what: str,
        perform: Callable[[], Awaitable[Result]],
        reply: "asyncio.Future[Result]",
        journeys: tuple[float, ...],
        *,
        changes: bool,
    ) -> None:
        """Carry out a request at the store. This goes on even if the caller stops."""
        troubles, wave, believed = self._troubles, self._troubles.wave, self._heard_life
        await asyncio.sleep(journeys[0])
        if wave != troubles.wave:
            return
        refusal = self._refusal(what, believed, changes=changes)
        if refusal is not None:
            settle(reply, refusal)
            return
        broken = changes and troubles.happens(troubles.odds.sync_error, "sync error", f"{what} of {self._process}")
        if broken and troubles.draw.random() < 0.5:
            settle(reply, _NoReply("the disk failed at the commit"))
            return
        result: Result | ApportionError
        try:
            result = await perform()
        except ApportionError as error:
            result = error
        troubles.trace.cover(
            f"{what}: {type(result).__name__}" if isinstance(result, ApportionError | Outcome) else what
        )
        for _ in journeys[1:]:
            await _in_vain(perform)
        back = troubles.network.journeys(STORE, self._process)
        if back:
            await asyncio.sleep(back[0])
        if broken or (back and wave == troubles.wave):
            settle(reply, _NoReply("the disk failed at the commit") if broken else result)

    def _refusal(self, what: str, believed: int, *, changes: bool) -> ApportionError | None:
        """Return the reason why the store refuses a request before it begins; None if it begins."""
        now = self._now()
        if self._troubles.denies(self._process, now):
            return _denied()
        if now < self._troubles.away_until:
            return StoreUnavailable(_NAME, "connection refused")
        if changes and now < self._troubles.full_until:
            return StoreUnavailable(_NAME, "disk full")
        if what != "scan" and self._scanned_life != believed:  # a real request names its caller's life
            return StoreWentBack(_NAME, f"life {believed}", f"life {self._scanned_life}")
        return None

    async def _arrival(self) -> None:
        """Wait until a message of the store has arrived. A connection sends lost messages again.

        A watch gives up a silent connection, and continues at the same position on the next one. `StoreDenied` is
        raised if the store refuses the process by then.
        """
        troubles = self._troubles
        if (silence := troubles.silence_of(self._process, self._connected_at)) is not None:
            await troubles.delay(silence.at + troubles.patience_seconds(self._process) - self._now())
            self._connected_at = self._now()
        if troubles.happens(troubles.odds.watch_silent, "watch silent", self._process):
            await troubles.delay(troubles.draw.uniform(0.5, 4.0))
        journeys = troubles.network.journeys(STORE, self._process)
        while not journeys or self._now() < troubles.away_until:
            await asyncio.sleep(_LOOK_SECONDS)
            journeys = troubles.network.journeys(STORE, self._process)
        await troubles.delay(journeys[0])
        if troubles.denies(self._process, self._now()):
            raise _denied()


async def _in_vain(perform: Callable[[], Awaitable[object]]) -> None:
    """Carry out a copy of a request, and ignore its result."""
    try:
        await perform()
    except ApportionError:
        return


def _denied() -> StoreDenied:
    return StoreDenied(_NAME, "its rights were revoked", "Grant them again.")
