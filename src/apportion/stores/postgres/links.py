"""Links: the connections of one process to one store, whatever the number of its handles.

One link watches and renews; it waits for no lock and reads in small portions. Another link scans, commits and ends
leases; its connection is closed after a minute of rest. So no renewal waits behind a scan or a flush.
Promises: handles on one event loop share links if their URLs differ only in the namespace. A forked child has links of
its own.
"""

from collections.abc import Hashable
from dataclasses import replace

from apportion.runtime.clock import Clock, SystemClock
from apportion.stores.postgres.door import Door
from apportion.stores.postgres.ear import Ear
from apportion.stores.postgres.leases import Leases
from apportion.stores.postgres.link import PostgresLink
from apportion.stores.postgres.lookout import PostgresLookout
from apportion.stores.shared import Shared
from apportion.stores.url import StoreUrl

REST_SECONDS = 60.0


class Links:
    """Both links, and the lookout over them. Made by `taken`, closed by the last `give_back`."""

    committing: PostgresLink

    def __init__(self, url: StoreUrl, clock: Clock, key: Hashable) -> None:
        self.door: Door = Door(url)
        self.leases: Leases = Leases()
        self._key = key
        ear = Ear(self.door)
        self.watching: PostgresLink = PostgresLink(self.door, patience=self.leases.patience, ear=ear)
        self.committing = PostgresLink(self.door, patience=self.leases.commit_patience, rest_seconds=REST_SECONDS)
        self.lookout: PostgresLookout = PostgresLookout(
            self.watching, self.committing, ear, self.leases, clock, is_polled=self.door.is_polled
        )

    @classmethod
    def taken(cls, url: StoreUrl, clock: Clock) -> "Links":
        """Return the links of this process to the store of a URL, with one more user. Nothing is connected yet."""
        canonical = replace(url.canonical(), namespace="")
        key = (canonical, None if isinstance(clock, SystemClock) else id(clock))
        return _shared.take(key, lambda: cls(canonical, clock, key))

    @property
    def ours(self) -> bool:
        """Whether this process opened the links. A forked child has only inherited them."""
        return self.watching.ours

    def doubt(self) -> None:
        """Look at the server before the next statement, because the store went back."""
        self.watching.doubt()
        self.committing.doubt()

    async def give_back(self) -> None:
        """Stop using the links; the last user closes them."""
        if _shared.give_back(self._key):
            await self.watching.close()
            await self.committing.close()


_shared: Shared[Links] = Shared()
