"""Plant: a fault for each check of the demonstration of shards, in the ledgers and the files that a verifier reads."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from apportion.console.demo.shards.ledger import LedgerLine, ledger_lines
from apportion.console.demo.shards.world import FIRST, OTHERS, DemoWorld
from apportion.shards.plan import decode_shard_plan

_KEPT_LINES = 1_500
_LATE_SECONDS = 10.0


def plant(world: DemoWorld) -> None:
    """Plant a lost, a resurrected and a stale place, a second owner, an unplanned move, a leftover, and a pause."""
    ledgers = {file: ledger_lines(file) for file in sorted(world.folder.glob("*.ledger"))}
    last = {line["id"]: line for lines in ledgers.values() for line in lines if line["word"] == "done"}
    written = [line for line in last.values() if line["value"] is not None and line["shard"] != FIRST]
    deleted = next(line for line in last.values() if line["value"] is None and line["shard"] != FIRST)
    lost, stale = written[:2]
    _changed(world.file(lost["shard"]), "DELETE FROM place WHERE id = ?", lost["id"])
    _changed(world.file(stale["shard"]), "UPDATE place SET visits = -7 WHERE id = ?", stale["id"])
    again = "INSERT INTO place (id, slot, country, name, visits) SELECT ?, ?, 'XX', 'back', 1"
    _changed(world.file(deleted["shard"]), again, deleted["id"], deleted["slot"])
    _plant_slots(world)
    kept = {lost["id"], stale["id"], deleted["id"]}
    for file, lines in ledgers.items():
        file.write_text(
            "".join(json.dumps(line) + "\n" for line in _thinned(lines, kept, sum(map(len, ledgers.values()))))
        )


def _plant_slots(world: DemoWorld) -> None:
    """Give one moved slot a second owner, and another one, without places, back to the first file."""
    group = decode_shard_plan(world.plan.read_bytes()).groups[0]
    target = world.file(group.target)
    with closing(sqlite3.connect(target)) as connection:
        used = {slot for (slot,) in connection.execute("SELECT DISTINCT slot FROM place")}
    empty, other = [slot for slot in group.slots if slot not in used][:2]
    _changed(world.file(FIRST), "UPDATE apportion_slot SET state = 'owner' WHERE slot IN (?, ?)", empty, other)
    _changed(target, "UPDATE apportion_slot SET state = 'moved' WHERE slot = ?", empty)
    _changed(world.file(OTHERS[0]), "CREATE TABLE apportion_forgotten (id)")


def _thinned(lines: list[LedgerLine], kept: set[int], total: int) -> list[LedgerLine]:
    """Return the lines without refusals, with few acknowledged writes. Those on the other files come later."""
    step = max(1, total // _KEPT_LINES)
    found = []
    for number, line in enumerate(lines):
        if line["word"] == "refused" or (line["word"] == "done" and number % step and line["id"] not in kept):
            continue
        is_late = line["word"] == "done" and line["shard"] != FIRST
        found.append(line | {"at": line["at"] + _LATE_SECONDS * is_late})
    return found


def _changed(file: Path, statement: str, *values: object) -> None:
    """Run a statement as a mover could, so that no trigger refuses it."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO apportion_mover (token) VALUES ('planted')")
        connection.execute(statement, values)
        connection.execute("DELETE FROM apportion_mover")
