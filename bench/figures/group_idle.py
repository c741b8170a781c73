"""What a member costs while nothing happens: processor time over wall time, on SQLite."""

import asyncio
from os import sysconf
from pathlib import Path

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_most
from bench.groups import Crew
from bench.row import Row

MEMBERS, SECONDS = 4, 20.0
GOAL = at_most(1.0, "% of a core")


def rows() -> list[Row]:
    """Let four members be idle."""
    return engines.rows_of(_measure, "sqlite", what="idle member")


async def _measure(rig: Rig) -> list[Row]:
    crew = Crew(url=rig.url("bench"), partitions=256, ttl_seconds=10.0)
    try:
        for number in range(MEMBERS):
            crew.start(f"m{number}")
        await crew.until(crew.is_even)
        await asyncio.sleep(2.0)
        before = sum(_cpu_seconds(process.pid) for process in crew.processes.values())
        await asyncio.sleep(SECONDS)
        spent = sum(_cpu_seconds(process.pid) for process in crew.processes.values()) - before
    finally:
        await crew.end()
    share = 100 * spent / SECONDS / MEMBERS
    name = f"idle member of a group, lease of 10 s, {MEMBERS} processes, {rig.name}"
    return [Row(name=name, value=share, shown=f"{share:.2f} % of a core", goal=str(GOAL), met=GOAL.is_met(share))]


def _cpu_seconds(pid: int) -> float:
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / sysconf("SC_CLK_TCK")
