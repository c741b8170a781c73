"""100 idle workers on PostgreSQL: the reads of leases per second of all of them, and the connections of each.

The workers are simulated: each has the connections, the session and the reaper of a process, but they share one. The
server logs each statement. A read of all leases is that of a reaper on duty. The other reapers read the three lowest
leases to see that those on duty live; these reads, of three rows by the key, have a row of their own.
"""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Protocol, cast

import apportion
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import Goal, at_most
from bench.row import Row

WORKERS, TTL_SECONDS, SETTLE_SECONDS, SECONDS, AT_A_TIME = 100, 10.0, 15.0, 20.0, 3
READS, CONNECTIONS = at_most(10, "reads/s"), at_most(2, "")
_ALL, _LOWEST, _POLL = b".lease ON true", b".lowest_leases(", b".turn("
_CONNECTIONS = """
SELECT max(count) FROM (
    SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'worker-%' GROUP BY application_name
) AS each
"""


class _Served(Protocol):
    folder: Path

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as an administrator."""
        ...


def rows() -> list[Row]:
    """Let workers be idle."""
    return engines.rows_of(_measure, "plain postgres", what=f"{WORKERS} idle workers")


async def _measure(rig: Rig) -> list[Row]:
    server = cast("_Served", rig)
    async with AsyncExitStack() as stack:
        queues = [_queue(rig, number) for number in range(WORKERS)]
        for begin in range(0, WORKERS, AT_A_TIME):
            some = [queue.worker(concurrency=1) for queue in queues[begin : begin + AT_A_TIME]]
            await asyncio.gather(*(stack.enter_async_context(worker) for worker in some))
        await asyncio.sleep(SETTLE_SECONDS)  # until each reaper has met all leases
        server.sql("ALTER SYSTEM SET log_statement = 'all'")
        server.sql("SELECT pg_reload_conf()")
        log = server.folder / "server.log"
        await asyncio.sleep(1)
        before = log.stat().st_size
        await asyncio.sleep(SECONDS)
        with log.open("rb") as lines:
            lines.seek(before)
            said = lines.read()
        [(connections,)] = server.sql(_CONNECTIONS)
    whole, lowest = said.count(_ALL) / SECONDS, said.count(_LOWEST) / SECONDS
    return [
        _row("reads of all leases", whole, f"{whole:.1f} per second in all", READS),
        _row("reads of the three lowest leases", lowest, f"{lowest:.1f} per second in all"),
        _row("polls", said.count(_POLL) / SECONDS, f"{said.count(_POLL) / SECONDS:.1f} per second in all"),
        _row("connections", int(str(connections)), f"{connections} at most of one", CONNECTIONS),
    ]


def _queue(rig: Rig, number: int) -> apportion.Queue:
    # Another name of the application makes other connections, as another process has them.
    url = f"{rig.url('bench')}&application_name=worker-{number}"
    return apportion.Queue(url, "bench", lease_ttl=timedelta(seconds=TTL_SECONDS))


def _row(what: str, value: float, shown: str, goal: Goal | None = None) -> Row:
    name = f"{WORKERS} idle workers, postgresql, lease of {TTL_SECONDS:g} s: {what}"
    met = None if goal is None else goal.is_met(value)
    return Row(name=name, value=value, shown=shown, goal=None if goal is None else str(goal), met=met)
