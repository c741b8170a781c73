"""How long after a kill -9 a lease ends, and whether one of the living ever does: 12 processes, a time to live of 2 s.

Members are killed one after another, and another takes the place of each. The time runs from the kill to the moment at
which a watcher in yet another process sees the key go.
"""

import asyncio
import subprocess
import sys
from statistics import median
from time import monotonic

from apportion.sim.conformance.rig import Rig
from apportion.stores import CoordinationStore
from bench import engines
from bench.goal import at_most
from bench.row import Row

MEMBERS, KILLS, TTL_SECONDS = 12, 6, 2.0
GOAL = at_most(TTL_SECONDS + 0.3, "s")
NONE = at_most(0, "")
DEADLINE_SECONDS = 30


def rows() -> list[Row]:
    """Kill members of a group on each store whose leases a reaper ends."""
    return engines.rows_of(_measure, "sqlite", "postgres", what="lease after kill -9")


async def _measure(rig: Rig) -> list[Row]:
    url = rig.url("bench")
    watcher = await rig.connect("bench")
    members = {name: _member(url, name) for name in map(str, range(MEMBERS))}
    try:
        gone: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
        watching = asyncio.ensure_future(_watch(watcher, gone))
        await _all_there(watcher, MEMBERS)
        seconds: list[float] = []
        ended: list[str] = []
        for victim in range(KILLS):
            members[str(victim)].kill()
            killed = monotonic()
            while not ended or ended[-1] != str(victim):
                name, at = await asyncio.wait_for(gone.get(), DEADLINE_SECONDS)
                ended.append(name)
            seconds.append(at - killed)
        watching.cancel()
    finally:
        for member in members.values():
            member.kill()
            member.wait()
        await watcher.close()
    false = len(ended) - KILLS
    shown = f"{max(seconds):.2f} s at most, {median(seconds):.2f} in the middle of {KILLS}"
    return [
        Row(
            name=f"lease of {TTL_SECONDS:g} s after kill -9, {MEMBERS} processes, {rig.name}",
            value=max(seconds),
            shown=shown,
            goal=str(GOAL),
            met=GOAL.is_met(max(seconds)),
        ),
        Row(
            name=f"leases of the living that ended, {rig.name}",
            value=false,
            shown=str(false),
            goal="0",
            met=NONE.is_met(false),
        ),
    ]


def _member(url: str, name: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "bench.member", url, name, str(TTL_SECONDS)])


async def _watch(store: CoordinationStore, gone: "asyncio.Queue[tuple[str, float]]") -> None:
    async for change in store.watch("member/", after=0):
        for event in change.events:
            if event.value is None:
                gone.put_nowait((event.key.removeprefix("member/"), monotonic()))


async def _all_there(store: CoordinationStore, count: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len((await store.scan("member/")).items) < count:
            await asyncio.sleep(0.05)
    await asyncio.sleep(TTL_SECONDS)  # every reaper has met every lease, as in a group that has run for a while
