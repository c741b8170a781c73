"""Try the built files on every interpreter: python -m distributions.pythons [--quick] [--of FOLDER]

Each extra is installed alone into an environment of its own, and has to do one real act there. Then the fast tests run
against the installed wheel, from the sources of the sdist. `--quick` installs all extras at once, and runs no tests.

Promises: an interpreter from 3.11 to 3.14 that is absent is a fault, and the exit code is then 1.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from distributions.interpreters import NEWEST, OLDEST, found
from distributions.source import ROOT
from distributions.trial import Trial

EXTRAS = ["core", "cli", "demo", "hotkeys", "postgres", "etcd", "redis", "sqlalchemy", "metrics", "tasks"]
KEPT = ROOT / ".venv" / "pythons"


def main() -> int:
    """Try every interpreter, print a line for each attempt, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m distributions.pythons", description="Try the built files")
    parser.add_argument("--quick", action="store_true", help="one environment per interpreter, and no fast tests")
    parser.add_argument("--of", type=Path, default=ROOT / "dist", help="folder of the three files")
    options = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    interpreters = found(KEPT)
    missing = {(OLDEST[0], minor) for minor in range(OLDEST[1], NEWEST[1] + 1)} - {one.release for one in interpreters}
    faults = [f"Python {major}.{minor} is not here" for major, minor in sorted(missing)]
    for one in interpreters:
        faults += _faults(Trial.of(one, options.of, KEPT), is_quick=options.quick)
    for fault in faults:
        print(f"pythons: {fault}", file=sys.stderr)
    print(f"pythons: {len(interpreters)} interpreters, {len(faults)} faults")
    return 1 if faults else 0


def _faults(trial: Trial, *, is_quick: bool) -> Iterator[str]:
    yield from trial.smoke("none", ["core"])
    if is_quick:
        yield from trial.smoke("abi3", EXTRAS, installed="all", is_compiled=False)
        return
    yield from trial.smoke("abi3", ["core"])
    for extra in EXTRAS[1:]:
        yield from trial.smoke("abi3", [extra], installed=extra)
    yield from trial.test()


if __name__ == "__main__":
    sys.exit(main())
