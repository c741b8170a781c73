"""Report of `evaluate`: evenness, moves, and the published figures, in columns or as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from apportion.balance.evaluation import Cluster
from apportion.console.evaluate.summary import STATIC, Comparison, Findings, SummaryLine
from apportion.console.print.output import print_columns, print_json

EVEN = (
    "balancer", "STDEV", "gain", "leaders", "gain", "max-min", "leaders", "STDEV each", "leaders", "lacking", "s",
    "x CRUSH",
)  # fmt: skip
MOVED = (
    "scenario", "balancer", "moved", "extra", "bound", "leaders", "extra", "STDEV", "leaders", "max-min", "leaders",
    "lacking", "s",
)  # fmt: skip


def print_report(findings: Findings) -> None:
    """Print tables of the measurements, and the reasons for missing ones."""
    for cluster, _ in findings.trial.clusters:
        print(f"{cluster.name}: {size_of(cluster)}")
    even = [line for line in findings.lines if line.scenario == STATIC]
    if even:
        print("\nall nodes up: all resources together, and each")
        print_columns(EVEN, map(even_cells, even))
    if len(even) < len(findings.lines):
        print("\nmoves of each change, and evenness afterwards")
        print_columns(MOVED, moved_cells(findings.lines))
    if findings.comparisons:
        print("\npublished of CrushED, and measured here")
        print_columns(("figure", "published", *findings.balancers), map(compared_cells, findings.comparisons))
    for words in left_out(findings):
        print(words)


def size_of(cluster: Cluster) -> str:
    """Return the size of a cluster in words."""
    partitions = sum(map(cluster.count, cluster.resources))
    replicas = sum(cluster.count(name) * each.replicas for name, each in cluster.resources.items())
    return (
        f"{cluster.topology.nodes_in_zones}, {partitions} partitions of "
        f"{len(cluster.resources)} resource{'s' if len(cluster.resources) > 1 else ''}, {replicas} replicas"
    )


def left_out(findings: Findings) -> Iterator[str]:
    """Yield the absent entrants and the missing measurements, each reason once."""
    for name, why in findings.trial.absent.items():
        yield f"{name}: not here: {why}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in findings.refused:
        where = reasons.setdefault((each.balancer, each.reason), [])
        if each.scenario not in where:
            where.append(each.scenario)
    for (balancer, reason), scenarios in reasons.items():
        yield f"{': '.join(filter(None, (balancer, ', '.join(scenarios))))}: not measured: {reason}"


def even_cells(line: SummaryLine) -> tuple[str, ...]:
    """Return the cells of a line under the headings `EVEN`."""
    return (
        line.balancer, f"{line.partitions_deviation:.2f}", percent_or_not(line.partitions_gain),
        f"{line.leaders_deviation:.2f}", percent_or_not(line.leaders_gain), f"{line.partitions_gap:.1f}",
        f"{line.leaders_gap:.1f}", f"{line.partitions_deviation_each:.2f}", f"{line.leaders_deviation_each:.2f}",
        f"{line.lacking}", f"{line.seconds:.2f}", times_or_not(line.times_crush),
    )  # fmt: skip


def moved_cells(lines: Sequence[SummaryLine]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of lines under the headings `MOVED`; each scenario is named once."""
    before = ""
    for line in lines:
        if line.scenario == STATIC:
            continue
        yield (
            "" if line.scenario == before else line.scenario, line.balancer, f"{line.moved_ratio:.2%}",
            f"{line.extra_ratio:.2%}", f"{line.bound_ratio:.2%}", f"{line.leader_ratio:.2%}",
            f"{line.extra_leader_ratio:.2%}", f"{line.partitions_deviation:.2f}", f"{line.leaders_deviation:.2f}",
            f"{line.partitions_gap:.1f}", f"{line.leaders_gap:.1f}", f"{line.lacking}", f"{line.seconds:.2f}",
        )  # fmt: skip
        before = line.scenario


def compared_cells(comparison: Comparison) -> tuple[str, ...]:
    """Return the figure, the published value, and the value of each balancer."""
    shown = percent_or_not if comparison.is_ratio else times_or_not
    return (comparison.figure, comparison.published, *map(shown, comparison.found.values()))


def percent_or_not(ratio: float | None) -> str:
    """Return a ratio in per cent, or a dash."""
    return "-" if ratio is None else f"{ratio:.1%}"


def times_or_not(times: float | None) -> str:
    """Return a factor, or a dash."""
    return "-" if times is None else f"{times:.2f}"


def print_result(findings: Findings, *, page: str | None) -> None:
    """Print everything as one JSON object."""
    print_json(
        "evaluate",
        clusters=[_members(cluster) for cluster, _ in findings.trial.clusters],
        published=[asdict(each) for each in findings.comparisons],
        summary=[asdict(line) for line in findings.lines],
        results=[asdict(each) for each in findings.results],
        absent=dict(findings.trial.absent),
        refused=[asdict(each) for each in findings.refused],
        page=page,
    )


def _members(cluster: Cluster) -> dict[str, object]:
    resources = {
        name: {"partitions": cluster.count(name), "replicas": each.replicas} for name, each in cluster.resources.items()
    }
    zones = len({node.fault_domain() for node in cluster.topology})
    return {"cluster": cluster.name, "nodes": len(cluster.topology), "zones": zones, "resources": resources}
