"""A fleet that is started one process after another without a pause: sessions lost, size of the -wal, moves, time.

Each process is a Python interpreter of its own with some 45 MB, and imports for half a second of a core: the number of
processes is a parameter of the run (`APPORTION_BENCH_MEMBERS`), 60 unless it says less. All members are on this
machine, beside the server where there is one.
"""

import asyncio
import os
from collections import Counter
from pathlib import Path

from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.rig import Rig
from apportion.stores import CoordinationStore, connect
from bench import engines
from bench.goal import at_most
from bench.groups import Crew
from bench.row import Row

MEMBERS = int(os.environ.get("APPORTION_BENCH_MEMBERS", "60"))
PARTITIONS, TTL_SECONDS = 4_096, 10.0
DEADLINE_SECONDS, REST_SECONDS = 300.0, 10.0
LOST, WAL = at_most(0, "sessions"), at_most(4.0, "x the file")
MOVES = at_most(2 * PARTITIONS, "moves")
_SAMPLE_SECONDS = 0.05
_LARGE_BYTES = 250_000  # below, a file is too small for a ratio


def rows() -> list[Row]:
    """Start a fleet on the two stores that a process reaps."""
    return engines.rows_of(_measure, "sqlite", "postgres", what="staggered start")


async def _measure(rig: Rig) -> list[Row]:
    url, clock = rig.url("bench"), SystemClock()
    crew = Crew(url=url, partitions=PARTITIONS, ttl_seconds=TTL_SECONDS)
    store = await connect(url)
    ended, ratios, beside = list[str](), list[float](), list[asyncio.Future[None]]()
    try:
        beside = [asyncio.ensure_future(_note_ended(store, ended)), asyncio.ensure_future(_note_wal(url, ratios))]
        began = clock.elapsed()
        for number in range(MEMBERS):
            crew.start(f"m{number:02}")
        await crew.until(crew.is_even, within=DEADLINE_SECONDS)
        took = clock.elapsed() - began
        await asyncio.sleep(REST_SECONDS)  # a session that was lost by then shows
        moves, lost = _moves(crew), len(ended)
    finally:
        for each in beside:
            each.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await crew.end()
        await store.close()
    label = f"{MEMBERS} processes x {PARTITIONS} partitions, started without a pause, {rig.name}"
    found = [
        Row(name=f"{label}: lost", value=lost, shown=f"{lost} sessions", goal=str(LOST), met=LOST.is_met(lost)),
        Row(
            name=f"{label}: moves",
            value=moves,
            shown=f"{moves} moves, {moves / PARTITIONS:.1f} x the partitions",
            goal=str(MOVES),
            met=MOVES.is_met(moves),
        ),
        Row(name=f"{label}: time", value=took, shown=f"{took:.0f} s until all is owned evenly"),
    ]
    if ratios:
        most = max(ratios)
        found.append(
            Row(name=f"{label}: -wal", value=most, shown=f"{most:.1f} x the file", goal=str(WAL), met=WAL.is_met(most))
        )
    return found


async def _note_ended(store: CoordinationStore, ended: list[str]) -> None:
    """Note each member record that goes while its process lives."""
    prefix = "live/bench/member/"
    async for change in store.watch(prefix, after=(await store.scan(prefix)).revision):
        ended += [event.key for event in change.events if event.value is None]


async def _note_wal(url: str, ratios: list[float]) -> None:
    """Note how much larger than its file the -wal of SQLite is, again and again."""
    file = Path(url.partition("://")[2].partition("?")[0][1:])
    wal = file.with_name(f"{file.name}-wal")
    while wal.exists():
        size = file.stat().st_size
        if size >= _LARGE_BYTES:
            ratios.append(wal.stat().st_size / size)
        await asyncio.sleep(_SAMPLE_SECONDS)


def _moves(crew: Crew) -> int:
    """Return how often a partition went from one owner to another; the first claim of each is none."""
    gained = Counter(each.partition for each in crew.said if each.is_gain)
    return sum(gained.values()) - len(gained)
