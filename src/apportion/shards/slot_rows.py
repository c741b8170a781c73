"""Slot rows: the answers of a shard for its slots. A shard has a row for each slot that it owns, gets or owned before.

    owner       accepts writers, from `number` on if there is a number
    fenced      accepts nobody: a switch is under way
    moved       accepts nobody, for ever; the row stays, so that no old table can bring the slot back
    incoming    accepts writers from `number` on, and nobody without a number; the first write makes it `owner`

Promises: a number is the oldest version of the table under which the shard accepts writers of the slot. A writer
without a version, such as psql or cron, is accepted by an `owner` alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from apportion.errors import BadSnapshot
from apportion.errors.shown import shown
from apportion.tables.layout import Version

DAMAGE = "Another program changed the tables of the set on this shard. Restore the shard from a copy."

SlotState: TypeAlias = Literal["owner", "fenced", "moved", "incoming"]
_STATES: tuple[SlotState, ...] = get_args(SlotState)
_ANSWERS: Mapping[SlotState, int] = {"owner": 0, "fenced": 1, "incoming": 2, "moved": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRow:
    """The row of a slot on one shard."""

    state: SlotState
    number: Version | None = None


def slot_row(slot: int, state: SlotState, life: object, number: object) -> SlotRow:
    """Return the row of a slot from the values of a database.

    `BadSnapshot` for a state or a number that no mover writes.
    """
    check_state(slot, state)
    if number is None:
        return SlotRow(state=state)
    if type(life) is not int or type(number) is not int:
        found = f"{shown(life)} and {shown(number)}"
        raise BadSnapshot(f"number of slot {slot}", found, "two integers", DAMAGE)
    return SlotRow(state=state, number=Version(incarnation=life, number=number))


def check_state(slot: int, state: object) -> None:
    """Raise `BadSnapshot` for a state that no mover writes."""
    if state not in _STATES:
        raise BadSnapshot(f"state of slot {slot}", shown(state), f"one of {', '.join(_STATES)}", DAMAGE)


def accepts(row: SlotRow | None, version: Version | None) -> bool:
    """Whether a shard accepts a writer that routed by a version. None means a writer without a table.

    >>> accepts(SlotRow(state="incoming"), Version(incarnation=1, number=9))
    False
    """
    if row is None or row.state not in ("owner", "incoming"):
        return False
    if version is None or row.number is None:
        return row.state == "owner"
    return row.number <= version


def written(row: SlotRow) -> SlotRow:
    """Return the row after an accepted write. An incoming slot has become an owned one."""
    return SlotRow(state="owner", number=row.number)


def owners_of(
    states: Mapping[str, Mapping[int, SlotState]], known: Collection[int] | None = None
) -> dict[int, str | None]:
    """Return the shard that answers for each slot. None for a slot that no shard answers for, or two.

    `known` are the slots of the table. Another slot that has only left shards was merged, and is left out.

    An owner answers. Without an owner, the fenced shard answers, because no other shard has accepted writers. Without a
    fenced shard, the shard with the incoming slot answers.

    >>> owners_of({"one": {7: "fenced"}, "two": {7: "incoming"}}), owners_of({"one": {7: "owner"}, "two": {7: "owner"}})
    ({7: 'one'}, {7: None})
    """
    found: dict[int, tuple[int, str | None]] = {}
    for shard, each in states.items():
        for slot, state in each.items():
            rank = _ANSWERS[state]
            best = found.get(slot, (_ANSWERS["moved"], None))[0]
            if rank <= best:
                is_only = rank < best
                found[slot] = rank, shard if is_only else None
    return {
        slot: shard
        for slot, (rank, shard) in found.items()
        if rank < _ANSWERS["moved"] or known is None or slot in known
    }
