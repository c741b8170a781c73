"""An idle queue: the time from an enqueue to the start of its handler in another process, and the idle worker's CPU.

By hand is an insert with its NOTIFY in one statement, a LISTEN in the other process, and a claim. Tasks come one at a
time, after pauses of some length, ours and by hand in turns.
"""

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from os import sysconf
from pathlib import Path
from statistics import median
from time import monotonic_ns
from uuid import uuid4

import psycopg

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_most
from bench.queues.ours import OurQueue
from bench.queues.postgres_by_hand import ADD, PostgresByHand
from bench.row import Row

TASKS, IDLE_SECONDS, START_SECONDS = 50, 12.0, 30.0
PAUSE_SECONDS = {"postgresql": 0.2, "sqlite": 0.8}  # in SQLite, a worker looks less and less often for 0.6 seconds
RATIO, SQLITE, CPU = at_most(2.5, "x by hand"), at_most(50, "ms"), at_most(1, "% of a core")
Add = Callable[[], Awaitable[object]]


def rows() -> list[Row]:
    """Wait on each store."""
    return engines.rows_of(_measure, "plain postgres", "sqlite", what="start of a task in an idle queue")


async def _measure(rig: Rig) -> list[Row]:
    queue, handle = OurQueue(rig.url("bench"), tasks=0).opened()
    async with _waiter("ours", rig.url("bench")) as process:
        sides: dict[str, tuple[Process, Add]] = {"ours": (process, lambda: queue.enqueue(handle.call(monotonic_ns())))}
        if rig.name == "sqlite":
            late = await _latencies(sides, PAUSE_SECONDS[rig.name])
            found = [_sqlite_row(late["ours"]), await _cpu_row(process)]
        else:
            async with _by_hand(rig) as other:
                late = await _latencies(sides | {"by hand": other}, PAUSE_SECONDS[rig.name])
            found = [_ratio_row(late["ours"], late["by hand"]), await _cpu_row(process, has_goal=False)]
    await queue.close()
    return found


async def _latencies(sides: dict[str, tuple[Process, Add]], pause_seconds: float) -> dict[str, list[float]]:
    """Add tasks one at a time, in turns; return milliseconds until each started."""
    late: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(TASKS + 1):
        for name, (process, add) in sides.items():
            await asyncio.sleep(pause_seconds * random.uniform(0.5, 1.5))
            await add()
            microseconds = int(await _line(process))
            if number:
                late[name].append(microseconds / 1_000)
    return late


def _ratio_row(ours: list[float], by_hand: list[float]) -> Row:
    ratio = median(ours) / median(by_hand)
    shown = f"{ratio:.2f} x by hand: p50 {_shown(ours)}, by hand {_shown(by_hand)}"
    name = "start of a task in an idle queue, postgresql, another process"
    return Row(name=name, value=ratio, shown=shown, goal=str(RATIO), met=RATIO.is_met(ratio))


def _sqlite_row(ours: list[float]) -> Row:
    name = "start of a task in an idle queue, sqlite, another process: p50"
    return Row(name=name, value=median(ours), shown=_shown(ours), goal=str(SQLITE), met=SQLITE.is_met(median(ours)))


def _shown(late_ms: list[float]) -> str:
    return f"{median(late_ms):.2f} ms ({min(late_ms):.2f}..{max(late_ms):.2f})"


async def _cpu_row(process: Process, *, has_goal: bool = True) -> Row:
    before = _cpu_seconds(process.pid)
    await asyncio.sleep(IDLE_SECONDS)
    share = 100 * (_cpu_seconds(process.pid) - before) / IDLE_SECONDS
    store = "sqlite" if has_goal else "postgresql"
    goal, met = (str(CPU), CPU.is_met(share)) if has_goal else (None, None)
    return Row(name=f"an idle worker, {store}", value=share, shown=f"{share:.2f} % of a core", goal=goal, met=met)


@asynccontextmanager
async def _waiter(kind: str, url: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.queues.waiter", kind, url, stdout=PIPE)
    try:
        if (said := await _line(process)) != "ready":
            raise RuntimeError(f"a worker said {said!r} in place of ready")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def _by_hand(rig: Rig) -> AsyncIterator[tuple[Process, Add]]:
    dsn = rig.url("bench").partition("?")[0]
    PostgresByHand(dsn, tasks=0)
    notifying = f"WITH added AS ({ADD} RETURNING id) SELECT pg_notify('by_hand', '') FROM added"
    async with (
        _waiter("by-hand", dsn) as process,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as adding,
    ):
        yield process, lambda: adding.execute(notifying, (uuid4().hex, json.dumps([monotonic_ns()]).encode()))


async def _line(process: Process) -> str:
    if process.stdout is None:
        raise RuntimeError("a process without pipes")
    async with asyncio.timeout(START_SECONDS):
        return (await process.stdout.readline()).decode().strip()


def _cpu_seconds(pid: int) -> float:
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / sysconf("SC_CLK_TCK")
