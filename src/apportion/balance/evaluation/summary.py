"""Summary of a trial: means over its clusters, gains over CRUSH, and the published figures for comparison.

A gain compares a standard deviation with that of Helix's CRUSH on the same cluster: the ratio by which it is smaller.
The mean over all clusters gives each the same weight. Times are compared as sums.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean
from typing import Self

from apportion.balance.evaluation.answer import answer, ranking
from apportion.balance.evaluation.measures import Movement, gain
from apportion.balance.evaluation.trial import BalancerTrial, Refusal, TrialResult
from apportion.errors.brief import brief

BASELINE = "helix.crush"
STATIC = "static"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLine:
    """A balancer in a scenario, over all clusters: means, but sums for `seconds` and `lacking`.

    Deviations and gaps are in partitions. The `least` deviations are those of the best placement under the zone rule.
    A field without `_each` counts all resources of a cluster together. A field with `_each` counts each resource
    alone: it is the mean of their deviations, or the largest of their gaps. Gains and `times_crush` are None if CRUSH
    was not measured.
    """

    balancer: str
    scenario: str
    clusters: int
    partitions_deviation: float
    leaders_deviation: float
    least_partitions_deviation: float
    least_leaders_deviation: float
    partitions_gap: float
    leaders_gap: float
    partitions_deviation_each: float
    leaders_deviation_each: float
    partitions_gap_each: float
    leaders_gap_each: float
    partitions_gain: float | None
    leaders_gain: float | None
    partitions_gain_each: float | None
    leaders_gain_each: float | None
    moved_ratio: float
    extra_ratio: float
    bound_ratio: float
    leader_ratio: float
    extra_leader_ratio: float
    lacking: int
    seconds: float
    times_crush: float | None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A figure of the published evaluation, its published value, and each balancer's value here (None: no value)."""

    figure: str
    published: str
    found: Mapping[str, float | None]
    is_ratio: bool = True


@brief
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Findings:
    """All results of a trial, with their summary."""

    trial: BalancerTrial
    results: Sequence[TrialResult]
    refused: Sequence[Refusal]
    lines: Sequence[SummaryLine]
    comparisons: Sequence[Comparison]

    @classmethod
    def of(cls, trial: BalancerTrial, results: Sequence[TrialResult], refused: Sequence[Refusal]) -> Self:
        """Return the findings of these results."""
        lines = summarized(results)
        return cls(trial=trial, results=results, refused=refused, lines=lines, comparisons=compared(lines))

    @property
    def balancers(self) -> list[str]:
        """The measured balancers, in the order of the lines."""
        return list(dict.fromkeys(line.balancer for line in self.lines))

    @property
    def answer(self) -> str:
        """The answer in sentences: the best balancer, the reasons, and the balancers that fall short."""
        return answer(self.trial, self.results)

    def __repr__(self) -> str:
        return (
            f"Findings({len(self.results)} results on {len(self.trial.clusters)} clusters: {', '.join(self.balancers)})"
        )

    def _repr_html_(self) -> str:
        from apportion.model.notebook import html_of  # noqa: PLC0415 - only notebooks pay for it

        ranked = ranking(self.results)
        cells = (
            (each.balancer, "-" if each.moved_ratio is None else f"{each.moved_ratio:.2%}", f"{each.deviation:.2f}",
             f"{each.lacking}")
            for each in ranked
        )  # fmt: skip
        return html_of(self.answer, ("balancer", "moved", "STDEV", "lacking"), cells, len(ranked))


def summarized(results: Sequence[TrialResult]) -> list[SummaryLine]:
    """Return a line per scenario and balancer: scenarios in their order, balancers in the order of the answer."""
    crush = {(each.cluster, each.scenario): each for each in results if each.balancer == BASELINE}
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for each in results:
        groups.setdefault((each.scenario, each.balancer), []).append(each)
    scenarios = dict.fromkeys(each.scenario for each in results)
    ranked = [each.balancer for each in ranking(results)]
    ordered = (groups.get((scenario, balancer), []) for scenario in scenarios for balancer in ranked)
    return [_line(group, [crush.get((each.cluster, each.scenario)) for each in group]) for group in ordered if group]


def _line(group: Sequence[TrialResult], crush: Sequence[TrialResult | None]) -> SummaryLine:
    moved = [each.movement for each in group]
    pairs = [(each, other) for each, other in zip(group, crush, strict=True) if other is not None]
    took = sum(other.seconds for _, other in pairs)
    return SummaryLine(
        balancer=group[0].balancer,
        scenario=group[0].scenario,
        clusters=len(group),
        partitions_deviation=fmean(each.measures.partitions.deviation for each in group),
        leaders_deviation=fmean(each.measures.leaders.deviation for each in group),
        least_partitions_deviation=fmean(each.measures.least_partitions_deviation for each in group),
        least_leaders_deviation=fmean(each.measures.least_leaders_deviation for each in group),
        partitions_gap=fmean(each.measures.partitions.gap for each in group),
        leaders_gap=fmean(each.measures.leaders.gap for each in group),
        partitions_deviation_each=fmean(each.measures.partitions_deviation_each for each in group),
        leaders_deviation_each=fmean(each.measures.leaders_deviation_each for each in group),
        partitions_gap_each=fmean(each.measures.partitions_gap_each for each in group),
        leaders_gap_each=fmean(each.measures.leaders_gap_each for each in group),
        partitions_gain=_gain(pairs, "partitions.deviation"),
        leaders_gain=_gain(pairs, "leaders.deviation"),
        partitions_gain_each=_gain(pairs, "partitions_deviation_each"),
        leaders_gain_each=_gain(pairs, "leaders_deviation_each"),
        moved_ratio=_mean(moved, "moved_ratio"),
        extra_ratio=_mean(moved, "extra_ratio"),
        bound_ratio=_mean(moved, "bound_ratio"),
        leader_ratio=_mean(moved, "leader_ratio"),
        extra_leader_ratio=_mean(moved, "extra_leader_ratio"),
        lacking=sum(each.measures.lacking for each in group),
        seconds=sum(each.seconds for each in group),
        times_crush=sum(each.seconds for each, _ in pairs) / took if took else None,
    )


def _gain(pairs: Sequence[tuple[TrialResult, TrialResult]], measure: str) -> float | None:
    of = attrgetter(f"measures.{measure}")
    gains = [each for own, crush in pairs if (each := gain(of(own), of(crush))) is not None]
    return fmean(gains) if gains else None


def _mean(moved: Sequence[Movement], ratio: str) -> float:
    return fmean(float(getattr(each, ratio)) for each in moved)


def compared(lines: Sequence[SummaryLine]) -> list[Comparison]:
    """Return the published figures of CrushED for the scenarios of this trial, each with the values measured here."""
    figures = [
        ("STDEV of partitions below CRUSH's", "87%", "partitions_gain", STATIC),
        ("STDEV of leaders below CRUSH's", "68%", "leaders_gain", STATIC),
        ("the same per resource, partitions", "", "partitions_gain_each", STATIC),
        ("the same per resource, leaders", "", "leaders_gain_each", STATIC),
        ("extra moves, nodes disabled", "~0", "extra_ratio", "disable-"),
        ("extra moves, rolling upgrade", "~0", "extra_ratio", "rolling-upgrade"),
        ("extra moves, nodes added", "significant", "extra_ratio", "add-"),
        ("time, over CRUSH's", "<= 1.3", "times_crush", STATIC),
        ("time with nodes disabled", "3, then cached", "times_crush", "disable-"),
    ]
    return [
        Comparison(
            figure=figure, published=published, found=_means(lines, field, begins), is_ratio=field != "times_crush"
        )
        for figure, published, field, begins in figures
        if any(line.scenario.startswith(begins) for line in lines)
    ]


def _means(lines: Sequence[SummaryLine], field: str, begins: str) -> dict[str, float | None]:
    """Return the mean of a field for each balancer, over the scenarios with names that begin with `begins`."""
    found: dict[str, float | None] = {}
    for name in dict.fromkeys(line.balancer for line in lines):
        own = (line for line in lines if line.balancer == name and line.scenario.startswith(begins))
        known = [float(value) for line in own if (value := getattr(line, field)) is not None]
        found[name] = fmean(known) if known else None
    return found
