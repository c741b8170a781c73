"""Rows that an idle fleet reads from PostgreSQL, per second, as the fleet grows; its processes are simulated.

A row is one that a scan of a table or of an index of the store's schema has returned: `seq_tup_read` of
`pg_stat_user_tables` and `idx_tup_read` of `pg_stat_user_indexes`.
"""

import asyncio
from time import monotonic
from typing import Protocol, cast

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.clients import fleet
from bench.goal import Goal, at_most
from bench.row import Row

FLEETS, TTL_SECONDS, SECONDS = (20, 40, 60), 10.0, 20.0
MOST = at_most(600, "rows/s")
_ROWS = """
SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE schemaname = 'apportion')
    + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE schemaname = 'apportion')
"""


class _Administered(Protocol):
    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as an administrator."""
        ...


def rows() -> list[Row]:
    """Let fleets of three sizes be idle."""
    return engines.rows_of(_measure, "postgres", what="rows that an idle fleet reads")


async def _measure(rig: Rig) -> list[Row]:
    rates = {count: await _rate(rig, count) for count in FLEETS}
    return [_row(count, rate, rates[FLEETS[0]] * count / FLEETS[0]) for count, rate in rates.items()]


def _row(count: int, rate: float, linear: float) -> Row:
    """Hold the rate against that of the smallest fleet, and the largest against its own goal too."""
    goals: list[Goal] = [at_most(round(linear), "rows/s")] if count > FLEETS[0] else []
    goals += [MOST] if count == FLEETS[-1] else []
    name = f"rows that an idle fleet reads, lease of {TTL_SECONDS:g} s, {count} simulated processes, postgresql"
    if not goals:
        return Row(name=name, value=rate, shown=f"{rate:.0f} rows/s")
    goal = min(goals, key=lambda each: each.bound)
    return Row(name=name, value=rate, shown=f"{rate:.0f} rows/s", goal=str(goal), met=goal.is_met(rate))


async def _rate(rig: Rig, count: int) -> float:
    server = cast("_Administered", rig)
    clients = await fleet(rig.url(f"bench{count}"), count, ttl_seconds=TTL_SECONDS)
    try:
        await asyncio.sleep(TTL_SECONDS)  # counters of the server arrive late, and reapers have met every lease
        before, began = await _read(server), monotonic()
        await asyncio.sleep(SECONDS)
        read, took = await _read(server) - before, monotonic() - began
        if any(client.has_lost for client in clients):
            raise RuntimeError("an idle process lost its lease")
    finally:
        await asyncio.gather(*(client.kill() for client in clients))
    await asyncio.to_thread(server.sql, "DELETE FROM apportion.lease")
    return read / took


async def _read(server: _Administered) -> float:
    [(read,)] = await asyncio.to_thread(server.sql, _ROWS)
    return float(str(read))
