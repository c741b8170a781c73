"""Fail-over of 500 processes behind a transaction pooler with 25 server connections; the processes are simulated.

Each looks at the store twenty times in a time to live (`watch=poll`). The time runs from the end of a process without a
word to the moment at which the slowest of 50 others has seen its key go.
"""

import asyncio
from importlib import import_module
from statistics import median
from time import monotonic

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.clients import Client, fleet
from bench.goal import at_most
from bench.row import Row, not_measured

PROCESSES, CONNECTIONS, TTL_SECONDS, KILLS, WITNESSES = 500, 25, 10.0, 3, 50
GOAL = at_most(TTL_SECONDS + 2, "s")
_NAME = f"fail-over of {PROCESSES} simulated processes, PgBouncer, {CONNECTIONS} server connections, watch=poll"


def rows() -> list[Row]:
    """End simulated processes one after another."""
    return engines.rows_of(_measure, "postgres", what=_NAME)


async def _measure(rig: Rig) -> list[Row]:
    try:
        pooler = import_module("tests.stores.rigs.pgbouncer").Pooler(rig, connections=CONNECTIONS)
    except FileNotFoundError as absent:
        return [not_measured(_NAME, str(absent))]
    try:
        url = f"{rig.url('bench', address=pooler.address)}&watch=poll"
        clients = await fleet(url, PROCESSES, ttl_seconds=TTL_SECONDS, at_a_time=5)
        try:
            await asyncio.sleep(TTL_SECONDS)
            took = [await _ended(clients, victim) for victim in clients[:KILLS]]
            lost = sum(client.has_lost for client in clients[KILLS:])
        finally:
            await asyncio.gather(*(client.kill() for client in clients))
    finally:
        pooler.stop()
    shown = f"max {max(took):.2f} s, p50 {median(took):.2f} s, of {KILLS}; {lost} living lost their lease"
    met = GOAL.is_met(max(took)) and not lost
    return [Row(name=_NAME, value=max(took), shown=shown, goal=str(GOAL), met=met)]


async def _ended(clients: list[Client], victim: Client) -> float:
    """End a process; return how long it took until the slowest witness knew."""
    witnesses = [client for client in clients[-WITNESSES:] if client is not victim]
    began = monotonic()
    await victim.kill()
    async with asyncio.timeout(6 * TTL_SECONDS):
        while not all(victim.name in each.gone_at for each in witnesses):
            await asyncio.sleep(0.02)
    return max(each.gone_at[victim.name] for each in witnesses) - began
