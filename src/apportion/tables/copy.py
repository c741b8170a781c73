"""The copy of a published table in memory: it reads scans and changes, and swaps to the newest version as a whole.

Each new version is made from the one before by its delta. If a delta does not apply, or leads to another epoch than
announced, the error is raised and the version in use stays. The next scan then makes the table from its snapshot.
Promises: versions never go back. Within one life of the store, two tables never have the same number. Readers take one
reference without a lock. Refuses: to do I/O, and to read a clock.
"""

import asyncio

from apportion.errors import ApportionError, StoreWentBack
from apportion.placement.hashers import Hasher
from apportion.stores.api import Scan, StoreChange
from apportion.tables.deltas import Routing
from apportion.tables.layout import TableKeys, Version, VersionLink, decode_head, resolved
from apportion.tables.routes import Routes


class TableCopy:
    """The copy of one name: the `routes` in use, and the newest known version (`heard`).

    `trouble` is the reason why the routes may not be the newest, None while all is well.
    `seen` is a pair: the life of the store and the revision that were read last. `confirmed_at` is the time of the last
    request that confirmed the version in use as the newest. `swapped` is set at the next new version.
    """

    confirmed_at: float
    seen: tuple[int, int]
    swapped: asyncio.Event

    def __init__(self, keys: TableKeys, hasher: str | Hasher | None, *, now: float) -> None:
        self.routes: Routes | None = None
        self.heard: Version | None = None
        self.trouble: ApportionError | None = None
        self.confirmed_at = now
        self.seen = (0, 0)
        self.swapped = asyncio.Event()
        self._keys = keys
        self._hasher = hasher
        self._chunks: dict[str, bytes] = {}
        self._at: tuple[VersionLink, Routing] | None = None

    def is_after(self, version: Version | None) -> bool:
        """Say whether a version newer than `version` is in use. If `version` is None, any version counts as newer."""
        return self.routes is not None and (version is None or self.routes.version > version)

    def is_before(self, version: Version) -> bool:
        """Say whether the version in use is older than `version`, or no version is in use."""
        return self.routes is None or self.routes.version < version

    def take(self, scan: Scan) -> Version | None:
        """Read the table of a scan from its snapshot; return the version that the scan announces."""
        self._chunks = {item.key: item.value for item in scan.items}
        self.seen = (scan.incarnation, scan.revision)
        return self._show(at=None)

    def apply(self, change: StoreChange, incarnation: int) -> None:
        """Apply a change from a watch.

        The change is ignored if a scan has already shown it, or has shown a later life of the store. A watch does not
        name the life of the store. A scan on the same handle may accept a new life while the watch begins. Then the
        watch shows changes of the new life. Therefore each head names the life in which it was published.
        """
        if (incarnation, change.revision) <= self.seen:
            return
        published = [
            decode_head(event.value) for event in change.events if event.value and event.key == self._keys.head
        ]
        if any(head.incarnation > incarnation for head in published):
            raise StoreWentBack(f"table {self._keys.name}", f"life {incarnation}", f"life {published[0].incarnation}")
        for event in change.events:
            if event.value is None:
                self._chunks.pop(event.key, None)
            else:
                self._chunks[event.key] = event.value
        self.seen = (incarnation, change.revision)
        newest = self._show(at=self._at)
        if newest is not None:
            self._note_back(newest)

    def hear(self, scan: Scan) -> Version | None:
        """Return the version that the head in a scan announces, and remember it if it is the newest one."""
        return self._hear(scan.incarnation, {item.key: item.value for item in scan.items})

    def confirm(self, newest: Version | None, asked_at: float) -> None:
        """Note that the store named `newest` as the newest version at the time `asked_at`."""
        if newest is None or self.routes is None:
            return
        if self.routes.version == newest:
            self.confirmed_at, self.trouble, self.heard = asked_at, None, newest
        self._note_back(newest)

    def _note_back(self, newest: Version) -> None:
        """Set `trouble` when the newest version is older than the version in use."""
        if self.routes is not None and newest < self.routes.version:
            seen, found = f"version {self.routes.version}", f"version {newest}"
            self.trouble = StoreWentBack(f"table {self._keys.name}", seen, found)

    def _show(self, *, at: tuple[VersionLink, Routing] | None) -> Version | None:
        """Swap to the version that the chunks announce, if it is newer. Return that version, or None."""
        newest = self._hear(self.seen[0], self._chunks)
        if newest is None or not self.is_before(newest):
            return newest
        head = decode_head(self._chunks[self._keys.head])
        value = resolved(head, self._keys, self._chunks, at=at)
        self.routes = Routes.of(newest, value, head.epoch, self._hasher)
        self._at = (head.links[-1], value)
        self.trouble = None
        self.swapped.set()
        self.swapped = asyncio.Event()
        return newest

    def _hear(self, incarnation: int, chunks: dict[str, bytes]) -> Version | None:
        if self._keys.head not in chunks:
            return None
        head = decode_head(chunks[self._keys.head])
        version = Version(incarnation=incarnation, number=head.version)
        self._check_link(version, head.links[-1])
        self.heard = version if self.heard is None else max(self.heard, version)
        return version

    def _check_link(self, version: Version, link: VersionLink) -> None:
        """Raise `StoreWentBack` when the version in use has another link now: its number was given twice."""
        if self.routes is not None and self._at is not None and self.routes.version == version and self._at[0] != link:
            seen, found = f"version {version} ({self._at[0].nonce})", f"another version {version} ({link.nonce})"
            raise StoreWentBack(f"table {self._keys.name}", seen, found)
