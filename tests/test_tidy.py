"""The rules of CONTRIBUTING.md that no other tool checks, held against every file of the package and of the models.

Ratchets may be lowered, never raised: a file that needs more room has a second idea in it.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from inspect import isclass
from itertools import chain
from pathlib import Path

import pytest

from apportion.sim import facts, shard_facts

pytestmark = pytest.mark.usefixtures("uncollected")

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "models").rglob("*.py")])
MOST_LINES_IN_A_FILE = 350
MOST_LINES_IN_A_FUNCTION = 50
MOST_METHODS_IN_A_CLASS = 20
MOST_METHODS_IN_A_PROTOCOL = 8
MOST_LEVELS_OF_NESTING = 4
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "base"}
BANNED = {
    r"\bvirtual nodes?\b": "token",
    r"\bmaster\b": "leader",
    r"\bslave\b": "replica",
    r"\binstances?\b": "node, member, or the class itself",
    r"\bTODO\b|\bFIXME\b|\bXXX\b|\bHACK\b": "an issue",
    r"\bNotImplementedError\b": "an abstract method",
    r"\bpickle\.loads?\b|\byaml\.load\b|\beval\(": "the codec",
}
# What other systems call them is what their output says, and readers read.
FOREIGN = {"leader", "replica"}
# What a compiler makes holds the paths of its machine, and is in no repository.
BUILT = {".so", ".pyd", ".dylib"}
NESTING = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match
)  # fmt: skip
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)  # an expression holds no statement


@cache
def protocols() -> dict[str, set[str]]:
    """Return the names of the methods of each protocol."""
    return {
        node.name: {each.name for each in node.body if isinstance(each, DEFINITIONS)}
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)
    }


# A method of an invariant is named after the fact that it checks, and the class says what it promises of it.
OF_FACTS = {name.lower() for name, kind in {**vars(facts), **vars(shard_facts)}.items() if isclass(kind)}
OF_INVARIANTS = {"Invariant": OF_FACTS, "GroupInvariant": OF_FACTS}


def violations(path: Path, text: str) -> Iterator[str]:
    """Yield the faults of one file."""
    tree = ast.parse(text)
    lines = text.count("\n")
    if lines > MOST_LINES_IN_A_FILE:
        yield f"{lines} lines"
    if text.strip() and ast.get_docstring(tree) is None:
        yield "no module docstring"
    if path.stem in DRAWERS:
        yield "a drawer, not an idea"
    for pattern, better in BANNED.items():
        if "readers" in path.parts and better in FOREIGN:
            continue
        yield from (f"says {found!r}; say {better}" for found in re.findall(pattern, text))
    nodes = [*ast.walk(tree)]
    told = set(chain.from_iterable(map(_told_by_protocols, nodes)))
    for node in nodes:
        yield from _of_node(node)
        if isinstance(node, DEFINITIONS) and node not in told and _lacks_docstring(node):
            yield f"{node.name} has no docstring"


def _told_by_protocols(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the methods of a class that a protocol among its bases has, with the docstring there."""
    if isinstance(node, ast.ClassDef):
        known = protocols() | OF_INVARIANTS
        names = set(chain.from_iterable(known.get(ast.unparse(base).rpartition(".")[2], ()) for base in node.bases))
        yield from (each for each in node.body if isinstance(each, DEFINITIONS) and each.name in names)


def _of_node(node: ast.AST) -> Iterator[str]:
    if isinstance(node, DEFINITIONS):
        yield from _of_function(node)
    if isinstance(node, ast.ClassDef):
        methods = sum(isinstance(member, DEFINITIONS) for member in node.body)
        if methods > MOST_METHODS_IN_A_CLASS:
            yield f"class {node.name} has {methods} methods"
        if not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield f"class {node.name} has no docstring"
    if isinstance(node, ast.ExceptHandler):
        caught = [ast.unparse(part) for part in ast.walk(node.type)] if node.type else ["everything"]
        if {"everything", "Exception", "BaseException"} & set(caught):
            yield f"line {node.lineno} catches everything"


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > MOST_LINES_IN_A_FUNCTION:
        yield f"{node.name} has {lines} lines"
    if _depth(node) > MOST_LEVELS_OF_NESTING:
        yield f"{node.name} nests {_depth(node)} levels deep"
    given = node.args.kwarg
    is_typed = given is None or "Params.kwargs" in ast.unparse(node.args)  # of another function, known to type checkers
    if given is not None and not is_typed and node.name[0] != "_" and node.name not in ALLOWED_KWARGS:
        yield f"{node.name} takes **{given.arg}"


def _lacks_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not node.name.startswith("_") and ast.get_docstring(node) is None and not _is_stub(node)


# The open end of a JSON object.
OF_SQLALCHEMY = {"get_bind", "bulk_save_objects", "bulk_insert_mappings", "bulk_update_mappings"}
ALLOWED_KWARGS = {"print_json", *OF_SQLALCHEMY}


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return len(node.body) == 1 and isinstance(node.body[0], ast.Expr)


def _depth(node: ast.AST) -> int:
    blocks = (child for child in ast.iter_child_nodes(node) if isinstance(child, BLOCKS))
    return max(map(_depth, blocks), default=0) + isinstance(node, NESTING)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_is_tidy(path):
    assert [] == list(violations(path, path.read_text()))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n", "no module docstring"),
        ('"""D."""\n' + "x = 1\n" * 351, "352 lines"),
        ('"""D."""\ndef f():\n    """D."""\n' + "    x = 1\n" * 50, "f has 52 lines"),
        ('"""D."""\ntry:\n    x = 1\nexcept Exception:\n    x = 2\n', "line 4 catches everything"),
        ('"""D."""\ntry:\n    x = 1\nexcept (OSError, BaseException):\n    x = 2\n', "line 4 catches everything"),
        ('"""A master."""\n', "says 'master'; say leader"),
        ('"""D."""\ndef f(**options):\n    """D."""\n', "f takes **options"),
        ('"""D."""\ndef f():\n    return 1\n', "f has no docstring"),
        ('"""D."""\nclass A(Clock):\n    """D."""\n\n    def f(self):\n        return 1\n', "f has no docstring"),
        ('"""D."""\nclass A:\n' + "    async def f(self): ...\n" * 21, "class A has 21 methods"),
        (
            '"""D."""\nasync def f():\n'
            + "".join(f"{' ' * 4 * deep}async with a:\n" for deep in range(1, 6))
            + f"{' ' * 24}x = 1\n",
            "f nests 5 levels deep",
        ),
    ],
)
def test_a_planted_violation_is_found(text, found):
    assert found in list(violations(Path("planted.py"), text))


def test_a_method_that_a_protocol_explains_needs_no_docstring_of_its_own():
    text = '"""D."""\nclass A(Clock):\n    """D."""\n\n    def elapsed(self):\n        return 1\n'
    assert [] == list(violations(Path("planted.py"), text))
    asked = text.replace("Clock", "Invariant")
    assert ["elapsed has no docstring"] == list(violations(Path("planted.py"), asked))
    assert [] == list(violations(Path("planted.py"), asked.replace("elapsed", "granted")))


def test_a_planted_drawer_is_found():
    assert ["a drawer, not an idea"] == list(violations(Path("utils.py"), '"""D."""\n'))


def test_no_protocol_has_more_methods_than_a_reader_keeps_in_mind():
    assert {"TaskStore", "CoordinationStore"} <= protocols().keys()
    assert {} == {name: found for name, found in protocols().items() if len(found) > MOST_METHODS_IN_A_PROTOCOL}


def test_no_two_public_classes_of_the_package_share_a_name():
    homes = defaultdict(set)
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and "plugins" not in path.parts:
                homes[node.name].add(str(path.relative_to(ROOT)))
    assert {} == {name: found for name, found in homes.items() if len(found) > 1}


def test_every_room_says_what_it_is_for():
    for room in sorted((ROOT / "src" / "apportion").glob("*/__init__.py")):
        assert ast.get_docstring(ast.parse(room.read_text())), room


def test_the_version_has_its_changes_written_down():
    fragments = [path.name for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    kinds = {"added", "changed", "deprecated", "removed", "fixed", "faster"}
    assert fragments
    assert set() == {name.split(".")[-2] for name in fragments} - kinds


def test_no_file_names_a_private_path_or_a_registry():
    hosts = ["pypi" + ".org", "files.python" + "hosted", "crates" + ".io", "/wo" + "rk/", "/ro" + "ot/"]
    files = [
        path
        for folder in ("src", "tests", "bench", "models", "docs", "examples", "changes", "requirements", "native")
        for path in (ROOT / folder).rglob("*")
        if path.suffix not in BUILT and path.name != "Cargo.lock"  # whose format names the registry
    ]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")]
    texts = {
        path: path.read_text(errors="replace").replace("apportion/wo" + "rk/", "")  # the room of tasks
        for path in files
        if path.is_file() and not {"__pycache__", "target", "apportion.egg-info"} & {*path.relative_to(ROOT).parts}
    }
    assert [] == [(str(path), host) for path, text in texts.items() for host in hosts if host in text]
