"""Chunks: the rows of a group, copied table by table and slot by slot in the order of their keys.

Promises: the cursor is written in the transaction that writes the rows. The target has no row of the slots when the
copy begins.
"""

import sqlite3
from dataclasses import replace
from time import monotonic

from apportion.errors import InvariantBroken
from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite import cursors
from apportion.shards.sqlite.cursors import NO_KEY, Cursor
from apportion.shards.sqlite.portion import Portion
from apportion.shards.sqlite.stage import RowStage
from apportion.shards.sqlite.tables import equal_tables, swept


class Chunks:
    """The copy of one group. Each chunk is read by `read`, and then written by `write`."""

    def __init__(self, group: MoveGroup, slots: str) -> None:
        self._group, self._slots = group, slots
        self._portion = Portion(500)
        self._stage: RowStage | None = None
        self._before, self._after = Cursor(name=""), Cursor(name="")

    def begin(self, connection: sqlite3.Connection) -> None:
        """Delete old rows of the slots on the target, a chunk at a time; begin the copy when none is left."""
        require_incoming(connection, self._group)
        tables = equal_tables(connection, self._group)
        if not swept(connection, reversed(tables), self._group.slots, self._portion.rows):
            cursors.begin(connection, self._group.move, "copy", tables, 0)

    def read(self, connection: sqlite3.Connection) -> bool | None:
        """Read the next chunk; False if the copy has not begun, None if it is done."""
        kept = cursors.cursors(connection, self._group.move, "copy")
        if not kept:
            return False
        table = next((each for each in equal_tables(connection, self._group) if not kept[each.name].is_done), None)
        if table is None:
            return None
        self._before = before = kept[table.name]
        self._stage = stage = RowStage(table, 0, self._slots)
        stage.make(connection)
        after = cursors.key_after(self._group.move, "copy", table.name, len(table.key)) if before.within else ""
        left = self._portion.rows
        slot = before.slot
        for slot in (each for each in self._group.slots if before.slot is None or each >= before.slot):
            if slot == before.slot and not before.within:
                continue
            left -= stage.take_slot(connection, slot, after if slot == before.slot else "", left)
            if not left:
                break
        rows = before.rows + self._portion.rows - left
        self._after = replace(before, slot=slot, within=not left, rows=rows, is_done=left > 0)
        return True

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the chunk that was read, unless another lane was faster."""
        begun, stage = monotonic(), self._stage
        if stage is None:
            raise InvariantBroken("a chunk was written before one was read")
        require_incoming(connection, self._group)
        key = stage.last_key if self._after.within else NO_KEY
        if cursors.advance(connection, self._group.move, "copy", before=self._before, after=self._after, key=key):
            stage.write(connection)
        self._portion.took(self._after.rows - self._before.rows, monotonic() - begun)


def require_incoming(connection: sqlite3.Connection, group: MoveGroup) -> None:
    """Raise unless every slot of the group is on its way to this shard, so that nobody owns its rows here."""
    count = "SELECT count(*) FROM main.apportion_slot WHERE move = ? AND state = 'incoming' AND slot = ?"
    for slot in group.slots:
        [(found,)] = connection.execute(count, (group.move, slot)).fetchall()
        if not found:
            raise InvariantBroken(f"rows of move {group.move} were to be written while slot {slot} was not incoming")
