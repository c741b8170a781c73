"""What groups of one process cost: connections to PostgreSQL, descriptors, and processor time while nothing happens."""

import asyncio
import subprocess
import sys
from os import sysconf
from pathlib import Path
from typing import Protocol, cast

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import Goal, at_most
from bench.row import Row

GROUPS, SECONDS, START_SECONDS = (1, 300), 20.0, 240.0
CONNECTIONS, STARTING, DESCRIPTORS = at_most(2, ""), at_most(3, ""), at_most(40, "")
IDLE = at_most(2.0, "% of a core")
_COUNT = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'apportion'"


class _Administered(Protocol):
    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as an administrator."""
        ...


def rows() -> list[Row]:
    """Open groups in one process, and let them be idle."""
    return engines.rows_of(_measure, "postgres", what="connections of a process")


async def _measure(rig: Rig) -> list[Row]:
    found = []
    for count in GROUPS:
        found += await _of_process(rig, count)
    return found


async def _of_process(rig: Rig, count: int) -> list[Row]:
    server = cast("_Administered", rig)
    command = [sys.executable, "-m", "bench.many_groups", str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process without pipes")
        process.stdin.write(f"{rig.url(f'bench{count}')}\n".encode())
        process.stdin.close()
        ready = asyncio.ensure_future(asyncio.to_thread(process.stdout.readline))
        most = 0
        async with asyncio.timeout(START_SECONDS):
            while not ready.done():
                most = max(most, await _connections(server))
                await asyncio.sleep(0.05)
        if ready.result() != b"ready\n":
            raise RuntimeError("the process ended before its groups were settled")
        before = _cpu_seconds(process.pid)
        await asyncio.sleep(SECONDS)
        share = 100 * (_cpu_seconds(process.pid) - before) / SECONDS
        now = await _connections(server)
        descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
    finally:
        process.kill()
        process.wait()
    what = f"process with {count} group{'s' if count > 1 else ''}, postgresql"
    return [
        _row(f"{what}: connections", now, f"{now}", CONNECTIONS),
        _row(f"{what}: connections while it starts", most, f"{most}", STARTING),
        _row(f"{what}: descriptors", descriptors, f"{descriptors}", DESCRIPTORS),
        _row(f"{what}: idle", share, f"{share:.2f} % of a core", IDLE),
    ]


def _row(name: str, value: float, shown: str, goal: Goal) -> Row:
    return Row(name=name, value=value, shown=shown, goal=str(goal), met=goal.is_met(value))


async def _connections(server: _Administered) -> int:
    [(count,)] = await asyncio.to_thread(server.sql, _COUNT)
    return int(str(count))


def _cpu_seconds(pid: int) -> float:
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / sysconf("SC_CLK_TCK")
