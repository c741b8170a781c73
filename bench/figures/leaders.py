"""Leaders one after another: three that are paused past their lease and let go on, and three that are killed.

A process that lives on counts as no death; after the third death in a row the next leader waits a second.
"""

import signal

from apportion.groups.crash_loops import wait_seconds
from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_most
from bench.groups import Crew
from bench.row import Row

TIMES, CANDIDATES, TTL_SECONDS, SPARE_SECONDS = 3, 5, 2.0, 0.7
_LEADERSHIP = 0  # the one partition of a leader's group


def rows() -> list[Row]:
    """Pause and kill leaders on each store."""
    return engines.rows_of(_measure, *engines.NAMES, what="leaders that are paused or killed")


async def _measure(rig: Rig) -> list[Row]:
    paused = await _changes(rig.url("paused"), how=signal.SIGSTOP)
    killed = await _changes(rig.url("killed"), how=signal.SIGKILL)
    label = f"leader, lease of {TTL_SECONDS:g} s, {rig.name}"
    waited = max(took - wait_seconds(deaths) for deaths, took in enumerate(killed, start=1))
    return [
        _row(f"{label}: next one after each of {TIMES} pauses", max(paused), paused),
        _row(f"{label}: next one after each of {TIMES} kills, less the back-off", waited, killed),
    ]


def _row(name: str, value: float, took: list[float]) -> Row:
    goal, shown = at_most(TTL_SECONDS + SPARE_SECONDS, "s"), ", ".join(f"{each:.2f}" for each in took)
    return Row(name=name, value=value, shown=f"{value:.2f} s ({shown})", goal=str(goal), met=goal.is_met(value))


async def _changes(url: str, *, how: signal.Signals) -> list[float]:
    """Pause or kill the leader again and again; return how long each next one took."""
    clock, crew, took = SystemClock(), Crew(url=url, partitions=1, ttl_seconds=TTL_SECONDS), list[float]()
    try:
        for number in range(CANDIDATES):
            crew.start(f"m{number}")
        await crew.until(lambda: bool(crew.owners))
        for _ in range(TIMES):
            leader, at = crew.owners.pop(_LEADERSHIP), clock.elapsed()
            crew.processes[leader].send_signal(how)
            await crew.until(lambda: bool(crew.owners))
            took.append(next(each.at for each in reversed(crew.said) if each.is_gain) - at)
            if how == signal.SIGKILL:
                del crew.processes[leader]
            else:
                crew.processes[leader].send_signal(signal.SIGCONT)
        return took
    finally:
        await crew.end()
