"""Status report of shards: a line per shard, a line per move, and a summary at the end; or JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from time import time

from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.shards.pace_report import print_paces, wal_text
from apportion.shards.admin import SOAK, MoveStatus, SetStatus
from apportion.shards.admin.lifecycle import ShardStep, lifecycle
from apportion.shards.admin.pace import MovePace
from apportion.shards.migration.record import MigrationRecord
from apportion.stores.catalog import shown_url

_MOST_RANGES = 20
_WAYS = {"one-way": "", "reversible": ", reversible", "back": ", on its way back"}


def print_status(act: str, url: str, found: SetStatus, paces: Sequence[MovePace] = ()) -> None:
    """Print the shards of a set, and the moves that are not over, with their paces if there are any."""
    has_rows = any(each.rows is not None for each in found.shards)
    has_revisions = any(each.revision for each in found.shards)
    headings = ("shard", "slots", "weight", *(["rows"] if has_rows else []), *(["revision"] if has_revisions else []))
    lines = [
        (each.id, str(each.slots), f"{each.weight:g}", _count(each.rows), each.revision or "-") for each in found.shards
    ]
    print_columns(headings, [line[: len(headings)] for line in lines])
    if paces:
        print()
        print_paces(paces)
    elif found.moves:
        print()
        moves = [
            (each.id, f"{each.source} -> {each.target}", f"{each.state}{_WAYS[each.way]}", str(each.slots))
            for each in found.moves
        ]
        print_columns(("move", "shards", "state", "slots"), moves, words=3)
        for each in found.moves:
            if each.wal_kept_bytes is not None:
                print_text(f"- {each.id}: {wal_text(each)}")
    count = sum((each.state, each.way) == ("complete", "reversible") for each in found.moves)
    if count:
        said = f"move{'s' if count > 1 else ''} can be reversed until shards clean runs"
        print_text(f"- {count} {said}: apportion shards reverse URL {found.name} MOVE")
    steps = [each for each in steps_of(found) if each.step != "clean"]
    if steps:
        print()
    for step in steps:
        print_text(step_line(step))
    if found.migration is not None and not found.migration.is_over:
        print_migration(found.name, found.migration)
    ranges = _ranges_of(found)
    if ranges:
        print()
        print_columns(("slot", "range", "shard"), ranges[:_MOST_RANGES], words=3)
        if len(ranges) > _MOST_RANGES:
            print_text(f"- {len(ranges) - _MOST_RANGES} more ranges: --json shows all")
    for damage in found.damaged:
        print_text(f"- {damage} Look: apportion shards doctor URL {found.name}")
    print()
    count = len(found.shards)
    slots = f"{len(ranges)} range{'s' if len(ranges) > 1 else ''}" if ranges else f"{found.hash_slots} slots"
    said = f"{count} shard{'s' if count > 1 else ''}, {slots}"
    print_text(f"shards {act}: {found.name} in {shown_url(url)}: {said}")


def _ranges_of(found: SetStatus) -> list[tuple[str, str, str]]:
    """Return slot, range and shard of each range, in the order of the keys. Empty for a set by hash."""
    ranges = found.table.ranges
    if ranges is None:
        return []
    return [(str(slot), str(ranges.bounds[slot]), found.table.shard(slot)) for slot in ranges.slots]


def print_migration(name: str, found: MigrationRecord) -> None:
    """Print how far a migration has come that has not ended, and the next command."""
    states = sorted(Counter(each.state for each in found.shards.values()).items())
    said = ", ".join(f"{count} {state}" for state, count in states)
    print_text(f"- migration to {found.target}: {said}; next: apportion shards migrate URL {name} --to {found.target}")
    for shard, each in sorted(found.shards.items()):
        if each.error:
            print_text(f"  {shard}: {each.error}")


def steps_of(found: SetStatus) -> tuple[ShardStep, ...]:
    """Return the step of each shard now."""
    return lifecycle(found, now=time(), soak_seconds=SOAK.total_seconds())


def step_line(step: ShardStep) -> str:
    """Return the step of a shard as one line."""
    return f"{step.shard}: {step.step}: {step.why}{f'; next: {step.command}' if step.command else ''}"


def print_status_json(act: str, found: SetStatus, more: Mapping[str, object]) -> None:
    """Print the same as JSON, with all that each move has left behind so far, and the fields in `more`."""
    print_json(f"shards {act}", **members_of_set(found), **more)


def members_of_set(found: SetStatus) -> dict[str, object]:
    """Return the facts of a set as an object of JSON."""
    return {
        "set": found.name,
        "version": str(found.version),
        "slots": found.hash_slots,
        "shards": [
            {"id": each.id, "url": each.url, "weight": each.weight, "slots": each.slots, "rows": each.rows}
            | {"revision": each.revision}
            | {"replication_url": each.replication_url, "step": step.step, "why": step.why, "next": step.command}
            for each, step in zip(found.shards, steps_of(found), strict=True)
        ],
        "moves": [members_of_move(each) for each in found.moves],
        "damaged": list(found.damaged),
        "migration": None if found.migration is None else members_of_migration(found.migration),
        "ranges": [{"slot": int(slot), "range": text, "shard": shard} for slot, text, shard in _ranges_of(found)],
    }


def members_of_migration(found: MigrationRecord) -> dict[str, object]:
    """Return the facts of a migration as an object of JSON."""
    shards = [
        {"id": shard, "state": each.state, "revision": each.revision, "error": each.error}
        for shard, each in sorted(found.shards.items())
    ]
    return {"target": found.target, "complete": found.is_over, "shards": shards}


def members_of_move(move: MoveStatus) -> dict[str, object]:
    """Return the facts of a move as an object of JSON."""
    return {
        "id": move.id,
        "state": move.state,
        "way": move.way,
        "source": move.source,
        "target": move.target,
        "slots": move.slots,
        "left_behind": list(move.left_behind),
        "attempts": move.attempt,
        "wish": move.wish,
        "pause_seconds": move.pause_seconds,
        "rows": move.rows,
        "copied": move.copied,
        "lag": move.lag,
        "wal_kept_bytes": move.wal_kept_bytes,
        "problem": move.problem,
    }


def _count(rows: int | None) -> str:
    return "?" if rows is None else str(rows)
