"""Verifier of the demonstration of shards, a separate process: it reads the ledgers and the files, and nothing else.

    python -m apportion.console.demo.shards.verify FOLDER

It prints one JSON object. For each check, the object holds the verdict and the value. See `checks` for their meaning.
"""

import json
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from apportion.console.demo.shards.ledger import LedgerLine, ledger_lines
from apportion.console.demo.shards.world import FIRST, OTHERS, DemoWorld
from apportion.console.demo.verdict import Verdict
from apportion.shards.plan import ShardPlan, decode_shard_plan

LEAST_ACKNOWLEDGED, LEAST_REFUSED = 2_000, 2
LONGEST_PAUSE_MS = 2_000
_KEPT = frozenset({"apportion_meta", "apportion_slot", "apportion_mover", "apportion_fences", "apportion_move"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundShard:
    """The content of one file: the state of each slot, the slot and the value of each place, and other names."""

    states: Mapping[int, str]
    places: Mapping[int, tuple[int, int]]
    left: Sequence[str] = ()

    def owned(self) -> dict[int, int]:
        """Return the value of each place in a slot that this shard owns."""
        return {place: value for place, (slot, value) in self.places.items() if self.states.get(slot) == "owner"}


def checks(lines: Sequence[LedgerLine], files: Mapping[str, FoundShard], plan: ShardPlan) -> Verdict:
    """Return the verdicts on all ledgers, the files and the plan.

    acknowledged      writes that were acknowledged.
    lost              places whose last acknowledged write is not there: no shard that owns the slot has the place.
    resurrected       places that are there, though their deletion was acknowledged and nobody wrote them again.
    stale             places with a value before their last acknowledged one, or one that nobody wrote.
    owned_twice       slots with no owner or two, and places that two owners have.
    refused           late writes that a shard refused: by the session that slept, and by the stray statement.
    unplanned_moves   slots with another owner than the plan says.
    left_behind       tables, triggers and rows that are left of moves.
    pause_ms          the longest time from the last write of a group on its old shard to the first on its new one.
    """
    done = [line for line in lines if line["word"] == "done"]
    alive: dict[int, int] = {}
    for found in files.values():
        alive |= found.owned()
    lost, resurrected, stale = _wrong(lines, alive)
    refused = sum(line["word"] == "refused" for line in lines)
    twice, unplanned = _owned_twice(files), _unplanned(files, plan)
    left = sum(len(found.left) + len(found.places) - len(found.owned()) for found in files.values())
    pause = _longest_pause(done, plan)
    return {
        "acknowledged": {"passed": len(done) >= LEAST_ACKNOWLEDGED, "value": len(done)},
        "lost": {"passed": lost == 0, "value": lost},
        "resurrected": {"passed": resurrected == 0, "value": resurrected},
        "stale": {"passed": stale == 0, "value": stale},
        "owned_twice": {"passed": twice == 0, "value": twice},
        "refused": {"passed": refused >= LEAST_REFUSED, "value": refused},
        "unplanned_moves": {"passed": unplanned == 0, "value": unplanned},
        "left_behind": {"passed": left == 0, "value": left},
        "pause_ms": {
            "passed": pause is not None and pause <= LONGEST_PAUSE_MS,
            "value": None if pause is None else round(pause),
        },
    }


def _wrong(lines: Sequence[LedgerLine], alive: Mapping[int, int]) -> tuple[int, int, int]:
    """Count lost, resurrected and stale places. A write that was tried after the last acknowledged one is no fault."""
    last: dict[int, LedgerLine] = {}
    may: defaultdict[int, set[int | None]] = defaultdict(set)
    for line in lines:
        if line["word"] == "tries":
            may[line["id"]].add(line["value"])
        elif line["word"] == "done":
            last[line["id"]] = line
            may[line["id"]] = {line["value"]}
    lost = resurrected = stale = 0
    for place in last:
        found, allowed = alive.get(place), may[place]
        if found in allowed:
            continue
        lost += found is None
        resurrected += found is not None and last[place]["value"] is None
        stale += found is not None and last[place]["value"] is not None
    return lost, resurrected, stale


def _owned_twice(files: Mapping[str, FoundShard]) -> int:
    owners: defaultdict[int, int] = defaultdict(int)
    holders: defaultdict[int, int] = defaultdict(int)
    for found in files.values():
        for slot, state in found.states.items():
            owners[slot] += state in ("owner", "incoming")
        for place in found.owned():
            holders[place] += 1
    return sum(number != 1 for number in owners.values()) + sum(number > 1 for number in holders.values())


def _unplanned(files: Mapping[str, FoundShard], plan: ShardPlan) -> int:
    expected = dict.fromkeys((slot for found in files.values() for slot in found.states), FIRST)
    expected |= {slot: group.target for group in plan.groups for slot in group.slots}
    return sum(files[shard].states.get(slot) != "owner" for slot, shard in expected.items())


def _longest_pause(done: Iterable[LedgerLine], plan: ShardPlan) -> float | None:
    """Return the longest pause of a group with writes on both of its shards; None if there was no such group."""
    groups = {slot: number for number, group in enumerate(plan.groups) for slot in group.slots}
    before: dict[int, float] = {}
    after: dict[int, float] = {}
    for line in done:
        number = groups.get(line["slot"])
        if number is None:
            continue
        if line["shard"] == plan.groups[number].source:
            before[number] = max(before.get(number, line["at"]), line["at"])
        else:
            after[number] = min(after.get(number, line["at"]), line["at"])
    return max((1_000 * (after[number] - before[number]) for number in before.keys() & after.keys()), default=None)


def shard_in(file: Path) -> FoundShard:
    """Read the file of a shard."""
    with closing(sqlite3.connect(file)) as connection:
        states = dict(connection.execute("SELECT slot, state FROM apportion_slot"))
        rows = connection.execute("SELECT id, slot, visits FROM place")
        places = {place: (slot, value) for place, slot, value in rows}
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        steps = [f"step of {move}" for (move,) in connection.execute("SELECT move FROM apportion_move")]
    own = _KEPT | {f"apportion_place_{act}" for act in ("insert", "update", "delete", "slot")}
    left = sorted(each for each in names - own if each.startswith("apportion_"))
    return FoundShard(states=states, places=places, left=[*left, *steps])


if __name__ == "__main__":
    _world = DemoWorld(Path(sys.argv[1]))
    _lines = [line for file in sorted(_world.folder.glob("*.ledger")) for line in ledger_lines(file)]
    _files = {shard: shard_in(_world.file(shard)) for shard in (FIRST, *OTHERS)}
    print(json.dumps(checks(_lines, _files, decode_shard_plan(_world.plan.read_bytes()))))
