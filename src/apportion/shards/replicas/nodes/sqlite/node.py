"""The SQLite node: `ReplicaNode` over one file. Each call is one transaction.

Promises: the transaction compares the table number before anything else, so the comparison and the effect are one act.
Refuses: a file without the map. `nodes.memory` is the reference for every answer.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from apportion.errors import InvalidInput
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.nodes.api import (
    EntryAnswer,
    NodeIdentity,
    PartDigest,
    PurgeKind,
    ReadAnswer,
    ReplicaNode,
    StaleNumber,
)
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.nodes.rules import refused_map, refused_table
from apportion.shards.replicas.nodes.sqlite.file import NodeFile
from apportion.shards.replicas.nodes.sqlite.rows import MapRows
from apportion.shards.replicas.slot_space import SlotPart

Result = TypeVar("Result")


class SqliteNode(ReplicaNode):
    """A handle of one map on an SQLite node. `makes` lets the first fence make the file."""

    def __init__(self, path: Path, of: NodeMap, *, makes: bool = False) -> None:
        self._file, self._of, self._path = NodeFile(path, makes=makes), of, path

    async def apply(self, entries: Sequence[NodeEntry], *, number: int, copy: bool = False) -> tuple[EntryAnswer, ...]:
        def _apply(rows: MapRows) -> tuple[EntryAnswer, ...]:
            return tuple(rows.apply(entry, copy=copy) for entry in entries)

        answers = await self._file.write(self._under(number, _apply))
        return (answers,) * len(entries) if isinstance(answers, StaleNumber) else answers

    async def read(self, keys: Sequence[bytes], *, number: int) -> tuple[ReadAnswer, ...]:
        answers = await self._file.read(self._under(number, lambda rows: tuple(map(rows.state, keys))))
        return (answers,) * len(keys) if isinstance(answers, StaleNumber) else answers

    async def digest(
        self, parts: Sequence[SlotPart], *, at_most_ms: int, number: int
    ) -> tuple[PartDigest, ...] | StaleNumber:
        def _digest(rows: MapRows) -> tuple[PartDigest, ...]:
            return tuple(rows.digest(part, at_most_ms) for part in parts)

        return await self._file.read(self._under(number, _digest))

    async def list(self, part: SlotPart, *, after: bytes | None, number: int) -> tuple[NodeEntry, ...] | StaleNumber:
        return await self._file.read(self._under(number, lambda rows: rows.listed(part, after)))

    async def seal(self, slots: Sequence[int], *, at_ms: int, number: int, clean: bool = False) -> StaleNumber | None:
        def _seal(rows: MapRows) -> None:
            for slot in slots:
                rows.set_marks(slot, rows.marks(slot).raised(at_ms, clean=clean))
            rows.raise_beat()

        return await self._file.write(self._under(number, _seal))

    async def purge(self, slots: Sequence[int], *, kind: PurgeKind, number: int) -> StaleNumber | None:
        def _purge(rows: MapRows) -> StaleNumber | None:
            if kind is not PurgeKind.BEHIND_CLEAN and number != rows.number:
                return StaleNumber(rows.number)
            for slot in slots:
                rows.purge(slot, kind)
            return None

        return await self._file.write(self._under(number, _purge))

    async def fence(self, number: int, table: bytes) -> StaleNumber | None:
        def _fence(connection: sqlite3.Connection) -> StaleNumber | None:
            rows = MapRows.of(connection, self._of)
            if rows is None:
                MapRows.make(connection, self._of, number, table)
                return None
            self._require_map(rows.map_id)
            if number < rows.number:
                return StaleNumber(rows.number)
            if number == rows.number and table != rows.table:
                raise refused_table(self._file.name, number)
            rows.fence(number, table)
            return None

        return await self._file.write(_fence)

    async def identity(self) -> NodeIdentity:
        def _identity(connection: sqlite3.Connection) -> NodeIdentity:
            rows = MapRows.of(connection, self._of)
            (life,) = connection.execute("SELECT life FROM apportion_replica_file").fetchone()
            return NodeIdentity(
                life=str(life),
                is_durable=True,
                clock_ms=None,
                map_id=None if rows is None else rows.map_id,
                number=0 if rows is None else rows.number,
                beat=0 if rows is None else rows.beat,
            )

        return await self._file.read(_identity)

    async def close(self) -> None:
        """Close the file. May be called twice."""
        await self._file.close()

    def _under(
        self, number: int, work: Callable[[MapRows], Result]
    ) -> Callable[[sqlite3.Connection], Result | StaleNumber]:
        """Return work that is done unless the node was fenced with a higher number."""

        def _worked(connection: sqlite3.Connection) -> Result | StaleNumber:
            rows = MapRows.of(connection, self._of)
            if rows is None:
                raise refused_map(self._file.name, self._of.name, "a node of no such map")
            self._require_map(rows.map_id)
            return StaleNumber(rows.number) if number < rows.number else work(rows)

        return _worked

    def _require_map(self, map_id: str) -> None:
        if map_id != self._of.id:
            raise self._other_map(map_id)

    def _other_map(self, map_id: str) -> InvalidInput:
        return refused_map(self._file.name, self._of.name, f"a node of the map with the id {map_id}")
