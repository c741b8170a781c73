"""Statements over all shards: sixteen slow shards, the filter of owned slots, and the merge of sorted rows.

Each of the sixteen shards of SQLite takes 20 ms longer for each statement over the table. `ShardedSession` of
SQLAlchemy stands beside the scatter with the same order and limit. A cursor counts the rows that are fetched.

The filter stands in statements while a shard has rows of slots that it does not own. Two sets have the same rows. In
one of them a move has left rows behind.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Engine, create_engine, event, func, select
from sqlalchemy.ext.horizontal_shard import ShardedSession
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion import shards, sync
from apportion.shards import admin
from apportion.shards.scatter.analysis import analysed
from apportion.shards.scatter.colocation import SetTables
from apportion.shards.scatter.merge import merged
from apportion.sync.shards import SyncShardRouter
from bench.clock import race, speed_ratio
from bench.goal import at_most
from bench.row import Row

MANY, DELAY_SECONDS, LIMIT, PLACES, ROUNDS = 16, 0.02, 100, 8_000, 15
MERGED, MOVED_SLOTS = 1_000, 64
SLOWEST, FILTER, MERGE = at_most(1.3, "x the slowest shard"), at_most(1.15, "x without"), at_most(1.5, "ms")


class Base(DeclarativeBase):
    """The models of the figure."""


class Place(shards.Sharded, Base):
    """A row of the application."""

    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]
    visits: Mapped[int | None]


TOP = select(Place.id, Place.visits).order_by(Place.visits.desc().nulls_last(), Place.id).limit(LIMIT)
GROUPED = select(Place.visits, func.count()).group_by(Place.visits)


def rows() -> list[Row]:
    """Measure the parts of a scatter."""
    return [*_slow_shards(), *_filter(), _merge()]


class _CountingCursor(sqlite3.Cursor):
    """A cursor that counts the rows of places."""

    fetched = 0

    def execute(self, statement: str, *values: Any) -> Any:  # noqa: ANN401 - of sqlite3
        self._counts = "FROM place" in statement
        return super().execute(statement, *values)

    def fetchall(self) -> list[Any]:
        found = super().fetchall()
        _CountingCursor.fetched += len(found) if self._counts else 0
        return found


class _CountingConnection(sqlite3.Connection):
    def cursor(self, *_: object) -> Any:  # noqa: ANN401 - a cursor of sqlite3
        return super().cursor(_CountingCursor)


def _slow(url: Any) -> Engine:  # noqa: ANN401 - a URL of SQLAlchemy
    engine = create_engine(url, connect_args={"factory": _CountingConnection, "check_same_thread": False})

    @event.listens_for(engine, "before_cursor_execute")
    def _wait(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "FROM place" in statement:
            time.sleep(DELAY_SECONDS)

    return engine


def _opened(
    stack: ExitStack, folder: Path, names: list[str], create: Callable[[Any], Engine] = create_engine
) -> SyncShardRouter:
    folder.mkdir()
    control = f"sqlite:///{folder}/control.db"
    asyncio.run(admin.init(control, "world", {name: f"sqlite:///{folder}/{name}.db" for name in names}, base=Base))
    router = stack.enter_context(sync.open_shards(control, "world", base=Base, create_engine=create))
    draw, by_country = Random(7), dict[str, list[Place]]()
    for number in range(PLACES):
        country = f"C{draw.randrange(400)}"
        visits = draw.choice([None, *range(50)])
        by_country.setdefault(country, []).append(Place(id=number, country=country, visits=visits))
    for country, places in by_country.items():
        router.run(country, lambda session, places=places: session.add_all(places))  # type: ignore[misc]
    return router


def _slow_shards() -> list[Row]:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        names = [f"s{number:02}" for number in range(MANY)]
        place = Path(folder) / "many"
        router = _opened(stack, place, names, _slow)
        ratios, counts = list[float](), list[int]()
        for _ in range(ROUNDS + 1):
            _CountingCursor.fetched = 0
            began = time.perf_counter()
            answer = router.scatter(TOP)
            ratios.append((time.perf_counter() - began) / max(answer.seconds.values()))
            counts.append(_CountingCursor.fetched)
        engines = {name: _slow(f"sqlite:///{place}/{name}.db") for name in names}
        sharded = _seconds_of_sharded(engines)
        took = max(answer.seconds.values()) * median(ratios[1:])
        for engine in engines.values():
            engine.dispose()
    value, most = median(ratios[1:]), MANY * LIMIT
    shown = f"{value:.2f} x the slowest shard ({min(ratios[1:]):.2f}..{max(ratios[1:]):.2f}), {took * 1e3:.0f} ms"
    name = f"limit {LIMIT} over {MANY} shards that take {DELAY_SECONDS * 1e3:.0f} ms more"
    fetched = max(counts)
    return [
        Row(name=name, value=value, shown=shown, goal=str(SLOWEST), met=SLOWEST.is_met(value)),
        Row(name=f"{name}: ShardedSession", value=sharded, shown=f"{sharded * 1e3:.0f} ms", goal=None, met=None),
        Row(
            name=f"{name}: rows fetched",
            value=fetched,
            shown=f"{fetched} rows",
            goal=f"<= {most} rows",
            met=fetched <= most,
        ),
    ]


def _seconds_of_sharded(engines: dict[str, Engine]) -> float:
    times, chosen = list[float](), list(engines)
    for _ in range(5):
        session = ShardedSession(
            shards=engines,
            shard_chooser=lambda *_, **__: chosen[0],
            identity_chooser=lambda *_, **__: chosen,
            execute_chooser=lambda _: chosen,
        )
        with session:
            began = time.perf_counter()
            session.execute(select(Place).order_by(Place.visits.desc().nulls_last(), Place.id).limit(LIMIT)).all()
            times.append(time.perf_counter() - began)
    return median(times)


def _filter() -> list[Row]:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        written = list[str]()

        def _noting(url: Any) -> Engine:  # noqa: ANN401 - a URL of SQLAlchemy
            engine = create_engine(url)
            event.listen(engine, "before_cursor_execute", lambda *given: written.append(given[2]))
            return engine

        still = _opened(stack, Path(folder) / "still", ["one", "two"], _noting)
        still.scatter(GROUPED).all()
        without = sum("FROM place" in each and "GROUP BY" in each and "slot" not in each for each in written)
        moved = _opened(stack, Path(folder) / "moved", ["one", "two"])
        control = f"sqlite:///{folder}/moved/control.db"
        table = asyncio.run(admin.status(control, "world")).table
        owned = [slot for slot, shard in table.owners.items() if shard == "one"][:MOVED_SLOTS]
        plan = asyncio.run(admin.plan(control, "world", slots=owned, to="two"))
        asyncio.run(admin.apply(control, "world", plan))
        turns = {"still": lambda: still.scatter(GROUPED).all(), "moved": lambda: moved.scatter(GROUPED).all()}
        times = race(turns, rounds=4 * ROUNDS)
    ratio = speed_ratio(times["moved"], times["still"])
    shown = ratio.shown("x without", digits=2)
    return [
        Row(
            name="statements without a filter while no slot moves",
            value=without,
            shown=f"{without} of 2 shards",
            goal="= 2 of 2",
            met=without == 2,
        ),
        Row(
            name="groups of all shards while rows of other slots exist",
            value=ratio.median,
            shown=shown,
            goal=str(FILTER),
            met=FILTER.is_met(ratio.median),
        ),
    ]


def _merge() -> Row:
    draw = Random(5)
    plan = analysed(TOP.limit(MERGED), SetTables.of(Base), "sqlite")

    def _place(row: tuple[int, int | None]) -> tuple[bool, int, int]:
        return row[1] is None, -(row[1] or 0), row[0]

    parts = [
        sorted(((draw.randrange(10**9), draw.choice([None, *range(50)])) for _ in range(MERGED)), key=_place)
        for _ in range(MANY)
    ]
    times = list[float]()
    for _ in range(200):
        began = time.perf_counter()
        found = list(merged(plan, parts))
        times.append((time.perf_counter() - began) * 1e3)
    if found != sorted((row for part in parts for row in part), key=_place)[:MERGED]:
        raise AssertionError("the merge has another order than sorted()")
    value = median(times)
    shown = f"{value:.2f} ms ({min(times):.2f}..{max(times):.2f})"
    name = f"merge of {MANY} shards, limit {MERGED}, with NULLs"
    return Row(name=name, value=value, shown=shown, goal=str(MERGE), met=MERGE.is_met(value))
