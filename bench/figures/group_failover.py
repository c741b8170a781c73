"""Fail-over: from a kill -9 to the moment when the last of the victim's partitions has its next owner.

Apart from that, and without a goal: the same where the store's server is killed in the same moment, and started again
at once. A store may give every lease its whole length anew when it comes back.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_most
from bench.groups import Crew
from bench.row import Row

MEMBERS, PARTITIONS, KILLS, RESTARTS, TTL_SECONDS = 4, 60, 8, 3, 2.0
GOALS = {
    "sqlite": at_most(TTL_SECONDS + 0.4, "s"),
    "postgresql": at_most(TTL_SECONDS + 0.4, "s"),
    "etcd": at_most(TTL_SECONDS + 0.7, "s"),
}


def rows() -> list[Row]:
    """Kill members on each store."""
    return engines.rows_of(_measure, *engines.NAMES, what="fail-over after kill -9")


async def _measure(rig: Rig) -> list[Row]:
    goal = GOALS[rig.name]
    # A group of its own for each kill: what two owners in a row have died of waits for a minute, as it should.
    took = [each for number in range(KILLS) for each in await _kill(rig.url(f"bench-{number}"))]
    worst = max(took)  # of so few kills, the worst stands for the 99th percentile
    shown = f"{worst:.2f} s at most, {median(took):.2f} in the middle of {KILLS} kills"
    label = f"fail-over after kill -9, lease of {TTL_SECONDS:g} s, {MEMBERS} processes, {rig.name}"
    found = [Row(name=label, value=worst, shown=shown, goal=str(goal), met=goal.is_met(worst))]
    return found if rig.name == "sqlite" else [*found, await _with_restart(rig, label)]


async def _with_restart(rig: Rig, label: str) -> Row:
    async def restart() -> None:
        await rig.kill()
        await rig.start()

    took = [each for number in range(RESTARTS) for each in await _kill(rig.url(f"again-{number}"), restart)]
    shown = f"{max(took):.2f} s at most, {median(took):.2f} in the middle of {RESTARTS} kills"
    return Row(name=f"{label}, its server killed as well and started again", value=max(took), shown=shown)


async def _nothing() -> None:
    pass


async def _kill(url: str, and_then: Callable[[], Awaitable[None]] = _nothing) -> list[float]:
    """Kill one member of a new group; return after how long each of its partitions was served again."""
    clock, crew = SystemClock(), Crew(url=url, partitions=PARTITIONS, ttl_seconds=TTL_SECONDS)
    try:
        for number in range(MEMBERS):
            crew.start(f"m{number}")
        await crew.until(crew.is_even)
        killed, had = clock.elapsed(), crew.kill("m0")
        await and_then()
        await crew.until(partial(_have_moved, crew, had, "m0"))
        gained = [each for each in crew.said if each.is_gain and each.partition in had and each.at >= killed]
        return [each.at - killed for each in gained]
    finally:
        await crew.end()


def _have_moved(crew: Crew, had: set[int], victim: str) -> bool:
    return all(crew.owners.get(partition, victim) != victim for partition in had)
