"""Each bug that is planted in a statement of tasks is found, by the case or the cell that is named for it."""

import asyncio

import pytest

from apportion.errors import ApportionError
from apportion.sim.conformance import cases, check
from apportion.stores.catalog import connect_tasks
from tests.stores.rigs import rig_of
from tests.stores.task_bugs import FOUND_BY, PLANTS, RECEIPTS, planted
from tests.work.test_receipts import EXTENDED, REFUSED, outcomes, verbs_of

CASES = {case.name: case for case in cases()}
ENGINES = ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)]

TRIALS = 12


def of(engine, bugs):
    """Return the bugs of an engine, with its mark."""
    marks = [pytest.mark.slow] if engine == "postgres" else []
    return [pytest.param(engine, bug, marks=marks, id=bug.replace(" ", "_")) for bug in bugs if bug.startswith(engine)]


@pytest.fixture(scope="module")
def rigs():
    """The rigs of the engines, each made when it is first asked for, with tables of tasks."""
    made = {}

    def _rig(engine):
        if engine not in made:
            made[engine] = rig_of(engine)()
            asyncio.run(_tables(made[engine].url("n")))
        return made[engine]

    yield _rig
    for rig in made.values():
        asyncio.run(rig.close())


async def _tables(url):
    await (await connect_tasks(url)).close()


def played(case, rig):
    """Play a case again and again: a bug between two workers at once shows in half of the trials."""
    for _ in range(TRIALS):
        check(case, rig, patience_seconds=1)


@pytest.mark.parametrize(("engine", "bug"), [*of("sqlite", FOUND_BY), *of("postgres", FOUND_BY)])
def test_a_bug_in_a_statement_is_found_by_its_case(rigs, engine, bug):
    rig = rigs(engine)
    with planted(rig, bug), pytest.raises((AssertionError, ApportionError)):
        played(CASES[FOUND_BY[bug]], rig)
    assert check(CASES[FOUND_BY[bug]], rig, patience_seconds=5) is None


@pytest.mark.parametrize(("engine", "bug"), [*of("sqlite", RECEIPTS), *of("postgres", RECEIPTS)])
def test_a_removed_comparison_turns_the_cells_of_its_verbs_red_and_no_others(rigs, engine, bug):
    verbs, later = RECEIPTS[bug]
    rig = rigs(engine)
    with planted(rig, bug):
        found, _ = asyncio.run(outcomes(rig, later, verbs_of(engine), is_own_process=False))
    assert verbs == {verb for verb, outcome in found.items() if outcome != (REFUSED | EXTENDED)[verb]}


def test_each_bug_has_a_plant_and_a_finder():
    assert set(PLANTS) == {*FOUND_BY, *RECEIPTS}
