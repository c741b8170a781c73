"""The pages of both reports answer first, mark lacking replicas, and keep the rules of accessibility checkers."""

import itertools
import re

import pytest

from apportion import Jump, Node, Ring, Topology
from apportion.balance import Resource
from apportion.balance.comparison import KeyComparison, KeyTrial, PlacementRow
from apportion.balance.evaluation import BalancerTrial, Cluster, Findings, entrant, make_scenario
from apportion.console.compare.page import page_of as comparison_page
from apportion.console.evaluate.page import page_of as evaluation_page
from tests.console.page_reading import parsed

TOPOLOGY = Topology([Node(f"n{number}", zone=(f"z{number % 3}",)) for number in range(6)])


def comparison():
    trial = KeyTrial.of(TOPOLOGY, [b"key-%d" % number for number in range(500)])
    rows = [trial.row(Jump(TOPOLOGY), name="jump"), trial.row(Ring(TOPOLOGY), name="ring")]
    return KeyComparison(trial, [*rows, PlacementRow(placement="lists", refused="no.")])


def findings():
    cluster = Cluster(name="shop", topology=TOPOLOGY, resources={"orders": Resource(40, 3)})
    scenarios = [make_scenario(name, TOPOLOGY, seed=1) for name in ("static", "add-20%", "disable-10%")]
    entrants = [entrant(name) for name in ("helix.auto", "helix.crush", "optimal")]
    trial = BalancerTrial(clusters=[(cluster, scenarios)], entrants=entrants, absent={})
    return Findings.of(trial, list(trial.run(lambda: 0.0)), [])


@pytest.fixture(scope="module", params=["compare", "evaluate"])
def report(request):
    """A report with a choice that lacks replicas, and its page."""
    if request.param == "compare":
        found = comparison()
        below = [PlacementRow(placement="random", why_not="it is not enough")]
        return found, parsed(comparison_page(found, below, source="keys", command="c"))
    return findings(), parsed(evaluation_page(findings(), command="c"))


def test_the_answer_stands_before_everything_but_the_heading(report):
    found, root = report
    (header,) = root.find("header")
    heading, answer, *_ = header.children
    assert ("h1", "p", found.answer) == (heading.tag, answer.tag, answer.text)


def test_a_choice_that_lacks_replicas_is_marked_and_drawn_as_an_outline_wherever_it_stands(report):
    found, root = report
    lacking = "helix.auto" if isinstance(found, Findings) else "jump"
    cells = [(table, cell.text) for table in root.find("table") for cell in [*table.find("th"), *table.find("td")]]
    bare = [next(table.find("caption")).text for table, text in cells if text == lacking]
    assert bare == (["Published, and measured here"] if isinstance(found, Findings) else [])
    assert f"! {lacking}" in [text for _, text in cells]
    for chart in root.find("svg", role="img"):
        if lacking not in chart.attributes["aria-label"]:
            continue
        drawn = {rect.attributes["class"] for rect in chart.find("rect")} - {"mark", "striped"}
        assert "hollow" in drawn
    assert any("! lacking" in each.text for each in root.find("ul", **{"class": "legend"}))


def test_the_best_possible_row_stands_out_and_a_chart_marks_it(report):
    found, root = report
    best = list(root.find("tr", **{"class": "best"}))
    if isinstance(found, Findings):
        assert [["best possible"], ["add-20%", "best possible"], ["disable-10%", "best possible"]] == [
            [cell.text for cell in line.children][: 1 + (place > 0)] for place, line in enumerate(best)
        ]
        assert f"{found.lines[0].least_partitions_deviation:.2f}" == best[0].children[1].text
    else:
        assert ["exact shares"] == [line.children[0].text for line in best]
    assert any("possible" in each.text for each in root.find("ul", **{"class": "legend"}))


def test_the_published_figures_come_after_every_figure_of_the_own_cluster(report):
    found, root = report
    titles = [each.text for each in root.find("h2")]
    assert not isinstance(found, Findings) or "Beside the published figures" == titles[-2]


def test_every_region_picture_and_cell_of_a_heading_has_a_name_and_no_two_regions_share_one(report):
    _, root = report
    labels = [each.attributes["aria-label"] for each in root.all() if each.attributes.get("role") == "region"]
    assert len(set(labels)) == len(labels)
    assert all(cell.text.strip() for cell in root.find("th"))
    assert all(each.attributes["aria-label"].strip() for each in root.all() if each.attributes.get("role") == "img")
    assert all(
        each.attributes.get("tabindex") == "0" for each in root.all() if "scroll" == each.attributes.get("class")
    )


def test_the_page_has_a_language_a_title_one_main_part_and_headings_without_a_gap(report):
    _, root = report
    assert "en" == next(root.find("html")).attributes["lang"]
    assert next(root.find("title")).text.strip()
    assert 1 == len(list(root.find("main")))
    levels = [int(each.tag[1]) for each in root.all() if re.fullmatch(r"h[1-6]", each.tag)]
    assert 1 == levels[0] == levels.count(1)
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [each.attributes["id"] for each in root.all() if "id" in each.attributes]
    assert len(set(ids)) == len(ids)
