"""Fail-over: from a kill -9 to the moment when the last of the victim's partitions has its next owner."""

from functools import partial
from statistics import median

from apportion.sim.conformance.rig import Rig
from apportion.stores.clock import SystemClock
from bench import engines
from bench.goal import at_most
from bench.groups import Crew
from bench.row import Row

MEMBERS, PARTITIONS, KILLS, TTL_SECONDS = 4, 60, 8, 2.0
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
    took.sort()
    worst = took[-1]  # of so few kills, the worst stands for the 99th percentile
    shown = f"{worst:.2f} s at most, {median(took):.2f} in the middle of {KILLS} kills"
    label = f"fail-over after kill -9, lease of {TTL_SECONDS:g} s, {MEMBERS} processes, {rig.name}"
    return [Row(name=label, value=worst, shown=shown, goal=str(goal), met=goal.is_met(worst))]


async def _kill(url: str) -> list[float]:
    """Kill one member of a new group; return after how long each of its partitions was served again."""
    clock, crew = SystemClock(), Crew(url=url, partitions=PARTITIONS, ttl_seconds=TTL_SECONDS)
    try:
        for number in range(MEMBERS):
            crew.start(f"m{number}")
        await crew.until(crew.is_even)
        killed, had = clock.elapsed(), crew.kill("m0")
        await crew.until(partial(_have_moved, crew, had, "m0"))
        gained = [each for each in crew.said if each.is_gain and each.partition in had and each.at >= killed]
        return [each.at - killed for each in gained]
    finally:
        await crew.end()


def _have_moved(crew: Crew, had: set[int], victim: str) -> bool:
    return all(crew.owners.get(partition, victim) != victim for partition in had)
