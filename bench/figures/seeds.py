"""Seeds of the seeded world that one core plays in a second, with every transition checked against all invariants."""

from time import process_time

from bench.goal import Goal, at_least
from bench.row import Row
from tests.sim.scenarios.scenario import play

SEEDS = {"memory": 60, "sqlite": 8}
GOALS: dict[str, Goal] = {"memory": at_least(10, "seeds/s")}


def rows() -> list[Row]:
    """Play seeds over the memory store, and over SQLite with its reaper."""
    return [_row(store, count) for store, count in SEEDS.items()]


def _row(store: str, count: int) -> Row:
    play(0, store=store)
    began = process_time()
    reports = [play(seed, store=store) for seed in range(1, count + 1)]
    rate = count / (process_time() - began)
    if broken := [report.violations for report in reports if report.violations]:
        raise RuntimeError(f"a seed broke an invariant: {broken[0]}")
    goal = GOALS.get(store)
    return Row(
        name=f"seeds of the world over {store}, of one core",
        value=rate,
        shown=f"{rate:.1f} seeds/s",
        goal=None if goal is None else str(goal),
        met=None if goal is None else goal.is_met(rate),
    )
