"""How late a watcher sees a commit: while commits come every 20 ms, and when nothing has happened for a second.

Writer and watcher are two handles of one process, so that one clock measures both: from the moment the writer has its
answer to the moment the watcher has the change. Also the processor time of a member that renews and watches idly.
"""

import asyncio
from itertools import pairwise
from statistics import median
from time import perf_counter, process_time

from apportion.sim.conformance.rig import Rig
from apportion.stores import Absent, Committed, CoordinationStore, Put
from bench import engines
from bench.goal import Goal, at_most
from bench.row import Row

PENDING, IDLE = 150, 12
PAUSE_SECONDS = {"pending": 0.02, "idle": 1.3}
GOALS: dict[tuple[str, str], Goal] = {
    ("sqlite", "pending"): at_most(3, "ms"),
    ("sqlite", "idle"): at_most(50, "ms"),
    ("postgresql", "pending"): at_most(3, "ms"),
    ("etcd", "pending"): at_most(5, "ms"),
}
CPU_GOALS = {"sqlite": at_most(1, "% of a core")}
CPU_SECONDS, TTL_SECONDS = 6.0, 6.0


def rows() -> list[Row]:
    """Measure each store."""
    return engines.rows_of(_measure, *engines.NAMES, what="watch")


async def _measure(rig: Rig) -> list[Row]:
    writer, watcher = await rig.connect("bench"), await rig.connect("bench")
    try:
        seen: dict[int, float] = {}
        watching = asyncio.ensure_future(_watch(watcher, seen))
        pending = await _latencies(writer, seen, "pending", PENDING)
        idle = await _latencies(writer, seen, "idle", IDLE)
        watching.cancel()
    finally:
        await writer.close()
        await watcher.close()
    return [_row(rig.name, "pending", pending), _row(rig.name, "idle", idle), await _idle_cpu(rig)]


async def _watch(store: CoordinationStore, seen: dict[int, float]) -> None:
    async for change in store.watch("", after=0):
        seen[change.revision] = perf_counter()


async def _latencies(store: CoordinationStore, seen: dict[int, float], kind: str, count: int) -> list[float]:
    late_ms = []
    for number in range(count):
        await asyncio.sleep(PAUSE_SECONDS[kind])
        key = f"{kind}/{number}"
        outcome = await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"x" * 100)])
        answered = perf_counter()
        if not isinstance(outcome, Committed):
            raise TypeError(f"a commit that nothing disturbs was {outcome}")
        async with asyncio.timeout(10):
            while outcome.revision not in seen:
                await asyncio.sleep(0.0005)
        late_ms.append(max(0.0, seen[outcome.revision] - answered) * 1_000)
    if any(later < sooner for sooner, later in pairwise(seen.values())):
        raise RuntimeError("changes were seen out of order")
    return late_ms


def _row(store: str, kind: str, late_ms: list[float]) -> Row:
    goal, value = GOALS.get((store, kind)), median(late_ms)
    return Row(
        name=f"watch, {kind}, {store}: seen after the commit's answer",
        value=value,
        shown=f"{value:.2f} ms in the middle of {len(late_ms)} ({min(late_ms):.2f}..{max(late_ms):.2f})",
        goal=None if goal is None else str(goal),
        met=None if goal is None else goal.is_met(value),
    )


async def _idle_cpu(rig: Rig) -> Row:
    store = await rig.connect("bench")
    lease = await store.grant(ttl_seconds=TTL_SECONDS)
    watching = asyncio.ensure_future(_watch(store, {}))
    await asyncio.sleep(2)
    began, used = perf_counter(), process_time()
    while perf_counter() - began < CPU_SECONDS:
        await asyncio.sleep(TTL_SECONDS / 3)
        await store.renew([lease.id])
    share = (process_time() - used) / (perf_counter() - began) * 100
    watching.cancel()
    await store.close()
    goal = CPU_GOALS.get(rig.name)
    return Row(
        name=f"a member of an idle store, {rig.name}",
        value=share,
        shown=f"{share:.2f} % of a core",
        goal=None if goal is None else str(goal),
        met=None if goal is None else goal.is_met(share),
    )
