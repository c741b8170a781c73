"""The explorer finds nothing in what is shipped, and something in each bug, and wherever a row is gone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.groups import handover
from apportion.groups.handover import HandOverEvent, Phase
from models import world
from models.__main__ import FULL, SMALL, main
from models.diagram import diagram
from models.explorer import Explorer
from models.story import story
from models.terms import Terms
from models.world import Bounds, World
from tests.models.bugs import MUTANTS, Mutant
from tests.sim.zoo.keeper import planted

ROOT = Path(__file__).parents[2]
FAILURES, FLIPS, DEATHS = (Bounds(1, 1, 0), False), (Bounds(2, 0, 0), False), (Bounds(0, 3, 0), True)
# The bounds within which the loss of a row is told, where it is not those of one failure.
TOLD_WITHIN = {
    (Phase.IDLE, HandOverEvent.WANTED_USED): FLIPS,
    (Phase.GIVING, HandOverEvent.DONE): FLIPS,
    (Phase.GIVING, HandOverEvent.OVER): (Bounds(2, 1, 0), False),
    (Phase.SERVING, HandOverEvent.PROVEN): DEATHS,
}


def explored(bounds: Bounds, *, deaths: bool = False, guarded: bool = True):
    return Explorer(World(bounds, deaths=deaths, guarded=guarded)).run()


@pytest.mark.slow
@pytest.mark.parametrize("setting", SMALL, ids=str)
def test_nothing_is_found_in_what_is_shipped(setting):
    report = explored(setting.bounds, deaths=setting.deaths)
    assert ("", 0) == (report.broken, report.stuck)
    assert report.states > 5_000
    assert report.highest < setting.bounds.epochs  # nothing was cut off


def test_terms_and_leases_are_nobody_elses():
    report = Explorer(Terms(3)).run()
    assert ("", 0) == (report.broken, report.stuck)
    assert report.states > 2_000


@pytest.mark.slow
@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row[0].name}-{row[1].name}") for row in handover.TRANSITIONS])
def test_every_row_is_needed(row, monkeypatch):
    monkeypatch.delitem(handover.TRANSITIONS, row)
    bounds, deaths = TOLD_WITHIN.get(row, FAILURES)
    assert explored(bounds, deaths=deaths).broken


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found(mutant, tmp_path):
    code, output = commanded(mutant, tmp_path)
    assert (1, mutant.by) == (code, output.splitlines()[-1].strip().partition(":")[0]), output


@pytest.mark.slow
def test_a_package_without_a_bug_has_nothing_to_find(tmp_path):
    harmless = Mutant("none", "groups/handover.py", '"""Hand-over: ', '"""The hand-over: ', by="")
    code, output = commanded(harmless, tmp_path)
    assert (0, 1) == (code, output.count("\n")), output


def commanded(mutant: Mutant, directory: Path) -> tuple[int, str]:
    """Return the exit status and the output of the explorer, run on a copy of the package with the bug in it."""
    place = planted(mutant, directory)
    command = [sys.executable, "-m", "models", *mutant.options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), str(ROOT)])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert "" == done.stderr
    return done.returncode, done.stdout


def test_without_a_guard_a_process_that_was_paused_writes_what_is_too_old():
    assert "FenceMonotone: an older write is accepted" == explored(Bounds(1, 1, 0), guarded=False).broken


def test_without_a_guard_planned_moves_alone_break_nothing():
    assert "" == explored(Bounds(2, 0, 0), guarded=False).broken


def test_a_store_that_gives_a_session_twice_is_told(monkeypatch):
    monkeypatch.setattr(world, "next_session", lambda session: -session)
    assert explored(Bounds(0, 1, 0)).broken


def test_the_story_names_who_did_what(monkeypatch):
    monkeypatch.delitem(handover.TRANSITIONS, (Phase.SERVING, HandOverEvent.OVER))
    explorer = Explorer(World(Bounds(0, 1, 0)))
    lines = list(story(explorer.world, explorer.run().trace))
    assert "1  a: sees the store" in lines[0]
    assert lines[0].endswith("a asks")
    assert any("a: its lease ends" in line and "sessions b 2" in line for line in lines)
    assert "a: learns that its session has ended" in lines[-1]


def test_a_trace_is_among_the_shortest(monkeypatch):
    monkeypatch.delitem(handover.TRANSITIONS, (Phase.SERVING, HandOverEvent.OVER))
    report = explored(Bounds(0, 1, 0))
    assert report.depth + 1 == len(report.trace)


def test_bounds_that_cut_are_told(capsys):
    assert 0 == main(["--bounds", "1,0,0,1"])
    assert "epochs up to 1, cut there" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["1,1", "1,1,x", "", "1,-1,0", "1,1,1,1,1"])
def test_bounds_that_are_none_are_refused(text, capsys):
    with pytest.raises(SystemExit):
        main([f"--bounds={text}"])
    assert "expected three or four numbers" in capsys.readouterr().err


def test_the_full_bounds_hold_the_small_ones():
    assert [] == [small for small in SMALL if not any(holds(full, small) for full in FULL)]


def holds(full, small):
    pairs = zip(full.bounds, small.bounds, strict=True)
    return full.deaths == small.deaths and all(larger >= smaller for larger, smaller in pairs)


def test_the_diagram_in_the_docs_is_the_table():
    page = (ROOT / "docs" / "groups" / "handover.md").read_text()
    assert [diagram()] == re.findall(r"```mermaid\n(.*?)\n```", page, re.DOTALL)


def test_the_story_in_the_docs_is_what_is_printed(capsys):
    page = (ROOT / "docs" / "groups" / "handover.md").read_text()
    shown = re.search(r"```text\n\$ python -m models (.*?)\n.*?\n(.*?)```", page, re.DOTALL)
    assert 1 == main(shown[1].split())
    assert shown[2] == capsys.readouterr().out.partition("\n")[2]


def test_the_diagram_has_every_row():
    assert len(handover.TRANSITIONS) == diagram().count("-->") - 1


def test_every_mutant_has_a_name_of_its_own_and_a_promise_that_tells():
    assert len(MUTANTS) == len({mutant.name for mutant in MUTANTS})
    assert all(mutant.by for mutant in MUTANTS)
