"""The copy of a move group between two SQLite files, and the comparison of its rows afterwards.

The copy stands beside one INSERT .. SELECT from the attached source into the same table, with its triggers and indexes.
The table has a number as its key, or a random UUID. Every commit is flushed to the disk. A writer of each file tells
how long it waits for the lock while the group is copied.
"""

import asyncio
import shutil
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from uuid import UUID, uuid4

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion import shards
from apportion.model.epoch import FencingToken
from apportion.shards import admin
from apportion.shards.channel import Channel
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.sqlite.sites import SqliteSites
from bench.clock import race, speed_ratio
from bench.goal import at_least, at_most
from bench.row import Row

ROWS, SLOTS, ROUNDS, PAUSE_SECONDS = 40_000, 64, 5, 0.002
COPY, VERIFY, WAIT = at_least(0.7, "x INSERT .. SELECT"), at_least(200_000, "rows/s"), at_most(20, "ms")
TOKEN = FencingToken(resource="world.mover", holder="bench", incarnation=1, epoch=1)
_Act = Callable[[Channel], Awaitable[None]]
GROUP = MoveGroup(move="bench", source="one", target="two", slots=tuple(range(SLOTS)))


class Base(DeclarativeBase):
    """The models of the figure."""


class Numbered(shards.Sharded, Base):
    """Rows with a number as their key."""

    __tablename__ = "numbered"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]
    note: Mapped[str]


class Named(shards.Sharded, Base):
    """Rows with a random key."""

    __tablename__ = "named"
    __shard_key__ = "country"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    country: Mapped[str]
    note: Mapped[str]


def rows() -> list[Row]:
    """Measure each table by itself, in databases of its own."""
    return [row for table in ("numbered", "named") for row in _rows(table)]


def _rows(table: str) -> list[Row]:
    with TemporaryDirectory() as folder:
        files = _Files(Path(folder), table)
        times = race({"insert": files.insert, "copy": files.copy}, rounds=ROUNDS, before=files.begin)
        ratio = speed_ratio(times["insert"], times["copy"])
        files.begin()
        with files.writers() as waits:
            files.copy()
        verified = race({"verify": files.verify}, rounds=ROUNDS)["verify"]
        speed = 2 * ROWS / (sorted(verified)[ROUNDS // 2] / 1e9)
    copied = ROWS / (sorted(times["copy"])[ROUNDS // 2] / 1e9)
    shown = f"{ratio.shown('x INSERT .. SELECT', digits=2)}, {copied:,.0f} rows/s"
    found = [
        Row(name=f"copy, {table}", value=ratio.median, shown=shown, goal=str(COPY), met=COPY.is_met(ratio.median)),
        Row(
            name=f"comparison, {table}, rows of both sides",
            value=speed,
            shown=f"{speed:,.0f} rows/s",
            goal=str(VERIFY),
            met=VERIFY.is_met(speed),
        ),
    ]
    for side, each in waits.items():
        late = quantiles(each, n=20)[-1] * 1e3
        name = f"wait of a writer of the {side} for the lock, p95 while {table} is copied"
        shown = f"{late:.1f} ms ({len(each)} writes, most {max(each) * 1e3:.0f})"
        found.append(Row(name=name, value=late, shown=shown, goal=str(WAIT), met=WAIT.is_met(late)))
    return found


class _Files:
    """Two shards, and a copy of the target as it is before a move."""

    def __init__(self, folder: Path, table: str) -> None:
        self._table = table
        self._paths = {shard: folder / f"{shard}.db" for shard in ("one", "two")}
        urls = {shard: f"sqlite:///{path}" for shard, path in self._paths.items()}
        asyncio.run(admin.init(f"sqlite:///{folder}/control.db", "world", urls, base=Base))
        for shard, path in self._paths.items():
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("PRAGMA journal_mode = wal")
                connection.execute("DELETE FROM apportion_slot WHERE slot < ?", (SLOTS,))
                if shard == "one":
                    self._fill(connection)
        self._before = folder / "before.db"
        shutil.copy(self._paths["two"], self._before)

    def _fill(self, connection: sqlite3.Connection) -> None:
        owned = "INSERT INTO apportion_slot (slot, state) VALUES (?, 'owner')"
        connection.executemany(owned, [(slot,) for slot in range(SLOTS)])
        insert = f"INSERT INTO {self._table} (id, slot, country, note) VALUES (?, ?, 'FR', ?)"
        keys = (number if self._table == "numbered" else uuid4().hex for number in range(ROWS))
        connection.executemany(insert, ((key, number % SLOTS, "x" * 80) for number, key in enumerate(keys)))

    def begin(self, _turn: object = None) -> None:
        """Give the target no row again."""
        for path in self._paths["two"].parent.glob("two.db*"):
            path.unlink()
        shutil.copy(self._before, self._paths["two"])

    def insert(self) -> None:
        """Copy all rows by one statement."""
        with closing(sqlite3.connect(self._paths["two"], isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("ATTACH ? AS source", (str(self._paths["one"]),))
            connection.execute("BEGIN")
            connection.execute("INSERT INTO main.apportion_mover VALUES ('x')")
            select = f"SELECT * FROM source.{self._table} WHERE slot < {SLOTS}"
            connection.execute(f"INSERT INTO main.{self._table} {select}")
            connection.execute("DELETE FROM main.apportion_mover")
            connection.execute("COMMIT")

    def copy(self) -> None:
        """Copy all rows by chunks."""
        asyncio.run(self._with_channel(_copied))

    def verify(self) -> None:
        """Compare all rows."""
        asyncio.run(self._with_channel(_verified))

    async def _with_channel(self, act: _Act) -> None:
        sites = SqliteSites("world", self._paths)
        try:
            await (await sites.shard("two")).change(GROUP, ROW_CHANGES["prepare"], TOKEN)
            channel = await sites.channel(GROUP)
            await channel.capture(TOKEN)
            await act(channel)
        finally:
            await sites.close()

    @contextmanager
    def writers(self) -> Iterator[dict[str, list[float]]]:
        """Write to both files all the time; the value is the waits for the lock, in seconds."""
        ended = threading.Event()
        waits: dict[str, list[float]] = {"source": [], "target": []}
        paths = zip(waits, self._paths.values(), strict=True)
        threads = [threading.Thread(target=_write, args=(path, ended, waits[side])) for side, path in paths]
        for thread in threads:
            thread.start()
        try:
            yield waits
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def _write(path: Path, ended: threading.Event, waits: list[float]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        while not ended.is_set():
            begun = time.perf_counter()
            while not _locked(connection):
                time.sleep(0.0005)
            waits.append(time.perf_counter() - begun)
            connection.execute("UPDATE apportion_meta SET format = format")
            connection.execute("COMMIT")
            time.sleep(PAUSE_SECONDS)


def _locked(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True


async def _copied(channel: Channel) -> None:
    while not (await channel.state(1)).is_copied:
        await channel.copy(TOKEN)


async def _verified(channel: Channel) -> None:
    attempt = time.monotonic_ns()
    while not (await channel.state(attempt)).is_verified:
        await channel.verify(attempt, TOKEN)
