"""The pause of writers while a group of slots switches between two SQLite files.

Eight processes write durable transactions of one row to all slots of the group, by pinned sessions, with a short pause
after each. A mover brings the group from file to file, again and again. The pause of a switch is the time from the last
success of any process on the old file to the first one after it. Beside it stands the gap between two successes of one
process, which has the waits of other writers in it.
"""

import asyncio
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import count, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from uuid import UUID, uuid5

from sqlalchemy import update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from apportion import shards, sync
from apportion.groups.leader import leader
from apportion.model.topology import Node
from apportion.runtime.clock import SystemClock
from apportion.shards import admin
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import MoveEvent, Mover
from apportion.shards.mover.rescue import MOVER_TTL
from apportion.shards.slots import SlotTable
from apportion.shards.sqlite.sites import SqliteSites
from apportion.stores.catalog import connect
from apportion.sync.shards import SyncShardRouter
from bench.goal import at_most
from bench.row import Row

WRITERS, SLOTS, SWITCHES, THINK_SECONDS, WARM_SECONDS = 8, 32, 104, 0.002, 2.0
PAUSE = at_most(150, "ms")


class Base(DeclarativeBase):
    """The models of the figure."""


class Place(shards.Sharded, Base):
    """A row of the application."""

    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    country: Mapped[str]
    visits: Mapped[int] = mapped_column(default=0)


def rows() -> list[Row]:
    """Measure all switches of one group under eight writers."""
    with TemporaryDirectory() as folder:
        control = f"sqlite:///{folder}/control.db"
        paths = {shard: Path(folder) / f"{shard}.db" for shard in ("one", "two")}
        urls = {shard: f"sqlite:///{path}" for shard, path in paths.items()}
        asyncio.run(admin.init(control, "world", urls, base=Base))
        for path in paths.values():
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA journal_mode = wal")
        keys = _keys(asyncio.run(admin.status(control, "world")).table)
        with _writers(control, keys) as writers:
            time.sleep(WARM_SECONDS)
            switched = asyncio.run(_moved(control, paths, tuple(sorted(keys))))
            done = [writer.ended() for writer in writers]
    pauses = [_pause(switch, sorted(at for each in done for at in each)) for switch in switched]
    gaps = [after - before for each in done for before, after in pairwise(each)]
    late, gap = (quantiles(each, n=100)[-1] * 1e3 for each in (pauses, gaps))
    shown = f"{late:.0f} ms ({len(pauses)} switches, median {sorted(pauses)[len(pauses) // 2] * 1e3:.0f})"
    name = f"write pause of a group under {WRITERS} processes, p99"
    return [
        Row(name=name, value=late, shown=shown, goal=str(PAUSE), met=PAUSE.is_met(late)),
        Row(name="gap between two writes of one process, p99", value=gap, shown=f"{gap:.0f} ms ({len(gaps)} writes)"),
    ]


def _keys(table: SlotTable) -> dict[int, str]:
    """Return a key for each slot of the group; all of them lie on the first shard."""
    keys: dict[int, str] = {}
    for number in count():
        slot = table.slot(f"{number}")
        if table.shard(slot) == "one":
            keys.setdefault(slot, f"{number}")
        if len(keys) == SLOTS:
            break
    return keys


def _pause(switch: float, times: list[float]) -> float:
    """Return the gap between two successes that a switch lies in."""
    return next(after - before for before, after in pairwise(times) if after >= switch)


async def _moved(control: str, paths: dict[str, Path], slots: tuple[int, ...]) -> list[float]:
    """Move a group to and fro; return the time of each switch."""
    switched: list[float] = []

    def _heard(event: MoveEvent) -> None:
        if event.step == "switch":
            switched.append(time.monotonic())

    store, sites = await connect(control), SqliteSites("world", paths)
    nodes = {shard: Node(shard) for shard in paths}
    mover = Mover(store, "world", sites, nodes, clock=SystemClock(), wall=time.time, observer=_heard)
    try:
        async with leader(control, "world.mover", lease_ttl=MOVER_TTL) as election:
            token = await election.wait_until_elected()
            for number in range(SWITCHES):
                source, target = ("one", "two") if number % 2 == 0 else ("two", "one")
                await mover.begin(MoveGroup(move=f"m{number}", source=source, target=target, slots=slots))
                await mover.run(f"m{number}", token, cleans=True)
    finally:
        await sites.close()
        await store.close()
    return switched


class _Writer:
    """A process that writes until it is told to end, and then tells the time of each success."""

    def __init__(self, control: str, keys: dict[int, str], seed: int) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_written, args=(control, keys, seed, theirs), daemon=True)
        self._process.start()

    def ready(self) -> None:
        """Wait until it writes."""
        self._pipe.recv()

    def ended(self) -> list[float]:
        """End it; return the times."""
        self._pipe.send(None)
        times: list[float] = self._pipe.recv()
        self._process.join()
        return times


@contextmanager
def _writers(control: str, keys: dict[int, str]) -> Iterator[list[_Writer]]:
    writers = [_Writer(control, keys, seed) for seed in range(WRITERS)]
    for writer in writers:
        writer.ready()
    yield writers


def _written(control: str, keys: dict[int, str], seed: int, pipe: Connection) -> None:
    draw, times = random.Random(seed), list[float]()
    with sync.open_shards(control, "world", base=Base) as router:
        own = {key: uuid5(UUID(int=seed), key) for key in keys.values()}
        for key, row in own.items():
            router.run(key, partial(_add, Place(id=row, country=key)))
        pipe.send(None)
        while not pipe.poll():
            _write(router, *draw.choice(sorted(own.items())))
            times.append(time.monotonic())
            time.sleep(THINK_SECONDS)
    pipe.send(times)


def _add(place: Place, session: Session) -> None:
    session.add(place)


def _write(router: SyncShardRouter, key: str, row: UUID) -> None:
    statement = update(Place).where(Place.id == row).values(visits=Place.visits + 1)
    router.run(key, lambda session: session.execute(statement))
