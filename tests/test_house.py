"""The shape of the house, in numbers that may only fall: sizes, folders, names, chains, and the words of sentences.

Each `MOST` is a ratchet: a change that needs a larger one has a second idea in it, or a sentence that nobody would say.
`python -m tests.test_house` prints the numbers, and the lines of each room.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("uncollected")

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "apportion"
SOURCES = sorted(PACKAGE.rglob("*.py"))
RUST = sorted((ROOT / "native" / "src").rglob("*.rs"))
MOST_FILES_IN_A_FOLDER = 24
NOUNS_IN_ING = {"opening", "parsing", "ring", "standing"}
MOST_CHAINS = 79
MOST_WHAT, MOST_WHO = 0.1, 0.1
MOST_LONG_SENTENCES = 1  # the table of the promises of stores
WORDS_OF_A_LONG_SENTENCE = 40
MOST_WHAT_IN_MESSAGES = 2
WORDS_OF_A_LONG_MESSAGE = 25
SQL = ("ALTER ", "CREATE ", "INSERT ", "SELECT ")
MOST_LINES_OF_RUST = 350
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def trees() -> dict[Path, ast.Module]:
    """Return every file of the package, parsed."""
    return {path: ast.parse(path.read_text()) for path in SOURCES}


@cache
def docstrings() -> list[str]:
    """Return every docstring of the package, and every comment of the native twin on lines of its own."""
    kinds = (ast.Module, ast.ClassDef, *DEFINITIONS)
    found = (ast.get_docstring(node) for tree in trees().values() for node in ast.walk(tree) if isinstance(node, kinds))
    comments = (re.findall(r"(?:^ *//[/!]?(?: .*)?\n)+", path.read_text(), re.M) for path in RUST)
    return [*filter(None, found), *(re.sub(r"(?m)^ *//[/!]? ?", "", each) for each in chain(*comments))]


def text_of(node: ast.AST) -> str:
    """Return the text of a string, with X for each value in it; nothing for another node."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@cache
def messages() -> list[str]:
    """Return every comment of the package, and every other string of one line with at least three words."""
    found, known = [], set(docstrings())
    for path, tree in trees().items():
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        found += [token.string for token in tokens if token.type == tokenize.COMMENT]
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        found += [text_of(node) for node in ast.walk(tree) if id(node) not in parts]
    texts = (each.strip() for each in found)
    return [each for each in texts if each.count(" ") > 1 and "\n" not in each and each not in known]


def per_thousand(words: str) -> float:
    """Return how often one of these words stands in 1 000 words of docstrings."""
    listed = [word.lower() for text in docstrings() for word in re.findall(r"[A-Za-z']+", text)]
    return 1000 * sum(word in words.split() for word in listed) / len(listed)


def sentences(text: str) -> list[str]:
    """Return the sentences of a docstring, without examples and tables."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(>>>|\.\.\.|[|]|- |\* |    )", line)]
    return re.split(r"(?<=[.:;!?])\s+|\n\n", "\n".join(lines))


def files_by_folder() -> Counter[str]:
    """Return the number of files of each folder of the package."""
    return Counter(str(path.parent.relative_to(PACKAGE)) for path in SOURCES)


def test_a_folder_has_few_files():
    assert {} == {folder: count for folder, count in files_by_folder().items() if count > MOST_FILES_IN_A_FOLDER}


def test_a_file_is_named_by_a_noun():
    assert set() == {path.stem for path in (*SOURCES, *RUST) if path.stem.endswith("ing")} - NOUNS_IN_ING


def _names(node: ast.expr) -> list[str]:
    """Return the names of `a.b.c`, the first one first; none for another expression."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def chains() -> list[str]:
    """Return the places of `self.a.b.c` in the package."""
    return [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and len(names := _names(node)) == 4 and names[0] == "self"
    ]


def test_no_file_reaches_three_steps_into_another():
    assert len(chains()) <= MOST_CHAINS, chains()


def modules_of_the_package() -> dict[str, set[str]]:
    """Return each module with the modules that it imports, those of types alone too, without the lazy root."""
    files = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in SOURCES}
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    imported: dict[str, set[str]] = {}
    for name, path in modules.items():
        for node in ast.walk(trees()[path]):
            if isinstance(node, ast.ImportFrom) and node.module:
                full = (f"{node.module}.{each.name}" for each in node.names)
                imported.setdefault(name, set()).update(each if each in modules else node.module for each in full)
    return {name: (others & modules.keys()) - {name, "apportion"} for name, others in imported.items()}


def test_modules_of_the_package_have_no_knot():
    modules = modules_of_the_package()
    del modules["apportion"]
    assert "apportion.groups.view.keys" in modules["apportion.groups.view.intake"], "the imports are read"
    assert set(modules) <= set(TopologicalSorter(modules).static_order()), "a knot is a `CycleError` that names it"


def test_the_console_writes_to_no_store_itself():
    writers = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, tree in trees().items()
        if path.is_relative_to(PACKAGE / "console")
        for node in ast.walk(tree)
        if (isinstance(node, ast.alias) and node.name == "Put")
        or (isinstance(node, ast.Attribute) and node.attr in ("Put", "commit"))
    ]
    assert [] == writers


def test_docstrings_name_the_thing():
    assert per_thousand("what") <= MOST_WHAT
    assert per_thousand("who whom whose whoever") <= MOST_WHO


def long_sentences() -> list[str]:
    """Return the sentences of docstrings with too many words."""
    return [each for text in docstrings() for each in sentences(text) if len(each.split()) > WORDS_OF_A_LONG_SENTENCE]


def test_sentences_are_short():
    assert len(long_sentences()) <= MOST_LONG_SENTENCES, long_sentences()


def test_messages_and_comments_name_the_thing():
    vague = [each for each in messages() if re.search(r"\b(what|who|whom|whose|whoever)\b", each, re.I)]
    assert len(vague) <= MOST_WHAT_IN_MESSAGES, vague


def _is_sql(text):
    return text.startswith(SQL) or " WHERE " in text


def test_messages_and_comments_are_short():
    told = [each for text in messages() if not _is_sql(text) for each in sentences(text)]
    assert [] == [each for each in told if len(each.split()) > WORDS_OF_A_LONG_MESSAGE]


def test_files_of_the_native_twin_are_short():
    lines = {path: path.read_text().count("\n") for path in RUST}
    assert {} == {path.name: count for path, count in lines.items() if count > MOST_LINES_OF_RUST}


def modules_of_the_twin() -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Return each Rust module of the native twin, the root as `()`, with the other modules that its paths name."""
    texts = {}
    for path in RUST:
        module = path.relative_to(ROOT / "native" / "src").with_suffix("").parts
        text = re.sub(r"//.*", "", path.read_text())
        in_full = re.sub(r"((?:\w+::)+){([^{}]*)}", lambda group: re.sub(r"\b(?=\w)", group[1], group[2]), text)
        texts[() if module == ("lib",) else module] = in_full
    named: dict[tuple[str, ...], set[tuple[str, ...]]] = {module: set() for module in texts}
    for module, text in texts.items():
        for first, *rest in (path.split("::") for path in re.findall(r"\w+(?:::\w+)+", text)):
            full = (*{"crate": (), "super": module[:-1]}.get(first, (*module, first)), *rest)
            named[module].add(next(full[:size] for size in range(len(full), -1, -1) if full[:size] in texts))
    return {module: others - {module} for module, others in named.items()}


def test_modules_of_the_native_twin_have_no_knot():
    modules = modules_of_the_twin()
    assert ("bulk", "block") in modules["bulk", "flat"], "the paths are read"
    assert set(modules) == set(TopologicalSorter(modules).static_order()), "a knot is a `CycleError` that names it"


def lines_by_room() -> Counter[str]:
    """Return the lines of each room of the package; of `stores` and `sim`, those that serve tasks apart."""
    counts: Counter[str] = Counter()
    for path in SOURCES:
        room = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "(root)"
        counts[f"{room}, of tasks" if room != "work" and "task" in str(path) else room] += path.read_text().count("\n")
    return counts


def print_numbers() -> None:
    """Print the numbers of the house."""
    print(f"what, who per 1 000 words   {per_thousand('what'):.2f}, {per_thousand('who whom whose whoever'):.2f}")
    print(f"sentences over 40 words     {len(long_sentences())}")
    print(f"most files in a folder      {max(files_by_folder().values())}")
    print(f"chains of three steps       {len(chains())}")
    print(f"most lines of a Rust file   {max(path.read_text().count(chr(10)) for path in RUST)}")
    for room, lines in lines_by_room().most_common():
        print(f"lines of {room:<18} {lines:>6}")
    print(f"lines                       {lines_by_room().total():>6}")


if __name__ == "__main__":
    print_numbers()
