"""Random single mutants: how many changes of meaning the quick tests notice.

    python -m tests.mutants                       200 of groups, guards, tables and stores; 100 of the pure rooms
    python -m tests.mutants --seed 5 --groups 20  a few, and the same again
    python -m tests.mutants --seed 5 --again      those of a seed that survived, after tests were written

Each mutant meets the tests that run its statement, the nearest and cheapest first, without the native twin. Which tests
those are is found once for these sources, by a run of all quick tests (some minutes), and kept in `.mutants` with every
result: a run goes on where it was interrupted. Tests that were written since have to be named: `--tests FILE ...`.

A mutant is killed by a test that fails, by a run that takes far too long, or by sources that can no longer be imported.
Any other end of pytest says nothing about the mutant: the run stops, and says so.
"""

import argparse
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random, SystemRandom
from time import monotonic

import pytest

from tests.mutants.mutation import Mutation, mutations
from tests.mutants.tree import ENDED, ROOT, Tree
from tests.mutants.witness import Witness

SOURCES = Path("src") / "apportion"
ROOMS = {"groups": ("groups", "guards", "runtime", "stores", "tables"), "pure": ("model", "placement", "balance")}
FOREIGN = {"kafka", "helix", "java"}  # held to vectors of the programs that they follow
NEAREST_FILES = 4
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
NOT_IMPORTED_SAYS = re.compile(r"ImportError while loading conftest|errors? during collection")
FAILED, NOT_IMPORTED = pytest.ExitCode.TESTS_FAILED, (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)


def main() -> int:
    """Try every mutant that was drawn, and say how many were noticed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what it started ends with it
    options = _parsed()
    sources = {room: list(_files(room)) for room in ROOMS}
    state = _state([path for paths in sources.values() for path in paths])
    unfinished = state / "unfinished"
    if options.seed is None:
        options.seed = int(unfinished.read_text()) if unfinished.exists() else SystemRandom().randrange(10_000)
    unfinished.write_text(f"{options.seed}")
    tree = Tree(state / f"tree-{options.seed}")
    drawn = {
        room: _drawn(tree, paths, f"{options.seed} {room}", getattr(options, room)) for room, paths in sources.items()
    }
    counts = ", ".join(f"{len(mutants)} of {room}" for room, mutants in drawn.items())
    print(f"mutants: seed {options.seed}, {counts}; kept in {state}", flush=True)
    witness = Witness.of([path for paths in sources.values() for path in paths], state, workers=options.workers)
    results = state / f"seed-{options.seed}.jsonl"
    known = dict(map(json.loads, results.read_text().splitlines())) if results.exists() else {}
    _require_collected(tree)  # what is compiled once is not compiled for each mutant
    for mutant in _mixed(drawn):
        before = known.get(str(mutant))
        if before is None or (options.again and before.startswith("survived")):
            known[str(mutant)] = _verdict(tree, mutant, witness, options)
            with results.open("a") as file:
                file.write(json.dumps([str(mutant), known[str(mutant)]]) + "\n")
            print(f"{mutant}: {known[str(mutant)]}", flush=True)
            if known[str(mutant)].startswith("unclear"):
                sys.exit("mutants: stopped, for this says nothing about the mutant; the next run passes it over")
    unfinished.unlink(missing_ok=True)
    for room, mutants in drawn.items():
        counts = Counter(known[str(mutant)].split(" ")[0] for mutant in mutants)
        ran = counts["killed"] + counts["survived"]
        rate = f"{counts['killed']} of {ran} killed, {100 * counts['killed'] / max(1, ran):.0f} %"
        others = f"no quick test runs {counts['unseen']} more, {counts['unclear']} are unclear"
        print(f"mutants: seed {options.seed}, {room}: {rate}; {others}")
    return 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Single mutants and the quick tests")
    parser.add_argument("--seed", type=int, help="which mutants are drawn; by default that of an unfinished run")
    parser.add_argument("--groups", type=int, default=200, help="mutants of groups, guards, tables and stores")
    parser.add_argument("--pure", type=int, default=100, help="mutants of the pure rooms")
    parser.add_argument("--most", type=float, default=60, help="seconds of tests that a mutant meets")
    parser.add_argument("--workers", type=int, default=2, help="processes of the run that finds the tests of each line")
    parser.add_argument("--again", action="store_true", help="try those that survived once more")
    parser.add_argument("--tests", nargs="*", default=[], help="tests that every mutant meets first")
    return parser.parse_args()


def _files(room: str) -> Iterator[Path]:
    for folder in ROOMS[room]:
        for path in sorted((ROOT / SOURCES / folder).rglob("*.py")):
            if not FOREIGN & set(path.relative_to(ROOT / SOURCES / folder).parts[:1]):
                yield path.relative_to(ROOT)


def _state(sources: list[Path]) -> Path:
    """Return the folder of what is known of these sources as they are."""
    digest = sha256(b"".join((ROOT / path).read_bytes() for path in sources)).hexdigest()
    state = ROOT / ".mutants" / digest[:8]
    state.mkdir(parents=True, exist_ok=True)
    return state


def _drawn(tree: Tree, paths: list[Path], seed: str, count: int) -> list[Mutation]:
    every = [each for path in paths for each in mutations(str(path), (tree.folder / path).read_bytes())]
    return Random(seed).sample(every, min(count, len(every)))


def _mixed(drawn: dict[str, list[Mutation]]) -> list[Mutation]:
    """Return all, so that a run that is interrupted has tried a like part of each list."""
    places = [(index / len(each), mutant) for each in drawn.values() for index, mutant in enumerate(each)]
    return [mutant for _, mutant in sorted(places, key=lambda place: place[0])]


def _verdict(tree: Tree, mutant: Mutation, witness: Witness, options: argparse.Namespace) -> str:
    tests, left, known = [], options.most, witness.tests(mutant)
    for test in known:
        if witness.seconds[test] <= left:
            tests.append(test)
            left -= witness.seconds[test]
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    near = [test for test in tests if test.partition("::")[0] in files[:NEAREST_FILES]]
    file, begin = tree.folder / mutant.path, monotonic()
    source = file.read_bytes()
    file.write_bytes(mutant.applied(source))
    try:
        for part in (options.tests, near, tests[len(near) :]):
            if part and (found := killer(tree, part, sum(witness.seconds[test] for test in part))):
                return f"killed in {monotonic() - begin:.0f} s by {found}"
    except Broken as error:
        file.write_bytes(source)
        _require_collected(tree)
        return f"{error}"
    finally:
        file.write_bytes(source)
    return f"survived {len(tests)} of {len(known)} tests" if tests else "unseen by any quick test"


class Broken(Exception):
    """Pytest has ended without a test that failed."""


def killer(tree: Tree, tests: list[str], seconds: float) -> str | None:
    """Return the test that fails; a run that takes far longer than these tests alone has failed too."""
    names = tree.folder / ".tests"
    names.write_text("".join(f"{test}\n" for test in tests))
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    chosen = ("-p", "tests.mutants.chosen", "--chosen", str(names), *files)
    code, said = tree.pytest("-x", "-rfE", "-o", f"timeout={20 + seconds}", *chosen, seconds=40 + 3 * seconds)
    if code == 0:
        return None
    if code == ENDED:
        return "a time-out"
    if -code in CRASHES:
        return f"a crash, signal {-code}"
    if code in NOT_IMPORTED and NOT_IMPORTED_SAYS.search(said):
        raise Broken(f"killed by the import, exit code {code}")
    if code != FAILED:
        raise Broken(f"unclear: exit code {code} of pytest: {said[-500:]}")
    told = (line.partition(" ")[2] for line in said.splitlines() if line.startswith(("FAILED ", "ERROR ")))
    return next(told, "a test that ended pytest")[:120]


def _require_collected(tree: Tree) -> None:
    """Stop unless pytest finds the tests of the unchanged sources."""
    code, said = tree.pytest("--collect-only", is_kept=True)
    if code:
        sys.exit(f"mutants: stopped, for without a mutant pytest ends with exit code {code}:\n{said[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
