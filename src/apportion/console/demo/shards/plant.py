"""Plant: a fault for each check of the demonstration of shards, in the ledgers and the databases of a verifier."""

import json
from contextlib import closing
from operator import itemgetter

from apportion.console.demo.shards.ledger import LedgerLine, ledger_lines
from apportion.console.demo.shards.world import FIRST, DemoWorld
from apportion.shards.plan import PlannedGroup, decode_shard_plan

_KEPT_LINES = 1_500
_LATE_SECONDS = 10.0


def plant(world: DemoWorld) -> None:
    """Plant a lost, a resurrected and a stale place, a second owner, an unplanned move, a leftover, and a pause.

    If the moves were reversed, also plant a loss of a place that was written before the slots came back. The leftover
    is a table that no database had before the first move.
    """
    ledgers = {file: ledger_lines(file) for file in sorted(world.folder.glob("*.ledger"))}
    lines = [line for each in ledgers.values() for line in each]
    group = decode_shard_plan(world.plan.read_bytes()).groups[0]
    kept = _plant_places(world, lines)
    _plant_slots(world, group)
    step = max(1, len(lines) // _KEPT_LINES)
    before, after = _around_switch(lines, group)
    for file, own in ledgers.items():
        found = [_later(line, before["at"]) for line in _thinned(own, kept | {before["id"], after["id"]}, step)]
        file.write_text("".join(json.dumps(line) + "\n" for line in found))


def _plant_places(world: DemoWorld, lines: list[LedgerLine]) -> set[int]:
    """Falsify places that were last written on another shard than the first one. Return their ids."""
    last = {line["id"]: line for line in lines if line["word"] == "done"}
    moved = [line for line in last.values() if line["shard"] != FIRST]
    written = [line for line in moved if line["value"] is not None]
    deleted = next(line for line in moved if line["value"] is None)
    lost, stale = written[:2]
    back = max((line["at"] for line in lines if line["word"] == "reversed"), default=0.0)
    returned = [line for line in written[2:] if line["at"] < back][:1]
    for line in (lost, *returned):
        _changed(world, line["shard"], "DELETE FROM place WHERE id = ?", line["id"])
    _changed(world, stale["shard"], "UPDATE place SET visits = -7 WHERE id = ?", stale["id"])
    again = "INSERT INTO place (id, slot, country, name, visits) VALUES (?, ?, 'XX', 'back', 1)"
    _changed(world, deleted["shard"], again, deleted["id"], deleted["slot"])
    return {line["id"] for line in (lost, stale, deleted, *returned)}


def _plant_slots(world: DemoWorld, group: PlannedGroup) -> None:
    """Give one moved slot a second owner, and give another one back to the first shard. Both slots have no places."""
    slots, target = f"{world.databases.prefix}slot", group.target
    with closing(world.databases.connect(target)) as connection:
        used = {slot for (slot,) in connection.execute("SELECT DISTINCT slot FROM place")}
    empty, other = [slot for slot in group.slots if slot not in used][:2]
    _changed(world, FIRST, f"UPDATE {slots} SET state = 'owner' WHERE slot IN (?, ?)", empty, other)  # noqa: S608 - ours
    _changed(world, target, f"UPDATE {slots} SET state = 'moved' WHERE slot = ?", empty)  # noqa: S608 - ours
    _changed(world, target, f"CREATE TABLE {world.databases.prefix}forgotten (id INTEGER)")


def _around_switch(lines: list[LedgerLine], group: PlannedGroup) -> tuple[LedgerLine, LedgerLine]:
    """Return the last write of a group on its old shard, and the first one after it."""
    done = [line for line in lines if line["word"] == "done" and line["slot"] in group.slots]
    before = max((line for line in done if line["shard"] == group.source), key=itemgetter("at"))
    return before, min((line for line in done if line["at"] > before["at"]), key=itemgetter("at"))


def _thinned(lines: list[LedgerLine], kept: set[int], step: int) -> list[LedgerLine]:
    """Return the lines without refusals, with few acknowledged writes."""
    return [
        line
        for number, line in enumerate(lines)
        if line["word"] != "refused" and (line["word"] != "done" or not number % step or line["id"] in kept)
    ]


def _later(line: LedgerLine, switched: float) -> LedgerLine:
    """Return a line as if all writers had paused at the switch of a group."""
    return line | {"at": line["at"] + _LATE_SECONDS * (line["at"] > switched)}


def _changed(world: DemoWorld, shard: str, statement: str, *values: object) -> None:
    with world.databases.unguarded(shard) as connection:
        connection.execute(statement, values)
