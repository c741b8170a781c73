"""Switches of a group of slots from one shard to the other and back, under processes that write to its slots.

The processes write durable transactions of one row to all slots of the group, by pinned sessions, with a short pause
after each.
"""

import asyncio
import random
import sqlite3
import time
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from uuid import UUID, uuid5

from sqlalchemy import update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from apportion import shards, sync
from apportion.groups.leader import leader
from apportion.model.topology import Node
from apportion.runtime.clock import SystemClock
from apportion.shards import admin
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import MoveEvent, Mover, ShardSites
from apportion.shards.mover.events import MoveObserver
from apportion.shards.mover.rescue import MOVER_TTL
from apportion.shards.slots import SlotTable
from apportion.stores.catalog import connect
from apportion.sync.shards import SyncShardRouter

WRITERS, SLOTS, SWITCHES, THINK_SECONDS, WARM_SECONDS = 8, 32, 104, 0.002, 2.0


class Base(DeclarativeBase):
    """The models of the figure."""


class Place(shards.Sharded, Base):
    """A row of the application."""

    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    country: Mapped[str]
    visits: Mapped[int] = mapped_column(default=0)


def use_wal(url: str) -> None:
    """Let a file of SQLite have a write-ahead log. Other databases stay as they are."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("PRAGMA journal_mode = wal")


def keys_of(table: SlotTable, slots: int = SLOTS) -> dict[int, str]:
    """Return keys of slots on the first shard, each key by its slot. The first `SLOTS` slots are those of the group."""
    keys: dict[int, str] = {}
    for number in count():
        slot = table.slot(f"{number}")
        if table.shard(slot) == "one":
            keys.setdefault(slot, f"{number}")
        if len(keys) == slots:
            break
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """The ends of all fences of each move, and the times of the successes of each process."""

    ends: Sequence[Sequence[float]]
    done: Sequence[Sequence[float]]

    def pauses(self) -> list[float]:
        """Return the pause of each move: all gaps between two successes of any process that a fence lies in."""
        times = sorted(at for each in self.done for at in each)
        gaps = [{bisect(times, end) for end in ends} for ends in self.ends]
        return [sum(times[place] - times[place - 1] for place in each) for each in gaps]

    def gaps(self) -> list[float]:
        """Return the gaps between two successes of one process."""
        return [after - before for each in self.done for before, after in pairwise(each)]


def measured(control: str, open_sites: Callable[[], ShardSites], observer: MoveObserver = lambda _: None) -> Switches:
    """Move a group to and fro while processes write to it."""
    keys = keys_of(asyncio.run(admin.status(control, "world")).table)
    writers = started_writers(control, keys)
    ends = asyncio.run(_moved(control, open_sites(), tuple(sorted(keys)), observer))
    return Switches(ends=ends, done=[[at for _, at in writer.ended()] for writer in writers])


def started_writers(control: str, keys: dict[int, str]) -> "list[Writer]":
    """Start the processes that write to the slots of some keys; return them when all have written for a while."""
    writers = [Writer(control, keys, seed) for seed in range(WRITERS)]
    for writer in writers:
        writer.ready()
    time.sleep(WARM_SECONDS)
    return writers


async def _moved(
    control: str, sites: ShardSites, slots: tuple[int, ...], observer: MoveObserver
) -> Sequence[Sequence[float]]:
    """Return the times at which the fences of each move ended: by a retreat, and at last by the switch."""
    ends: defaultdict[str, list[float]] = defaultdict(list)

    def _heard(event: MoveEvent) -> None:
        observer(event)
        if event.step in ("retreat", "switch"):
            ends[event.group.move].append(time.monotonic())

    store, nodes = await connect(control), {shard: Node(shard) for shard in ("one", "two")}
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
    return list(ends.values())


class Writer:
    """A process that writes until it is told to end, and then tells the begin and the end of each write."""

    def __init__(self, control: str, keys: dict[int, str], seed: int) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_written, args=(control, keys, seed, theirs), daemon=True)
        self._process.start()

    def ready(self) -> None:
        """Wait until it writes."""
        self._pipe.recv()

    def ended(self) -> list[tuple[float, float]]:
        """End it; return the times."""
        self._pipe.send(None)
        times: list[tuple[float, float]] = self._pipe.recv()
        self._process.join()
        return times


def _written(control: str, keys: dict[int, str], seed: int, pipe: Connection) -> None:
    draw, times = random.Random(seed), list[tuple[float, float]]()
    with sync.open_shards(control, "world", base=Base) as router:
        own = {key: uuid5(UUID(int=seed), key) for key in keys.values()}
        for key, row in own.items():
            router.run(key, partial(_add, Place(id=row, country=key)))
        pipe.send(None)
        while not pipe.poll():
            began = time.monotonic()
            _write(router, *draw.choice(sorted(own.items())))
            times.append((began, time.monotonic()))
            time.sleep(THINK_SECONDS)
    pipe.send(times)


def _add(place: Place, session: Session) -> None:
    session.add(place)


def _write(router: SyncShardRouter, key: str, row: UUID) -> None:
    statement = update(Place).where(Place.id == row).values(visits=Place.visits + 1)
    router.run(key, lambda session: session.execute(statement))
