"""Verifier of the demonstration of shards, a separate process: it reads the ledgers and the databases alone.

    python -m apportion.console.demo.shards.verify FOLDER

It prints one JSON object. For each check, the object holds the verdict and the value. See `checks` for their meaning.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from apportion.console.demo.shards.databases import DemoDatabases
from apportion.console.demo.shards.ledger import LedgerLine, ledger_lines
from apportion.console.demo.shards.world import FIRST, DemoWorld
from apportion.console.demo.verdict import Verdict
from apportion.shards.plan import ShardPlan, decode_shard_plan

LEAST_ACKNOWLEDGED, LEAST_REFUSED = 2_000, 2
LEAST_RETURNED = 50
LONGEST_PAUSE_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundShard:
    """The content of one database: the state of each slot, the slot and the value of each place.

    `left` names the leftovers of moves, and `catalog` all objects.
    """

    states: Mapping[int, str]
    places: Mapping[int, tuple[int, int]]
    left: Sequence[str] = ()
    catalog: Sequence[str] = ()

    def owned(self) -> dict[int, int]:
        """Return the value of each place in a slot that this shard owns."""
        return {place: value for place, (slot, value) in self.places.items() if self.states.get(slot) == "owner"}


def checks(lines: Sequence[LedgerLine], shards: Mapping[str, FoundShard], plan: ShardPlan) -> Verdict:
    """Return the verdicts on all ledgers, the databases and the last plan.

    acknowledged      writes that were acknowledged.
    lost              places whose last acknowledged write is not there: no shard that owns the slot has the place.
    resurrected       places that are there, though their deletion was acknowledged and nobody wrote them again.
    stale             places with a value before their last acknowledged one, or one that nobody wrote.
    owned_twice       slots with no owner or two, and places that two owners have.
    refused           late writes that a shard refused: by the session that slept, and by the stray statement.
    unplanned_moves   slots with another owner than the plan says.
    left_behind       tables, triggers and rows that moves have left.
    pause_ms          the longest time from the last write of a group on its old shard to the first on its new one.

    With ledgers that tell of a way back, there is also:

    reversed_lost     wrong places. Their last write went to another shard than the first, before the way back ended.
    catalogs_clean    whether each database has the objects that it had before the first move, and no other.
    """
    done = [line for line in lines if line["word"] == "done"]
    alive: dict[int, int] = {}
    for found in shards.values():
        alive |= found.owned()
    lost, resurrected, stale = _wrong(lines, alive)
    refused = sum(line["word"] == "refused" for line in lines)
    twice, unplanned = _owned_twice(shards), _unplanned(shards, plan)
    left = sum(len(found.left) + len(found.places) - len(found.owned()) for found in shards.values())
    pause = _longest_pause(done, plan)
    verdict: Verdict = {
        "acknowledged": {"passed": len(done) >= LEAST_ACKNOWLEDGED, "value": len(done)},
        "lost": {"passed": not lost, "value": len(lost)},
        "resurrected": {"passed": not resurrected, "value": len(resurrected)},
        "stale": {"passed": not stale, "value": len(stale)},
        "owned_twice": {"passed": twice == 0, "value": twice},
        "refused": {"passed": refused >= LEAST_REFUSED, "value": refused},
        "unplanned_moves": {"passed": unplanned == 0, "value": unplanned},
        "left_behind": {"passed": left == 0, "value": left},
        "pause_ms": {
            "passed": pause is not None and pause <= LONGEST_PAUSE_MS,
            "value": None if pause is None else round(pause),
        },
    }
    for line in lines:
        if line["word"] == "catalogs":
            clean = all(found.catalog == line["names"][shard] for shard, found in shards.items())
            verdict["catalogs_clean"] = {"passed": clean, "value": clean}
        if line["word"] == "reversed":
            verdict["reversed_lost"] = _reversed_lost(done, line["at"], lost | resurrected | stale)
    return verdict


def _reversed_lost(done: Iterable[LedgerLine], ended: float, wrong: set[int]) -> dict[str, object]:
    """Judge the places with their last write on another shard than the first one, before the way back ended."""
    last = {line["id"]: line for line in done}
    returned = {place for place, line in last.items() if line["shard"] != FIRST and line["at"] < ended}
    number = len(returned & wrong)
    is_proof = len(returned) >= LEAST_RETURNED
    return {"passed": is_proof and not number, "value": number if is_proof else None}


def _wrong(lines: Sequence[LedgerLine], alive: Mapping[int, int]) -> tuple[set[int], set[int], set[int]]:
    """Return lost, resurrected and stale places. A write that was tried after the last acknowledged one is no fault."""
    last: dict[int, LedgerLine] = {}
    may: defaultdict[int, set[int | None]] = defaultdict(set)
    for line in lines:
        if line["word"] == "tries":
            may[line["id"]].add(line["value"])
        elif line["word"] == "done":
            last[line["id"]] = line
            may[line["id"]] = {line["value"]}
    wrong = {place for place in last if alive.get(place) not in may[place]}
    lost = {place for place in wrong if place not in alive}
    resurrected = {place for place in wrong - lost if last[place]["value"] is None}
    return lost, resurrected, wrong - lost - resurrected


def _owned_twice(shards: Mapping[str, FoundShard]) -> int:
    owners: defaultdict[int, int] = defaultdict(int)
    holders: defaultdict[int, int] = defaultdict(int)
    for found in shards.values():
        for slot, state in found.states.items():
            owners[slot] += state in ("owner", "incoming")
        for place in found.owned():
            holders[place] += 1
    return sum(number != 1 for number in owners.values()) + sum(number > 1 for number in holders.values())


def _unplanned(shards: Mapping[str, FoundShard], plan: ShardPlan) -> int:
    expected = dict.fromkeys((slot for found in shards.values() for slot in found.states), FIRST)
    expected |= {slot: group.target for group in plan.groups for slot in group.slots}
    return sum(shards[shard].states.get(slot) != "owner" for slot, shard in expected.items())


def _longest_pause(done: Iterable[LedgerLine], plan: ShardPlan) -> float | None:
    """Return the longest time between two writes of a group on different shards; None if no group has such writes."""
    groups = {slot: number for number, group in enumerate(plan.groups) for slot in group.slots}
    last: dict[int, LedgerLine] = {}
    pauses = []
    for line in sorted(done, key=lambda each: each["at"]):
        number = groups.get(line["slot"])
        if number is None:
            continue
        if number in last and last[number]["shard"] != line["shard"]:
            pauses.append(1_000 * (line["at"] - last[number]["at"]))
        last[number] = line
    return max(pauses, default=None)


def shard_in(databases: DemoDatabases, shard: str) -> FoundShard:
    """Read the database of a shard."""
    with closing(databases.connect(shard)) as connection:
        states = dict(connection.execute(f"SELECT slot, state FROM {databases.prefix}slot"))  # noqa: S608 - ours
        rows = connection.execute("SELECT id, slot, visits FROM place")
        places = {place: (slot, value) for place, slot, value in rows}
        left, catalog = databases.left(connection), databases.catalog(connection)
    return FoundShard(states=states, places=places, left=left, catalog=catalog)


if __name__ == "__main__":
    _world = DemoWorld(Path(sys.argv[1]))
    _lines = [line for file in sorted(_world.folder.glob("*.ledger")) for line in ledger_lines(file)]
    _shards = {shard: shard_in(_world.databases, shard) for shard in _world.databases.shards}
    print(json.dumps(checks(_lines, _shards, decode_shard_plan(_world.plan.read_bytes()))))
