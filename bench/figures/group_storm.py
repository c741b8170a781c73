"""A storm: twelve kills, stops and joins in 34 s on a group of six to eight processes; how long anything has no owner.

A partition is served from the moment at which its owner says so, to that at which the owner says that it lost it, or is
killed or stopped. A process that was stopped goes on after one lease and a half.
"""

import asyncio
import random
import signal

from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_most
from bench.groups import Crew
from bench.row import Row

ACTS, STORM_SECONDS, PARTITIONS, TTL_SECONDS = 12, 34.0, 48, 2.0
LEAST, MOST = 6, 8
LONGEST, REST = at_most(5.5, "s"), at_most(6.0, "s")


def rows() -> list[Row]:
    """Let a storm rage on each store."""
    return engines.rows_of(_measure, *engines.NAMES, what="a storm of kills, stops and joins")


async def _measure(rig: Rig) -> list[Row]:
    storm = _Storm(rig.url("bench"))
    longest, rest = await storm.rage()
    label = f"{ACTS} kills, stops and joins in {STORM_SECONDS:g} s, lease of {TTL_SECONDS:g} s, {rig.name}"
    figures = ((f"{label}: longest time without an owner", longest, LONGEST), (f"{label}: all owned after", rest, REST))
    return [
        Row(name=name, value=value, shown=f"{value:.2f} s", goal=str(goal), met=goal.is_met(value))
        for name, value, goal in figures
    ]


class _Storm:
    """One group in a storm."""

    def __init__(self, url: str) -> None:
        self._crew = Crew(url=url, partitions=PARTITIONS, ttl_seconds=TTL_SECONDS)
        self._clock, self._draw = SystemClock(), random.Random(12)
        self._started = 0
        self._ends: list[tuple[float, str]] = []  # kills and stops

    async def rage(self) -> tuple[float, float]:
        """Return the longest time that a partition had no owner, and how long after the last act all had one."""
        crew, stopping = self._crew, list[asyncio.Task[None]]()
        try:
            for _ in range(7):
                self._join()
            await crew.until(crew.is_even)
            began = self._clock.elapsed()
            for number in range(ACTS):
                await asyncio.sleep(max(0.0, began + number * STORM_SECONDS / (ACTS - 1) - self._clock.elapsed()))
                self._act(stopping)
            last = self._clock.elapsed()
            await asyncio.gather(*stopping)
            await crew.until(lambda: set(crew.owners) == set(range(PARTITIONS)))
            gaps = [gap for partition in range(PARTITIONS) for gap in self._gaps(partition)]
            return max(end - start for start, end in gaps), max(0.0, max(end for _, end in gaps) - last)
        finally:
            await crew.end()

    def _act(self, stopping: "list[asyncio.Task[None]]") -> None:
        names = sorted(self._crew.processes)
        how = self._draw.choice(["join"] if len(names) <= LEAST else ["kill", "stop", *["join"] * (len(names) < MOST)])
        if how == "join":
            self._join()
            return
        name = self._draw.choice(names)
        self._ends.append((self._clock.elapsed(), name))
        if how == "kill":
            for partition in self._crew.kill(name):
                self._crew.owners.pop(partition, None)
        else:
            stopping.append(asyncio.create_task(self._stop(name)))

    def _join(self) -> None:
        self._started += 1
        self._crew.start(f"m{self._started}")

    async def _stop(self, name: str) -> None:
        process = self._crew.processes[name]
        process.send_signal(signal.SIGSTOP)
        for partition in [each for each, owner in self._crew.owners.items() if owner == name]:
            del self._crew.owners[partition]
        await asyncio.sleep(1.5 * TTL_SECONDS)
        process.send_signal(signal.SIGCONT)

    def _gaps(self, partition: int) -> list[tuple[float, float]]:
        """Return from when to when a partition had no owner, once it had one."""
        said = [each for each in self._crew.said if each.partition == partition]
        events = [(each.at, each.member, each.is_gain) for each in said]
        events += [(at, name, False) for at, name in self._ends]
        owner, lost, gaps = "", None, list[tuple[float, float]]()
        for at, name, is_gain in sorted(events):
            if is_gain:
                gaps += [] if lost is None else [(lost, at)]
                owner, lost = name, None
            elif name == owner:
                owner, lost = "", at
        return gaps
