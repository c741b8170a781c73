"""A published table whose every record is damaged in turn: bytes, kinds and numbers; what becomes of those who follow.

Two publishers and six followers have a handle on a real store each, and are tasks of one process. While the record is
damaged a newcomer starts to follow. The time runs from the next publish until all show it and have no trouble.
"""

from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module

from apportion.sim.conformance.rig import Rig
from apportion.stores import connect
from bench import engines
from bench.goal import at_most
from bench.row import Row

WRONG, CURRENT = at_most(0, "wrong"), at_most(2.0, "s")
_PATIENCE_SECONDS = 20.0


def rows() -> list[Row]:
    """Damage tables on each store."""
    return engines.rows_of(_measure, *engines.NAMES, what="damaged published tables")


async def _measure(rig: Rig) -> list[Row]:
    damaged_tables = import_module("tests.tables.damaged_tables")
    took: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        desk = damaged_tables.Desk(stack, partial(connect, rig.url("bench")))
        await desk.begin()
        async for name, seconds in desk.damage_in_turn(within_seconds=_PATIENCE_SECONDS):
            took[f"{len(took)} {name}"] = seconds
        wrong: list[str] = desk.wrong
    slowest = max(took, key=took.__getitem__)
    what = f"{len(took)} damages of a published table, 2 publishers, 6 followers, {rig.name}"
    count, longest = len(wrong), took[slowest]
    return [
        Row(
            name=f"{what}: ended, back or mixed",
            value=count,
            shown=f"{count}" + "".join(f"; {each}" for each in wrong[:3]),
            goal=str(WRONG),
            met=WRONG.is_met(count),
        ),
        Row(
            name=f"{what}: all current after the next publish",
            value=longest,
            shown=f"max {longest:.2f} s ({slowest.partition(' ')[2]})",
            goal=str(CURRENT),
            met=CURRENT.is_met(longest),
        ),
    ]
