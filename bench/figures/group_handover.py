"""Planned hand-over: how long a partition has no owner; one at a time, and two hundred at once. Eager beside it.

A gap is one commit and its way to the other member. So commits of one caller whom nothing disturbs are measured too:
one after another, and each after a rest, as it is with hand-overs: a disk and a processor that rested take longer.
A goal in commits is judged by both; the first no hand-over can meet where one commit after a rest takes longer already,
which `handover_by_hand` shows.
With `TMPDIR=/dev/shm` the engines are in memory: gaps without the disk.
"""

import asyncio
from time import perf_counter

from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.figures.store_commit import one_caller
from bench.goal import Goal, at_most
from bench.groups import Crew, quantile
from bench.row import Row

ONE_BY_ONE, AT_ONCE = 100, 200
MIDDLE, TAIL, WORST = at_most(5, "ms"), at_most(50, "ms"), at_most(150, "ms")
COMMITS, REST_SECONDS, OVER_COMMIT = 200, 0.01, at_most(2, "x such a commit")


def rows() -> list[Row]:
    """Let a second member join a first one, which gives up half of its partitions."""
    return engines.rows_of(_measure, *engines.NAMES, what="planned hand-over")


async def _measure(rig: Rig) -> list[Row]:
    running, resting = await _commits(rig, "running", 0), await _commits(rig, "resting", REST_SECONDS)
    single, _ = await _joined(rig, "one", 2 * ONE_BY_ONE, throttle=1)
    many, _ = await _joined(rig, "many", 2 * AT_ONCE)
    eager, stopped = await _joined(rig, "eager", 2 * AT_ONCE, mode="eager")
    middle, tail, worst = quantile(single, 0.5), quantile(single, 0.99), many[-1]
    name = f"planned hand-over, {rig.name}"
    is_by_commit = rig.name == "postgresql"  # there the goal is twice its commit
    bound = OVER_COMMIT if is_by_commit else None
    over = middle / quantile(resting, 0.5), middle / quantile(running, 0.5)
    return [
        _commit_row(f"{name}: a commit alone, one after another, p50", running),
        _commit_row(f"{name}: a commit alone, after a rest of {1000 * REST_SECONDS:g} ms, p50", resting),
        _row(f"{name}: gap, one at a time, p50", middle, None if is_by_commit else MIDDLE),
        _row(f"{name}: the same over a commit after a rest", over[0], bound, unit="x"),
        _row(f"{name}: the same over one of many commits", over[1], bound, unit="x"),
        _row(f"{name}: gap, one at a time, p99", tail, None if is_by_commit else TAIL),
        _row(f"{name}: gap, {AT_ONCE} at once, longest", worst, WORST),
        _row(f"{name}: eager, {stopped} partitions stopped for {AT_ONCE} that move, longest gap", eager[-1], None),
    ]


async def _commits(rig: Rig, namespace: str, rest_seconds: float) -> list[float]:
    """Return the times of one caller's commits, in sorted milliseconds."""
    store = await rig.connect(namespace)
    times: list[float] = []
    try:
        commit = await one_caller(store)
        for _ in range(COMMITS):
            await asyncio.sleep(rest_seconds)
            began = perf_counter()
            await commit()
            times.append(1000 * (perf_counter() - began))
    finally:
        await store.close()
    return sorted(times)


def _commit_row(name: str, times: list[float]) -> Row:
    middle = quantile(times, 0.5)
    return Row(name=name, value=middle, shown=f"{middle:.1f} ms, p99 {quantile(times, 0.99):.1f} ms")


async def _joined(
    rig: Rig, namespace: str, partitions: int, *, throttle: int = 0, mode: str = "cooperative"
) -> tuple[list[float], int]:
    """Return the gaps in milliseconds, sorted, and how many partitions were interrupted."""
    crew = Crew(url=rig.url(namespace), partitions=partitions, throttle=throttle, mode=mode)
    try:
        crew.start("a")
        await crew.until(crew.is_even)
        crew.start("b")
        began = SystemClock().elapsed()
        await crew.until(crew.is_even)
        lost = {each.partition for each in crew.said if not each.is_gain and each.at >= began}
        return [1000 * gap for gap in crew.gaps(began)], len(lost)
    finally:
        await crew.end()


def _row(name: str, value: float, goal: Goal | None, unit: str = "ms") -> Row:
    shown = f"{value:.1f} {unit}"
    if goal is None:
        return Row(name=name, value=value, shown=shown)
    return Row(name=name, value=value, shown=shown, goal=str(goal), met=goal.is_met(value))
