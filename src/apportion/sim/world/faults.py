"""Faults: any store, seen through a network and on a machine that fails; `wire` tells how its requests travel.

The world makes no fault that the store's promises exclude.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import replace
from functools import partial

from apportion.errors import ApportionError, Compacted, StoreUnavailable, StoreWentBack
from apportion.sim.facts import Answered, Asked, Delivered, Granted, Renewed, Revoked, Scanned, Watching
from apportion.sim.world.losses import Way
from apportion.sim.world.process import CURRENT
from apportion.sim.world.troubles import Troubles
from apportion.sim.world.wire import NAME, FaultyWire, NoReply, denied
from apportion.stores import Capabilities, Compare, CoordinationStore, Lease, Outcome, Put, Scan, StoreChange, Unknown

_LOOK_SECONDS = 0.05
_KEPT_SCANS = 6


class FaultyStore(CoordinationStore):
    """A handle of one process on a store that may fail; made by `World.store`."""

    def __init__(
        self, process: str, inner: CoordinationStore, troubles: Troubles, *, incarnation: int, now: float
    ) -> None:
        self._process = process
        self._inner = inner
        self._troubles = troubles
        self._incarnation = incarnation
        self._wire = FaultyWire(process, troubles, now=now)
        self._seen_revision = 0
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
            self._wire.accepted_life = life
            troubles.recent.setdefault(prefix, deque(maxlen=_KEPT_SCANS)).append((life, scan))
            return life, scan, False

        life, scan, stale = await self._wire.certain("scan", _perform, changes=False, accepts=True)
        self._wire.heard_life, self._incarnation, self._seen_revision = life, scan.incarnation, scan.revision
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
                raise StoreUnavailable(NAME, "the connection broke before it was sent")
            perform = partial(self._inner.commit, when=when, puts=puts, deletes=deletes)
            outcome = await self._wire.ask("commit", perform, lost=lost)
        except NoReply as error:
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
        self._wire.must_know_its_life()
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

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> Lease:
        chosen, asks = lease, CURRENT.get()

        async def _perform() -> Lease:
            lease = await self._inner.grant(ttl_seconds=ttl_seconds, lease=chosen)
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

        return await self._wire.certain("grant", _perform, changes=True)

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        asked, since, incarnation = frozenset(leases), self._now(), self._incarnation

        async def _perform() -> frozenset[int]:
            alive = await self._inner.renew(asked)
            self._troubles.record(
                Renewed(at=self._now(), since=since, incarnation=incarnation, asked=asked, alive=alive)
            )
            return alive

        return await self._wire.certain("renew", _perform, changes=True)

    async def revoke(self, lease: int) -> None:
        incarnation = self._incarnation
        self._troubles.record(Revoked(at=self._now(), incarnation=incarnation, lease=lease))

        async def _perform() -> None:
            await self._inner.revoke(lease)
            self._troubles.record(Revoked(at=self._now(), incarnation=incarnation, lease=lease, done=True))

        await self._wire.certain("revoke", _perform, changes=True)

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
            if of_life == life == self._wire.heard_life and scan.revision >= self._seen_revision
        ]
        return self._troubles.draw.choice(found) if found else None

    async def _arrival(self) -> None:
        """Wait until a message of the store has arrived. A connection sends lost messages again.

        A watch gives up a silent connection, and continues at the same position on the next one. `StoreDenied` is
        raised if the store refuses the process by then.
        """
        troubles = self._troubles
        if (silence := troubles.silence_of(self._process, self._wire.connected_at)) is not None:
            await troubles.delay(silence.at + troubles.patience_seconds(self._process) - self._now())
            self._wire.connected_at = self._now()
        if troubles.happens(troubles.odds.watch_silent, "watch silent", self._process):
            await troubles.delay(troubles.draw.uniform(0.5, 4.0))
        journeys = troubles.network.journeys(troubles.place, self._process)
        while not journeys or self._now() < troubles.away_until:
            await asyncio.sleep(_LOOK_SECONDS)
            journeys = troubles.network.journeys(troubles.place, self._process)
        await troubles.delay(journeys[0])
        if troubles.denies(self._process, self._now()):
            raise denied()
