"""The mutants themselves: each changes one place and compiles, texts have none; a marked file tells what ran."""

import builtins
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.mutants import chosen
from tests.mutants.__main__ import Broken, killer
from tests.mutants.mutation import mutations
from tests.mutants.tree import ENDED
from tests.mutants.witness import marked

SOURCES = Path(__file__).parents[2] / "src" / "apportion"


def mutated(text):
    return {each.applied(text.encode()).decode() for each in mutations("a.py", text.encode())}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a is not b", {"x = (a is b)"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = not a", {"x = (a)"}),
        ("x = True", {"x = (False)"}),
        ("x = 5", {"x = (6)", "x = (4)"}),
        ("x = a + b", {"x = (a - b)"}),
        ("x = b if a else c", {"x = (c if a else b)"}),
        ("x = max(a)", {"x = (min(a))"}),
        ("a.b = c", {"pass"}),
        ("f(a)", {"pass"}),
        ("raise Foul(3)", {"pass"}),
        ("del a[b]", {"pass"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("def f() -> bool:\n    return a", {"def f() -> bool:\n    return not (a)"}),
        ("if a:\n    b = c", {"if (not a):\n    b = c"}),
        ("try:\n    b = c\nexcept Foul:\n    b = d", {"try:\n    b = c\nexcept ():\n    b = d"}),
        ("é = 'é', a in b", {"é = 'é', (a not in b)"}),
    ],
)
def test_a_line_becomes_each_slip_of_the_hand(line, expected):
    assert expected == mutated(line)


@pytest.mark.parametrize(
    "text",
    [
        '"""Docstring 1."""',
        "logger.warning('%s', 1)",
        "x = f'{1 + 2}'",
        "x: Literal[1]",
        "def __repr__(self):\n    return a + 1",
        "if TYPE_CHECKING:\n    x = 1",
        "raise_ = Foul",
        "x = zip(a, b, strict=True)",
        "x: int = field(repr=False)",
    ],
)
def test_a_text_or_type_has_no_mutant(text):
    assert set() == mutated(text)


@pytest.mark.slow
def test_every_mutant_of_a_file_compiles_and_no_two_are_alike():
    source = (SOURCES / "groups" / "controller" / "controller.py").read_bytes()
    found = [each.applied(source) for each in mutations("controller.py", source)]
    for each in found:
        compile(each, "controller.py", "exec")
    assert 200 < len(found) == len({*found} - {source})


def test_a_marked_file_tells_which_statements_ran(monkeypatch):
    seen, places = [], []
    monkeypatch.setattr(builtins, "__seen__", seen.append, raising=False)
    text = b'"""Text."""\nif 1 > 2:\n    x = 1\nelif 3:\n    x = 2\nelse:\n    x = 3\n'
    exec(marked(text, name="a.py", places=places))
    assert ["a.py:2", "a.py:4", "a.py:5"] == [places[number] for number in seen]


def killer_of(folder, code, said=""):
    return killer(SimpleNamespace(folder=folder, pytest=lambda *_, **__: (code, said)), ["a.py::test_a"], 1.0)


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (0, "", None),
        (1, "..F\nFAILED a.py::test_a - foul", "a.py::test_a - foul"),
        (ENDED, "", "a time-out"),
        (-11, "Segmentation fault", "a crash, signal 11"),
    ],
)
def test_a_mutant_is_killed_by_a_test_that_fails_a_crash_or_a_time_out(tmp_path, code, said, expected):
    assert expected == killer_of(tmp_path, code, said)


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (2, "Interrupted: 1 error during collection", "^killed by the import"),
        (4, "ImportError while loading conftest 'tests/conftest.py'.", "^killed by the import"),
        (2, "KeyboardInterrupt", "^unclear: exit code 2"),
        (4, "ERROR: file or directory not found: a.py", "^unclear: exit code 4"),
        (3, "INTERNALERROR", "^unclear: exit code 3"),
        (-9, "Killed", "^unclear: exit code -9"),
    ],
)
def test_any_other_end_of_pytest_is_told_apart(tmp_path, code, said, words):
    with pytest.raises(Broken, match=words):
        killer_of(tmp_path, code, said)


def test_the_chosen_tests_run_in_their_order_and_those_of_a_changed_name_last(tmp_path):
    names = tmp_path / "names"
    names.write_text("a.py::test_b\na.py::test_a[5]\na.py::test_c[1]\nb.py\n")
    found = ["a.py::test_a[6]", "a.py::test_b", "a.py::test_c[0]", "a.py::test_c[1]", "a.py::test_d", "b.py::test_e"]
    items = [SimpleNamespace(nodeid=each) for each in found]
    chosen.pytest_collection_modifyitems(SimpleNamespace(getoption=lambda _: names), items)
    expected = ["a.py::test_b", "a.py::test_c[1]", "a.py::test_a[6]", "b.py::test_e"]
    assert expected == [each.nodeid for each in items]
