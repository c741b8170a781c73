"""Old rows of timed tables in an SQLite file: they are archived, and then deleted in many short transactions.

SQLite has no partitions, so the rows stay in one table. `init` makes an index over the time.

Promises: a transaction deletes rows for about 10 ms, and as much time is left to writers. With an archive, a row is
deleted only if it equals its line, which was read from the disk. A row that a program changed meanwhile stays.
Refuses: times that are not stored as text, as SQLAlchemy stores them: no other value can be compared with a day.
"""

# ruff: noqa: S608 - names are quoted, values are bound

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from itertools import count, islice
from pathlib import Path
from time import monotonic
from typing import Any

from apportion.errors import InvalidInput
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoverWork
from apportion.shards.periods.archive import ArchiveEntry, ArchiveFile, ArchiveWriter, archive_name
from apportion.shards.periods.timed_table import TimedTable
from apportion.shards.sqlite.file import ShardFile, ShardPath
from apportion.shards.sqlite.portion import Portion
from apportion.shards.sqlite.schema import quoted
from apportion.shards.sqlite.tables import ShardTable, columns, tables_of

_FIRST_ROWS = 200
_DAY = "[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]*"
_INDEXED = """SELECT 1 FROM pragma_index_list(?1) l JOIN pragma_index_info(l.name) i
    WHERE i.seqno = 0 AND i.name = ?2 AND NOT l.partial"""


class OldRows:
    """The timed tables of one shard in a file."""

    def __init__(self, place: ShardPath) -> None:
        self._file, self._place = ShardFile(place), place

    async def count(self, timed: TimedTable, cutoff: date) -> int:
        """Return the number of rows before a day. `InvalidInput` for a table that cannot be asked for it."""
        return await self._file.read(partial(self._count, timed=timed, cutoff=cutoff))

    async def delete(self, work: MoverWork, token: FencingToken, timed: TimedTable, cutoff: date) -> int:
        """Delete the rows before a day. Return their number."""
        portion, total = Portion(_FIRST_ROWS), 0
        while True:
            most = portion.rows
            number, seconds = await self._file.write(work, token, partial(_deleted, timed, cutoff, most))
            portion.took(number, seconds)
            total += number
            if number < most:
                return total
            await asyncio.sleep(seconds)

    async def archive(self, work: MoverWork, token: FencingToken, timed: TimedTable, cutoff: date, folder: Path) -> int:
        """Write the rows before a day to files, and delete each row that was read back. Return their number."""
        total = 0
        for archive in self._begun(folder, timed):  # deletions that were cut off
            total += await self._cleared(work, token, timed, archive)
        for number in count(1):
            if not await self.count(timed, cutoff):
                return total
            name = f"{timed.name}_until_{cutoff:%Y%m%d}" + (f"_{number}" if number > 1 else "")
            archive = self._archive(folder, name, timed)
            if archive.entry() is None:
                await self._written(timed, cutoff, archive)
                total += await self._cleared(work, token, timed, archive)
        return total

    async def close(self) -> None:
        """Close the file."""
        await self._file.close()

    def _archive(self, folder: Path, name: str, timed: TimedTable) -> ArchiveFile:
        facts = {"set": self._place.set_name, "shard": self._place.shard, "table": timed.name, "time": timed.column}
        return ArchiveFile(folder, archive_name(self._place.set_name, self._place.shard, name), "jsonl", {**facts})

    def _begun(self, folder: Path, timed: TimedTable) -> Iterator[ArchiveFile]:
        start = archive_name(self._place.set_name, self._place.shard, f"{timed.name}_until_")
        for about in sorted(folder.glob("*.json")):
            if about.stem.startswith(start):
                found = self._archive(folder, f"{timed.name}_until_{about.stem.removeprefix(start)}", timed)
                entry = found.entry()
                if entry is not None and not entry.is_cleared:
                    yield found

    def _count(self, connection: sqlite3.Connection, timed: TimedTable, cutoff: date) -> int:
        table, column = _table(connection, self._place.shard, timed), quoted(timed.column)
        if not connection.execute(_INDEXED, (table.name, timed.column)).fetchall():
            hint = f"Make it: CREATE INDEX apportion_{table.name}_time ON {table.quoted} ({column})"
            raise InvalidInput(f"index of {timed.name}.{timed.column}", None, "one that begins with the time", hint)
        [(kind,)] = connection.execute(f"SELECT typeof(min({column})) FROM {table.quoted}").fetchall()
        if kind not in ("text", "null"):
            hint = "Let SQLAlchemy write the times, as DateTime or Date."
            raise InvalidInput(f"a value of {timed.name}.{timed.column}", kind, "text, such as 2026-01-31 …", hint)
        odd = f"SELECT {column} FROM {table.quoted} WHERE {_old(timed)} AND {column} NOT GLOB '{_DAY}' LIMIT 1"
        for (value,) in connection.execute(odd, (f"{cutoff}",)).fetchall():
            hint = "Let SQLAlchemy write the times, as DateTime or Date. Then run the same command again."
            raise InvalidInput(f"a value of {timed.name}.{timed.column}", value, "one that begins as 2026-01-31", hint)
        found = f"SELECT count(*) FROM {table.quoted} WHERE {_old(timed)}"
        [(number,)] = connection.execute(found, (f"{cutoff}",)).fetchall()
        return int(number)

    async def _written(self, timed: TimedTable, cutoff: date, archive: ArchiveFile) -> ArchiveEntry:
        """Write the rows before a day to a file, by many short reads."""
        writer, portion, last = await asyncio.to_thread(ArchiveWriter, archive), Portion(_FIRST_ROWS), None
        while True:
            most = portion.rows
            read = partial(_page, timed=timed, cutoff=cutoff, last=last, most=most)
            names, last, found, seconds = await self._file.read(read)
            portion.took(len(found), seconds)
            await asyncio.to_thread(writer.take, b"".join(map(_line, found)))
            if len(found) < most:
                return await asyncio.to_thread(archive.finish, names, writer)

    async def _cleared(self, work: MoverWork, token: FencingToken, timed: TimedTable, archive: ArchiveFile) -> int:
        """Delete the rows that equal a line of a file. The whole file is read and compared with its checksum first."""
        entry = archive.entry()
        if entry is None:
            return 0
        for _ in archive.pieces():
            pass
        portion, total = Portion(_FIRST_ROWS), 0
        with archive.path.open("rb") as lines:
            while found := list(islice(lines, portion.rows)):
                same = partial(_deleted_equal, timed, entry.columns, [_values(line) for line in found])
                number, seconds = await self._file.write(work, token, same)
                portion.took(len(found), seconds)
                total += number
                await asyncio.sleep(seconds)
        done = ArchiveEntry(
            columns=entry.columns, rows=entry.rows, bytes=entry.bytes, sha256=entry.sha256, is_cleared=True
        )
        await asyncio.to_thread(archive.note, done)
        return total


def _table(connection: sqlite3.Connection, shard: str, timed: TimedTable) -> ShardTable:
    for table in tables_of(connection):
        if table.name == timed.name:
            return table
    hint = "Look at the shard: apportion shards doctor URL SET --models MODULE:Base"
    raise InvalidInput(f"table {timed.name} in shard {shard}", "absent", "a sharded table", hint)


def _old(timed: TimedTable) -> str:
    column = quoted(timed.column)
    return f"{column} < ? AND typeof({column}) = 'text'"


def _deleted(timed: TimedTable, cutoff: date, most: int, connection: sqlite3.Connection) -> tuple[int, float]:
    begun, table = monotonic(), _table(connection, "", timed)
    key = columns(table.key)
    found = f"SELECT {key} FROM main.{table.quoted} WHERE {_old(timed)} LIMIT ?"
    gone = f"DELETE FROM main.{table.quoted} WHERE ({key}) IN ({found})"
    return connection.execute(gone, (f"{cutoff}", most)).rowcount, monotonic() - begun


def _deleted_equal(
    timed: TimedTable, names: Sequence[str], found: Sequence[Sequence[object]], connection: sqlite3.Connection
) -> tuple[int, float]:
    begun, table = monotonic(), _table(connection, "", timed)
    same = " AND ".join(f"{quoted(name)} {'=' if name in table.key else 'IS'} ?" for name in names)
    gone = f"DELETE FROM main.{table.quoted} WHERE {same}"
    return connection.executemany(gone, found).rowcount, monotonic() - begun


def _page(
    connection: sqlite3.Connection, timed: TimedTable, cutoff: date, last: tuple[Any, ...] | None, most: int
) -> tuple[tuple[str, ...], tuple[Any, ...] | None, list[tuple[Any, ...]], float]:
    """Return the columns, the place of the last row, the rows of a page in the order of their time, and the seconds."""
    begun, table = monotonic(), _table(connection, "", timed)
    order = (timed.column, *(name for name in table.key if name != timed.column))
    after = "" if last is None else f" AND ({columns(order)}) > ({', '.join('?' * len(order))})"
    read = f"SELECT {columns(table.names)} FROM main.{table.quoted} WHERE {_old(timed)}{after}"
    values = (f"{cutoff}", *(last or ()), most)
    found = connection.execute(f"{read} ORDER BY {columns(order)} LIMIT ?", values).fetchall()
    places = [table.names.index(name) for name in order]
    place = tuple(found[-1][each] for each in places) if found else last
    return table.names, place, found, monotonic() - begun


def _line(row: Sequence[object]) -> bytes:
    parts = [{"hex": value.hex()} if isinstance(value, bytes) else value for value in row]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _values(line: bytes) -> list[object]:
    return [bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in json.loads(line)]
