"""The keeper: puts a bug into the package, and plays seeds there, in a process of its own.

Nearly every bug changes functions alone: a process that has imported everything is forked, and gets their new code.
Any other bug is put into a copy of the package, which a new interpreter imports.

A hunt begins with the seed that once found the bug (`seeds.json`). `python -m tests.sim.zoo` writes that file anew.
"""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

from tests.sim.zoo.cage import Bug
from tests.sim.zoo.graft import grafts
from tests.sim.zoo.hunter import Hunt, hunt_here
from tests.sim.zoo.trees import PACKAGE, ROOT, TREES, changed_text

_PLAY = """
import json, sys
from tests.sim.zoo.hunter import played
scenario, store, first, seeds, *names = sys.argv[1:]
print(json.dumps(played(scenario, store, int(first), int(seeds), names)))
"""
_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(["tests.sim.zoo.hunter"])
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
    (copy / path).write_text(changed_text(bug))
    return directory


def hunt(bug: Bug, directory: Path, *, only: tuple[str, ...] = (), seconds: float = 250) -> tuple[dict[str, list], int]:
    """Return the first violation with its invariant and its seed, and how often seeds were played."""
    first = FIRST.get(" by ".join((bug.name, *only)), 0)
    how = (bug.scenario, bug.store, first, bug.seeds, list(only))
    if grafts(TREES[bug.tree] / bug.file, changed_text(bug)) is None:
        return _hunt_in_a_copy(bug, directory, how, seconds)
    return _hunt_in_a_fork(bug, how, seconds)


def _hunt_in_a_fork(bug: Bug, how: Hunt, seconds: float) -> tuple[dict[str, list], int]:
    receiver, sender = _WARM.Pipe(duplex=False)
    hunter = _WARM.Process(target=hunt_here, args=(sender, bug, how))
    hunter.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise TimeoutError(f"the hunt of {bug.name!r} took longer than {seconds} s")
        return receiver.recv()
    finally:
        hunter.kill()
        hunter.join()


def _hunt_in_a_copy(bug: Bug, directory: Path, how: Hunt, seconds: float) -> tuple[dict[str, list], int]:
    place = planted(bug, directory)
    *others, only = how
    command = [sys.executable, "-c", _PLAY, *map(str, others), *only]
    paths = os.pathsep.join([str(place), str(PACKAGE.parent), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:  # it crashed: that is found too, by everybody
        return {"Crash": [0, done.stderr.strip().splitlines()[-1]]}, 1
    found, played = json.loads(done.stdout.splitlines()[-1])
    return found, played
