"""Shards on PostgreSQL: a durable transaction of one row, an update of many rows, and a query of a pinned session.

Each stands beside the same work on a database of the same server that has the same rows and no triggers. The fence is
one statement more, so its cost is told in round trips: the time that a `SELECT 1` at the same place adds to the same
transaction, by the same driver. Every commit is flushed. Transactions take turns one by one, and a figure is of their
medians, since the time of a flush varies by more than a fence costs.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import asyncpg
import psycopg
from sqlalchemy import URL, create_engine, make_url, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from apportion import open_shards, sync
from apportion.shards import admin
from apportion.sync.shards import SyncShardRouter
from bench import engines
from bench.clock import Turn, race, speed_ratio
from bench.figures.shards_session import KEY, MANY, QUERIES, QUERY, Base, Place
from bench.goal import at_most
from bench.row import Row

ROUNDS, COMMITS = 25, 400
TRIPS, UPDATE = at_most(2.0, "round trips"), at_most(2.0, "x bare")
SECRET = "BENCH_SHARDS_SECRET"
NUMBERS = cycle(range(MANY))
CHANGE = update(Place).values(visits=Place.visits + 1)


def rows() -> list[Row]:
    """Measure each beside a database without triggers."""
    return engines.rows_of(_measured, "plain postgres", what="shards on PostgreSQL")


async def _measured(rig: Any) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    return await asyncio.to_thread(_rows, rig)


def _rows(rig: Any) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    with TemporaryDirectory() as folder, ExitStack() as stack:
        bed = Bed(rig, Path(folder))
        router = stack.enter_context(sync.open_shards(bed.control, "world", base=Base))
        engine = create_engine(bed.url("bare", "psycopg"))
        stack.callback(engine.dispose)
        bed.fill(Session(engine), router)
        makers: dict[str, Callable[[], Session]] = {
            "bare": lambda: Session(engine),
            "pinned": lambda: router.session(KEY),
        }
        slot, version = router.slot(KEY), router.version
        fence = f"SELECT apportion.fence(ARRAY[{slot}]::smallint[], {version.incarnation}, {version.number})"
        return [
            *_of_psycopg(bed, fence),
            *_of_asyncpg(bed, fence),
            *_of_sessions(makers),
            *_of_async_sessions(bed, "psycopg"),
            *_of_async_sessions(bed, "asyncpg"),
            *_updates(rig, makers),
            *_queries(makers),
        ]


class Bed:
    """Two databases of one server: `bare` has the rows alone, `one` is a shard."""

    def __init__(self, rig: Any, folder: Path) -> None:  # noqa: ANN401 - a rig of the tests
        self._rig, self.control = rig, f"sqlite:///{folder}/control.db"
        for name in ("bare", "one"):
            rig.sql(f"CREATE DATABASE {name}", database="postgres")
        whole = self.url("one", "psycopg")
        os.environ[SECRET] = quote(str(whole.password), safe="")
        shown = f"postgresql://{whole.username}:${{{SECRET}}}@{whole.host}:{whole.port}/one"
        asyncio.run(admin.init(self.control, "world", {"one": shown}, base=Base))

    def url(self, name: str, driver: str) -> URL:
        """Return the URL of a database for SQLAlchemy."""
        given = make_url(self._rig.url("n", user="postgres", database=name))
        return given.set(drivername=f"postgresql+{driver}", query={})

    def dsn(self, name: str) -> str:
        """Return the URL of a database for a driver."""
        at = self.url(name, "psycopg")
        return f"postgresql://{at.username}:{quote(str(at.password), safe='')}@{at.host}:{at.port}/{name}"

    def fill(self, bare: Session, router: SyncShardRouter) -> None:
        """Write the same rows to both databases."""
        Base.metadata.create_all(bare.get_bind())
        for session in (bare, router.session(KEY)):
            with session:
                slot = router.slot(KEY)
                session.add_all([Place(id=number, country=KEY, slot=slot) for number in range(MANY)])
                session.commit()
        for name in ("bare", "one"):
            self._rig.sql("VACUUM ANALYZE place", database=name)


def _trips(name: str, times: dict[str, list[int]], *, goal: bool = True) -> list[Row]:
    """Return the cost of fence and triggers in round trips, and the time of the commit beside it."""
    bare, asked, fenced = (median(times[each]) for each in ("bare", "asked", "fenced"))
    trip, found = asked - bare, (fenced - bare) / (asked - bare)
    shown = f"{found:.2f} round trips of {trip / 1e3:.0f} µs, {fenced / bare:.2f} x a commit of {bare / 1e6:.2f} ms"
    title = f"durable transaction of one row, fence and triggers, {name}"
    is_met = TRIPS.is_met(found) if goal else None
    return [Row(name=title, value=found, shown=shown, goal=str(TRIPS) if goal else None, met=is_met)]


def _of_psycopg(bed: Bed, fence: str) -> list[Row]:
    with psycopg.connect(bed.dsn("bare")) as bare, psycopg.connect(bed.dsn("one")) as one:

        def changed(connection: "psycopg.Connection[Any]", first: str | None) -> Turn:
            def change() -> None:
                if first:
                    connection.execute(first)
                connection.execute("UPDATE place SET visits = visits + 1 WHERE id = %s", (next(NUMBERS),))
                connection.commit()

            return change

        turns = {"asked": changed(bare, "SELECT 1"), "bare": changed(bare, None), "fenced": changed(one, fence)}
        return _trips("psycopg alone", race(turns, rounds=COMMITS))


def _of_asyncpg(bed: Bed, fence: str) -> list[Row]:
    async def changed(connection: Any, first: str | None) -> None:  # noqa: ANN401 - no types
        async with connection.transaction():
            if first:
                await connection.fetch(first)
            await connection.fetch("UPDATE place SET visits = visits + 1 WHERE id = $1", next(NUMBERS))

    with asyncio.Runner() as runner:
        bare, one = (runner.run(asyncpg.connect(bed.dsn(name))) for name in ("bare", "one"))
        turns = {
            "asked": lambda: runner.run(changed(bare, "SELECT 1")),
            "bare": lambda: runner.run(changed(bare, None)),
            "fenced": lambda: runner.run(changed(one, fence)),
        }
        times = race(turns, rounds=COMMITS)
        for connection in (bare, one):
            runner.run(connection.close())
    return _trips("asyncpg alone", times)


def _of_sessions(makers: dict[str, Callable[[], Session]]) -> list[Row]:
    def changed(make: Callable[[], Session], *, asks: bool = False) -> Turn:
        def change() -> None:
            with make() as session:
                if asks:
                    session.connection().exec_driver_sql("SELECT 1").close()
                session.execute(CHANGE.where(Place.id == next(NUMBERS)))
                session.commit()

        return change

    bare = makers["bare"]
    turns = {"asked": changed(bare, asks=True), "bare": changed(bare), "fenced": changed(makers["pinned"])}
    return _trips("sessions with psycopg", race(turns, rounds=COMMITS), goal=False)


def _of_async_sessions(bed: Bed, driver: str) -> list[Row]:
    async def changed(make: Callable[[], AsyncSession], *, asks: bool = False) -> None:
        async with make() as session:
            if asks:
                await session.execute(text("SELECT 1"))
            await session.execute(CHANGE.where(Place.id == next(NUMBERS)))
            await session.commit()

    with asyncio.Runner() as runner:
        engine = create_async_engine(bed.url("bare", driver))
        opening = open_shards(
            bed.control,
            "world",
            base=Base,
            create_engine=lambda url: create_async_engine(url.set(drivername=f"postgresql+{driver}")),
        )
        router = runner.run(opening.__aenter__())
        turns = {
            "asked": lambda: runner.run(changed(lambda: AsyncSession(engine), asks=True)),
            "bare": lambda: runner.run(changed(lambda: AsyncSession(engine))),
            "fenced": lambda: runner.run(changed(lambda: router.session(KEY))),
        }
        times = race(turns, rounds=COMMITS)
        runner.run(engine.dispose())
        runner.run(opening.__aexit__(None, None, None))
    return _trips(f"async sessions with {driver}", times, goal=False)


def _updates(rig: Any, makers: dict[str, Callable[[], Session]]) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    def written(make: Callable[[], Session]) -> Turn:
        def write() -> None:
            with make() as session:
                session.execute(CHANGE)
                session.commit()

        return write

    def vacuumed(_: Turn) -> None:
        for name in ("bare", "one"):
            rig.sql("VACUUM place", database=name)

    times = race({name: written(make) for name, make in makers.items()}, rounds=9, before=vacuumed)
    ratio = speed_ratio(times["pinned"], times["bare"])
    name, shown = f"update of {MANY} rows, triggers", ratio.shown("x bare", digits=2)
    return [Row(name=name, value=ratio.median, shown=shown, goal=str(UPDATE), met=UPDATE.is_met(ratio.median))]


def _queries(makers: dict[str, Callable[[], Session]]) -> list[Row]:
    def asking(session: Session) -> Turn:
        def ask() -> None:
            for number in range(QUERIES):
                session.scalars(select(Place).where(Place.id == number)).one()

        return ask

    with ExitStack() as stack:
        inside = {name: asking(stack.enter_context(make())) for name, make in makers.items()}
        times = race(inside, rounds=ROUNDS)
    ratio = speed_ratio(times["pinned"], times["bare"])
    name, shown = "query in an open session, pinned", ratio.shown("x bare", digits=2)
    return [Row(name=name, value=ratio.median, shown=shown, goal=str(QUERY), met=QUERY.is_met(ratio.median))]
