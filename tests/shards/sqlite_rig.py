"""The rig of the suites of shards for two SQLite files."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from apportion.shards.channel import Channel
from apportion.shards.move_group import MoveGroup
from apportion.shards.shard import Shard
from apportion.shards.sqlite.channel import SqliteChannel
from apportion.shards.sqlite.file import ShardPath
from apportion.shards.sqlite.schema import TABLES, triggers
from apportion.shards.sqlite.shard import SqliteShard
from apportion.sim.conformance.shards.rig import OWNED, ShardPair

SCHEMA = (
    "CREATE TABLE place (slot SMALLINT NOT NULL, id INTEGER PRIMARY KEY NOT NULL, text TEXT COLLATE NOCASE)",
    "CREATE UNIQUE INDEX place_by_slot ON place (slot, id)",
)
_DELETE = "DELETE FROM place WHERE id = ? AND slot = ?"
_WRITE = "INSERT INTO place (id, slot, text) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET text = excluded.text"


class SqlitePair(ShardPair):
    """Two files in a folder of their own."""

    def __init__(self, mode: str) -> None:
        self._folder = TemporaryDirectory(prefix="apportion-shards-")
        self._places = {
            shard: ShardPath(set_name="world", shard=shard, path=Path(self._folder.name) / f"{shard}.db")
            for shard in OWNED
        }
        for shard, slots in OWNED.items():
            with closing(self._connected(shard)) as connection:
                connection.execute(f"PRAGMA journal_mode = {mode}")
                for statement in (*SCHEMA, *TABLES, *triggers("place")):
                    connection.execute(statement)
                meta = """INSERT INTO apportion_meta (only, format, set_id, shard, slots, hasher)
                    VALUES (1, 1, 'world', ?, 64, 'xxh3-64')"""
                connection.execute(meta, (shard,))
                owned = "INSERT INTO apportion_slot (slot, state) VALUES (?, 'owner')"
                connection.executemany(owned, [(slot,) for slot in slots])

    async def shard(self, shard_id: str) -> Shard:
        return SqliteShard(self._places[shard_id])

    async def channel(self, group: MoveGroup) -> Channel:
        return SqliteChannel(group, self._places[group.source], self._places[group.target])

    async def write(self, shard_id: str, slot: int, rows: Mapping[int, str | None]) -> bool:
        try:
            self._write(shard_id, slot, rows, ())
        except sqlite3.IntegrityError as error:
            if "stale route" not in str(error):
                raise
            return False
        return True

    async def plant(self, shard_id: str, slot: int, rows: Mapping[int, str | None]) -> None:
        self._write(shard_id, slot, rows, ("INSERT INTO apportion_mover VALUES ('x')", "DELETE FROM apportion_mover"))

    async def read(self, shard_id: str, slot: int) -> Mapping[int, str]:
        with closing(self._connected(shard_id)) as connection:
            return dict(connection.execute("SELECT id, text FROM place WHERE slot = ?", (slot,)).fetchall())

    async def close(self) -> None:
        self._folder.cleanup()

    def _write(self, shard_id: str, slot: int, rows: Mapping[int, str | None], mask: tuple[str, ...]) -> None:
        with closing(self._connected(shard_id)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in mask[:1]:
                connection.execute(statement)
            for key, text in rows.items():
                connection.execute(*((_DELETE, (key, slot)) if text is None else (_WRITE, (key, slot, text))))
            for statement in mask[1:]:
                connection.execute(statement)
            connection.execute("COMMIT")

    def _connected(self, shard_id: str) -> sqlite3.Connection:
        return sqlite3.connect(self._places[shard_id].path, isolation_level=None)


class SqliteRig:
    """Pairs of files in one journal mode."""

    def __init__(self, mode: str = "wal") -> None:
        self.name = f"sqlite, journal mode {mode}"
        self._mode = mode

    async def pair(self) -> ShardPair:
        return SqlitePair(self._mode)
