"""Files: the shards of the demonstration as files of SQLite in one folder."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from apportion.console.demo.shards.databases import DemoConnection

_BUSY_SECONDS = 30.0
_KEPT = frozenset({"apportion_meta", "apportion_slot", "apportion_mover", "apportion_fences", "apportion_move"})
_ACTS = ("insert", "update", "delete", "slot", "key")


class DemoFiles:
    """See `DemoDatabases`. One file becomes three."""

    shards: tuple[str, ...] = ("one", "two", "three")
    noun: str = "file"
    client: str = "sqlite3"
    prefix: str = "apportion_"
    loop_client: str = "aiosqlite"
    rest_seconds: float = 0.02
    engine_options: Mapping[str, Any] = {"connect_args": {"timeout": _BUSY_SECONDS}}
    refusal: type[Exception] = sqlite3.IntegrityError
    cut: tuple[type[Exception], ...] = ()

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self) -> None:
        """See `DemoDatabases`."""
        for shard in self.shards:
            with closing(self.connect(shard)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")

    def address(self, shard: str) -> str:
        """See `DemoDatabases`."""
        return f"sqlite:///{self._file(shard)}"

    def connect(self, shard: str) -> sqlite3.Connection:
        """See `DemoDatabases`."""
        return sqlite3.connect(self._file(shard), timeout=_BUSY_SECONDS, isolation_level=None)

    @contextmanager
    def unguarded(self, shard: str) -> Iterator[DemoConnection]:
        """See `DemoDatabases`. The triggers let a mover pass."""
        with closing(self.connect(shard)) as connection:
            connection.execute("INSERT INTO apportion_mover (token) VALUES ('planted')")
            yield connection
            connection.execute("DELETE FROM apportion_mover")

    def fill(self, shard: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """See `DemoDatabases`."""
        with closing(self.connect(shard)) as connection, connection:
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO place (id, slot, country, name, visits) VALUES (?, ?, ?, ?, ?)", rows)

    def left(self, connection: DemoConnection) -> list[str]:
        """See `DemoDatabases`."""
        own = _KEPT | {f"apportion_place_{act}" for act in _ACTS}
        names = [each for each in self.catalog(connection) if each.startswith(self.prefix) and each not in own]
        return [*names, *(f"step of {move}" for (move,) in connection.execute("SELECT move FROM apportion_move"))]

    def catalog(self, connection: DemoConnection) -> list[str]:
        """See `DemoDatabases`."""
        return [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY 1")]

    def _file(self, shard: str) -> Path:
        return self._folder / f"{shard}.db"
