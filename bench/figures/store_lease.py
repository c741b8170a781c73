"""How long after a kill -9 a lease ends, and whether one of the living ever does: 12 processes, leases of 2 s."""

from statistics import median

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_most
from bench.leases import ended_after_kills
from bench.row import Row

MEMBERS, KILLS, TTL_SECONDS = 12, 6, 2.0
GOAL, NONE = at_most(TTL_SECONDS + 0.3, "s"), at_most(0, "")


def rows() -> list[Row]:
    """Kill members of a group on each store whose leases a reaper ends."""
    return engines.rows_of(_measure, "sqlite", "postgres", what="lease after kill -9")


async def _measure(rig: Rig) -> list[Row]:
    ended = await ended_after_kills(rig.url("bench"), members=MEMBERS, kills=KILLS, ttl_seconds=TTL_SECONDS)
    worst, false = max(ended.after_seconds), len(ended.false)
    shown = f"{worst:.2f} s at most, {median(ended.after_seconds):.2f} in the middle of {KILLS}"
    name = f"lease of {TTL_SECONDS:g} s after kill -9, {MEMBERS} processes, {rig.name}"
    return [
        Row(name=name, value=worst, shown=shown, goal=str(GOAL), met=GOAL.is_met(worst)),
        Row(name=f"{name}: ended falsely", value=false, shown=str(false), goal="0", met=NONE.is_met(false)),
    ]
