"""Show of keys: the script of the demonstration of keys, and the verdict of a separate process on its traces."""

import asyncio
import json
import tempfile
from functools import partial
from math import inf
from pathlib import Path

from apportion.console.demo.board import Board
from apportion.console.demo.fleet import Fleet
from apportion.console.demo.keys.atlas import LEASE, NAME, PARTITIONS, ROUNDS, Visits, enqueue, itinerary
from apportion.console.demo.screen import Screen
from apportion.console.demo.traces import log, read
from apportion.console.demo.verdict import Verdict, judged
from apportion.groups import admin
from apportion.stores.keys.partitions import partition_of
from apportion.work.lanes.keys import group_of

WORKERS = tuple(f"worker-{number}" for number in range(1, 5))
MEANINGS = {
    "order_broken": "visits that were committed before an earlier one of their country",
    "overlaps": "runs of a country that began while another run of the country went on",
    "lost": "places that were not visited exactly once",
    "moved_vs_minimum": "lanes that moved, against the fewest possible (1.0)",
    "stale_refused": "late completions of the stopped worker that were refused (at least 1)",
}


def show_keys(screen: Screen, *, stays: bool, selftest: bool) -> list[Verdict]:
    """Let workers visit the places of each country in order, disturb them, and return the verdict on their work."""
    total = sum(map(len, itinerary().values()))
    with tempfile.TemporaryDirectory(prefix="apportion-demo-") as folder:
        board = Board(screen, total, "places", lambda file: Visits(file).by_worker())
        fleet = Fleet(Path(folder), "keys", board.look)
        try:
            _Script(fleet, screen).play()
            if stays:
                _linger(fleet, screen)
        finally:
            fleet.end()
        return judged("keys", str(fleet.file), str(fleet.log), plant=partial(_plant, fleet) if selftest else None)


class _Script:
    """The acts of the demonstration."""

    def __init__(self, fleet: Fleet, screen: Screen) -> None:
        self._fleet, self._say, self._visits = fleet, screen.say, Visits(fleet.file)
        self._countries = itinerary()
        self._rounds = iter(range(ROUNDS))

    def play(self) -> None:
        """Disturb the workers, round by round."""
        fleet, lease = self._fleet, LEASE.total_seconds()
        self._say(f"{len(WORKERS)} workers visit places of {len(self._countries)} countries, a task per place, in")
        self._say(
            f"{fleet.url}. The key is the country. {PARTITIONS} lanes of keys are shared; the lease is {lease:g} s."
        )
        self._enqueue()
        self._visits.make()
        fleet.start(*WORKERS)
        self._settle()

        self._say("worker-5 joins, and gets its share of the lanes; no other lane moves")
        fleet.start("worker-5")
        self._settle()

        self._enqueue()
        stalled = fleet.stalled("worker-3")
        self._say(f"worker-3 is killed with SIGKILL, in the middle of {stalled}")
        fleet.killed("worker-3")
        self._settle()

        self._enqueue()
        stalled = fleet.stalled("worker-4")
        country, number, _ = stalled.split("/", 2)
        self._say(f"worker-4 is stopped with SIGSTOP, in the middle of {stalled}")
        fleet.stopped("worker-4")
        took = fleet.until("another worker has visited it", lambda: (country, int(number)) in self._visits.made())
        self._say(f"         another worker had visited it after {took:.2f} s; until then {country} waited")
        self._say("worker-4 wakes up, and tries at once to complete the visit, which it no longer holds")
        fleet.woken("worker-4")
        fleet.until("the completion is refused", lambda: any(line["word"] == "refused" for line in read(fleet.log)))

        self._say("the rest of the work is done")
        while (rest := next(self._rounds, None)) is not None:
            enqueue(fleet.url, [rest])
        expected = {(each, number) for each, names in self._countries.items() for number in range(len(names))}
        fleet.until("all places are visited", lambda: expected <= set(self._visits.made()))
        self._say(f"{len(expected)} places are visited, those of each country in their order")

    def _enqueue(self) -> None:
        enqueue(self._fleet.url, [next(self._rounds)])

    def _settle(self) -> None:
        """Wait until each lane has its owner, and let each lane run a task then."""
        fleet, lanes = self._fleet, {partition_of(each, PARTITIONS) for each in self._countries}
        fleet.until("each lane has its owner", self._is_settled)
        log("settled", {})
        self._enqueue()
        since = sum(line["word"] == "settled" for line in read(fleet.log))
        fleet.until("each lane has run a task", lambda: lanes <= _lanes_run(fleet, since))

    def _is_settled(self) -> bool:
        found = asyncio.run(admin.read(self._fleet.url, group_of(NAME)))
        return found.is_settled and len(found.view.members) == len(self._fleet.names)


def _lanes_run(fleet: Fleet, since: int) -> set[int]:
    """Return the lanes that have run a task since the settled line of this number."""
    settled, lanes = 0, set[int]()
    for line in read(fleet.log):
        settled += line["word"] == "settled"
        if settled == since and line["word"] == "begun":
            lanes.add(partition_of(line["country"], PARTITIONS))
    return lanes


def _linger(fleet: Fleet, screen: Screen) -> None:
    screen.say(f"The workers go on until Ctrl-C. Look: apportion group show {fleet.url} {group_of(NAME)}")
    try:
        fleet.until("Ctrl-C", lambda: False, patience_seconds=inf)
    except KeyboardInterrupt:
        screen.say("they leave")


def _plant(fleet: Fleet) -> None:
    """Plant a fault for each check: a lost visit, two in the other order, an overlap, a move too many, no refusal."""
    visits = Visits(fleet.file)
    made = visits.made()
    visits.remove(*made[-1])
    visits.exchange(next(country for country, _ in made if country != made[-1][0]))
    lines = [line for line in read(fleet.log) if line["word"] != "refused"]
    begun = next(line for line in lines if line["word"] == "begun")
    lines.append(begun | {"at": begun["at"] + 0.001, "pid": 0})
    settled = [place for place, line in enumerate(lines) if line["word"] == "settled"]
    for place, line in enumerate(lines[settled[1] : settled[2]], settled[1]):
        if line["word"] == "begun":  # as if two workers had exchanged their lanes
            exchange = {"worker-1": "worker-2", "worker-2": "worker-1"}
            lines[place] = line | {"worker": exchange.get(line["worker"], line["worker"])}
    fleet.log.write_text("".join(json.dumps(line) + "\n" for line in lines))
