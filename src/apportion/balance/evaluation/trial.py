"""Trial of balancers: each one on every cluster in every scenario, with its placements, moves and times.

Promises: all values but the seconds are the same in every run, unless a foreign program draws random numbers. The
first placement of a cluster is made once, and every scenario continues from it. A refusal by a balancer is reported,
and the others continue. Refuses: to read a clock; the caller passes one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apportion.balance.evaluation.clusters import Cluster
from apportion.balance.evaluation.entrants import Entrant, Placed
from apportion.balance.evaluation.measures import Measures, Movement, measured, movement
from apportion.balance.evaluation.scenarios import Scenario, State
from apportion.errors import CannotPlace, InvalidInput
from apportion.errors.brief import brief

Seconds = Callable[[], float]
"""A clock: elapsed seconds."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The measurements of a balancer in a scenario on a cluster.

    `seconds` is the time of one placement of all resources: the mean of the placements that the scenario made.
    """

    balancer: str
    cluster: str
    scenario: str
    measures: Measures
    movement: Movement
    seconds: float


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a balancer was not measured in a scenario on a cluster.

    An empty `balancer` means every balancer.
    """

    balancer: str
    cluster: str
    scenario: str
    reason: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerTrial:
    """The clusters, each with its scenarios, and the entrants; `absent` gives the reasons for absent entrants."""

    clusters: Sequence[tuple[Cluster, Sequence[Scenario]]]
    entrants: Sequence[Entrant]
    absent: Mapping[str, str]
    skipped: Sequence[Refusal] = ()

    def __len__(self) -> int:
        return sum(len(scenarios) for _, scenarios in self.clusters) * len(self.entrants)

    def run(self, clock: Seconds) -> Iterator[TrialResult | Refusal]:
        """Yield the outcome of each balancer in each scenario. The length of the trial is the number of outcomes."""
        for cluster, scenarios in self.clusters:
            for entrant in self.entrants:
                yield from _run(entrant, cluster, scenarios, clock)


def _run(
    entrant: Entrant, cluster: Cluster, scenarios: Sequence[Scenario], clock: Seconds
) -> Iterator[TrialResult | Refusal]:
    made: dict[State, tuple[Placed, float]] = {}
    for scenario in scenarios:
        try:
            start = scenario.states[0]
            if start not in made:
                made[start] = _timed(entrant, cluster, start, None, clock)
            yield _measured(entrant, cluster, scenario, made[start], clock)
        except (CannotPlace, InvalidInput) as error:
            yield Refusal(balancer=entrant.name, cluster=cluster.name, scenario=scenario.name, reason=error.problem)


def _measured(
    entrant: Entrant, cluster: Cluster, scenario: Scenario, first: tuple[Placed, float], clock: Seconds
) -> TrialResult:
    placed, times = [first[0]], []
    for state in scenario.states[1:]:
        found, seconds = _timed(entrant, cluster, state, placed[-1], clock)
        placed.append(found)
        times.append(seconds)
    at = [*zip(placed, scenario.states, strict=True)]
    return TrialResult(
        balancer=entrant.name,
        cluster=cluster.name,
        scenario=scenario.name,
        measures=measured(placed[-1], scenario.states[-1]),
        movement=sum((movement(at[before], at[after]) for before, after in scenario.steps), Movement()),
        seconds=sum(times) / len(times) if times else first[1],
    )


def _timed(
    entrant: Entrant, cluster: Cluster, state: State, before: Placed | None, clock: Seconds
) -> tuple[Placed, float]:
    start = clock()
    placed = entrant.place(cluster, state, before)
    return placed, clock() - start
