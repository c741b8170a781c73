"""The verdict on the runs of keys, from their log alone; it knows nothing of the store.

A line is `WORD KEY NUMBER ATTEMPT PID SECONDS`, see `keyed_worker`. The acts upon the processes are lines too:
`killed`, `stopped` and `woken`, with the process as their PID. A process that is killed, or stopped past its lease, has
no run from then on: its own deadline has passed before another may run its tasks.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

_ENDS = ("ended", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """A line of the log."""

    word: str
    key: str
    number: int
    attempt: int
    pid: int
    at: float


def read(log):
    """Return the lines of a log, in the order of their times."""
    words = [line.split() for line in log.read_text().splitlines()]
    lines = [
        KeyLine(word=a, key=b, number=int(c), attempt=int(d), pid=int(e), at=float(f)) for a, b, c, d, e, f in words
    ]
    return sorted(lines, key=lambda line: line.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyVerdict:
    """The faults, each as text, and the counts that show that the test was none without acts."""

    order_broken: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    runs: int = 0
    failures: int = 0
    broken_off: int = 0
    refused: int = 0


def verdict(lines, expected):
    """Judge; `expected` are the keys, each with the numbers of its tasks in order."""
    by_key = defaultdict(list)
    for line in lines:
        by_key[line.key].append(line)
    acts = [line for line in lines if line.word in ("killed", "stopped")]
    found = KeyVerdict(
        runs=sum(line.word == "begun" for line in lines),
        failures=sum(line.word == "failed" for line in lines),
        broken_off=sum(len(runs_of(lines, act.pid, act.at)) for act in acts),
        refused=sum(line.word == "refused" for line in lines),
    )
    for key, numbers in expected.items():
        mine = by_key[key]
        last = {line.number: line.attempt for line in mine if line.word == "begun"}
        done = {line.number for line in mine if line.word == "done"}
        done |= {line.number for line in mine if line.word == "ended" and line.attempt == last[line.number]}
        found.lost.extend(f"{key} {number}" for number in numbers if number not in done)
        found.order_broken.extend(_order_broken(key, mine, numbers))
        found.overlaps.extend(_overlaps(key, mine, acts))
        found.stale.extend(_stale(key, mine))
    return found


def _order_broken(key, mine, numbers):
    """A run of a number begins only after a run of each number before it has ended."""
    before = {number: numbers[:place] for place, number in enumerate(numbers)}
    ended = set()
    for line in mine:
        if line.word == "ended":
            ended.add(line.number)
        if line.word == "begun" and not set(before[line.number]) <= ended:
            yield f"{key} {line.number} begun at {line.at} before {sorted(set(before[line.number]) - ended)}"


def _overlaps(key, mine, acts):
    """Two runs of a key are never open at once, as long as their processes may run at all."""
    runs = sorted(_run(line, mine, acts) for line in mine if line.word == "begun")
    for (_, end, first), (begin, _, second) in pairwise(runs):
        if begin < end:
            yield f"{key}: {first} until {end}, and {second} from {begin}"


def _run(begun, mine, acts):
    """Return the begin and the end of a run: its own, or the kill or stop of its process."""
    ends = [line.at for line in mine if line.word in _ENDS and _is_same(line, begun)]
    ends += [act.at for act in acts if act.pid == begun.pid and act.at > begun.at]
    return begun.at, min(ends, default=float("inf")), f"{begun.number}.{begun.attempt} in {begun.pid}"


def _stale(key, mine):
    """A completion counts once per task, and never after a later attempt has begun."""
    done = set()
    for line in mine:
        if line.word != "done":
            continue
        later = [each for each in mine if _is_later(each, line) and each.at < line.at]
        if line.number in done or later:
            yield f"{key} {line.number}.{line.attempt} done in {line.pid}, later: {later}"
        done.add(line.number)


def _is_same(line, begun):
    return (line.number, line.attempt, line.pid) == (begun.number, begun.attempt, begun.pid)


def _is_later(line, done):
    return line.word == "begun" and line.number == done.number and line.attempt > done.attempt


def runs_of(lines, pid, at=float("inf")):
    """Return the runs of a process that were open at a time."""
    mine = [line for line in lines if line.pid == pid and line.at <= at]
    ended = {(line.key, line.number, line.attempt) for line in mine if line.word in _ENDS}
    return {(line.key, line.number, line.attempt) for line in mine if line.word == "begun"} - ended
