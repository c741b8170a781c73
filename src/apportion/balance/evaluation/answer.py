"""Answer of an evaluation: the order of balancers, and sentences that say which one suits these clusters, and why.

The order: balancers that were measured in every scenario come first, then those that lack the fewest replicas or zones.
Next are those that move the fewest replicas, then the most even. Figures are equal if they are printed alike.

Promises: every sentence follows from the results alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from apportion.balance.evaluation.clusters import Cluster
from apportion.balance.evaluation.scenarios import Scenario
from apportion.balance.evaluation.trial import BalancerTrial, TrialResult
from apportion.errors.brief import brief
from apportion.model.phrases import be, listed, plural


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerRank:
    """A balancer over all its results: `missing` measurements, `lacking` partitions, and means.

    `moved_ratio` is the mean of the changes; None if no change was measured. `deviation` is the mean of the final
    states, in partitions.
    """

    balancer: str
    missing: int
    lacking: int
    moved_ratio: float | None
    deviation: float

    @property
    def place(self) -> tuple[int, int, str, float, str]:
        """The order of ranking; smaller is better."""
        return self.missing, self.lacking, self.moved, round(self.deviation, 2), self.balancer

    @property
    def moved(self) -> str:
        """The moves as printed, in a form that sorts; empty if no change was measured."""
        return "" if self.moved_ratio is None else f"{self.moved_ratio:07.2%}"

    @property
    def is_sound(self) -> bool:
        """Whether the balancer was measured in every scenario and lacks nothing."""
        return not self.missing and not self.lacking


def ranking(results: Sequence[TrialResult]) -> list[BalancerRank]:
    """Return the rank of each balancer, the best first. O(results log results)."""
    asked = {(each.cluster, each.scenario) for each in results}
    grouped: dict[str, list[TrialResult]] = {}
    for each in results:
        grouped.setdefault(each.balancer, []).append(each)
    found = []
    for balancer, own in grouped.items():
        moved = [each.movement.moved_ratio for each in own if each.movement.replicas]
        found.append(
            BalancerRank(
                balancer=balancer,
                missing=len(asked) - len(own),
                lacking=sum(each.measures.lacking for each in own),
                moved_ratio=fmean(moved) if moved else None,
                deviation=fmean(each.measures.partitions.deviation for each in own),
            )
        )
    return sorted(found, key=lambda each: each.place)


def answer(trial: BalancerTrial, results: Sequence[TrialResult]) -> str:
    """Return the answer that these results of a trial give."""
    ranked = ranking(results)
    place = f"For {_place(trial)},"
    if not ranked:
        return " ".join([f"{place} no balancer could be measured.", *_aside(trial, ranked)])
    changes = list(dict.fromkeys(each.scenario for each in results if each.movement.replicas))
    best, rule = ranked[0], _Rule.of(trial)
    if best.is_sound:
        moves = (
            f" and moves {best.moved_ratio:.2%} of the replicas {_when(changes)}"
            if best.moved_ratio is not None
            else ""
        )
        first = [f"{place} {best.balancer} {rule.is_kept}{moves}.", *_beside(ranked, rule)]
    elif best.missing:
        first = [f"{place} no balancer was measured in every scenario. {best.balancer} misses the fewest."]
    else:
        first = [f"{place} no measured balancer {rule.is_kept} in every scenario."]
    return " ".join([*first, *_aside(trial, ranked)])


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rule that a balancer keeps, as a verb for one balancer and as a verb for several."""

    is_kept: str
    to_keep: str

    @classmethod
    def of(cls, trial: BalancerTrial) -> "_Rule":
        """Return the rule: the zone rule, if nodes name zones and a partition has several replicas."""
        has_zones = any(
            any(node.zone for node in cluster.topology)
            and max(each.replicas for each in cluster.resources.values()) > 1
            for cluster, _ in trial.clusters
        )
        return cls("keeps the zone rule", "keep the zone rule") if has_zones else cls("places all", "place all")


def _place(trial: BalancerTrial) -> str:
    first, *others = (cluster for cluster, _ in trial.clusters)
    nodes = first.topology.nodes_in_zones.removesuffix(", no zones")
    if any(other.topology != first.topology for other in others):
        return f"{len(others) + 1} clusters"
    return f"{nodes} in {len(others) + 1} runs" if others else f"{first.name}, {nodes}"


def _when(changes: Sequence[str]) -> str:
    return f"in '{changes[0]}'" if len(changes) == 1 else f"per change, on average of {len(changes)}"


def _beside(ranked: Sequence[BalancerRank], rule: _Rule) -> Iterator[str]:
    """Yield the best balancer's neighbours: those that move as few replicas, and the most even one."""
    best, *others = ranked
    sound = [each for each in others if each.is_sound]
    if not others:
        yield "No other balancer was measured."
    elif not sound:
        yield f"No other balancer was seen to {rule.to_keep} in every scenario."
    if not sound:
        return
    if best.moved_ratio is not None:
        alike = [each.balancer for each in sound if each.moved == best.moved]
        yield (
            f"{listed(alike)} {plural(alike, 'moves', 'move')} as few."
            if alike
            else "No other such balancer moves so few."
        )
    least = min(round(each.deviation, 2) for each in sound)
    as_even = [each.balancer for each in sound if round(each.deviation, 2) == least]
    own = round(best.deviation, 2)
    if own < least:
        also = "" if best.moved_ratio is None else "also "
        yield f"{best.balancer} is {also}the most even: STDEV {own:.2f}, the next {least:.2f}."
    elif own == least:
        yield f"{listed(as_even)} {be(as_even)} as even, and none is more even: STDEV {own:.2f}."
    else:
        yield f"{listed(as_even)} {be(as_even)} the most even: STDEV {least:.2f} instead of {own:.2f}."


def _aside(trial: BalancerTrial, ranked: Sequence[BalancerRank]) -> Iterator[str]:
    """Yield the balancers that fall short, those that were not measured, and scenarios with too few zones."""
    everywhere = ", over all scenarios" if sum(len(scenarios) for _, scenarios in trial.clusters) > 1 else ""
    for each in ranked:
        if each.lacking:
            partitions = f"{each.lacking} partition{'s' if each.lacking > 1 else ''}"
            yield f"{each.balancer} lacks replicas or zones in {partitions}{everywhere}."
    partly = [each.balancer for each in ranked if each.missing]
    if partly and not ranked[0].missing:
        yield f"{listed(partly)} {plural(partly, 'was', 'were')} not measured in every scenario."
    measured = {each.balancer for each in ranked}
    absent = [*trial.absent, *(each.name for each in trial.entrants if each.name not in measured)]
    if absent:
        yield f"Not measured: {listed(absent)}."
    short = list(dict.fromkeys(name for cluster, scenarios in trial.clusters for name in _short(cluster, scenarios)))
    if short:
        yield f"In {listed(short)}, too few zones are up for the whole rule."


def _short(cluster: Cluster, scenarios: Sequence[Scenario]) -> Iterator[str]:
    """Yield the scenarios in which fewer zones are up than a partition has replicas."""
    most = max(each.replicas for each in cluster.resources.values())
    for scenario in scenarios:
        for state in scenario.states:
            if len({state.topology[node_id].fault_domain() for node_id in state.weights}) < most:
                yield scenario.name
