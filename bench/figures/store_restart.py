"""A watch through kill -9 and restart of its server: how soon it goes on, and whether it lost or repeated anything."""

import asyncio
from collections import Counter
from time import monotonic

from apportion.errors import StoreUnavailable
from apportion.sim.conformance.rig import Rig
from apportion.stores import Absent, Committed, CoordinationStore, Put, Refused
from bench import engines
from bench.goal import at_most
from bench.row import Row

BEFORE, AFTER, ROUNDS = 20, 20, 3
GOAL, NONE = at_most(2, "s"), at_most(0, "")
DEADLINE_SECONDS = 60


def rows() -> list[Row]:
    """Kill and restart the servers of the stores that have one."""
    return engines.rows_of(_measure, "postgres", "etcd", what="watch after restart")


async def _measure(rig: Rig) -> list[Row]:
    writer, watcher = await rig.connect("bench"), await rig.connect("bench")
    seen: list[tuple[str, float]] = []
    watching = asyncio.ensure_future(_watch(watcher, seen))
    written: list[str] = []
    resumed = []
    try:
        for number in range(ROUNDS):
            written += await _write(writer, f"{number}/before", BEFORE)
            await rig.kill()
            await rig.start()
            returned = monotonic()
            names = await _write(writer, f"{number}/after", AFTER)
            written += names
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not {names[-1]} & {name for name, _ in seen}:
                    await asyncio.sleep(0.01)
            resumed.append(min(at for name, at in seen if name in names) - returned)
    finally:
        watching.cancel()
        await writer.close()
        await watcher.close()
    counts = Counter(name for name, _ in seen)
    lost, repeated = len(set(written) - set(counts)), sum(count - 1 for count in counts.values())
    worst = max(resumed)
    shown = f"{worst:.2f} s at most of {ROUNDS}"
    name = f"watch after kill -9 and restart, {rig.name}"
    return [
        Row(name=name, value=worst, shown=shown, goal=str(GOAL), met=GOAL.is_met(worst)),
        _count(f"{name}: changes lost", lost, len(written)),
        _count(f"{name}: changes seen twice", repeated, len(written)),
    ]


def _count(name: str, count: int, of: int) -> Row:
    return Row(name=name, value=count, shown=f"{count} of {of}", goal="0", met=NONE.is_met(count))


async def _watch(store: CoordinationStore, seen: list[tuple[str, float]]) -> None:
    async for change in store.watch("", after=0):
        seen.extend((event.key, monotonic()) for event in change.events)


async def _write(store: CoordinationStore, name: str, count: int) -> list[str]:
    """Commit keys until each has been acknowledged, or was refused because an earlier try had happened."""
    keys = [f"{name}/{number}" for number in range(count)]
    async with asyncio.timeout(DEADLINE_SECONDS):
        for key in keys:
            while not isinstance(await _try(store, key), (Committed, Refused)):
                await asyncio.sleep(0.02)
    return keys


async def _try(store: CoordinationStore, key: str) -> object:
    try:
        return await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"x")])
    except StoreUnavailable as away:
        return away
