"""The zoo: every planted bug is found within its seeds, and every invariant finds at least two of them by itself."""

from pathlib import Path

import pytest

from tests.sim.scenarios import scenario
from tests.sim.zoo.bugs import BUGS, FOUND_BY, Bug
from tests.sim.zoo.keeper import FIRST, hunt, planted
from tests.sim.zoo.trees import PACKAGE, TREES

BY_NAME = {bug.name: bug for bug in BUGS}
FEW_SEEDS = 80


def is_quick(bug):
    """Groups and tasks take longer to play: what needs many seeds of them is hunted by `make soak`."""
    return bug.scenario not in ("cron", "effects", "group", "keys", "shards", "tasks") or bug.seeds <= FEW_SEEDS


def hunted(name):
    """Return the parameter of a test that hunts a bug, marked by how long it takes."""
    return pytest.param(name, marks=pytest.mark.slow if is_quick(BY_NAME[name]) else pytest.mark.soak)


@pytest.mark.parametrize("name", [hunted(bug.name) for bug in BUGS])
def test_a_planted_bug_is_found(name, tmp_path):
    found, played = hunt(BY_NAME[name], tmp_path)
    assert found, f"{name!r} was not found in {played} seeds"
    assert "Crash" not in found, found  # that would be found by anything


@pytest.mark.parametrize(
    ("invariant", "name"),
    [
        pytest.param(invariant, name, marks=pytest.mark.slow if BY_NAME[name].scenario == "store" else pytest.mark.soak)
        for invariant, names in FOUND_BY.items()
        for name in names
    ],
)
def test_an_invariant_finds_a_bug_by_itself(invariant, name, tmp_path):
    found, played = hunt(BY_NAME[name], tmp_path, only=(invariant,))
    assert invariant in found, f"not found in {played} seeds"


def test_every_invariant_has_two_bugs_to_find():
    held = {each for played in scenario.SCENARIOS.values() for each in played.held}
    assert {each.__name__ for each in held} == set(FOUND_BY)
    assert [] == [invariant for invariant, names in FOUND_BY.items() if len(set(names)) < 2]
    assert [] == [name for names in FOUND_BY.values() for name in names if name not in BY_NAME]


def test_every_bug_has_a_name_of_its_own_and_changes_something():
    assert len(BUGS) == len(BY_NAME) >= 10
    assert [] == [bug.name for bug in BUGS if bug.old == bug.new]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted(bug, tmp_path):
    text = (planted(bug, tmp_path) / bug.tree / bug.file).read_text()
    assert text != (TREES[bug.tree] / bug.file).read_text()
    compile(text, bug.file, "exec")


def test_a_bug_whose_text_is_gone_is_told(tmp_path):
    with pytest.raises(AssertionError, match="stands 0 times"):
        planted(Bug("a bug of yesterday", "stores/ledger.py", "no such line", ""), tmp_path)


@pytest.mark.slow
def test_a_package_without_a_bug_has_nothing_to_find(tmp_path):
    harmless = Bug("none", "stores/ledger.py", '"""Ledger: ', '"""The ledger: ', seeds=5)
    assert ({}, 5) == hunt(harmless, tmp_path)


@pytest.mark.slow
def test_a_hunt_begins_with_the_seed_that_found_the_bug_before(tmp_path, monkeypatch):
    harmless = Bug("none", "stores/ledger.py", '"""Ledger: ', '"""The ledger: ', seeds=1)
    monkeypatch.setitem(FIRST, "none", 7)
    assert ({}, 2) == hunt(harmless, tmp_path)


def test_the_copy_is_what_runs(tmp_path):
    broken = Bug("no store at all", "stores/ledger.py", "class Ledger:", "class Ledger(missing):")
    found, _ = hunt(broken, tmp_path)
    assert "missing" in found["Crash"][1]
    assert Path(PACKAGE).is_dir()


@pytest.mark.slow
def test_the_copy_of_a_scenario_is_what_runs(tmp_path):
    broken = Bug(
        "no member", "sim/scenarios/store_member.py", "class StoreMember:", "class StoreMember(missing):", tree="tests"
    )
    found, _ = hunt(broken, tmp_path)
    assert "missing" in found["Crash"][1]
