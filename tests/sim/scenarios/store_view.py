"""The keys of a store as one session of a toy member has seen them, from scans and a watch.

Promises: the newest revision of each key stays, in whatever order scans and changes arrive.
"""

from apportion.stores import Absent, Compare, Scan, StoreChange, Unchanged


class StoreView:
    """Values and revisions by key. A key without an item has revision 0."""

    def __init__(self) -> None:
        self._items: dict[str, tuple[bytes, int]] = {}

    def keys(self, prefix: str) -> list[str]:
        """Return the keys under a prefix."""
        return [key for key in self._items if key.startswith(prefix)]

    def value(self, key: str) -> bytes | None:
        """Return the value of a key, None for no item."""
        return self._items[key][0] if key in self._items else None

    def revision(self, key: str) -> int:
        """Return the revision of a key, 0 for none."""
        return self._items.get(key, (b"", 0))[1]

    def as_seen(self, key: str) -> Compare:
        """Return the compare that a key is as it was seen."""
        revision = self.revision(key)
        return Unchanged(key=key, revision=revision) if revision else Absent(key=key)

    def put(self, key: str, value: bytes | None, revision: int) -> None:
        """Take a write; None deletes the key."""
        if value is None:
            self._items.pop(key, None)
        else:
            self._items[key] = (value, revision)

    def apply(self, change: StoreChange) -> None:
        """Take a change, except where more is known already."""
        for event in change.events:
            if change.revision > self.revision(event.key):
                self.put(event.key, event.value, change.revision)

    def take(self, scan: Scan, prefix: str) -> None:
        """Take the result of a scan, except where more is known already."""
        shown = {item.key for item in scan.items}
        for key in self.keys(prefix):
            if key not in shown and self.revision(key) <= scan.revision:
                del self._items[key]
        for item in scan.items:
            if item.revision > self.revision(item.key):
                self.put(item.key, item.value, item.revision)
