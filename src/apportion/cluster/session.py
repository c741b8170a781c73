"""Session: a lease that a process keeps alive on the I/O thread, for as long as it takes part in a group.

Promises: `deadline` lies before the moment at which the store may end the lease, whatever the network did: it counts
from when a renewal was sent, on this machine's own clock, less a margin for clocks that drift. A user's blocked event
loop costs nothing; a C call that keeps the interpreter's lock for TTL - margin ends the session, as it must. Who hears
no reply renews no more once the deadline has passed: it would keep from others what it may not use itself.
Refuses: to renew for others, and to revive a lease that has ended; the next life has another.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from apportion.errors import StoreUnavailable
from apportion.model.clock import Clock
from apportion.stores.api import CoordinationStore

MARGIN_RATIO = 0.1
RENEWALS_PER_TTL = 4
_PAUSE_RATIO = 0.05


class Session:
    """A lease in one life. `confirmed` is called with each new deadline."""

    def __init__(
        self, store: CoordinationStore, clock: Clock, *, ttl_seconds: float, confirmed: Callable[[float], None]
    ) -> None:
        self.store, self.clock, self.ttl_seconds = store, clock, ttl_seconds
        self.lease = 0
        self.ended = asyncio.Event()
        self._confirmed = confirmed
        self._is_forfeit = False
        self._deadline = float("-inf")

    async def begin(self) -> None:
        """Ask the store for the lease."""
        sent = self.clock.elapsed()
        self.lease = (await self.store.grant(ttl_seconds=self.ttl_seconds)).id
        self._confirm(sent)

    async def keep(self) -> None:
        """Renew the lease until it has ended; then `ended` is set."""
        interval = self.ttl_seconds / RENEWALS_PER_TTL
        while not self._is_forfeit:
            await asyncio.sleep(interval)
            try:
                if self.clock.elapsed() >= self._deadline:
                    await self.store.renew([])
                sent = self.clock.elapsed()
                alive = await self.store.renew([self.lease])
            except StoreUnavailable:
                interval = self.ttl_seconds * _PAUSE_RATIO
                continue
            interval = self.ttl_seconds / RENEWALS_PER_TTL
            if self.lease not in alive:
                break
            self._confirm(sent)
        self.ended.set()

    def forfeit(self) -> None:
        """Renew no more: something of this process cannot be stopped otherwise."""
        self._is_forfeit = True

    async def end(self) -> None:
        """Give the lease back; a store that is away ends it by itself."""
        self.ended.set()
        with suppress(StoreUnavailable):
            await self.store.revoke(self.lease)

    def _confirm(self, sent: float) -> None:
        if not self._is_forfeit:
            self._deadline = sent + self.ttl_seconds * (1 - MARGIN_RATIO)
            self._confirmed(self._deadline)
