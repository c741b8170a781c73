"""A scan in portions, so that neither the event loop nor a checkpoint waits for a million keys.

Each step is one transaction. It reads more items, and also the changes of the found items since the last step. After a
step, all found items have their state at the revision of that step. So after the last step, the whole scan shows one
revision.
Promises: if the needed history is gone, or the store has another incarnation, the scan begins again.
"""

from collections.abc import Callable

from apportion.stores.api import Item
from apportion.stores.sqlite import ledger
from apportion.stores.sqlite.connection import Connection
from apportion.stores.sqlite.ledger import LedgerState, Row

PORTION_ITEMS = 2_000


class SqliteScan:
    """The items found so far in [start, end)."""

    is_complete: bool

    def __init__(self, start: bytes, end: bytes, item_of: Callable[[Row], Item | None]) -> None:
        self._start, self._end = start, end
        self._item_of = item_of
        self._next = start
        self._at: LedgerState | None = None
        self._found: dict[bytes, Item | None] = {}
        self.is_complete = False

    def step(self, connection: Connection) -> LedgerState:
        """Read the next items; return the state of the store that all found items now show."""
        now = ledger.state(connection)
        if self._at is not None and self._at != now:
            self._catch_up(connection, self._at, now)
        rows = ledger.within(connection, self._next, self._end, PORTION_ITEMS)
        self._found.update((row[0], self._item_of(row)) for row in rows)
        self._next = rows[-1][0] + b"\0" if rows else self._next
        self._at = now
        self.is_complete = len(rows) < PORTION_ITEMS
        return now

    def items(self) -> tuple[Item, ...]:
        """Return all found items, sorted by key."""
        found = (self._found[key] for key in sorted(self._found))
        return tuple(each for each in found if each is not None)

    def _catch_up(self, connection: Connection, before: LedgerState, now: LedgerState) -> None:
        if now.incarnation != before.incarnation or not now.compacted <= before.revision <= now.revision:
            self._found, self._next = {}, self._start
            return
        for key, value, revision, lease in ledger.changed_since(connection, self._start, self._next, before.revision):
            if value is None:
                self._found.pop(key, None)
            else:
                self._found[key] = self._item_of((key, value, revision, lease))
