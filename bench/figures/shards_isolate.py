"""The pause of a key while it gets a slot of its own on another shard, under eight writers.

All rows of a set lie in one slot, a fifth of them in each of three keys. These keys are isolated one after another,
while eight processes write durable transactions of one row to them and to other keys of the slot. The pause of a key
is the time in which no process succeeds on it, around the switch. It is measured on SQLite and on PostgreSQL.

Each writer counts its acknowledged writes, row by row. At the end each row must be there once, with this count. A
writer also notes each write that found another count than its own: an older state of the row.
"""

import asyncio
import random
import time
from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid4, uuid5

from sqlalchemy import update
from sqlalchemy.orm import Session

from apportion import sync
from apportion.shards import admin
from apportion.shards.mover import MoveEvent
from bench import engines
from bench.figures.shards_postgres_pause import place_url
from bench.goal import Goal, at_most
from bench.row import Row
from bench.switches import THINK_SECONDS, WARM_SECONDS, WRITERS, Base, Place, use_wal

SETS, ISOLATED, OTHERS, ROWS = 4, 3, 4, 10_000
MEDIAN, LATE, NONE = at_most(40, "ms"), at_most(150, "ms"), at_most(0, "writes")


def rows() -> list[Row]:
    """Isolate keys on both kinds of databases."""
    with TemporaryDirectory() as folder:
        urls = [{shard: f"sqlite:///{folder}/{shard}{number}.db" for shard in ("one", "two")} for number in range(SETS)]
        found = _rows("SQLite", urls)
    return found + engines.rows_of(_measured, "plain postgres", what="isolation of a key on PostgreSQL")


async def _measured(rig: Any) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    urls = [{shard: place_url(rig, f"{shard}{number}") for shard in ("one", "two")} for number in range(SETS)]
    return await asyncio.to_thread(_rows, "PostgreSQL", urls)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The writes of one process: the key, the begin and the end of each, and the acknowledged number for each row."""

    writes: Sequence[tuple[str, float, float]]
    acknowledged: dict[UUID, int]
    stale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Isolations:
    """The pauses of the keys of a set, the waits of other keys during an isolation, and all wrong writes."""

    pauses: Sequence[float]
    waits: Sequence[float]
    writes: int
    lost: int
    doubled: int
    stale: int


def _rows(kind: str, urls: Sequence[dict[str, str]]) -> list[Row]:
    found = [_isolated(each) for each in urls]
    pauses = [pause * 1e3 for each in found for pause in each.pauses]
    late, waits = max(pauses), [wait * 1e3 for each in found for wait in each.waits]
    writes = sum(each.writes for each in found)
    name = f"isolation of a key with 20 % of {ROWS} rows on {kind}, {WRITERS} writers"
    wrong = [(word, sum(getattr(each, word) for each in found)) for word in ("lost", "doubled", "stale")]
    return [
        _row(f"{name}: pause of the key, p50", median(pauses), f"ms ({len(pauses)} isolations)", MEDIAN),
        _row(f"{name}: pause of the key, longest", late, "ms", LATE),
        _row(f"{name}: longest write of another key", max(waits), f"ms (median {median(waits):.0f})"),
        *(_row(f"{name}: {word}", number, f"of {writes} writes", NONE) for word, number in wrong),
    ]


def _row(name: str, value: float, unit: str, goal: Goal | None = None) -> Row:
    met = None if goal is None else goal.is_met(value)
    return Row(name=name, value=value, shown=f"{value:.0f} {unit}", goal=None if goal is None else str(goal), met=met)


def _isolated(urls: dict[str, str]) -> _Isolations:
    """Isolate the keys of a new set under writers, and count."""
    with TemporaryDirectory() as folder:
        control = f"sqlite:///{Path(folder) / 'control.db'}"
        asyncio.run(admin.init(control, "world", urls, base=Base))
        for url in urls.values():
            use_wal(url)
        keys, others = _filled(control)
        writers = [_Writer(control, [*keys, *others], seed) for seed in range(WRITERS)]
        for writer in writers:
            writer.ready()
        time.sleep(WARM_SECONDS)
        spans = [_isolation(control, key) for key in keys]
        written = [writer.ended() for writer in writers]
        rows_of_shards = asyncio.run(
            admin.query(control, "world", "select id, visits from place where visits > 0 and {owned}")
        )
    found = defaultdict[UUID, list[int]](list)
    for shard in rows_of_shards:
        for row, visits in shard.rows:
            found[UUID(f"{row}")].append(visits)
    acknowledged = {row: number for each in written for row, number in each.acknowledged.items()}
    ends = {key: sorted(end for each in written for of, _, end in each.writes if of == key) for key in keys}
    return _Isolations(
        pauses=[_pause(ends[key], span[1:-1]) for key, span in zip(keys, spans, strict=True)],
        waits=[
            end - begin
            for each in written
            for key, begin, end in each.writes
            if key in others and any(span[0] < end and begin < span[-1] for span in spans)
        ],
        writes=sum(acknowledged.values()),
        lost=sum(max(0, number - sum(found[row])) for row, number in acknowledged.items()),
        doubled=sum(max(0, sum(found[row]) - number) + len(found[row]) - 1 for row, number in acknowledged.items()),
        stale=sum(each.stale for each in written),
    )


def _pause(ends: Sequence[float], fences: Sequence[float]) -> float:
    """Return the time between two successes on a key around the ends of its fences."""
    return sum(ends[place] - ends[place - 1] for place in {bisect(ends, at) for at in fences})


def _filled(control: str) -> tuple[list[str], list[str]]:
    """Write the rows; return the keys to isolate and others, all of one slot."""
    with sync.open_shards(control, "world", base=Base) as router:
        slot = next(slot for slot, shard in router.table.owners.items() if shard == "one")
        named = (f"{number}" for number in count())
        found = list(islice((each for each in named if router.table.slot(each) == slot), ISOLATED + OTHERS))
        keys, others = found[:ISOLATED], found[ISOLATED:]
        for key in found:
            number = ROWS // 5 if key in keys else ROWS * (5 - ISOLATED) // 5 // OTHERS
            router.run(key, partial(_add, [Place(id=uuid4(), country=key) for _ in range(number)]))
    return keys, others


def _isolation(control: str, key: str) -> list[float]:
    """Isolate a key. Return the times of its begin, of the ends of its fences, and of its end."""
    times = [time.monotonic()]

    def _heard(event: MoveEvent) -> None:
        if event.step in ("retreat", "switch"):
            times.append(time.monotonic())

    asyncio.run(admin.isolate(control, "world", key, base=Base, to="two", observer=_heard))
    return [*times, time.monotonic()]


class _Writer:
    """A process that writes until it is told to end, and then tells its writes."""

    def __init__(self, control: str, keys: Sequence[str], seed: int) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_write, args=(control, keys, seed, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def ready(self) -> None:
        """Wait until it writes."""
        self._pipe.recv()

    def ended(self) -> _Written:
        """End it; return its writes."""
        self._pipe.send(None)
        found: _Written = self._pipe.recv()
        self._process.join()
        return found


def _write(control: str, keys: Sequence[str], seed: int, pipe: Connection) -> None:
    draw, writes, stale = random.Random(seed), list[tuple[str, float, float]](), 0
    own = {key: uuid5(UUID(int=seed), key) for key in keys}
    acknowledged = dict.fromkeys(own.values(), 0)
    with sync.open_shards(control, "world", base=Base) as router:
        for key, row in own.items():
            router.run(key, partial(_add, [Place(id=row, country=key)]))
        pipe.send(None)
        while not pipe.poll():
            key = draw.choice(keys)
            row, begin = own[key], time.monotonic()
            visits = router.run(key, partial(_visited, row))
            writes.append((key, begin, time.monotonic()))
            acknowledged[row] += 1
            stale += visits != acknowledged[row]
            time.sleep(THINK_SECONDS)
    pipe.send(_Written(writes=writes, acknowledged=acknowledged, stale=stale))


def _add(places: Sequence[Place], session: Session) -> None:
    session.add_all(places)


def _visited(row: UUID, session: Session) -> int:
    changed = update(Place).where(Place.id == row).values(visits=Place.visits + 1).returning(Place.visits)
    return session.execute(changed).scalar_one()
