"""Scatter: statements over all shards have the rows that one database with all rows would give, or are refused."""

import os
from dataclasses import replace
from statistics import fmean

import pytest
from sqlalchemy.orm import lazyload

from apportion.shards.scatter import aggregates, analysis, reads, scatter
from tests.shards.sample import SLOTS
from tests.shards.scatter.oracle import Differs, compared, filled, moving
from tests.shards.scatter.statements import Base
from tests.shards.server import OWNER, as_role

pytestmark = pytest.mark.slow
STATEMENTS, FIRST = int(os.environ.get("SCATTER_STATEMENTS", "500")), int(os.environ.get("SCATTER_FIRST", "0"))
"""The statements of each test, and the first seed. For a long run: `SCATTER_STATEMENTS=5000 pytest` with this file."""


@pytest.fixture(scope="module")
def places(kind, make_set):
    """A set of three shards, one of them empty."""
    return make_set(kind, shards=("one", "two", "empty"), base=Base)


@pytest.fixture(scope="module")
def oracle(kind, places, tmp_path_factory):
    """One database with the same rows."""
    url = f"sqlite:///{tmp_path_factory.mktemp('oracle')}/all.db" if kind == "sqlite" else places.beside()
    with pytest.MonkeyPatch.context() as patched:
        as_role(patched, OWNER)
        engine = filled(places, url)
    yield engine
    engine.dispose()


def test_random_statements_have_the_rows_of_one_database(kind, places, oracle, record_property):
    counts = compared(places, oracle, kind, range(FIRST, FIRST + STATEMENTS))
    record_property("counts", f"{counts}")
    assert counts["answered"] >= 0.6 * STATEMENTS


def test_random_statements_have_the_rows_of_one_database_while_slots_move(kind, places, oracle, record_property):
    with moving(places) as done:
        counts = compared(places, oracle, kind, range(FIRST + STATEMENTS, FIRST + 2 * STATEMENTS))
    record_property("counts", f"{counts} during {len(done)} moves")
    assert len(done) >= 3


def limit_without_offset(monkeypatch):
    def _analysed(*given):
        plan = analysis.analysed(*given)
        is_cut = plan.limit is not None and plan.groups is None
        return replace(plan, statement=plan.statement.limit(plan.limit)) if is_cut else plan

    monkeypatch.setattr(scatter, "analysed", _analysed)


def mean_of_means(monkeypatch):
    def _combined(means):
        found = [float(each) for each in means if each is not None]
        return fmean(found) if found else None

    def _mean(expression, *_):
        return aggregates.Aggregate(parts=(expression,), combine=_combined)

    monkeypatch.setitem(aggregates._OF_NUMBERS, "avg", _mean)


def nulls_elsewhere(monkeypatch):
    monkeypatch.setattr(
        analysis, "nulls_first", lambda dialect, *, is_descending: is_descending == (dialect == "sqlite")
    )


def slots_of_others(monkeypatch):
    monkeypatch.setattr(reads, "without", lambda _: lazyload("*"))


def a_slot_forgotten(monkeypatch):
    without, forgotten = reads.without, tuple(range(0, SLOTS, 8))
    monkeypatch.setattr(reads, "without", lambda slots: without(tuple(sorted({*slots, *forgotten}))))


PLANTS = {
    limit_without_offset: "offset",
    mean_of_means: "avg",
    nulls_elsewhere: "order",
    slots_of_others: "",
    a_slot_forgotten: "",
}


@pytest.mark.parametrize("plant", PLANTS)
def test_random_statements_find_a_planted_bug(kind, places, oracle, monkeypatch, plant):
    plant(monkeypatch)
    with moving(places), pytest.raises(Differs):
        compared(places, oracle, kind, range(500), clause=PLANTS[plant])
