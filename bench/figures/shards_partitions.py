"""The drop of old months while eight processes write, on PostgreSQL and on SQLite.

The table has some months of rows, and one month after another is archived and dropped. The processes write durable
transactions of one row with the time of the present month. Each archive is read back and compared with the rows that
the table had before.

On PostgreSQL the months of the rows are the present one and those after it, and the run is given a later day.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

from sqlalchemy import DateTime, Engine, create_engine, make_url, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from apportion import shards, sync
from apportion.shards import admin
from apportion.shards.periods.period import starts_after
from apportion.shards.postgres.partitions.server import PartitionServer
from apportion.shards.records import ShardRecord
from bench import engines
from bench.figures.shards_postgres_pause import place_url
from bench.goal import Goal, at_least, at_most
from bench.row import Row
from bench.switches import THINK_SECONDS, WARM_SECONDS, WRITERS, use_wal

MONTHS, ROWS, KEPT, KEYS = 3, 20_000, 8, 40
FAILED, LONGEST, WHOLE = at_most(0, "writes"), at_most(50, "ms"), at_least(MONTHS, "archives")


class Base(DeclarativeBase):
    """The models of the figure."""


class Event(shards.Sharded, Base):
    """A row of the application."""

    __tablename__ = "event"
    __shard_key__ = "country"
    __shard_time__ = "created_at"
    __shard_period__ = "month"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), primary_key=True)
    country: Mapped[str]


def rows() -> list[Row]:
    """Drop months on both kinds of databases."""
    with TemporaryDirectory() as folder:
        found = _rows("SQLite", f"sqlite:///{folder}/one.db", -MONTHS - KEPT)
    return found + engines.rows_of(_measured, "plain postgres", what="drop of a month on PostgreSQL")


async def _measured(rig: Any) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    return await asyncio.to_thread(_rows, "PostgreSQL", place_url(rig, "one"), 0)


@dataclass(slots=True)
class _Count:
    """The archives that were equal to the rows, and the begin and the end of each drop."""

    equal: int = 0
    spans: list[tuple[float, float]] = field(default_factory=list)


def _rows(kind: str, url: str, first: int) -> list[Row]:
    """Drop the months from the `first` on, counted from the present one."""
    this = datetime.now(UTC).date().replace(day=1)
    months = [starts_after("month", this, first + number) for number in range(MONTHS + KEPT + 1)]
    with TemporaryDirectory() as place:
        control, folder = f"sqlite:///{place}/control.db", Path(place) / "archive"
        folder.mkdir()
        asyncio.run(admin.init(control, "world", {"one": url}, base=Base, slots=64))
        use_wal(url)
        if kind == "PostgreSQL":
            asyncio.run(admin.partitions(control, "world", ahead=MONTHS + KEPT + 1))
        with sync.open_shards(control, "world", base=Base) as router:
            for month in months[:MONTHS]:
                for key in range(KEYS):
                    router.run(f"{key}", partial(_add, month, f"{key}", ROWS // KEYS))
        writers = [_Writer(control, seed, months[-1]) for seed in range(WRITERS)]
        for writer in writers:
            writer.ready()
        time.sleep(WARM_SECONDS)
        found = _dropped(control, url, folder, months)
        written = [writer.ended() for writer in writers]
    failed = [each for _, failures in written for each in failures]
    during = [
        (end - begin) * 1e3
        for times, _ in written
        for begin, end in times
        if any(begin < last and first < end for first, last in found.spans)
    ]
    before = [(end - begin) * 1e3 for times, _ in written for begin, end in times if end < found.spans[0][0]]
    name = f"drop of a month with {ROWS} rows on {kind}, {WRITERS} writers"
    seconds = sum(last - first for first, last in found.spans) / MONTHS
    return [
        _row(f"{name}: failed writes", len(failed), " ".join([f"of {len(during)} writes", *sorted({*failed})]), FAILED),
        _row(f"{name}: longest write", max(during), f"ms (before the drops {max(before):.0f})", LONGEST),
        _row(f"{name}: archives read back equal", found.equal, f"archives ({seconds:.1f} s for each drop)", WHOLE),
    ]


def _row(name: str, value: float, unit: str, goal: Goal) -> Row:
    return Row(name=name, value=value, shown=f"{value:.0f} {unit}", goal=str(goal), met=goal.is_met(value))


def _add(month: date, key: str, number: int, session: Session) -> None:
    at = datetime(month.year, month.month, 1, tzinfo=UTC)
    session.add_all(Event(country=key, created_at=at + timedelta(minutes=each)) for each in range(number))


def _dropped(control: str, url: str, folder: Path, months: Sequence[date]) -> _Count:
    """Drop one month after another, and compare its archive."""
    found = _Count()
    for number in range(MONTHS):
        month, end, today = months[number], months[number + 1], months[number + KEPT]
        if not url.startswith("postgres"):
            today = datetime.now(UTC).date()
        before, place = _kept(url, month, end), folder / f"{number}"
        place.mkdir()
        begin = time.monotonic()
        with patch.object(PartitionServer, "today", _at(today)):
            done = asyncio.run(admin.partitions(control, "world", older_than=today - end, archive=place, drop=True))
        found.spans.append((begin, time.monotonic()))
        is_gone = done.is_whole and not _kept(url, month, end)
        found.equal += is_gone and before == _read_back(url, place)
        time.sleep(WARM_SECONDS / 4)
    return found


def _at(day: date) -> Callable[[PartitionServer], Any]:
    async def _today(_: PartitionServer) -> date:
        return day

    return _today


def _connect(url: str) -> Engine:
    address = make_url(ShardRecord(url=url).address())
    return create_engine(address.set(drivername=address.drivername.replace("postgresql", "postgresql+psycopg")))


def _kept(url: str, month: date, end: date) -> list[tuple[str, ...]]:
    """Return the rows of a month, sorted, each value as text."""
    engine = _connect(url)
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT id, created_at, country, slot FROM event WHERE created_at >= :month AND created_at < :end"),
            {"month": f"{month}", "end": f"{end}"},
        )
        kept = [tuple(map(str, row)) for row in found]
    engine.dispose()
    return sorted(kept)


def _read_back(url: str, folder: Path) -> list[tuple[str, ...]]:
    """Return the rows of the archives in a folder, as `_kept` does. PostgreSQL reads its archives by COPY."""
    engine, found = _connect(url), list[tuple[str, ...]]()
    for about in folder.glob("*.json"):
        names = json.loads(about.read_text())["columns"]
        if engine.dialect.name == "sqlite":
            lines = map(json.loads, about.with_suffix(".jsonl").read_text().splitlines())
            values = [dict(zip(names, line, strict=True)) for line in lines]
            found += [tuple(str(row[name]) for name in ("id", "created_at", "country", "slot")) for row in values]
            continue
        with engine.connect() as connection:
            connection.execute(text("CREATE TEMPORARY TABLE back (LIKE event)"))
            driver: Any = connection.connection.driver_connection
            with driver.cursor() as cursor, cursor.copy(f"COPY back ({', '.join(names)}) FROM STDIN") as copy:
                copy.write(about.with_suffix(".copy").read_bytes())
            rows = connection.execute(text("SELECT id, created_at, country, slot FROM back"))
            found += [tuple(map(str, row)) for row in rows]
    engine.dispose()
    return sorted(found)


class _Writer:
    """A process that writes until it is told to end, and then tells the times of its writes, and its failures."""

    def __init__(self, control: str, seed: int, month: date) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_write, args=(control, seed, month, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def ready(self) -> None:
        """Wait until it writes."""
        self._pipe.recv()

    def ended(self) -> tuple[list[tuple[float, float]], list[str]]:
        """End it; return the times and the failures."""
        self._pipe.send(None)
        found: tuple[list[tuple[float, float]], list[str]] = self._pipe.recv()
        self._process.join()
        return found


def _write(control: str, seed: int, month: date, pipe: Connection) -> None:
    draw, times, failures = random.Random(seed), list[tuple[float, float]](), list[str]()
    with sync.open_shards(control, "world", base=Base) as router:
        router.run("0", partial(_add, month, "0", 1))
        pipe.send(None)
        while not pipe.poll():
            key, begin = f"{draw.randrange(KEYS)}", time.monotonic()
            try:
                router.run(key, partial(_add, month, key, 1))
            except Exception as error:  # noqa: BLE001 - each is a failed write of the figure
                failures.append(type(error).__name__)
            times.append((begin, time.monotonic()))
            time.sleep(THINK_SECONDS)
    pipe.send((times, failures))
