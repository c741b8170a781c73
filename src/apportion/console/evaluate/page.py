"""The page of `apportion evaluate --html`: all measurements as charts and tables, in one file.

Promises: those of `pages/parts.py`. Every chart has a name, and a table shows its figures.
Refuses: charts of single clusters; `--json` has every result.
"""

from collections.abc import Iterable, Sequence
from html import escape

from apportion.balance.evaluation import STATIC, Findings, SummaryLine
from apportion.console.evaluate.report import (
    BEST,
    EVEN,
    MOVED,
    compared_cells,
    even_cells,
    label_of,
    left_out,
    moved_cells,
    percent_or_not,
    size_of,
)
from apportion.console.pages.charts import Bar, titled_bars
from apportion.console.pages.parts import document, figure, header, legend_of, percent, section, table_of, terms_of

_READING = (
    ("STDEV", "The standard deviation of loads from exact shares by weight, in partitions, as mean of all clusters. "
     "It counts all resources of a cluster together; “each” counts one resource at a time."),
    ("gain", "The part by which the deviation is smaller than that of CRUSH on the same cluster."),
    ("max-min", "Load minus share: the largest value minus the smallest, in partitions."),
    ("moved, leaders", "The part of all replicas that change nodes; the part of all partitions that change leaders."),
    ("extra", "Replicas that moved without a cause: no node that came, went or changed weight explains the move."),
    ("bound", "The least number of moves from the loads before the changes to the loads after them."),
    ("best possible", "The least STDEV of any placement that keeps the zone rule, with these weights and replicas."),
    ("lacking", "Partitions with fewer replicas, or in fewer zones, than the nodes that are up allow."),
    ("s, x CRUSH", "Seconds to place all resources of all clusters once, and the ratio to the seconds of CRUSH. "
     "Both vary from run to run."),
)  # fmt: skip


def page_of(findings: Findings, *, command: str) -> bytes:
    """Return the page, in UTF-8. `command` makes the page again."""
    lines = findings.lines
    sections = (
        _head(findings, command),
        _evenness([line for line in lines if line.scenario == STATIC]),
        _movement([line for line in lines if line.scenario != STATIC]),
        _after([line for line in lines if line.scenario != STATIC]),
        _figures(lines),
        _published(findings),
        section("How to read the columns", terms_of(_READING)),
    )
    return document(_title(findings), sections)


def _title(findings: Findings) -> str:
    clusters = len(findings.trial.clusters)
    return f"{len(findings.balancers)} balancers evaluated on {clusters} cluster{'s' if clusters > 1 else ''}"


def _head(findings: Findings, command: str) -> str:
    facts = [(f"<bdi>{escape(cluster.name)}</bdi>", size_of(cluster)) for cluster, _ in findings.trial.clusters]
    facts += [("Left out", escape(words)) for words in left_out(findings)]
    return header(_title(findings), findings.answer, facts, command)


def _published(findings: Findings) -> str:
    if not findings.comparisons:
        return ""
    words = "<p>The published figures of CrushED, and the same figures measured here.</p>"
    headings = ("figure", "published", *findings.balancers)
    table = table_of("Published, and measured here", headings, map(compared_cells, findings.comparisons))
    return section("Beside the published figures", words + table)


def _evenness(lines: Sequence[SummaryLine]) -> str:
    if not lines:
        return ""
    charts = (
        ("STDEV of partitions", [_partitions(line) for line in lines]),
        ("STDEV of leaders", [_leaders(line) for line in lines]),
    )
    pictures = "".join(titled_bars(title, listed) for title, listed in charts)
    words = "<p>All resources of a cluster together. The last figure: how much lower STDEV is than that of CRUSH.</p>"
    table = table_of("All nodes up", EVEN, even_cells(lines), best=BEST)
    return section("Evenness of loads", words + _legend(lines) + figure(f'<div class="pair">{pictures}</div>', table))


def _partitions(line: SummaryLine) -> Bar:
    value = _value(line.partitions_deviation, line.partitions_gain)
    least = line.least_partitions_deviation
    return Bar(
        label=label_of(line), value=value, plain=line.partitions_deviation, mark=least, is_hollow=line.lacking > 0
    )


def _leaders(line: SummaryLine) -> Bar:
    value, least = _value(line.leaders_deviation, line.leaders_gain), line.least_leaders_deviation
    return Bar(label=label_of(line), value=value, plain=line.leaders_deviation, mark=least, is_hollow=line.lacking > 0)


def _value(deviation: float, gain: float | None) -> str:
    return f"{deviation:.2f}" if gain is None else f"{deviation:.2f} · {percent_or_not(gain)}"


def _legend(lines: Sequence[SummaryLine], *others: tuple[str, str]) -> str:
    hollow = [("hollow", "! lacking: too few replicas or zones")] if any(line.lacking for line in lines) else []
    return legend_of(*(others or [("mark", "the least that is possible under the zone rule")]), *hollow)


def _movement(lines: Sequence[SummaryLine]) -> str:
    if not lines:
        return ""
    legend = _legend(
        lines,
        ("plain", "moved with a cause"),
        ("striped", "extra: moved without a cause"),
        ("mark", "the fewest moves between these loads"),
    )
    pictures = "".join(
        titled_bars(
            scenario,
            [
                Bar(
                    label=label_of(line), value=percent(line.moved_ratio), plain=line.moved_ratio - line.extra_ratio,
                    striped=line.extra_ratio, mark=line.bound_ratio, is_hollow=line.lacking > 0,
                )
                for line in group
            ],
        )
        for scenario, group in _by_scenario(lines)
    )  # fmt: skip
    table = table_of("Moves of each change", MOVED, moved_cells(lines), best=BEST)
    return section("Moves of each change", legend + figure(f'<div class="grid">{pictures}</div>', table))


def _after(lines: Sequence[SummaryLine]) -> str:
    if not lines:
        return ""
    pictures = "".join(
        titled_bars(scenario, [_partitions(line) for line in group]) for scenario, group in _by_scenario(lines)
    )
    cells = [
        (
            line.scenario,
            label_of(line),
            f"{line.partitions_deviation:.2f}",
            percent_or_not(line.partitions_gain),
            f"{line.least_partitions_deviation:.2f}",
        )
        for line in lines
    ]
    table = table_of("STDEV after changes", ("scenario", "balancer", "STDEV", "gain", "best possible"), cells)
    words = "<p>STDEV of partitions in the last state of each scenario.</p>"
    return section("Evenness afterwards", words + _legend(lines) + figure(f'<div class="grid">{pictures}</div>', table))


def _figures(lines: Sequence[SummaryLine]) -> str:
    headings = ("balancer", "scenario", "leaders changed", "extra", "max-min each", "leaders", "s", "x CRUSH")
    cells = [
        (
            label_of(line), line.scenario, f"{line.leader_ratio:.2%}", f"{line.extra_leader_ratio:.2%}",
            f"{line.partitions_gap_each:.1f}", f"{line.leaders_gap_each:.1f}", f"{line.seconds:.2f}",
            "-" if line.times_crush is None else f"{line.times_crush:.2f}",
        )
        for line in lines
    ]  # fmt: skip
    return section(
        "Leaders, single resources and time", table_of("Leaders, single resources and time", headings, cells)
    )


def _by_scenario(lines: Sequence[SummaryLine]) -> Iterable[tuple[str, list[SummaryLine]]]:
    for scenario in dict.fromkeys(line.scenario for line in lines):
        yield scenario, [line for line in lines if line.scenario == scenario]
