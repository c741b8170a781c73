"""Every block of code in the documents runs and prints what is written under it."""

from pathlib import Path

import pytest

import apportion
from tests.docs.blocks import OF_A_SHELL, PAGES, ROOT, Block, Command, blocks_of, commands_of, run_blocks

MANY_COMMANDS = 4


def told(page):
    """Return the parameter of a test of a page; a page with many commands, or with a process, takes seconds."""
    shown = [each.line for block in blocks_of(page) if block.language == "console" for each in commands_of(block.text)]
    starts = any(OF_A_SHELL.search(line) and not line.startswith(("make ", "pip ")) for line in shown)
    marks = [pytest.mark.slow] if starts or len(shown) >= MANY_COMMANDS else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [told(page) for page in PAGES])
def test_every_block_of_a_page_does_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [] == list(run_blocks(blocks_of(page), tmp_path))


@pytest.mark.parametrize(
    ("language", "text", "fault"),
    [
        ("python", ">>> 1 + 1\n3\n", "Expected:\n    3\nGot:\n    2"),
        ("console", "$ echo a\nb\n", "prints\na\nnot\nb"),
        ("console", "$ echo a\n", "prints\na\nnot\n"),
        ("console", "$ exit 2\n", "exits with 2, not 0"),
        ("console", "$ exit 1\n# exit 2\n", "exits with 1, not 2"),
        ("console", "$ apportion coffee\n", "exits with 1, not 0"),
        ("console", "$ apportion --version\ncoffee\n", f"prints\n{apportion.__version__}"),
        ("console", "$ make coffee\n", "make has no target coffee"),
        ("console", "$ pip install 'apportion[tea]'\n", "apportion[tea]"),
    ],
)
def test_a_planted_fault_is_found(language, text, fault, tmp_path):
    (found,) = run_blocks([Block(Path("page.md"), 1, language, text)], tmp_path)
    assert found.startswith("page.md:1:") or "page.md" in found
    assert fault in found


def test_a_planted_error_in_python_is_raised(tmp_path):
    with pytest.raises(AssertionError):
        list(run_blocks([Block(Path("page.md"), 1, "python", "assert False\n")], tmp_path))


def test_a_line_of_three_dots_stands_for_any_lines(tmp_path):
    text = "$ printf 'a\\nb\\nc\\n'\na\n...\nc\n$ echo\n...\n"
    assert [] == list(run_blocks([Block(Path("page.md"), 1, "console", text)], tmp_path))


def test_blocks_are_found_with_their_lines_and_files():
    text = "# Title\n\n<!-- file: a.toml -->\n```toml\nx = 1\n```\n\n```python\ny = 2\n```\n"
    page = Path("page.md")
    assert [Block(page, 5, "toml", "x = 1\n", "a.toml"), Block(page, 9, "python", "y = 2\n")] == blocks_of(page, text)


def test_a_command_goes_on_after_a_backslash():
    expected = [Command("echo a b", ("a b",)), Command("false", (), 1)]
    assert expected == commands_of("$ echo a \\\nb\na b\n$ false\n# exit 1\n")
