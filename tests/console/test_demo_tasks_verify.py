"""The verifier of the demonstration of tasks: each check passes on good traces, and fails on those of its fault."""

import pytest

from apportion.console.demo.tasks.library import FAILS, KILLS
from apportion.console.demo.tasks.verify import checks

FILES = ["a.py", "b.py", "c.py", FAILS]


def run(word, file, *, at, worker="worker-1", attempt=1, pid=1):
    return {"word": word, "at": at, "file": file, "worker": worker, "attempt": attempt, "pid": pid}


def good():
    """Return the log of a good demonstration."""
    return [
        {"word": "started", "at": 0.0, "worker": "worker-1", "pid": 1},
        {"word": "started", "at": 0.1, "worker": "worker-3", "pid": 3},
        run("begun", "a.py", at=1.0),
        run("counted", "a.py", at=1.1),
        run("begun", "b.py", at=1.2, worker="worker-3", pid=3),
        run("begun", "c.py", at=1.3, worker="worker-3", pid=3),
        run("counted", "c.py", at=1.4, worker="worker-3", pid=3),
        {"word": "killed", "at": 1.5, "worker": "worker-3", "pid": 3},
        run("begun", "b.py", at=4.0, attempt=2),
        run("counted", "b.py", at=4.1, attempt=2),
        run("refused", "c.py", at=5.0, worker="worker-3", pid=3),
        run("begun", KILLS, at=6.0),
        run("begun", KILLS, at=9.0, attempt=2, pid=10),
        run("begun", KILLS, at=9.1, attempt=3, pid=11),
    ]


def failed(lines, counted=tuple(FILES), dead=1):
    return {name for name, check in checks(lines, counted, dead, FILES).items() if not check["passed"]}


def test_good_traces_pass():
    assert set() == failed(good())
    assert 2.5 == checks(good(), FILES, 1, FILES)["recovery_seconds"]["value"]


def without(word):
    return [line for line in good() if line["word"] != word]


@pytest.mark.parametrize(
    ("check", "lines", "counted", "dead"),
    [
        ("lost", good(), FILES[1:], 1),
        ("lost", good(), FILES, 0),
        ("completed_twice", good(), [*FILES, "a.py"], 1),
        ("stale_refused", without("refused"), FILES, 1),
        ("recovery_seconds", without("killed"), FILES, 1),
        ("recovery_seconds", [line for line in good() if line.get("attempt") != 2], FILES, 1),
        ("recovery_seconds", [line | {"at": line["at"] + (line["at"] > 3)} for line in good()], FILES, 1),
        ("poison_deaths", [*good(), run("begun", KILLS, at=6.1, pid=3)], FILES, 1),
    ],
)
def test_each_fault_turns_its_check_red_and_no_other(check, lines, counted, dead):
    assert {check} == failed(lines, counted, dead)
