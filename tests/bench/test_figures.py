"""Every figure can be found and says what it measures; those of the twin alone say when it is not there."""

from importlib import import_module

import pytest

from bench import figures, implementation
from bench.figures import arrow, bounded, one_key_reference
from bench.peers import TEXTBOOK
from bench.row import Row


@pytest.mark.parametrize("name", figures.names())
def test_a_figure_has_rows_and_says_what_it_measures(name):
    module = import_module(f"bench.figures.{name}")
    assert (True, True) == (callable(module.rows), len(module.__doc__ or "") > 80)


def test_the_figures_of_arrow_are_not_measured_without_the_twin(monkeypatch):
    monkeypatch.setattr(implementation, "is_native", lambda: False)
    rows = arrow.rows()
    assert ["not measured"] * 6 == [row.verdict for row in rows]
    assert {str(goal) for goal in arrow.GOALS.values()} == {row.goal for row in rows}


def test_the_figures_of_bounded_loads_are_not_measured_without_the_twin(monkeypatch):
    monkeypatch.setattr(implementation, "is_native", lambda: False)
    assert {("not measured", str(bounded.GOAL)), ("not measured", None)} == {
        (row.verdict, row.goal) for row in bounded.rows()
    }


TIMES = {arrow.ONE: [60_000_000] * 3, arrow.HASHING: [20_000_000] * 3, arrow.TWO: [40_000_000] * 3}


@pytest.mark.parametrize(("cpus", "verdicts"), [(2, ["met", "met", "MISSED"]), (1, ["met", "met", "not measured"])])
def test_two_threads_are_not_measured_on_one_cpu(monkeypatch, cpus, verdicts):
    monkeypatch.setattr(implementation, "is_native", lambda: True)
    monkeypatch.setattr(arrow, "cpu_count", lambda: cpus)
    assert verdicts == [row.verdict for row in arrow._compared(TIMES, 100)]


def test_the_goal_of_the_reference_is_judged_on_the_reference_and_the_textbook_has_none(monkeypatch):
    def raced(routes, keys, name, *, rounds):
        return [Row(name=f"{name}: {contender}", value=0.79, shown="") for contender in routes]

    monkeypatch.setattr(implementation, "is_native", lambda: False)
    monkeypatch.setattr(one_key_reference, "raced", raced)
    verdicts = {(row.name.rpartition(": ")[2], row.verdict) for row in one_key_reference.rows()}
    assert {(TEXTBOOK.name, "(information)"), ("ring", "MISSED")} == verdicts
