"""Planned hand-over: how long a partition has no owner; one at a time, and two hundred at once. Eager beside it."""

from apportion.sim.conformance.rig import Rig
from apportion.stores.clock import SystemClock
from bench import engines
from bench.goal import Goal, at_most
from bench.groups import Crew, quantile
from bench.row import Row

ONE_BY_ONE, AT_ONCE = 100, 200
MIDDLE, TAIL, WORST = at_most(5, "ms"), at_most(50, "ms"), at_most(150, "ms")


def rows() -> list[Row]:
    """Let a second member join a first one, which gives half of what it has."""
    return engines.rows_of(_measure, *engines.NAMES, what="planned hand-over")


async def _measure(rig: Rig) -> list[Row]:
    single, _ = await _joined(rig, "one", 2 * ONE_BY_ONE, throttle=1)
    many, _ = await _joined(rig, "many", 2 * AT_ONCE)
    eager, stopped = await _joined(rig, "eager", 2 * AT_ONCE, mode="eager")
    middle, tail, worst = quantile(single, 0.5), quantile(single, 0.99), many[-1]
    name = f"planned hand-over, {rig.name}"
    strict = rig.name != "postgresql"  # there the goal is twice its commit: see store_commit
    return [
        _row(f"{name}: gap, one at a time, p50", middle, MIDDLE if strict else None),
        _row(f"{name}: gap, one at a time, p99", tail, TAIL if strict else None),
        _row(f"{name}: gap, {AT_ONCE} at once, longest", worst, WORST),
        _row(f"{name}: eager, {stopped} partitions stopped for {AT_ONCE} that move, longest gap", eager[-1], None),
    ]


async def _joined(
    rig: Rig, namespace: str, partitions: int, *, throttle: int = 0, mode: str = "cooperative"
) -> tuple[list[float], int]:
    """Return the gaps in milliseconds, sorted, and how many partitions were interrupted."""
    crew = Crew(url=rig.url(namespace), partitions=partitions, throttle=throttle, mode=mode)
    try:
        crew.start("a")
        await crew.until(crew.is_even)
        crew.start("b")
        began = SystemClock().elapsed()
        await crew.until(crew.is_even)
        lost = {each.partition for each in crew.said if not each.is_gain and each.at >= began}
        return [1000 * gap for gap in crew.gaps(began)], len(lost)
    finally:
        await crew.end()


def _row(name: str, value: float, goal: Goal | None) -> Row:
    if goal is None:
        return Row(name=name, value=value, shown=f"{value:.1f} ms")
    return Row(name=name, value=value, shown=f"{value:.1f} ms", goal=str(goal), met=goal.is_met(value))
