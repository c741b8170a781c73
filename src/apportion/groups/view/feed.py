"""Feed: brings one member all changes of its group in the store, from a first scan on, without a gap.

Promises: a store that is away, or refuses, delays the feed and does not end it. A scan replaces a compacted history.
A store that lacks changes which the view has seen in the same life is refused: it would give the same epochs twice.
"""

import asyncio
from collections.abc import Callable

from apportion.errors import ApportionError, Compacted, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.groups.view.view import View
from apportion.groups.view.went_back import known, lacking_in
from apportion.stores.api import CoordinationStore, Scan, StoreChange

AGAIN_SECONDS = 0.25


class GroupFeed:
    """The changes of one group.

    `heard` takes each change or scan. `troubled` takes each error that does not end the feed.
    """

    def __init__(
        self,
        store: CoordinationStore,
        view: View,
        *,
        heard: Callable[[StoreChange | Scan], None],
        troubled: Callable[[ApportionError], None],
    ) -> None:
        self._store, self._view, self._heard, self._troubled = store, view, heard, troubled

    async def scan(self) -> Scan:
        """Return all records; `StoreWentBack` when the store shows less than we saw of the same life before."""
        before = known(self._view)
        scan = await self._store.scan(self._view.keys.live)
        lacking = lacking_in(scan, before)
        if lacking is not None:
            raise StoreWentBack(f"the store of {self._view.keys.group}", *lacking)
        return scan

    async def follow(self, after: int) -> None:
        """Pass on all changes. If the history has lost some, pass on a scan instead; the lease lives on."""
        while True:
            try:
                async for change in self._store.watch(self._view.keys.live, after=after):
                    after = change.revision
                    self._heard(change)
            except (StoreUnavailable, StoreDenied) as error:
                self._troubled(error)
                await asyncio.sleep(AGAIN_SECONDS)
            except Compacted:
                scan = await self.scan()
                if scan.incarnation != self._view.incarnation:
                    raise
                self._heard(scan)
                after = scan.revision
            else:
                return
