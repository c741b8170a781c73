"""The verdict on workers that were killed: from the effects in the database and the log of the runs alone.

It knows nothing of the store of tasks. An effect is a number in a table without a unique key; a line of the log is
`WORD NUMBER ATTEMPT WORKER SECONDS PID`, written by the run itself, in the worker or in a child of it.
"""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A line of the log."""

    word: str
    number: int
    attempt: int
    pid: int
    at: float
    is_in_child: bool = False


def read(log):
    """Return the lines of a log; the last one of a process that was killed is whole, for each is one write."""
    words = [line.split() for line in log.read_text().splitlines()]
    return [
        Said(
            word=word,
            number=int(number),
            attempt=int(attempt),
            pid=int(worker),
            at=float(at),
            is_in_child=pid != worker,
        )
        for word, number, attempt, worker, at, pid in words
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Numbers without an effect, and with more than one; runs, tasks that ran twice; acts that met an open claim."""

    lost: list[int]
    twice: list[int]
    runs: int
    ran_twice: int
    kills_that_hit: int
    woken_that_tried: int


def verdict(acknowledged, effects, lines, *, kills, stops):
    """Judge: `kills` are pairs of process and time, `stops` are processes with the times of the stop and the wake."""
    runs = Counter(line.number for line in lines if line.word == "begun")
    return Verdict(
        lost=sorted(number for number in acknowledged if not effects[number]),
        twice=sorted(number for number, count in effects.items() if count > 1),
        runs=runs.total(),
        ran_twice=sum(count > 1 for count in runs.values()),
        kills_that_hit=sum(bool(open_at(lines, pid, at)) for pid, at in kills),
        woken_that_tried=sum(tried(lines, *stop) for stop in stops),
    )


def open_at(lines, pid, at):
    """Return the runs of a process that had begun and not ended at a time."""
    mine = [line for line in lines if line.pid == pid and line.at <= at]
    ended = {(line.number, line.attempt) for line in mine if line.word in ("done", "refused", "failed")}
    return {(line.number, line.attempt) for line in mine if line.word == "begun"} - ended


def tried(lines, pid, stopped, woken):
    """Whether a run that a stop had interrupted tried to settle, or learned its end, after the wake."""
    held = open_at(lines, pid, stopped)
    later = (line for line in lines if line.pid == pid and line.word != "begun" and line.at >= woken)
    return any((line.number, line.attempt) in held for line in later)
