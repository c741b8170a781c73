"""A scan in portions, so that every reply is short and other requests can pass between.

Each portion brings more items. If keys in the part already read have changed since the last portion, it brings
these changes too. Each portion reads one state of the store. So after the last portion, the whole scan is of one
revision.
Promises: the scan begins anew if the history since the last portion is gone, or if another incarnation has begun.
"""

from collections.abc import Callable, Mapping
from typing import cast

from apportion.stores.api import Item
from apportion.stores.postgres.driver import Parameter, Row
from apportion.stores.postgres.lookout import SeenState, state_of

PORTION_ITEMS = 2_000
PORTION_BYTES = 1 << 18
Fields = tuple[bytes, bytes, int, int | None]


class PostgresScan:
    """The items found so far in [start, end)."""

    is_complete: bool

    def __init__(self, start: bytes, end: bytes, item_of: Callable[[Fields], Item | None]) -> None:
        self._start, self._end = start, end
        self._item_of = item_of
        self._next = start
        self._found: dict[bytes, Item | None] = {}
        self.at: SeenState | None = None
        self.is_complete = False

    def wanted(self) -> Mapping[str, Parameter]:
        """Return the parameters of the next portion."""
        return {
            "start": self._start,
            "next": self._next,
            "end": self._end,
            "at": None if self.at is None else self.at.revision,
            "most": PORTION_ITEMS,
            "most_bytes": PORTION_BYTES,
        }

    def take(self, rows: list[Row]) -> SeenState:
        """Take a portion; return the state of the store to which all found items now belong."""
        before, now, compacted = self.at, state_of(rows[0]), cast("int", rows[0][2])
        self.at = now
        is_other = before is not None and before.incarnation != now.incarnation
        if before is not None and (is_other or not compacted <= before.revision <= now.revision):
            self._found, self._next, self.at = {}, self._start, None
            return before
        found = [row for row in rows if row[3] is not None]
        for row in sorted((row[4:] for row in found if row[3]), key=lambda each: cast("int", each[2])):
            key, value, *_ = row
            if value is None:
                self._found.pop(cast("bytes", key), None)
            else:
                self._found[cast("bytes", key)] = self._item_of(cast("Fields", row))
        portion = [cast("Fields", row[4:]) for row in found if not row[3]]
        self._found.update((each[0], self._item_of(each)) for each in portion)
        self._next = max((each[0] + b"\0" for each in portion), default=self._next)
        self.is_complete = len(portion) < PORTION_ITEMS and sum(len(each[1]) for each in portion) < PORTION_BYTES
        return self.at

    def items(self) -> tuple[Item, ...]:
        """Return all found items, sorted by key."""
        found = (self._found[key] for key in sorted(self._found))
        return tuple(each for each in found if each is not None)
