"""Many resources on one cluster: by how much `optimal` and CrushED are more even than CRUSH, all resources together.

Standard deviations of what nodes hold and lead, on two clusters of the preset of `apportion evaluate`, which prints the
same of all eight, with what changes move. The worse of the two is judged.
"""

from apportion.balance.evaluation import SHAPES, Measures, State, entrant, gain, measured, production_like
from bench.goal import Goal, at_least
from bench.row import Row

CHOSEN = [shape for shape in SHAPES if shape.resources in (30, 50) and shape.nodes >= 50]
SEED = 1
CRUSH, CRUSHED, OURS = "helix.crush", "helix.crushed", "optimal"
GOALS = {"partitions": at_least(93, "%"), "leaders": at_least(90, "%")}


def rows() -> list[Row]:
    """Place all resources of each cluster by the three balancers."""
    found = [_measured(seed=SEED, place=place) for place in range(len(CHOSEN))]
    return [_row(what, goal, found) for what, goal in GOALS.items()]


def _measured(*, seed: int, place: int) -> dict[str, Measures]:
    cluster = production_like(CHOSEN[place], seed=seed)
    state = State(topology=cluster.topology)
    return {name: measured(entrant(name).place(cluster, state, None), state) for name in (CRUSH, CRUSHED, OURS)}


def _row(what: str, goal: Goal, found: list[dict[str, Measures]]) -> Row:
    gains = {name: [100 * (gain(_deviation(each[name], what), _deviation(each[CRUSH], what)) or 0.0) for each in found]
             for name in (OURS, CRUSHED)}  # fmt: skip
    worst = min(gains[OURS])
    shown = {name: " ".join(f"{each:.1f}" for each in listed) for name, listed in gains.items()}
    sizes = " and ".join(f"{shape.resources} resources on {shape.nodes} nodes" for shape in CHOSEN)
    return Row(
        name=f"STDEV of {what} below CRUSH's: {sizes}",
        value=worst,
        shown=f"{worst:.1f} % ({shown[OURS]}; CrushED {shown[CRUSHED]})",
        goal=str(goal),
        met=goal.is_met(worst),
    )


def _deviation(measures: Measures, what: str) -> float:
    return measures.partitions.deviation if what == "partitions" else measures.leaders.deviation
