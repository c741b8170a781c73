"""A verdict needs a goal, a value, and the implementation that the goal is about."""

import json

import pytest

from bench import implementation
from bench.elsewhere import rows_of
from bench.goal import at_least, at_most
from bench.report import Report
from bench.row import Row, native_row, not_measured

GOAL = at_most(10, "ms")


@pytest.fixture
def native(monkeypatch):
    monkeypatch.setattr(implementation, "is_native", lambda: True)


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.setattr(implementation, "is_native", lambda: False)


def test_what_is_not_measured_is_never_met():
    for row in (not_measured("a", "no peer"), not_measured("a", "no peer", GOAL)):
        assert ("not measured", None, None, False) == (row.verdict, row.value, row.met, row.is_measured)
        assert "no peer" in row.shown


@pytest.mark.parametrize("value", [0.001, 10.0, 11.0])
def test_a_figure_of_the_twin_is_not_measured_on_the_reference(reference, value):
    row = native_row("build", value, f"{value} ms", GOAL)
    assert ("not measured", None, value, f"{value} ms, reference") == (row.verdict, row.met, row.value, row.shown)


@pytest.mark.parametrize(("value", "verdict"), [(9.9, "met"), (10.0, "met"), (10.001, "MISSED")])
def test_a_figure_of_the_twin_is_judged_on_the_twin(native, value, verdict):
    assert verdict == native_row("build", value, f"{value} ms", GOAL).verdict


@pytest.mark.parametrize(("value", "verdict"), [(4.999, "MISSED"), (5.0, "met"), (5.1, "met")])
def test_at_least_is_not_at_most(native, value, verdict):
    assert verdict == native_row("one key", value, f"{value} x T", at_least(5, "x T")).verdict


def test_a_figure_without_a_goal_is_information(reference):
    assert "(information)" == native_row("build", 1.0, "1 ms", None).verdict


@pytest.mark.parametrize(("value", "goal"), [(1.0, None), (None, "<= 10 ms"), (None, None)])
@pytest.mark.parametrize("met", [True, False])
def test_a_verdict_without_goal_or_value_cannot_be_made(value, goal, met):
    with pytest.raises(ValueError, match="a verdict needs both"):
        Row(name="a", value=value, shown="", goal=goal, met=met)


def test_the_report_counts_what_was_not_measured_apart(native):
    rows = [
        native_row("a", 1.0, "1 ms", GOAL),
        native_row("b", 11.0, "11 ms", GOAL),
        native_row("c", 1.0, "1 ms", None),
        not_measured("d", "no peer", GOAL),
        not_measured("e", "no peer"),
    ]
    report = Report({}, rows=rows, failures={"f": "broken"})
    assert "goals met: 1, missed: 1; not measured: 2; could not run: 1" in report.summary()
    assert ["met", "MISSED", "(information)", "not measured", "not measured", "COULD NOT RUN"] == [
        line.rpartition("|")[2].strip() for line in report.table().splitlines()[2:8]
    ]


def test_rows_survive_the_way_from_another_process(native):
    rows = [native_row("a", 1.0, "1 ms", GOAL), not_measured("d", "no peer", GOAL)]
    assert rows == [Row(**row) for row in json.loads(Report({}, rows=rows).as_json())["rows"]]


def test_another_process_that_fails_is_an_error_that_says_why():
    with pytest.raises(RuntimeError, match="invalid choice: 'absent'"):
        rows_of("absent")
