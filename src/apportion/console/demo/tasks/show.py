"""Show of tasks: the script of the demonstration of tasks, and the verdict of a separate process on its traces."""

import json
import tempfile
from functools import partial
from math import inf
from pathlib import Path

from apportion.console.demo.board import Board
from apportion.console.demo.fleet import Fleet
from apportion.console.demo.screen import Screen
from apportion.console.demo.tasks.library import FAILS, KILLS, LEASE, Counts, enqueue, files
from apportion.console.demo.traces import read
from apportion.console.demo.verdict import Verdict, judged

WORKERS = tuple(f"worker-{number}" for number in range(1, 5))
MEANINGS = {
    "lost": "files that were not counted",
    "completed_twice": "counts of a file beyond the first",
    "stale_refused": "late completions of the stopped worker that were refused (at least 1)",
    "recovery_seconds": f"from the kill of a worker until its files were begun anew (at most {LEASE.seconds + 1} s)",
    "poison_deaths": "worker processes that the deadly file has killed (at most 1)",
}


def show_tasks(screen: Screen, *, stays: bool, selftest: bool) -> list[Verdict]:
    """Let workers parse Python's own library, disturb them, and return the verdict on their work."""
    names = files()
    with tempfile.TemporaryDirectory(prefix="apportion-demo-") as folder:
        board = Board(screen, len(names) + 1, "files", lambda file: Counts(file).by_worker())
        fleet = Fleet(Path(folder), "tasks", board.look)
        try:
            _play(fleet, screen, names)
            if stays:
                _linger(fleet, screen)
        finally:
            fleet.end()
        return judged("tasks", str(fleet.file), str(fleet.log), plant=partial(_plant, fleet) if selftest else None)


def _play(fleet: Fleet, screen: Screen, names: list[str]) -> None:
    counts, lease = Counts(fleet.file), LEASE.total_seconds()
    screen.say(f"{len(WORKERS)} workers count the functions in {len(names)} files of Python's own library, a task per")
    screen.say(f"file, in {fleet.url}. Count and completion are one commit. The lease is {lease:g} s.")
    enqueue(fleet.url, names)
    enqueue(fleet.url, [FAILS])
    counts.make()
    fleet.start(*WORKERS)
    fleet.until("each worker has counted a file", lambda: set(WORKERS) <= set(counts.by_worker()))

    stopped, slept = fleet.stalled("worker-4"), fleet.stalled("worker-3")
    screen.say(f"worker-3 is killed with SIGKILL, in the middle of {slept}")
    fleet.killed("worker-3")
    took = fleet.until("another worker has counted its file", lambda: slept in counts.counted())
    screen.say(f"         another worker had counted {slept} after {took:.2f} s")

    screen.say(f"worker-4 is stopped with SIGSTOP, in the middle of {stopped}")
    fleet.stopped("worker-4")
    took = fleet.until("another worker has counted its file", lambda: stopped in counts.counted())
    screen.say(f"         another worker had counted {stopped} after {took:.2f} s")
    screen.say(f"worker-4 wakes up, and tries at once to complete {stopped}, which it no longer holds")
    fleet.woken("worker-4")
    fleet.until("the completion is refused", lambda: any(line["word"] == "refused" for line in read(fleet.log)))

    before = set(fleet.names)
    screen.say(f"{KILLS} is added: it kills the process that parses it")
    enqueue(fleet.url, [KILLS], priority=0)
    fleet.until("a worker has died", lambda: set(fleet.names) != before)
    screen.say(f"         {', '.join(before - set(fleet.names))} has died; from now on, child processes run that task")
    fleet.until("the task is dead", lambda: counts.dead() > 0)
    screen.say(f"         two child processes died of {KILLS}, so its task is dead; their workers go on")

    screen.say("the rest of the work is done")
    fleet.until("all files are counted", lambda: {*names, FAILS} <= set(counts.counted()))
    screen.say(f"{counts.functions()} functions are counted; {FAILS} failed twice, and passed then")


def _linger(fleet: Fleet, screen: Screen) -> None:
    screen.say(f"The workers go on until Ctrl-C. Look: apportion tasks stats {fleet.url}")
    try:
        fleet.until("Ctrl-C", lambda: False, patience_seconds=inf)
    except KeyboardInterrupt:
        screen.say("they leave")


def _plant(fleet: Fleet) -> None:
    """Plant a fault for each check: a lost count, a double one, no refusal, a late recovery, more deaths."""
    lines, counts = read(fleet.log), Counts(fleet.file)
    first, second = sorted(set(counts.counted()))[:2]
    counts.remove(first)
    counts.repeat(second)
    killed = next(line["at"] for line in lines if line["word"] == "killed")
    late = 2 * LEASE.total_seconds()
    planted = [line | {"at": line["at"] + late * (line["at"] > killed)} for line in lines if line["word"] != "refused"]
    begun = next(line for line in lines if line.get("file") == KILLS)
    worker = next(line["pid"] for line in lines if line["word"] == "started")
    planted += 2 * [begun | {"pid": worker}]
    fleet.log.write_text("".join(json.dumps(line) + "\n" for line in planted))
