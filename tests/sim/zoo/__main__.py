"""Hunt every bug, and write down a seed that finds it, so that the next hunt begins there."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sim.zoo.bugs import BUGS, FOUND_BY
from tests.sim.zoo.keeper import FIRST, SEEDS, hunt

_BY_NAME = {bug.name: bug for bug in BUGS}
_HUNTS = [(name,) for name in _BY_NAME] + [(name, each) for each, names in FOUND_BY.items() for name in names]


def _note(names: tuple[str, ...]) -> None:
    with TemporaryDirectory() as directory:
        found, played = hunt(_BY_NAME[names[0]], Path(directory), only=names[1:], seconds=3_600)
    what = " by ".join(names)
    FIRST[what] = min((seed for seed, _ in found.values()), default=0)
    print(f"{what}: seed {FIRST[what]}, after {played}" if found else f"{what}: not found", flush=True)
    SEEDS.write_text(json.dumps({each: seed for each, seed in sorted(FIRST.items()) if seed}, indent=2) + "\n")


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as hunters:
        list(hunters.map(_note, _HUNTS))
