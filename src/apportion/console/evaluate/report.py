"""Report of `evaluate`: evenness, moves, and the published figures, in columns or as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from apportion.balance.evaluation import STATIC, Cluster, Comparison, Findings, SummaryLine
from apportion.console.print.output import print_columns, print_json, print_text

EVEN = (
    "balancer", "STDEV", "gain", "leaders", "gain", "max-min", "leaders", "STDEV each", "leaders", "lacking", "s",
    "x CRUSH",
)  # fmt: skip
MOVED = (
    "scenario", "balancer", "moved", "extra", "bound", "leaders", "extra", "STDEV", "leaders", "max-min", "leaders",
    "lacking", "s",
)  # fmt: skip


BEST = "best possible"


def print_report(findings: Findings) -> None:
    """Print the answer, tables of the measurements, and the reasons for missing ones."""
    print_text(f"{findings.answer}\n")
    for cluster, _ in findings.trial.clusters:
        print_text(f"{cluster.name}: {size_of(cluster)}")
    even = [line for line in findings.lines if line.scenario == STATIC]
    if even:
        print_text("\nall nodes up: all resources together, and each one alone")
        print_columns(EVEN, even_cells(even))
    if len(even) < len(findings.lines):
        print_text("\nmoves of each change, and evenness afterwards")
        print_columns(MOVED, moved_cells(findings.lines))
    for words in notes(findings):
        print_text(words)
    if findings.comparisons:
        print_text("\nfigures published of CrushED, and the same measured here")
        print_columns(("figure", "published", *findings.balancers), map(compared_cells, findings.comparisons))
    for words in left_out(findings):
        print_text(words)


def notes(findings: Findings) -> Iterator[str]:
    """Yield notes on the rows: the best possible row, and lacking replicas."""
    if findings.lines:
        yield f"{BEST}: no balancer that keeps the zone rule has a smaller STDEV."
    if any(line.lacking for line in findings.lines):
        yield "! lacking: fewer replicas, or fewer zones, than the nodes that are up allow."


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
        yield f"{name}: not available: {why}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in findings.refused:
        where = reasons.setdefault((each.balancer, each.reason), [])
        if each.scenario not in where:
            where.append(each.scenario)
    for (balancer, reason), scenarios in reasons.items():
        yield f"{': '.join(filter(None, (balancer, ', '.join(scenarios))))}: not measured: {reason}"


def label_of(line: SummaryLine) -> str:
    """Return the name of the balancer, with a mark if it lacks something."""
    return f"! {line.balancer}" if line.lacking else line.balancer


def even_cells(lines: Sequence[SummaryLine]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the lines of one scenario under the headings `EVEN`, and the best possible ones."""
    for line in lines:
        yield (
            label_of(line), f"{line.partitions_deviation:.2f}", percent_or_not(line.partitions_gain),
            f"{line.leaders_deviation:.2f}", percent_or_not(line.leaders_gain), f"{line.partitions_gap:.1f}",
            f"{line.leaders_gap:.1f}", f"{line.partitions_deviation_each:.2f}", f"{line.leaders_deviation_each:.2f}",
            f"{line.lacking}", f"{line.seconds:.2f}", times_or_not(line.times_crush),
        )  # fmt: skip
    yield (BEST, _least(lines[0])[0], "", _least(lines[0])[1], *[""] * (len(EVEN) - 4))


def moved_cells(lines: Sequence[SummaryLine]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of lines under the headings `MOVED`; each scenario ends with the best possible ones."""
    for scenario in dict.fromkeys(line.scenario for line in lines if line.scenario != STATIC):
        group = [line for line in lines if line.scenario == scenario]
        for line in group:
            yield (
                scenario, label_of(line), f"{line.moved_ratio:.2%}",
                f"{line.extra_ratio:.2%}", f"{line.bound_ratio:.2%}", f"{line.leader_ratio:.2%}",
                f"{line.extra_leader_ratio:.2%}", f"{line.partitions_deviation:.2f}", f"{line.leaders_deviation:.2f}",
                f"{line.partitions_gap:.1f}", f"{line.leaders_gap:.1f}", f"{line.lacking}", f"{line.seconds:.2f}",
            )  # fmt: skip
        yield (scenario, BEST, *[""] * 5, *_least(group[0]), *[""] * 4)


def _least(line: SummaryLine) -> tuple[str, str]:
    return f"{line.least_partitions_deviation:.2f}", f"{line.least_leaders_deviation:.2f}"


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
        answer=findings.answer,
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
