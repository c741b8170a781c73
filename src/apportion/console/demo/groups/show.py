"""Show of groups: the script of the demonstration of groups, and the verdict of a separate process on its log."""

import tempfile
from functools import partial
from math import inf
from pathlib import Path

from apportion import native
from apportion.console.demo.groups.crew import Crew
from apportion.console.demo.groups.partition_map import PartitionMap
from apportion.console.demo.groups.work import PARTITIONS, WorkLedger, partitioned
from apportion.console.demo.screen import Screen
from apportion.console.demo.verdict import Verdict, judged

WORKERS = tuple(f"worker-{number}" for number in range(1, 6))
BATCH = 24
MEANINGS = {
    "overlaps": "partitions with two workers at once",
    "lost": "places that were not counted exactly once",
    "disturbed": "partitions that were interrupted without a move",
    "stale_writes_refused": "late writes of the stopped worker that the guard refused (at least 1)",
    "moves_vs_minimum": "partitions that moved, over the fewest possible",
}


def show_groups(screen: Screen, *, stays: bool, selftest: bool) -> list[Verdict]:
    """Let processes share partitions, disturb them, and return the verdict on their work."""
    parts = partitioned()
    with tempfile.TemporaryDirectory(prefix="apportion-demo-") as folder:
        crew = Crew(Path(folder), BATCH, PartitionMap(screen).look)
        try:
            _play(crew, screen, sum(map(len, parts)))
            if stays:
                _linger(crew, screen)
        finally:
            crew.end()
        return judged("groups", str(crew.file), plant=partial(_plant, crew.ledger) if selftest else None)


def _play(crew: Crew, screen: Screen, places: int) -> None:
    names = list(WORKERS)
    screen.say(f"{len(names)} processes share {PARTITIONS} partitions of {places} places of the world, on one file:")
    hashes = "native twin" if native.IN_USE else "reference in Python"
    screen.say(f"{crew.url}; each counts places by country. Their lease is 2 s. The {hashes} computes the hashes.")
    for name in names:
        crew.joins(name)
    crew.until("five workers share the partitions", lambda: crew.is_settled(*names))
    crew.until("all partitions are worked on", crew.worked())
    crew.noted("begins", names)

    names.append("worker-6")
    screen.say("worker-6 joins")
    crew.noted("worker-6 joins", names)
    crew.joins("worker-6")
    _settle(crew, screen, names)

    names.remove("worker-3")
    screen.say("worker-3 is killed with SIGKILL: no other process is told, so its lease must end")
    crew.noted("worker-3 is killed", names)
    crew.killed("worker-3")
    _settle(crew, screen, names)

    names.remove("worker-4")
    crew.noted("worker-4 is stopped", names)
    partition = crew.stalled("worker-4")
    screen.say(f"worker-4 is stopped with SIGSTOP, in the middle of its work on partition {partition}")
    _settle(crew, screen, names)

    names.append("worker-4")
    screen.say(f"worker-4 wakes up, and tries at once to write to partition {partition}, which it no longer owns")
    crew.noted("worker-4 is woken", names)
    crew.woken("worker-4")
    _settle(crew, screen, names)
    names.remove("worker-2")
    screen.say("worker-2 is drained: it hands over its partitions, and stays without work")
    crew.noted("worker-2 is drained", names)
    crew.drained("worker-2")
    _settle(crew, screen, names)

    screen.say("the rest of the work is done")
    crew.until("all places are counted", lambda: crew.ledger.done() == places)
    crew.noted("ends", ())


def _settle(crew: Crew, screen: Screen, names: list[str]) -> None:
    took = crew.until("the partitions are shared again", lambda: crew.is_settled(*names))
    screen.say(f"         settled after {took:.2f} s; the others worked on")
    crew.until("all partitions are worked on", crew.worked())


def _linger(crew: Crew, screen: Screen) -> None:
    screen.say(f"All work is done; the workers go on until Ctrl-C. Look: apportion group show {crew.url} places")
    try:
        crew.until("Ctrl-C", lambda: False, patience_seconds=inf)
    except KeyboardInterrupt:
        screen.say("they leave")


def _plant(ledger: WorkLedger) -> None:
    """Write an effect into the log that overlaps another, as if two workers had worked on a partition at once."""
    line = next(line for line in ledger.lines() if "places" in line)
    ledger.log(line | {"holder": "a stranger", "pid": 0, "places": 0})
