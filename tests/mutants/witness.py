"""Witness: which tests run a statement, in every thread and in the processes that they start, and how long they take.

Found by one run of all quick tests in a copy of the package that is marked: each of its statements says that it runs.
Refuses: module-level statements. They run at the import, for the tests of the whole file.
"""

import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.mutants.mutation import Mutation
from tests.mutants.seen import FOLDER
from tests.mutants.tree import QUICK, Tree

NUMBERS = "tests/docs/test_numbers.py"  # its tests read constants, and run no statement of a function
BODIES = ("body", "orelse", "finalbody")


class Witness:
    """What the run of all tests has shown."""

    def __init__(self, places: list[str], lines: Iterable[dict]) -> None:
        self.seconds: Counter[str] = Counter()
        self._tests: defaultdict[str, set[str]] = defaultdict(set)
        failed = set()
        for each in lines:
            self.seconds[each["test"]] += each["seconds"]
            failed |= {each["test"]} if each["failed"] else set()
            for number in each["seen"]:
                self._tests[places[number]].add(each["test"])
        for tests in self._tests.values():
            tests.difference_update(failed)  # they say nothing of a mutant

    @classmethod
    def of(cls, sources: Iterable[Path], state: Path, *, workers: int) -> "Witness":
        """Return what an earlier run has kept in `state`, or run all quick tests now."""
        kept = state / "witness.jsonl"
        if not kept.exists():
            partial = kept.with_suffix(".partial")
            partial.write_text("\n".join(_run(sources, state, workers=workers)))
            partial.rename(kept)
        with kept.open() as file:
            return cls(json.loads(next(file)), map(json.loads, file))

    def tests(self, mutant: Mutation) -> list[str]:
        """Return the tests of a statement, those near its file first; all of the file if it runs at the import.

        A statement that runs at the import is mostly a constant, so the tests of constants come before all others then.
        """
        if mutant.is_in_function:
            found = self._tests.get(f"{mutant.path}:{mutant.statement}", set())
        else:
            found = set().union(*(tests for place, tests in self._tests.items() if place.startswith(f"{mutant.path}:")))
            found |= {test for test in self.seconds if test.startswith(NUMBERS)}
        files = defaultdict(list)
        for test in sorted(found, key=lambda each: (self.seconds[each], each)):
            files[test.partition("::")[0]].append(test)
        room, stem = Path(mutant.path).parts[2], Path(mutant.path).stem

        def distance(file: str) -> tuple[bool, bool, bool, float]:
            is_of_constants = not mutant.is_in_function and file == NUMBERS
            seconds = sum(self.seconds[each] for each in files[file])
            return not is_of_constants, stem not in file, f"/{room}/" not in file, seconds

        return [test for file in sorted(files, key=distance) for test in files[file]]


def _run(sources: Iterable[Path], state: Path, *, workers: int) -> Iterator[str]:
    print("mutants: all quick tests run once, to find those of each line ...", flush=True)
    tree, folder, places = Tree(state / "marked"), state / "seen", list[str]()
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for path in sources:
        (tree.folder / path).write_text(marked((tree.folder / path).read_bytes(), name=str(path), places=places))
    plugin = ("-p", "tests.mutants.plugin", *QUICK, "-n", str(workers))
    code, said = tree.pytest(*plugin, is_kept=True, **{FOLDER: str(folder)})
    print("\n".join(said.splitlines()[-20:]), flush=True)
    if code not in (0, 1):  # a test that fails there is passed over
        sys.exit(code)
    yield json.dumps(places)
    for path in sorted(folder.iterdir()):
        yield from (line for line in path.read_text().splitlines() if line.endswith("}"))  # a full disk cuts a line


def marked(source: bytes, *, name: str, places: list[str]) -> str:
    """Return the source of a file whose statements say that they run; `places` grows by where each of them is."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for field in BODIES:
            body = getattr(node, field, None)
            if isinstance(body, list):
                setattr(node, field, list(_told(body, name, places)))
    first = 0 if ast.get_docstring(tree) is None else 1
    tree.body[first:first] = ast.parse("import tests.mutants.seen").body
    return ast.unparse(ast.fix_missing_locations(tree))


def _told(body: list[ast.stmt], name: str, places: list[str]) -> Iterator[ast.stmt]:
    for statement in body:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield from ast.parse(f"__seen__({len(places)})").body
            places.append(f"{name}:{statement.lineno}")
        yield statement
