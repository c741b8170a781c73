"""The keeper: puts a bug into a copy of the package, and plays seeds there, in a process of its own.

A hunt begins with the seed that once found the bug (`seeds.json`). `python -m tests.sim.zoo` writes that file anew.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import apportion
from tests.sim.zoo.cage import Bug

PACKAGE = Path(apportion.__file__).parent
ROOT = Path(__file__).parents[3]
TREES = {"apportion": PACKAGE, "tests": ROOT / "tests"}
_PLAY = """
import json, sys
from tests.sim.scenarios import scenario
played, store, first, seeds, wanted, *names = sys.argv[1:]
first, seeds, wanted = int(first), int(seeds), int(wanted)
only = [each for each in scenario.SCENARIOS[played].held if not names or each.__name__ in names]
found, count = {}, 0
for seed in dict.fromkeys([first, *range(seeds)]):
    count += 1
    report = scenario.play(seed, scenario=played, store=store, invariants=only, collect=True)
    for violation in report.violations:
        found.setdefault(violation.invariant, [seed, str(violation)])
    if len([name for name in found if not names or name in names]) >= wanted:
        break
print(json.dumps([found, count]))
"""
SEEDS = Path(__file__).with_name("seeds.json")
FIRST = json.loads(SEEDS.read_text())


def planted(bug: Bug, directory: Path) -> Path:
    """Make a copy of the package with the bug in it; an `AssertionError` when its text is not there, or twice.

    The bytecode is that of the package: a file that was changed has another time, and its bytecode is passed over.
    """
    source, copy, path = TREES[bug.tree], directory / bug.tree, Path(bug.file)
    (copy / path).parent.mkdir(parents=True)
    for on_the_way in (path, *path.parents[:-1]):
        for entry in (source / on_the_way).parent.iterdir():
            if entry.name != on_the_way.name:
                (copy / on_the_way).with_name(entry.name).symlink_to(entry)
    text = (source / path).read_text()
    count = text.count(bug.old)
    assert 1 == count, f"{bug.name!r}: its old text stands {count} times in {bug.file}; the bug must be planted anew"
    (copy / path).write_text(text.replace(bug.old, bug.new))
    return directory


def hunt(
    bug: Bug, directory: Path, *, wanted: int = 1, only: tuple[str, ...] = (), seconds: float = 250
) -> tuple[dict[str, list], int]:
    """Return what was found by whom in which seed (and how often seeds were played), up to `wanted` invariants."""
    place = planted(bug, directory)
    first = FIRST.get(" by ".join((bug.name, *only)), 0)
    command = [sys.executable, "-c", _PLAY, bug.scenario, bug.store, *map(str, (first, bug.seeds, wanted)), *only]
    paths = os.pathsep.join([str(place), str(PACKAGE.parent), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:  # it crashed: that is found too, by everybody
        return {"Crash": [0, done.stderr.strip().splitlines()[-1]]}, 1
    found, played = json.loads(done.stdout.splitlines()[-1])
    return found, played
