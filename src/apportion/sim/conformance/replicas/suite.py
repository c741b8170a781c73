"""The suite of a node: all cases, and the function that runs one case against a rig."""

import asyncio
from contextlib import AsyncExitStack

from apportion.sim.conformance.replicas import entries, marks, numbers
from apportion.sim.conformance.replicas.case import NodeCase
from apportion.sim.conformance.replicas.rig import NodeRig
from apportion.sim.conformance.replicas.stage import FIRST, MAP, TABLE, NodeStage

CASE_SECONDS = 30.0
_FILES = (entries, marks, numbers)


def node_cases() -> tuple[NodeCase, ...]:
    """Return all cases, in the order of their files."""
    return tuple(each for file in _FILES for each in vars(file).values() if isinstance(each, NodeCase))


def check_node(case: NodeCase, rig: NodeRig) -> None:
    """Run a case on an empty node; a broken promise raises `AssertionError`."""
    asyncio.run(_checked(case, rig))


async def _checked(case: NodeCase, rig: NodeRig) -> None:
    async with AsyncExitStack() as exits, asyncio.timeout(CASE_SECONDS):
        exits.push_async_callback(rig.close)
        node = rig.open(MAP)
        exits.push_async_callback(node.close)
        await node.fence(FIRST, TABLE)
        await case.run(NodeStage(rig, exits, node))
