"""Writes to other slots while a group of slots moves between two databases of one PostgreSQL server.

Eight processes write durable transactions of one row to slots that stay. The group moves by a log of keys, and its rows
are copied at a limited rate. The figure is the median time of a write within a second of a fence, beside the median in
the ten seconds before that. It is the median over all moves.
"""

import asyncio
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from apportion.shards import admin
from apportion.shards.mover import MoveEvent
from bench import engines, switches
from bench.figures.shards_postgres_pause import place_url
from bench.goal import at_most
from bench.row import Row

MOVES, ROWS, BYTES_PER_SECOND = 8, 100_000, 500_000
NEAR_SECONDS, BEFORE_SECONDS = 1.0, 10.0
OTHERS = at_most(1.1, "x before")

_FILLED = """INSERT INTO place (id, country, visits, slot)
    SELECT gen_random_uuid(), 'FR', 0, (%s::smallint[])[1 + n %% %s] FROM generate_series(1, %s) n"""


def rows() -> list[Row]:
    """Measure the writes beside some moves."""
    return engines.rows_of(_measured, "plain postgres", what="other slots during a move")


async def _measured(rig: Any) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    return await asyncio.to_thread(_rows, rig)


def _rows(rig: Any) -> list[Row]:  # noqa: ANN401 - a rig of the tests
    with TemporaryDirectory() as folder:
        control = f"sqlite:///{Path(folder) / 'control.db'}"
        urls = {each: place_url(rig, each) for each in ("one", "two")}
        asyncio.run(admin.init(control, "world", urls, base=switches.Base))
        keys = switches.keys_of(asyncio.run(admin.status(control, "world")).table, 2 * switches.SLOTS)
        group, others = sorted(keys)[: switches.SLOTS], sorted(keys)[switches.SLOTS :]
        _fill(rig, group)
        writers = switches.started_writers(control, {slot: keys[slot] for slot in others})
        fences = asyncio.run(_moved(control, group))
        writes = [write for writer in writers for write in writer.ended()]
    near = [_median(writes, at - NEAR_SECONDS, at + NEAR_SECONDS) for at in fences]
    before = [_median(writes, at - NEAR_SECONDS - BEFORE_SECONDS, at - NEAR_SECONDS) for at in fences]
    ratios = [one / other for one, other in zip(near, before, strict=True)]
    value = median(ratios)
    times = f"{median(near) * 1e3:.1f} beside {median(before) * 1e3:.1f} ms"
    shown = f"{value:.2f} x before ({min(ratios):.2f}..{max(ratios):.2f}), {times}, {len(fences)} fences"
    name = "writes to other slots within a second of a fence"
    return [Row(name=name, value=value, shown=shown, goal=str(OTHERS), met=OTHERS.is_met(value))]


def _median(writes: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    return median(done - began for began, done in writes if begin <= began <= end)


def _fill(rig: Any, slots: list[int]) -> None:  # noqa: ANN401 - a rig of the tests
    address = rig.url("n", user="postgres", database="one").partition("?")[0]
    with psycopg.connect(address) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(_FILLED, (slots, len(slots), ROWS))


async def _moved(control: str, slots: list[int]) -> list[float]:
    """Move the group to and fro; return the times at which its fences stood."""
    fences = list[float]()

    def _heard(event: MoveEvent) -> None:
        if event.step in ("retreat", "switch"):
            fences.append(time.monotonic())

    for number in range(MOVES):
        target = "one" if number % 2 else "two"
        plan = await admin.plan(control, "world", slots=slots, to=target)
        await admin.apply(control, "world", plan, bytes_per_second=BYTES_PER_SECOND, observer=_heard)
        await asyncio.sleep(NEAR_SECONDS)
        await admin.clean(control, "world", soak=timedelta(0))
    return fences
