"""A move group between two databases of one PostgreSQL server: its copy, its comparison, and the cost of its log.

The native copy stands beside a pipe of COPY BINARY of the same rows into the same table, with its triggers and indexes.
The comparison stands beside a count of the rows of both sides. The log of keys stands beside the same durable
transaction of one row, fence and triggers included, on a shard that logs nothing. A count and a pipe ask the server
once. So the figures tell the cost of parts, of looks at the progress, and of workers that start.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic_ns, perf_counter_ns
from typing import Any

import psycopg
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion import shards
from apportion.model.epoch import FencingToken
from apportion.shards import admin
from apportion.shards.channel import Channel
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.postgres.channel import PostgresChannel
from apportion.shards.postgres.replication.channel import NativeChannel
from apportion.shards.postgres.server import ServerPlace
from apportion.shards.postgres.shard import PostgresShard
from bench import engines
from bench.clock import race, speed_ratio
from bench.figures.shards_postgres_pause import place_url
from bench.goal import Goal, at_least, at_most
from bench.row import Row

ROWS, SLOTS, ROUNDS, COMMITS = 1_000_000, 32, 5, 400
COPY, VERIFY, LOG = at_least(0.75, "x COPY BINARY"), at_least(0.18, "x count(*)"), at_most(1.25, "x without a log")
GROUP = MoveGroup(move="m1", source="one", target="two", slots=tuple(range(SLOTS)))
TOKEN = FencingToken(resource="world.mover", holder="bench", incarnation=1, epoch=1)
OTHERS = 2_000_000_000  # the first id on the second shard
NUMBERS = cycle(range(ROWS // 10))

_OWNED = "INSERT INTO apportion.slot (slot, state) SELECT %s + n, 'owner' FROM generate_series(0, %s) n"
_FILLED = """INSERT INTO orders (id, slot, country, visits, note)
    SELECT %s + n, %s + n %% %s, 'FR', 0, repeat('x', 80) FROM generate_series(0, %s) n"""


class Base(DeclarativeBase):
    """The models of the figure."""


class Order(shards.Sharded, Base):
    """Rows of the application."""

    __tablename__ = "orders"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]
    visits: Mapped[int]
    note: Mapped[str]


def rows() -> list[Row]:
    """Measure a copy, a comparison and a log."""
    return engines.rows_of(_measured, "logical postgres", what="a move group on PostgreSQL")


async def _measured(rig: Any) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    return await asyncio.to_thread(_rows, rig)


def _rows(rig: Any) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    with TemporaryDirectory() as folder:
        servers = _Servers(rig, Path(folder))
        times: dict[str, list[int]] = {"pipe": [], "copy": []}
        for _ in range(ROUNDS):
            for name, act in (("pipe", servers.pipe), ("copy", servers.copy)):
                servers.begin()
                times[name].append(_timed(act))
        verified = race({"count": servers.count, "verify": servers.verify}, rounds=ROUNDS)
        servers.begin()
        logged = servers.log_turns()
    speed = ROWS / (sorted(times["copy"])[ROUNDS // 2] / 1e9)
    return [
        _row("copy, native", times["pipe"], times["copy"], COPY, f"x COPY BINARY, {speed:,.0f} rows/s"),
        _row("comparison, native", verified["count"], verified["verify"], VERIFY, "x count(*)"),
        _row("durable transaction of one row, beside a log of keys", logged["logged"], logged["bare"], LOG, "x bare"),
    ]


def _row(name: str, baseline: list[int], times: list[int], goal: Goal, unit: str) -> Row:
    ratio = speed_ratio(baseline, times)
    shown = ratio.shown(unit, digits=2)
    return Row(name=name, value=ratio.median, shown=shown, goal=str(goal), met=goal.is_met(ratio.median))


def _timed(act: Callable[[], None]) -> int:
    began = perf_counter_ns()
    act()
    return perf_counter_ns() - began


class _Servers:
    """Two shards. The first one has all rows of the group, and the second one has rows of other slots."""

    def __init__(self, rig: Any, folder: Path) -> None:  # noqa: ANN401 - a rig of the tests
        self._rig, control = rig, f"sqlite:///{folder}/control.db"
        urls = {shard: place_url(rig, shard) for shard in ("one", "two")}
        asyncio.run(admin.init(control, "world", urls, base=Base))
        for shard, first, least, number in (("one", 0, 0, ROWS), ("two", SLOTS, OTHERS, ROWS // 10)):
            with self._connection(shard) as connection:
                connection.execute("SET session_replication_role = replica")
                connection.execute("DELETE FROM apportion.slot WHERE slot < %s", (2 * SLOTS,))
                connection.execute(_OWNED, (first, SLOTS - 1))
                connection.execute(_FILLED, (least, first, SLOTS, number - 1))
            self._vacuum(shard)

    @contextmanager
    def _connection(self, shard: str) -> Iterator["psycopg.Connection[Any]"]:
        with psycopg.connect(self._rig.url("n", user="postgres", database=shard).partition("?")[0]) as connection:
            yield connection

    def _vacuum(self, shard: str) -> None:
        self._rig.sql("VACUUM ANALYZE orders", database=shard)

    def begin(self) -> None:
        """End the move, and let the target lose its rows."""
        asyncio.run(self._with_channel(_ended))
        with self._connection("two") as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute("DELETE FROM orders WHERE slot < %s", (SLOTS,))
            connection.execute("DELETE FROM apportion.slot WHERE slot < %s", (SLOTS,))
        self._vacuum("two")

    def pipe(self) -> None:
        """Bring all rows to the target by one COPY."""
        names = "id, slot, country, visits, note"
        read = f"COPY (SELECT {names} FROM orders WHERE slot < {SLOTS}) TO STDOUT (FORMAT BINARY)"
        with self._connection("one") as here, self._connection("two") as there:
            there.execute("SET session_replication_role = replica")
            with (
                here.cursor().copy(read) as out,
                there.cursor().copy(f"COPY orders ({names}) FROM STDIN (FORMAT BINARY)") as into,
            ):
                for part in out:
                    into.write(part)

    def copy(self) -> None:
        """Bring all rows to the target by a native channel."""
        asyncio.run(self._with_channel(_copied))

    def count(self) -> None:
        """Count the rows of the group on both sides."""
        for shard in ("one", "two"):
            with self._connection(shard) as connection:
                found = connection.execute("SELECT count(*) FROM orders WHERE slot < %s", (SLOTS,)).fetchone()
                if found != (ROWS,):
                    raise ValueError(f"{found} rows on shard {shard} in place of {ROWS}")

    def verify(self) -> None:
        """Compare all rows."""
        asyncio.run(self._with_channel(_verified))

    def log_turns(self) -> dict[str, list[int]]:
        """Return the times of transactions with and without a log."""
        asyncio.run(self._with_channel(lambda channel: channel.capture(TOKEN), PostgresChannel))
        with self._connection("one") as logged, self._connection("two") as bare:
            turns = {"bare": lambda: _changed(bare, SLOTS, OTHERS), "logged": lambda: _changed(logged, 0, 0)}
            return race(turns, rounds=COMMITS)

    async def _with_channel(self, act: Callable[[Channel], Any], kind: Callable[..., Channel] = NativeChannel) -> None:
        places = [
            ServerPlace(
                set_name="world",
                shard=each,
                address=self._rig.url("n", user="postgres", database=each).partition("?")[0],
            )
            for each in ("one", "two")
        ]
        target, channel = PostgresShard(places[1]), kind(GROUP, *places)
        try:
            if act is not _ended:
                await target.change(GROUP, ROW_CHANGES["prepare"], TOKEN)
            await act(channel)
        finally:
            await channel.close()
            await target.close()


def _changed(connection: "psycopg.Connection[Any]", first: int, least: int) -> None:
    number = next(NUMBERS)
    connection.execute(f"SELECT apportion.fence(ARRAY[{first + number % SLOTS}]::smallint[], 1, 1)")
    connection.execute("UPDATE orders SET visits = visits + 1 WHERE id = %s", (least + number,))
    connection.commit()


async def _ended(channel: Channel) -> None:
    await channel.uncapture(TOKEN)


async def _copied(channel: Channel) -> None:
    await channel.capture(TOKEN)
    while not (await channel.state(1)).is_copied:
        await channel.copy(TOKEN)


async def _verified(channel: Channel) -> None:
    attempt = monotonic_ns()
    while not (await channel.state(attempt)).is_verified:
        await channel.verify(attempt, TOKEN)
