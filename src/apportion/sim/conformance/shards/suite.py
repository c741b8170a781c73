"""The suites of a shard and a channel: all cases, and the function that runs one case against a rig."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from apportion.sim.conformance.shards import captures, chunks, comparisons, leftovers, slot_states, tokens
from apportion.sim.conformance.shards.case import ShardCase
from apportion.sim.conformance.shards.rig import ShardRig
from apportion.sim.conformance.shards.stage import MoveStage

CASE_SECONDS = 60.0
_FILES = (slot_states, tokens, leftovers, captures, chunks, comparisons)


def shard_cases() -> Sequence[ShardCase]:
    """Return all cases, in the order of their files."""
    return tuple(each for file in _FILES for each in vars(file).values() if isinstance(each, ShardCase))


def check_shards(case: ShardCase, rig: ShardRig) -> None:
    """Run a case on a new pair; a broken promise raises `AssertionError`."""
    asyncio.run(_checked(case, rig))


async def _checked(case: ShardCase, rig: ShardRig) -> None:
    async with AsyncExitStack() as exits, asyncio.timeout(CASE_SECONDS):
        pair = await rig.pair()
        exits.push_async_callback(pair.close)
        await case.run(MoveStage(pair=pair, exits=exits))
