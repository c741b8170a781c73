"""On a terminal nothing wraps inside a word, and nodes that come or go have colours, like errors. Files are plain."""

import contextlib
import io
import re

import pytest

from apportion.console.main import main
from apportion.console.print.output import print_columns, print_text
from apportion.placement import catalog
from tests.console.grouping import URL, members
from tests.console.running import run, written

COLOUR = re.compile(r"\x1b\[\d*m")


class Terminal(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self):
        return True

    @property
    def text(self):
        return self.buffer.getvalue().decode()


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Return a function: what a command shows on a terminal of so many columns."""

    def show(*arguments, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = Terminal()
        with contextlib.chdir(tmp_path), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main(list(map(str, arguments)))
        return out.text

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return show


def too_long(text, columns):
    """Return the lines that a terminal would break although they could break between words."""
    lines = [COLOUR.sub("", line) for line in text.splitlines()]
    return [line for line in lines if len(line) > columns and len(re.split(r" {2,}", line.strip())[-1].split()) > 1]


def words_of(text):
    return {word for word in COLOUR.sub("", text).split() if "─" not in word}


@pytest.mark.parametrize(
    "command",
    [
        "tour --keys keys",
        "table export --nodes a,b -o other.json",
        "apply plan.json",
        "undo",
        "hotkeys --keys keys",
        "store upgrade sqlite:///new-and-long.db",
        "group explain sqlite:///work.db mailers 1",
        "group forget sqlite:///work.db mailers away",
    ],
)
def test_sentences_break_between_words(command, shown, tmp_path):
    if command.startswith("hotkeys"):
        pytest.importorskip("datasketches", reason="it has no wheel for this interpreter")
    written(tmp_path, "keys", "k\nl\n")
    for made in ("table export --nodes a,b,c", "plan --table table.json --add d -o plan.json"):
        run(*made.split(), folder=tmp_path)
    if command == "undo":
        run("apply", "plan.json", folder=tmp_path)
    if command.startswith("group"):
        with members(tmp_path, "a"):
            text = shown(*command.split(), columns=40)
    else:
        text = shown(*command.split(), columns=40)
    assert [] == too_long(text, 40)
    assert len(text) > 40


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.slow
def test_nothing_wraps_inside_a_word(columns, shown, tmp_path):
    run("table", "export", "--nodes", "a,b", "-o", "table.json", folder=tmp_path)
    run("plan", "--table", "table.json", "--add", "c", "-o", "plan.json", folder=tmp_path)
    run("apply", "plan.json", folder=tmp_path)
    with members(tmp_path, "one", "two"):
        for words in (
            ("doctor",),
            ("doctor", "--store", URL),
            ("table", "log"),
            ("plan", "--nodes", "a,b", "--add", "c", "--remove", "a"),
            ("group", "show", URL, "mailers", "--all"),
        ):
            text = shown(*words, columns=columns)
            assert [] == too_long(text, columns), text
            plain = run(*words, folder=tmp_path).stdout.decode()
            if "--store" not in words:  # its times differ from run to run
                assert words_of(plain) - words_of(text) <= {"zone"}, (
                    "no word is cut; a block has no line of an empty cell"
                )


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize(
    "words",
    [
        ("route", "--nodez", "a"),
        ("route", "--nodes", "a,b", "--hasher", "md4", "k"),
        ("explain", "--nodes", "a,b", "k"),
        ("explain-error", "StoreWentBack"),
    ],
)
def test_errors_and_explanations_wrap_nothing_inside_a_word(columns, words, shown, tmp_path):
    text, plain = shown(*words, columns=columns), run(*words, folder=tmp_path)
    assert [] == too_long(text, columns), text
    assert words_of((plain.stdout + plain.stderr).decode()) <= words_of(text)
    assert any(len(line) > columns for line in (plain.stdout + plain.stderr).decode().splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 40])
def test_reports_wrap_nothing_inside_a_word(columns, shown, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "names", lambda: ("jump", "lists", "ring", "slots"))
    nodes = "".join(f'[[node]]\nid = "cache-{number}.example.com"\nzone = ["eu-{number % 2}"]\n' for number in range(4))
    written(tmp_path, "t.toml", nodes)
    written(tmp_path, "s.toml", nodes + '[[resource]]\nname = "orders"\npartitions = 12\nreplicas = 2\n')
    written(tmp_path, "keys", "".join(f"k{number}\n" for number in range(300)))
    for words in (
        ("compare", "--topology", "t.toml", "--keys", "keys", "--baselines"),
        ("evaluate", "--scenario", "s.toml", "--balancers", "helix.auto,optimal,kafka.sticky"),
    ):
        _progress, answer, report = shown(*words, columns=columns).partition("For ")
        text = answer + report
        assert [] == too_long(text, columns), text
        plain = run(*words, folder=tmp_path).stdout.decode()
        lost = {word for word in words_of(plain) - words_of(text) if not re.fullmatch(r"[\d.]+", word)}
        assert lost <= {"!", "placement", "balancer", "scenario"}, lost


def test_a_file_or_a_pipe_gets_whole_lines_without_colour(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = run("plan", "--nodes", "a,b", "--add", "c", folder=tmp_path)
    assert any(len(line) > 40 for line in out.stdout.decode().splitlines())
    assert b"\x1b" not in out.stdout


def test_nodes_that_come_are_green_and_nodes_that_go_are_red(shown):
    text = shown("plan", "--nodes", "a,b", "--add", "c", "--remove", "a", "--weight", "b=2", columns=80)
    marked = [line[:8] for line in text.splitlines() if line.startswith("\x1b")]
    assert ["\x1b[31m- a", "\x1b[33m~ b", "\x1b[32m+ c"] == marked


def test_an_error_is_red_on_a_terminal(shown):
    assert shown("route", "--nodes", "a", columns=80).startswith("\x1b[31merror:\x1b[0m keys")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colour_gets_none(name, value, shown, monkeypatch):
    monkeypatch.setenv(name, value)
    for words in (("plan", "--nodes", "a", "--add", "b"), ("route", "--nodes", "a")):
        assert "\x1b" not in shown(*words, columns=80)


def test_a_word_longer_than_the_terminal_stays_whole(capsys, monkeypatch):
    monkeypatch.setattr("apportion.console.print.output.columns_of", lambda _: 20)
    print_columns(("key", "found"), [("k", "x" * 30)])
    print_text("a " + "y" * 30 + " b")
    assert ["key    k", "found  " + "x" * 30, "a", "y" * 30, "b"] == capsys.readouterr().out.splitlines()
