"""A shard in an SQLite file, for a mover."""

# ruff: noqa: S608 - names are quoted, values are bound

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup, RowChange
from apportion.shards.shard import CLEAN_ROWS, SlotSize
from apportion.shards.slot_rows import SlotRow, SlotState, slot_row
from apportion.shards.slots import MOST_SLOTS
from apportion.shards.sqlite import capture
from apportion.shards.sqlite.cursors import forget
from apportion.shards.sqlite.file import ShardFile, ShardPath
from apportion.shards.sqlite.key_rows import join, shed, take
from apportion.shards.sqlite.portion import Portion
from apportion.shards.sqlite.replacement import keep, keeping, let_go
from apportion.shards.sqlite.schema import quoted
from apportion.shards.sqlite.tables import ShardTable, swept, tables_of

_DROP_SECONDS = 1.0
_SAMPLE = 1_000
_FEW_SLOTS = 16  # for the first read
_ROW_BYTES = 16  # the header of a row and its place in the indexes


class SqliteShard:
    """See `Shard`."""

    def __init__(self, place: ShardPath) -> None:
        self._file = ShardFile(place)
        self._portion = Portion(CLEAN_ROWS, most=CLEAN_ROWS)

    async def guard(self, group: MoveGroup, token: FencingToken) -> None:
        """See `Shard`."""
        await self._file.write(group, token, lambda _: None)

    async def rows(self, group: MoveGroup) -> Sequence[SlotRow | None]:
        """See `Shard`."""
        return await self._file.read(lambda connection: [_slot_row(connection, slot) for slot in group.slots])

    async def change(self, group: MoveGroup, change: RowChange, token: FencingToken) -> None:
        """See `Shard`."""
        await self._file.write(group, token, lambda connection: _changed(connection, group, change))

    async def sizes(self) -> Mapping[int, SlotSize]:
        """See `Shard`. The bytes of a row are the mean over the first thousand rows of its table.

        The slots are counted in many short reads. A long read would delay writers, or let their write-ahead log grow.
        """
        found: dict[int, SlotSize] = {}
        for table in await self._file.read(tables_of):
            mean, last = await self._file.read(partial(_mean, table=table))
            after, portion = -1, Portion(_FEW_SLOTS, least=1, most=MOST_SLOTS)
            while after < last:
                upto = after + portion.rows
                counts, seconds = await self._file.read(partial(_counts, table=table, after=after, upto=upto))
                portion.took(portion.rows, seconds)
                after = upto
                for slot, count in counts:
                    before = found.get(slot, SlotSize(rows=0, bytes=0))
                    size = int(count * (mean + _ROW_BYTES))
                    found[slot] = SlotSize(rows=before.rows + count, bytes=before.bytes + size)
        return found

    async def clean(self, group: MoveGroup, token: FencingToken) -> int:
        """See `Shard`."""
        return await self._file.write(group, token, lambda connection: self._cleaned(connection, group))

    async def drop(self, group: MoveGroup, token: FencingToken) -> None:
        """See `Shard`. One call lasts about a second. The slot rows change after the last rows are deleted."""
        ends = monotonic() + _DROP_SECONDS
        while not await self._file.write(group, token, lambda connection: self._dropped(connection, group)):
            if monotonic() >= ends:
                return

    async def left_behind(self, move: str) -> Sequence[str]:
        """See `Shard`."""
        return await self._file.read(lambda connection: _left_behind(connection, move))

    async def close(self) -> None:
        """See `Shard`."""
        await self._file.close()

    def _cleaned(self, connection: sqlite3.Connection, group: MoveGroup) -> int:
        if group.isolated is not None:
            begun, most = monotonic(), self._portion.rows
            count = shed(connection, group, reversed(tables_of(connection)), most)
            self._portion.took(count, monotonic() - begun)
            return count
        moved = [slot for slot in group.slots if (row := _slot_row(connection, slot)) and row.state == "moved"]
        return self._deleted(connection, moved)

    def _dropped(self, connection: sqlite3.Connection, group: MoveGroup) -> bool:
        """Delete some rows of the slots. If none is left, take the slot rows back. Return whether all is done."""
        mine = "SELECT slot FROM apportion_slot WHERE slot = ? AND state = 'incoming' AND move = ?"
        slots = [slot for slot in group.slots if connection.execute(mine, (slot, group.move)).fetchall()]
        if self._deleted(connection, slots):
            return False
        for slot in slots:
            connection.execute(
                "UPDATE apportion_slot SET state = former, former = NULL, move = NULL, life = NULL, number = NULL"
                " WHERE slot = ? AND former IS NOT NULL",
                (slot,),
            )
            connection.execute("DELETE FROM apportion_slot WHERE slot = ? AND state = 'incoming'", (slot,))
        forget(connection, group.move)
        let_go(connection)
        return True

    def _deleted(self, connection: sqlite3.Connection, slots: Sequence[int]) -> int:
        begun, most = monotonic(), self._portion.rows
        count = swept(connection, reversed(tables_of(connection)), slots, most)
        self._portion.took(count, monotonic() - begun)
        return count


def _slot_row(connection: sqlite3.Connection, slot: int) -> SlotRow | None:
    read = "SELECT state, life, number FROM main.apportion_slot WHERE slot = ?"
    for state, life, number in connection.execute(read, (slot,)).fetchall():
        return slot_row(slot, state, life, number)
    return None


def _changed(connection: sqlite3.Connection, group: MoveGroup, change: RowChange) -> None:
    if change.joins is not None:
        join(connection, group, reversed(tables_of(connection)), change.joins)
        return
    if None in change.before and change.after == "incoming":  # the slots begin to come
        keep(connection, tables_of(connection))
    for slot in group.slots:
        row = _slot_row(connection, slot)
        if (None if row is None else row.state) in change.before:
            _write_slot(connection, slot, row, change, group.move)
            if change.takes and group.isolated is not None:
                take(connection, group, reversed(tables_of(connection)))
                own = replace(change, before=(None,))
                _write_slot(
                    connection, group.isolated.slot, _slot_row(connection, group.isolated.slot), own, group.move
                )


def _write_slot(connection: sqlite3.Connection, slot: int, row: SlotRow | None, change: RowChange, move: str) -> None:
    number = row.number if row is not None and change.keeps_number else change.number
    life, count = (None, None) if number is None else (number.incarnation, number.number)
    former: SlotState | None = row.state if row is not None and change.after == "incoming" != row.state else None
    former = "owner" if change.sheds else former
    if row is None:
        connection.execute("INSERT INTO apportion_slot (slot, state) VALUES (?, ?)", (slot, change.after))
    kept = "former" if row is not None and row.state == change.after and not change.sheds else "?"
    statement = f"UPDATE apportion_slot SET state = ?, life = ?, number = ?, move = ?, former = {kept} WHERE slot = ?"
    values = (change.after, life, count, move, *([] if kept == "former" else [former]), slot)
    connection.execute(statement, values)


def _mean(connection: sqlite3.Connection, table: ShardTable) -> tuple[float, int]:
    """Return the mean bytes of the first rows of a table, and the highest slot in it, -1 for an empty table."""
    length = " + ".join(f"coalesce(length(CAST({quoted(each)} AS BLOB)), 0)" for each in table.names)
    sample = f"SELECT avg(bytes) FROM (SELECT {length} AS bytes FROM {table.quoted} LIMIT {_SAMPLE})"
    [(mean, last)] = connection.execute(f"SELECT ({sample}), (SELECT max(slot) FROM {table.quoted})").fetchall()
    return float(mean or 0), -1 if last is None else int(last)


def _counts(
    connection: sqlite3.Connection, table: ShardTable, after: int, upto: int
) -> tuple[list[tuple[int, int]], float]:
    """Return the number of rows of each slot above `after` and up to `upto`, and the seconds of the read."""
    begun = monotonic()
    counted = f"SELECT slot, count(*) FROM {table.quoted} WHERE slot > ? AND slot <= ? GROUP BY slot"
    return connection.execute(counted, (after, upto)).fetchall(), monotonic() - begun


def _left_behind(connection: sqlite3.Connection, move: str) -> list[str]:
    found = [f"{name}: {count} rows" for name, count in _rows_left(connection, move) if count]
    found += capture.parts(connection, move)
    others = "SELECT 1 FROM apportion_slot WHERE state = 'incoming' AND move <> ? LIMIT 1"
    return found if connection.execute(others, (move,)).fetchall() else [*found, *keeping(connection)]


def _rows_left(connection: sqlite3.Connection, move: str) -> Iterable[tuple[str, int]]:
    for name in ("apportion_move", *capture.log_tables(connection)):
        yield name, _count(connection, f"SELECT count(*) FROM {name} WHERE move = ?", move)
    incoming = "SELECT count(*) FROM apportion_slot WHERE move = ? AND (state = 'incoming' OR former = 'owner')"
    yield "apportion_slot", _count(connection, incoming, move)
    slots = "SELECT slot FROM apportion_slot WHERE move = ? AND state IN ('incoming', 'moved')"
    for table in tables_of(connection):
        counted = f"SELECT count(*) FROM {table.quoted} WHERE slot IN ({slots})"
        yield table.name, _count(connection, counted, move)


def _count(connection: sqlite3.Connection, statement: str, move: str) -> int:
    [(count,)] = connection.execute(statement, (move,)).fetchall()
    return int(count)
