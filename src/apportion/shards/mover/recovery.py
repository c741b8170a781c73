"""Recovery: finds the owner of each slot, and the moves to end, from the shards alone.

As a rule, the control store decides. A store that was restored from an old copy does not know the last moves. The slot
rows of the shards know their outcomes. A shard that accepted a write of a slot has made itself the `owner`.

    one owner                    it owns the slot
    no owner, one fenced         the source owns it: nobody has written to the target yet
    no owner, none fenced        the shard with the slot `incoming` under a number owns it: the source has released it
    anything else                nobody can tell, and an operator decides

Promises: a slot is never given to a shard while another one may hold newer writes of it.
Refuses: to guess. A slot that nobody can place is named with the rows of all shards.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from apportion.errors import InvalidInput
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.records import MoveEntry
from apportion.shards.reshard import MoveRecord, MoveState
from apportion.shards.slot_rows import SlotRow

Rows: TypeAlias = Mapping[str, Mapping[int, SlotRow]]
"""The slot rows of each shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRemains:
    """The part of a move that is still on one shard. `is_captured` tells that the shard logs changes for it."""

    slots: frozenset[int]
    is_captured: bool = False


_COMING = SlotRow(state="incoming")

AllRemains: TypeAlias = Mapping[str, Mapping[str, MoveRemains]]
"""The remains of each move, by shard."""


def owner_in(rows: Mapping[str, SlotRow | None]) -> str | None:
    """Return the shard that owns a slot, by the slot's row on each shard. None if nobody can tell.

    >>> owner_in({"one": SlotRow(state="fenced"), "two": SlotRow(state="incoming")})
    'one'
    """
    states: defaultdict[str, list[str]] = defaultdict(list)
    for shard, row in rows.items():
        if row is not None and (row.state != "incoming" or row.number is not None):
            states[row.state].append(shard)
    found = states["owner"] or states["fenced"] or states["incoming"]
    return found[0] if len(found) == 1 else None


def owners_in(rows: Rows, slots: Iterable[int]) -> tuple[dict[int, str], tuple[str, ...]]:
    """Return the owner of each slot, and a sentence for each slot without one. O(slots * shards).

    A slot that is not among `slots` may be on its way to a shard for an isolated key. Until it has a number, no program
    has written to it, and it needs no owner. Neither does a slot that was merged after it had left a shard.
    """
    owners, doubts, known = {}, [], {*slots}
    for slot in sorted({*known, *(slot for each in rows.values() for slot in each)}):
        here = {shard: each.get(slot) for shard, each in sorted(rows.items())}
        found = {*filter(None, here.values())}
        if slot not in known and (found == {_COMING} or {row.state for row in found} == {"moved"}):
            continue
        owner = owner_in(here)
        if owner is None:
            said = ", ".join(f"{'no row' if row is None else row.state} on {shard}" for shard, row in here.items())
            doubts.append(f"slot {slot}: {said}")
        else:
            owners[slot] = owner
    return owners, tuple(doubts)


def moves_to_end(
    owners: Mapping[int, str], rows: Rows, remains: AllRemains, kept: Mapping[str, MoveEntry]
) -> Iterator[MoveEntry]:
    """Yield the record of each move, in the state from which a mover ends it.

    A move that left something on the shards is aborted if its source owns the slots, and has switched if its target
    owns them. `kept` are the records of the control store. The record of a move that left nothing is `cleaned`, unless
    its source has still to be settled. `InvalidInput` for the rest of a move in a set of one shard.
    """
    if remains and len(rows) < 2:
        alone = f"{', '.join(rows)} alone, with the rest of move {min(remains)}"
        hint = "Add a shard: apportion shards add URL SET ID=URL. Then run the same call again."
        raise InvalidInput("shards of the set", alone, "a second shard, with which the move can end", hint)
    taken: set[int] = set()
    for move in sorted({*remains, *kept}):
        entry = kept.get(move)
        attempt = 1 if entry is None else entry.record.attempt
        if move not in remains:
            if entry is not None:
                over: MoveState = "switched" if _is_unsettled(entry.group, owners, rows) else "cleaned"
                yield replace(entry, record=MoveRecord(state=over, attempt=attempt), wish="go")
            continue
        if entry is not None and entry.group.isolated is not None:
            yield _isolated(entry, owners)
            taken.update(entry.group.slots)
            continue
        pairs = (*_coming(owners, rows, remains[move]), *_pairs(owners, rows, remains[move], taken))
        for number, (source, target, state, found) in enumerate(pairs):
            slots = tuple(slot for slot in found if slot not in taken)
            if slots:
                taken.update(slots)
                name = f"{move}-{number}" if number else move
                group = MoveGroup(move=name, source=source, target=target, slots=slots)
                yield MoveEntry(group=group, record=MoveRecord(state=state, attempt=attempt))


def _isolated(entry: MoveEntry, owners: Mapping[int, str]) -> MoveEntry:
    """Return the record of an isolated key: it has switched if its target owns the key's own slot."""
    isolated, state = entry.group.isolated, entry.record.state
    if isolated is not None and state not in ("complete", "cleaned"):
        state = "switched" if owners.get(isolated.slot) == entry.group.target else "aborted"
    return replace(entry, record=replace(entry.record, state=state), wish="go")


def _is_unsettled(group: MoveGroup, owners: Mapping[int, str], rows: Rows) -> bool:
    """Whether the source of a move still fences slots that the target owns. Its old rows are there too."""
    here = rows.get(group.source, {})
    fenced = [slot for slot in group.slots if slot in here and here[slot].state == "fenced"]
    return any(owners.get(slot) == group.target for slot in fenced)


Pair: TypeAlias = tuple[str, str, Literal["aborted", "switched"], tuple[int, ...]]
"""Source, target, state, and slots."""


def _coming(owners: Mapping[int, str], rows: Rows, remains: Mapping[str, MoveRemains]) -> Iterator[Pair]:
    """Yield the pairs of an isolated key without a record: its own slot on the target, and a fence on the source."""
    captured = sorted(shard for shard, part in remains.items() if part.is_captured)
    own = [
        (shard, slot) for shard, part in sorted(remains.items()) for slot in sorted(part.slots.difference(owners))
        if rows[shard].get(slot) == _COMING
    ]  # fmt: skip
    for target, slot in own:
        source = next((shard for shard in captured if shard != target), min(rows.keys() - {target}))
        yield source, target, "aborted", (slot,)
        for fenced in sorted(remains[source].slots.intersection(owners) if source in remains else ()):
            if rows[source][fenced].state == "fenced" and owners[fenced] == source:
                yield source, target, "aborted", (fenced,)


def _pairs(
    owners: Mapping[int, str], rows: Rows, remains: Mapping[str, MoveRemains], taken: Collection[int]
) -> Iterator[Pair]:
    """Yield the pairs of shards between which a move has left something.

    A pair with a source that logs changes comes first. It keeps the name of the move, by which a mover finds the log.
    Without any pair, `_last_pair` looks for one.
    """
    found: defaultdict[tuple[str, str, Literal["aborted", "switched"]], list[int]] = defaultdict(list)
    for shard, part in sorted(remains.items()):
        for slot in sorted(part.slots.intersection(owners).difference(taken)):
            owner, row = owners[slot], rows[shard].get(slot)
            if owner != shard and row is not None:
                is_target = row.state == "incoming"
                found[(owner, shard, "aborted") if is_target else (shard, owner, "switched")].append(slot)
    captured = {shard for shard, part in remains.items() if part.is_captured}
    for (source, target, state), slots in sorted(found.items(), key=lambda each: (each[0][0] not in captured, each[0])):
        yield source, target, state, tuple(sorted(set(slots)))
    if not found and not any(part.slots.difference(owners) for part in remains.values()):
        shard = min(remains, key=lambda each: (each not in captured, each))
        free = {slot: owner for slot, owner in sorted(owners.items()) if slot not in taken}
        yield from _last_pair(shard, min(rows.keys() - {shard}), remains[shard], free)


def _last_pair(shard: str, other: str, part: MoveRemains, free: Mapping[int, str]) -> Iterator[Pair]:
    """Yield a pair that ends the rest of a move on one shard, and changes the owner of no slot.

    `free` are the slots that no other move has taken. Without one, the next recovery ends the rest.
    """
    own = [slot for slot, owner in free.items() if owner == shard]
    slots = tuple([slot for slot in own if slot in part.slots] or own[:1])
    if slots:
        yield (shard, other, "aborted", slots) if part.is_captured else (other, shard, "switched", slots)
    for slot in [] if own else [*free][:1]:
        yield shard, free[slot], "switched", (slot,)
