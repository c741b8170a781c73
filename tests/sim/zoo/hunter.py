"""The hunter: plays seeds in this process until a bug is found."""

from multiprocessing.connection import Connection
from pathlib import PurePosixPath

from tests.sim.scenarios import scenario
from tests.sim.zoo.cage import Bug
from tests.sim.zoo.graft import graft, grafts
from tests.sim.zoo.trees import TREES, changed_text

Hunt = tuple[str, str, int, int, list[str]]  # scenario, store, first seed, seeds, names of invariants (none: all)
Found = tuple[dict[str, list], int]


def played(name: str, store: str, first: int, seeds: int, only: list[str]) -> Found:
    """Return the first violation with its invariant and its seed, and how often seeds were played."""
    held = [each for each in scenario.SCENARIOS[name].held if not only or each.__name__ in only]
    found: dict[str, list] = {}
    count = 0
    for seed in dict.fromkeys([first, *range(seeds)]):
        count += 1
        report = scenario.play(seed, scenario=name, store=store, invariants=held)
        for violation in report.violations:
            found.setdefault(violation.invariant, [seed, str(violation)])
        if found and (not only or found.keys() & only):
            break
    return found, count


def hunt_here(sender: Connection, bug: Bug, how: Hunt) -> None:
    """Put a bug into this process, hunt it, and send the result. A crash is found too, by everybody."""
    file = TREES[bug.tree] / bug.file
    changed = grafts(file, changed_text(bug))
    assert changed is not None, "this bug needs a copy of the package"
    try:
        graft(".".join((bug.tree, *PurePosixPath(bug.file).with_suffix("").parts)), changed)
        sender.send(played(*how))
    except Exception as error:  # noqa: BLE001 - whatever the bug raises
        sender.send(({"Crash": [0, f"{type(error).__name__}: {error}"]}, 1))
