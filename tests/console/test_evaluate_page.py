"""The page of `evaluate --html`: one file that fetches and runs nothing, and says what is printed."""

import re
from time import perf_counter

import pytest

from apportion import Node, Topology
from apportion.balance import Resource
from apportion.balance.evaluation import (
    BalancerTrial,
    Cluster,
    Entrant,
    Findings,
    Refusal,
    Scenario,
    State,
    entrant,
    make_scenario,
)
from apportion.console.evaluate.page import page_of
from apportion.console.evaluate.report import MOVED, even_cells, moved_cells
from tests.console.page_reading import parsed

HOSTILE = "<img src=x onerror=alert(1)>"


def findings_of(name):
    """Return what two balancers, one of this name, came to on a cluster and in a scenario of this name."""
    topology = Topology([Node(f"n{number}", zone=(f"z{number % 3}",)) for number in range(6)])
    cluster = Cluster(name=name, topology=topology, resources={"orders": Resource(12, 2)})
    down = State(topology=topology, down=frozenset(("n1",)))
    scenarios = [make_scenario(each, topology, seed=1) for each in ("static", "add-1%")]
    scenarios.append(Scenario.change(name, State(topology=topology), down))
    entrants = [entrant("helix.crush"), Entrant(name, entrant("optimal").place)]
    trial = BalancerTrial(clusters=[(cluster, scenarios)], entrants=entrants, absent={"swift": name})
    refused = [Refusal(balancer=name, cluster=name, scenario=name, reason=name)]
    return Findings.of(trial, list(trial.run(perf_counter)), refused)


@pytest.fixture(scope="module", name="findings")
def fixture_findings():
    return findings_of("largest first")


def tables_of(root):
    return {next(table.find("caption")).text: rows_of(table) for table in root.find("table")}


def rows_of(table):
    return [tuple(cell.text for cell in line.children) for line in table.find("tr")]


def test_the_tables_are_those_that_are_printed(findings):
    tables = tables_of(parsed(page_of(findings, command="c")))
    assert [*even_cells(findings.lines[:2])] == tables["All nodes up"][1:]
    assert [MOVED, *moved_cells(findings.lines)] == tables["Moves of each change"]
    published = tables["Published, and measured here"]
    assert ("figure", "published", "largest first", "helix.crush") == published[0]
    assert ("87%", "68%", "0.0%") == (published[1][1], published[2][1], published[1][3])


def test_a_chart_of_movement_has_the_moves_with_and_without_a_cause(findings):
    root = parsed(page_of(findings, command="c"))
    of_adding = [svg for svg in root.find("svg", role="img") if svg.attributes["aria-label"].startswith("add-1%: ")]
    chart, _ = of_adding
    lines = [line for line in findings.lines if line.scenario == "add-1%"]
    assert len(lines) == len(list(chart.find("rect", **{"class": "mark"})))
    widths = [float(rect.attributes["width"].rstrip("%")) for rect in chart.find("rect", **{"class": "plain"})]
    caused = [line.moved_ratio - line.extra_ratio for line in lines]
    assert [each / caused[0] for each in caused] == pytest.approx([each / widths[0] for each in widths], abs=0.01)


def test_every_chart_has_a_name_and_its_figures_as_a_table(findings):
    root = parsed(page_of(findings, command="c"))
    charts = list(root.find("svg", role="img"))
    assert 6 == len(charts)
    assert all(chart.attributes["aria-label"] for chart in charts)
    figures = list(root.find("figure"))
    assert len(charts) == sum(len(list(figure.find("svg", role="img"))) for figure in figures)
    assert [1] * len(figures) == [len(list(figure.find("table"))) for figure in figures]


def test_nothing_is_fetched_and_nothing_runs():
    data = page_of(findings_of(HOSTILE), command=f"apportion {HOSTILE}")
    elements = list(parsed(data).all())
    assert set() == {"script", "iframe", "object", "embed", "img", "base", "form"} & {e.tag for e in elements}
    assert [] == [name for e in elements for name in e.attributes if name.startswith("on") or name == "style"]
    assert ["data:,"] == [e.attributes[name] for e in elements for name in ("src", "href") if name in e.attributes]
    assert None is re.search(rb"https?:|//[a-z]|@import", data)
    (policy,) = parsed(data).find("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy.attributes["content"].startswith("default-src 'none'")


def test_names_from_outside_are_text_wherever_they_stand(findings):
    hostile = parsed(page_of(findings_of(HOSTILE), command=HOSTILE))
    plain = parsed(page_of(findings, command="c"))
    shapes = [
        [(each.tag, len(each.children)) for each in root.all() if each.tag not in ("title", "text")]
        for root in (hostile, plain)
    ]
    assert shapes[0] == shapes[1]
    assert hostile.text.count(HOSTILE) >= 10


def test_two_runs_differ_in_times_only(findings):
    one, other = (page_of(each, command="c").decode() for each in (findings, findings_of("largest first")))
    assert without_times(one) == without_times(other)
    assert None is re.search(r"20\d\d-\d\d|\d\d:\d\d:\d\d", one)


def without_times(page):
    """Return the cells of a page but those of time: the last ones of a row, and two rows of the published figures."""
    kept = []
    for caption, rows in tables_of(parsed(page)).items():
        heads = rows[0]
        kept += [
            [cell for head, cell in zip(heads, row, strict=True) if head not in ("s", "x CRUSH")]
            for row in rows
            if caption != "Published, and measured here" or not row[0].startswith("time")
        ]
    return kept
