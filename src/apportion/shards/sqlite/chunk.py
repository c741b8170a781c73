"""Chunks: copy the rows of a group, table by table.

A window is one slot or several slots. Its rows are read together, sorted by their keys, and written in chunks. So a
chunk changes neighbouring pages of the table and of its indexes, and not one page per row.

Promises: the cursor is written in the transaction that writes the rows. If a part of the log is applied after a read of
rows, the rows are read again. When the copy begins, the target has no row of the slots.
"""

import sqlite3
from dataclasses import dataclass, replace
from time import monotonic

from apportion.errors import InvariantBroken
from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite import cursors
from apportion.shards.sqlite.cursors import NO_KEY, Cursor
from apportion.shards.sqlite.portion import Portion, read_seconds
from apportion.shards.sqlite.stage import RowStage
from apportion.shards.sqlite.tables import EqualTables, ShardTable, swept

_ALL = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Slots from `first` to `last`, and the number of rows read. `is_cut` if the window is a part of one slot."""

    first: int
    last: int
    rows: int
    is_cut: bool = False


class Chunks:
    """The copy of one group. Each chunk is read by `read`, and then written by `write`."""

    def __init__(self, group: MoveGroup, slots: str, tables: EqualTables) -> None:
        self._group, self._slots, self._equal = group, slots, tables
        self._portion = Portion(500)
        self._reads = Portion(2_000, least=200, most=20_000)
        self._stage: RowStage | None = None
        self._window = Window(first=0, last=0, rows=0)
        self._places: dict[Cursor, int] = {}  # the place in the window where each cursor stands
        self._filled: sqlite3.Connection | None = None  # the connection that has the rows of the window
        self._before, self._after = Cursor(name=""), Cursor(name="")

    def begin(self, connection: sqlite3.Connection) -> None:
        """Delete old rows of the slots on the target, a chunk at a time. Begin the copy when none is left."""
        require_incoming(connection, self._group)
        tables = self._equal.read(connection)
        if not swept(connection, reversed(tables), self._group.slots, self._portion.rows):
            cursors.begin(connection, self._group.move, "copy", tables, 0)

    def read(self, connection: sqlite3.Connection) -> bool | None:
        """Read the next chunk, and return True. Return False if the copy has not begun, None if it is done."""
        kept = cursors.cursors(connection, self._group.move, "copy")
        if not kept:
            return False
        table = next((each for each in self._equal.read(connection) if not kept[each.name].is_done), None)
        if table is None:
            return None
        self._before = kept[table.name]
        is_read = self._filled is connection and self._before in self._places
        if not is_read or self._places[self._before] == self._window.rows:
            self._fill(connection, table, self._before)
        self._after = self._next(self._before)
        return True

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the chunk that was read, unless the cursor has changed since then."""
        begun, stage = monotonic(), self._stage
        if stage is None:
            raise InvariantBroken("a chunk was written before one was read")
        require_incoming(connection, self._group)
        before, after, move = self._before, self._after, self._group.move
        first, last = self._places[before], self._places[after]
        key = stage.key_at(last) if after.within else NO_KEY
        if cursors.advance(connection, move, "copy", before=before, after=after, key=key):
            stage.write_sorted(connection, first, last)
        self._portion.took(last - first, monotonic() - begun)

    def _next(self, before: Cursor) -> Cursor:
        """Return the cursor after the next chunk of the window."""
        window, place = self._window, self._places[before]
        end = min(place + self._portion.rows, window.rows)
        rows = before.rows + end - place
        if end < window.rows or window.is_cut:
            after = replace(before, slot=window.first, until=window.last, within=True, rows=rows)
        else:
            is_done = window.last == self._group.slots[-1]
            after = replace(before, slot=window.last, until=None, within=False, rows=rows, is_done=is_done)
        self._places[after] = end
        return after

    def _fill(self, connection: sqlite3.Connection, table: ShardTable, cursor: Cursor) -> None:
        """Read a window: the rest of an open window, or the next one."""
        begun, most = monotonic(), self._reads.rows
        self._stage = stage = RowStage(table, 0, self._slots)
        if cursor.within and cursor.slot is not None and cursor.until is not None:
            after = cursors.key_after(self._group.move, "copy", table.name, len(table.key))
            window = Window(first=cursor.slot, last=cursor.until, rows=0, is_cut=cursor.slot == cursor.until)
        else:
            after, window = "", self._next_window(connection, stage, cursor.slot)
        slots = [slot for slot in self._group.slots if window.first <= slot <= window.last]
        rows = stage.take_window(connection, slots, after, most if window.is_cut else _ALL)
        self._window = replace(window, rows=rows, is_cut=window.is_cut and rows == most)
        self._places, self._filled = {cursor: 0}, connection
        self._reads.seconds = read_seconds(connection)
        self._reads.took(rows, monotonic() - begun)

    def _next_window(self, connection: sqlite3.Connection, stage: RowStage, before: int | None) -> Window:
        """Return the next slots, as many as fit. Return the first slot alone if it has too many rows."""
        slots = [slot for slot in self._group.slots if before is None or slot > before]
        most, last = self._reads.rows, slots[0]
        for slot in slots:
            count = stage.count(connection, slot, most + 1)
            if count > most:
                return Window(first=slots[0], last=last, rows=0, is_cut=last == slot)
            most, last = most - count, slot
        return Window(first=slots[0], last=last, rows=0)


def require_incoming(connection: sqlite3.Connection, group: MoveGroup) -> None:
    """Raise unless every slot of the group is incoming on this shard, so that no writer owns its rows here."""
    count = "SELECT count(*) FROM main.apportion_slot WHERE move = ? AND state = 'incoming' AND slot = ?"
    for slot in group.slots:
        [(found,)] = connection.execute(count, (group.move, slot)).fetchall()
        if not found:
            raise InvariantBroken(f"rows of move {group.move} were to be written while slot {slot} was not incoming")
