"""A command that works for long says so on a terminal, and only there; Ctrl-C ends it with one line."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from select import select
from types import SimpleNamespace

import pytest

from apportion.console.print import progress
from apportion.console.print.progress import Progress
from tests.console.grouping import URL, members
from tests.console.running import COMMAND, run, written
from tests.console.test_evaluate import SMALL

CLEARED = "\r\x1b[K"


@pytest.fixture
def terminal(monkeypatch):
    """Make standard error a terminal, where the line comes at once; return the descriptor that shows it."""
    shown, own = pty.openpty()
    with os.fdopen(shown, "rb", buffering=0), os.fdopen(own, "w") as stream:
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
        monkeypatch.setattr(progress, "SILENT_SECONDS", 0.01)
        monkeypatch.setattr(progress, "BETWEEN_SECONDS", 0.01)
        monkeypatch.setenv("TERM", "xterm")
        yield shown


def until(shown, pattern):
    """Return the text that a terminal shows, up to a pattern."""
    text = ""
    while not re.search(pattern, text):
        assert select([shown], [], [], 20)[0], text
        text += os.read(shown, 4096).decode()
    return text


def test_the_line_counts_and_is_gone_after_the_block(terminal):
    with Progress("routing", "keys") as work:
        for _ in work.batches([[b"a", b"b"], [b"c"]]):
            until(terminal, r"routing \.\.\. \d keys, \d s")
        assert "3 keys" in until(terminal, r"3 keys, \d s")
    assert until(terminal, r"\x1b\[K$").endswith(CLEARED)


def test_a_known_total_is_told(terminal):
    with Progress("comparing", "methods", total=2) as work:
        for _ in work.each("ab"):
            until(terminal, r"comparing \.\.\. [01] of 2 methods, \d s")


def test_the_line_is_not_wider_than_the_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with Progress("x" * 100):
        assert 19 == len(until(terminal, "x ?$").removeprefix(CLEARED))


def test_an_error_clears_the_line_too(terminal):
    with pytest.raises(ZeroDivisionError), Progress("routing"):
        1 / len(until(terminal, r"\d s")[:0])
    assert until(terminal, r"\x1b\[K$").endswith(CLEARED)


def test_short_work_shows_no_line(terminal, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 60)
    with Progress("routing"):
        pass
    print("end", file=progress.sys.stderr, flush=True)
    assert "end\r\n" == until(terminal, "end\r\n")


@pytest.mark.parametrize("hidden", ["a pipe", "dumb", "json"])
def test_nothing_is_shown_on_a_pipe_a_dumb_terminal_or_beside_json(hidden, terminal, monkeypatch):
    if hidden == "a pipe":
        monkeypatch.setattr(progress, "sys", sys)
    if hidden == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    before = signal.getsignal(signal.SIGALRM)
    with Progress("routing", is_shown=hidden != "json"):
        assert before == signal.getsignal(signal.SIGALRM)


COMMANDS = [
    ("routing", "route --nodes a,b --keys keys.txt"),
    ("reading comparing", "compare --nodes a,b --keys keys.txt"),
    ("evaluating", "evaluate --scenario s.toml"),
    ("assigning", "assign --nodes a,b --partitions 8 -o first.json"),
    ("planning", "plan --assignment first.json --add c -o next.json"),
    ("applying", "apply next.json --assignment first.json"),
    ("undoing", "undo --assignment first.json"),
    ("counting", "hotkeys --keys keys.txt"),
    ("planning", "plan --nodes a,b --add c --keys keys.txt"),
    ("exporting", "table export --nodes a,b"),
    ("importing", "table import ranges.csv --nodes a,b -o imported.json"),
    ("comparing", "table diff table.json table.json"),
    ("planning", "plan --table table.json --add c -o plan.json"),
    ("applying", "apply plan.json"),
    ("reading", "table log"),
    ("undoing", "undo"),
    ("touring", "tour --keys keys.txt"),
    ("checking", f"doctor --store {URL}"),
    ("reading", f"group ls {URL}"),
    ("reading", f"group show {URL} mailers"),
    ("reading", f"group explain {URL} mailers 1"),
    ("planning", f"group plan {URL} mailers --drain one -o group.json"),
    ("applying", f"group apply {URL} mailers group.json --no-wait"),
]


@pytest.mark.slow
def test_each_command_that_may_take_long_shows_its_work(monkeypatch, tmp_path):
    begun, begin = [], Progress.__enter__
    monkeypatch.setattr(Progress, "__enter__", lambda self: begun.append((self._work, self._is_shown)) or begin(self))
    written(tmp_path, "keys.txt", "one\ntwo\n")
    written(tmp_path, "ranges.csv", "start,end,owners\n0,8000000000000000,a\n8000000000000000,10000000000000000,b\n")
    written(tmp_path, "s.toml", SMALL)
    monkeypatch.setattr("apportion.placement.catalog.names", lambda: ["slots"])
    with members(tmp_path, "one", "two"):
        for work, words in COMMANDS:
            begun.clear()
            done = run(*words.split(), folder=tmp_path)
            assert done.returncode in (0, 2), (words, done.stderr)
            assert [(each, False) for each in work.split()] == begun, words


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_ends_a_command_with_one_line_and_leaves_the_files(tmp_path):
    page = written(tmp_path, "page.html", '<!DOCTYPE html><meta name="generator" content="apportion">')
    before = page.read_bytes()
    keys = tmp_path / "keys"
    os.mkfifo(keys)
    shown, own = pty.openpty()
    command = [*COMMAND, "compare", "--nodes", "a,b", "--keys", str(keys), "--html", str(page)]
    process = subprocess.Popen(
        command, stdin=own, stdout=own, stderr=own, start_new_session=True, env={**os.environ, "TERM": "xterm"},
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
    )  # fmt: skip
    os.close(own)
    with os.fdopen(shown, "rb", buffering=0), keys.open("wb", buffering=0) as pipe:
        pipe.write(b"one\ntwo\n")
        until(shown, r"reading \.\.\. 2 keys, \d s")
        os.write(shown, b"\x03")
        text = until(shown, "here.\r\n").rpartition(CLEARED)[2]
        assert 130 == process.wait(timeout=30)
    assert "interrupted; each written file is unchanged or complete, and the output ends here.\r\n" == text
    assert before == page.read_bytes()
    assert {"keys", "page.html"} == {path.name for path in tmp_path.iterdir()}
