"""The verdict on the runs of keys finds each planted fault."""

from dataclasses import replace

import pytest

from tests.live.keyed_verdict import KeyLine, verdict

EXPECTED = {"a": [0, 1]}


def line(word, number, at, *, attempt=1, pid=1, key="a"):
    return KeyLine(word=word, key=key, number=number, attempt=attempt, pid=pid, at=at)


GOOD = [
    line("begun", 0, 1.0),
    line("stopped", -1, 1.5, key="-"),
    line("begun", 0, 3.0, attempt=2, pid=2),
    line("ended", 0, 3.5, attempt=2, pid=2),
    line("done", 0, 3.6, attempt=2, pid=2),
    line("woken", -1, 3.7, key="-"),
    line("refused", 0, 3.8),
    line("begun", 1, 4.0, pid=2),
    line("ended", 1, 4.5, pid=2),
    line("done", 1, 4.6, pid=2),
]


def test_a_log_without_faults_has_none():
    found = verdict(GOOD, EXPECTED)
    assert ([], [], [], []) == (found.order_broken, found.overlaps, found.lost, found.stale)
    assert (3, 1, 1) == (found.runs, found.broken_off, found.refused)


@pytest.mark.parametrize(
    ("field", "lines"),
    [
        ("order_broken", [*GOOD[:2], line("begun", 1, 2.0, pid=2), *GOOD[2:]]),
        ("overlaps", [each for each in GOOD if each.word != "stopped"]),
        ("lost", GOOD[:-2]),
        ("stale", [*GOOD[:6], replace(GOOD[6], word="done"), *GOOD[7:]]),
    ],
)
def test_a_planted_fault_is_found(field, lines):
    assert [] != getattr(verdict(lines, EXPECTED), field)
