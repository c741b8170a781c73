"""The verifier of the demonstration of keys: each check passes on good traces, and fails on those of its fault."""

import pytest

from apportion.console.demo.keys.verify import checks

EXPECTED = {"FR": ["Paris", "Lyon"], "DE": ["Berlin"]}
MADE = [("FR", 0), ("DE", 0), ("FR", 1)]


def run(word, country, number, *, at, worker="worker-1", attempt=1, pid=1):
    return {
        "word": word,
        "at": at,
        "country": country,
        "number": number,
        "worker": worker,
        "attempt": attempt,
        "pid": pid,
    }


def good():
    """Return the log of a good demonstration; the lane of DE moves to a newcomer."""
    return [
        {"word": "started", "at": 0.0, "worker": "worker-1", "pid": 1},
        {"word": "settled", "at": 1.0},
        run("begun", "FR", 0, at=1.1),
        run("begun", "DE", 0, at=1.2),
        {"word": "started", "at": 2.0, "worker": "worker-2", "pid": 2},
        {"word": "stopped", "at": 3.0, "worker": "worker-1", "pid": 1},
        run("begun", "DE", 0, at=4.0, worker="worker-2", pid=2, attempt=2),
        run("visited", "DE", 0, at=4.1, worker="worker-2", pid=2, attempt=2),
        run("visited", "FR", 0, at=2.1),
        {"word": "settled", "at": 5.0},
        run("refused", "DE", 0, at=5.1),
        run("begun", "DE", 1, at=5.2, worker="worker-2", pid=2),
        run("begun", "FR", 1, at=5.3),
        run("visited", "FR", 1, at=5.4),
    ]


def failed(lines, made=tuple(MADE)):
    return {name for name, check in checks(lines, made, EXPECTED).items() if not check["passed"]}


def test_good_traces_pass():
    assert set() == failed(good())


@pytest.mark.parametrize(
    ("check", "lines", "made"),
    [
        ("order_broken", good(), [MADE[2], MADE[1], MADE[0]]),
        ("overlaps", [*good(), run("begun", "FR", 0, at=1.15, pid=9)], MADE),
        ("lost", good(), MADE[1:]),
        ("lost", good(), [*MADE, MADE[-1]]),
        ("moved_vs_minimum", [line | {"worker": "worker-1"} for line in good()], MADE),
        ("stale_refused", [line for line in good() if line["word"] != "refused"], MADE),
    ],
)
def test_each_fault_turns_its_check_red_and_no_other(check, lines, made):
    assert {check} == failed(lines, made)
