"""Pinned sessions of SQLAlchemy on SQLite: a query, a durable transaction of one row, and an update of many rows.

A pinned session and SQLAlchemy's ShardedSession stand beside a bare session on a database with the same rows and
without triggers. The query runs in an open session, and in a session of its own. Every commit is flushed to the disk.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine, create_engine, event, select, update
from sqlalchemy.ext.horizontal_shard import ShardedSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from apportion import shards, sync
from apportion.shards import admin
from apportion.sync.shards import SyncShardRouter
from bench.clock import Turn, race, speed_ratio
from bench.goal import at_most
from bench.row import Row

KEY, MANY, ROUNDS, QUERIES, COMMITS = "FR", 20_000, 101, 50, 5
SAMPLE = at_most(1, "%")
QUERY, COMMIT, UPDATE = at_most(1.15, "x bare"), at_most(1.25, "x bare"), at_most(3.5, "x bare")


class Base(DeclarativeBase):
    """The models of the figure."""


class Place(shards.Sharded, Base):
    """A row of the application."""

    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True)
    country: Mapped[str]
    visits: Mapped[int] = mapped_column(default=0)


def rows() -> list[Row]:
    """Measure each beside a bare session."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        control = f"sqlite:///{place}/control.db"
        asyncio.run(admin.init(control, "world", {"one": f"sqlite:///{place}/one.db"}, base=Base))
        engine = _durable(create_engine(f"sqlite:///{place}/bare.db"))
        stack.callback(engine.dispose)
        Base.metadata.create_all(engine)
        opening = sync.open_shards(control, "world", base=Base, create_engine=lambda url: _durable(create_engine(url)))
        router = stack.enter_context(opening)
        _fill(engine, router)
        return [*_queries(engine, router), _sample(router), *_commits(engine, router), *_updates(engine, router)]


def _durable(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def _flush(connection: object, _: object) -> None:
        connection.execute("PRAGMA synchronous = FULL")  # type: ignore[attr-defined]

    return engine


def _fill(engine: Engine, router: SyncShardRouter) -> None:
    for session, slot in ((Session(engine), router.slot(KEY)), (router.session(KEY), None)):
        with session:
            places = [Place(id=number, country=KEY, slot=slot) for number in range(MANY)]
            session.add_all(places)
            session.commit()


def _sharded(engine: Engine) -> ShardedSession:
    return ShardedSession(
        shards={"one": engine},
        shard_chooser=lambda *_, **__: "one",
        identity_chooser=lambda *_, **__: ["one"],
        execute_chooser=lambda _: ["one"],
    )


def _queries(engine: Engine, router: SyncShardRouter) -> list[Row]:
    makers: dict[str, Callable[[], Session]] = {
        "bare": lambda: Session(engine),
        "pinned": lambda: router.session(KEY),
        "read-only": lambda: router.session(KEY, read_only=True),
        "sharded": lambda: _sharded(engine),
    }
    # An open pinned session has the lock of the file, so no other one writes beside it; readers take none.
    with ExitStack() as stack:
        inside = {name: _asking(stack.enter_context(make())) for name, make in makers.items() if name != "pinned"}
        times = race(inside, rounds=ROUNDS)
    single = race({name: _asking_each(make) for name, make in makers.items()}, rounds=ROUNDS)
    return [
        _row("query in an open session, pinned", times, "read-only", goal=True),
        _row("query in an open session, ShardedSession", times, "sharded"),
        _row("session for each query, pinned", single, "pinned"),
        _row("session for each query, pinned to read", single, "read-only"),
        _row("session for each query, ShardedSession", single, "sharded"),
    ]


def _sample(router: SyncShardRouter) -> Row:
    """Return the part of a pinned query in which its session is counted and its key sampled."""

    def count() -> None:
        for _ in range(QUERIES):
            router.statistics.made((KEY,))

    times = race({"query": _asking_each(lambda: router.session(KEY, read_only=True)), "count": count}, rounds=ROUNDS)
    part = 100 * min(times["count"]) / min(times["query"])
    name = "count of a session and sample of its key, of a query in a session of its own"
    return Row(name=name, value=part, shown=f"{part:.2f} %", goal=str(SAMPLE), met=SAMPLE.is_met(part))


def _row(name: str, times: dict[str, list[int]], contender: str, *, goal: bool = False) -> Row:
    ratio = speed_ratio(times[contender], times["bare"])
    is_met = QUERY.is_met(ratio.median) if goal else None
    shown = ratio.shown("x bare", digits=2)
    return Row(name=name, value=ratio.median, shown=shown, goal=str(QUERY) if goal else None, met=is_met)


def _asking(session: Session) -> Turn:
    def ask() -> None:
        for number in range(QUERIES):
            session.scalars(select(Place).where(Place.id == number)).one()

    return ask


def _asking_each(make: Callable[[], Session]) -> Turn:
    def ask() -> None:
        for number in range(QUERIES):
            with make() as session:
                session.scalars(select(Place).where(Place.id == number)).one()

    return ask


def _commits(engine: Engine, router: SyncShardRouter) -> list[Row]:
    def written(make: Callable[[], Session]) -> Turn:
        def write() -> None:
            for number in range(COMMITS):
                with make() as session:
                    session.execute(update(Place).where(Place.id == number).values(visits=Place.visits + 1))
                    session.commit()

        return write

    times = race(
        {"bare": written(lambda: Session(engine)), "pinned": written(lambda: router.session(KEY))}, rounds=ROUNDS
    )
    ratio = speed_ratio(times["pinned"], times["bare"])
    name, shown = "durable transaction of one row, fence and triggers", ratio.shown("x bare", digits=2)
    return [Row(name=name, value=ratio.median, shown=shown, goal=str(COMMIT), met=COMMIT.is_met(ratio.median))]


def _updates(engine: Engine, router: SyncShardRouter) -> list[Row]:
    def written(make: Callable[[], Session]) -> Turn:
        def write() -> None:
            with make() as session:
                session.execute(update(Place).values(visits=Place.visits + 1))
                session.commit()

        return write

    makers = {"bare": lambda: Session(engine), "pinned": lambda: router.session(KEY)}
    times = race({name: written(make) for name, make in makers.items()}, rounds=5)
    ratio = speed_ratio(times["pinned"], times["bare"])
    name, shown = f"update of {MANY} rows, triggers", ratio.shown("x bare", digits=2)
    return [Row(name=name, value=ratio.median, shown=shown, goal=str(UPDATE), met=UPDATE.is_met(ratio.median))]
