"""Drains of a queue by one worker process, with tasks of 10 000 keys and without keys, in turns.

A round of keys includes the worker's membership in the group of the queue: it joins, gets all lanes, and leaves.
"""

import asyncio

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_least
from bench.queues.contest import compared, drained
from bench.queues.ours import OurQueue
from bench.row import Row

ROUNDS, TASKS, KEYS = 5, 20_000, 10_000
GOAL = at_least(0.7, "x unkeyed")


def rows() -> list[Row]:
    """Drain on each store."""
    return engines.rows_of(_measure, "plain postgres", "sqlite", what="worker of keys")


async def _measure(rig: Rig) -> list[Row]:
    return await asyncio.to_thread(_raced, rig)


def _raced(rig: Rig) -> list[Row]:
    keyed = OurQueue(rig.url("keyed"), tasks=TASKS, name="keyed", keys=KEYS)
    plain = OurQueue(rig.url("plain"), tasks=TASKS, name="unkeyed")
    times = drained([keyed, plain], rounds=ROUNDS)
    what = f"a worker drains {KEYS} keys, {rig.name}, against no keys"
    return [compared(what, times["keyed"], "unkeyed", times["unkeyed"], GOAL)]
