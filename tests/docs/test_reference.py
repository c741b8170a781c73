"""The reference pages speak of everything that there is: placements, errors, commands, options, hash functions."""

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import pytest
from cyclopts import App

import apportion
from apportion import errors, hashers
from apportion.console.main import ALIASES, application
from apportion.placement import get, names
from tests.docs.blocks import ROOT
from tests.docs.catalog_table import PAGE, page_with_table

DOCS = ROOT / "docs"
PLACEMENTS = [name for name in names() if get(name).build.__module__.startswith("apportion.")]
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ApportionError)]
LEAVES = sorted(kind.__name__ for kind in ERRORS if not kind.__subclasses__())
GROUPS, TASKS, SHARDS = "groups/commands", "tasks/commands", "shards/commands"
PAGE_OF_A_ROOM = {"group": GROUPS, "guard": GROUPS, "tasks": TASKS, "cron": TASKS, "shards": SHARDS}
OTHER_NAMES = {other for names in ALIASES.values() for other in names}


def commands_in(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command of the command line, under each of its names."""
    for name in app:
        if not name.startswith("-"):
            inner = list(commands_in(app[name], (*path, name)))
            yield from inner or [(*path, name)]


ALL_NAMES = list(commands_in(application()))
ALL_COMMANDS = [each for each in ALL_NAMES if each[-1] not in OTHER_NAMES]


def sections_of(text: str) -> dict[str, str]:
    """Return the text under each heading of the second and third level."""
    headings = list(re.finditer(r"^##+ (.+)$", text, re.MULTILINE))
    ends = [match.start() for match in headings[1:]] + [len(text)]
    return {match[1].strip("`"): text[match.end() : end] for match, end in zip(headings, ends, strict=True)}


def options_of(command: tuple[str, ...]) -> set[str]:
    """Return the options in the command's help, without `--no-` forms and names of what is given by position."""
    app = application()
    for name in command:
        app = app[name]
    arguments = [argument for argument in app.assemble_argument_collection() if argument.index is None]
    names = {name for argument in arguments for name in argument.names}
    return {name for name in names if name.startswith("--") and not name.startswith("--no-")}


def page_of(command: tuple[str, ...]) -> str:
    """Return the text of the page that has the section of a command."""
    return (DOCS / f"{PAGE_OF_A_ROOM.get(command[0], 'commands')}.md").read_text()


def documented_options(page: str, command: str, main: str = "") -> set[str]:
    """Return the options in the section of the command, or in a shared section that its sentence of options names.

    A shared section is on the page of the command, or on the main page of commands.
    """
    own = sections_of(page)[command]
    sections = sections_of(f"{main}\n{page}")
    shared = {heading.lower().replace(" ", "-"): text for heading, text in sections.items()}
    sentences = " ".join(re.findall(r"ptions: .*?\.(?!\S)", own, re.DOTALL))
    texts = [own, *(shared[anchor] for anchor in re.findall(r"\((?:\.\./commands\.md)?#([a-z-]+)\)", sentences))]
    return {option for text in texts for option in re.findall(r"^- .*?`(--[a-z-]+)", text, re.MULTILINE)}


def test_the_table_of_placements_is_what_the_specs_say():
    assert PAGE.read_text() == page_with_table(PAGE.read_text())


def test_a_planted_promise_in_the_table_is_found():
    planted = PAGE.read_text().replace("| O(nodes) | yes |", "| O(nodes) | no |")
    assert planted != page_with_table(planted)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement_has_a_page_that_cites_its_source(name):
    text = (DOCS / "algorithms" / f"{name}.md").read_text()
    assert get(name).source in " ".join(text.split())
    assert len(text.splitlines()) <= 80


@pytest.mark.parametrize("name", LEAVES)
def test_every_leaf_of_the_errors_has_a_section_that_raises_it(name):
    assert f"{name}: " in sections_of((DOCS / "errors.md").read_text())[name]


def tree_of_errors(page: str) -> dict[str, tuple[bool, set[str]]]:
    """Return the branches in the table of a page, each with its word about retries and its leaves."""
    rows = re.findall(r"^\| `(\w+)`.*\| ([^|]*) \| (\[[^|]*) \|$", page, re.MULTILINE)
    return {name: ("retryable" in retry, set(re.findall(r"`(\w+)`", leaves))) for name, retry, leaves in rows}


def test_the_table_of_errors_is_the_tree():
    page = (DOCS / "errors.md").read_text()
    branches = [kind for kind in ERRORS if errors.ApportionError in kind.__bases__]
    leaves = {
        kind: {leaf.__name__ for leaf in ERRORS if kind in leaf.__bases__} or {kind.__name__} for kind in branches
    }
    tree = {kind.__name__: (kind.retryable, leaves[kind]) for kind in branches}
    assert tree == tree_of_errors(page)
    for planted in (
        page.replace("| no; correct it |", "| `retryable` |"),
        page.replace("[`BadRange`](#badrange), ", ""),
    ):
        assert tree != tree_of_errors(planted)


def test_every_error_of_the_package_is_on_the_page_of_errors():
    for each in walk_packages(apportion.__path__, "apportion."):
        import_module(each.name)
    branches = errors.ApportionError.__subclasses__()
    kinds = [*branches, *(leaf for branch in branches for leaf in branch.__subclasses__())]
    ours = {kind.__name__ for kind in kinds if kind.__module__.startswith("apportion.")}
    assert set() == ours - set(re.findall(r"\w+", (DOCS / "errors.md").read_text()))


@pytest.mark.parametrize("command", ALL_NAMES, ids=" ".join)
def test_every_command_is_run_on_its_page_under_each_name(command):
    assert re.search(rf"\$ apportion {' '.join(command)}\b", page_of(command))


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_every_command_is_listed_at_the_top_of_its_page(command):
    listed, _, _ = page_of(command).partition("\n## ")
    assert f"[`{' '.join(command)}`](#{'-'.join(command)})" in listed


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_every_option_of_a_command_is_documented_and_no_other(command):
    page, name = page_of(command), " ".join(command)
    assert options_of(command) == documented_options(page, name, (DOCS / "commands.md").read_text())
    assert f"$ apportion {name}" in sections_of(page)[name]


def test_a_planted_option_without_documentation_is_found():
    page = "## Keys\n- `--keys FILE`: a file\n\n## `route`\nOptions: [keys](#keys).\n- `--json`: JSON\n"
    assert {"--keys", "--json"} == documented_options(page, "route")
    assert options_of(("route",)) != documented_options(page, "route")


@pytest.mark.parametrize("name", hashers.names())
def test_every_hash_function_has_a_row(name):
    assert f"| `{name}` |" in (DOCS / "hashers.md").read_text()
