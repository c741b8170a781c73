"""Fail-over: notes another timeline of a shard in the control store, if the shard lost nothing that a move needs.

Records, moves and table are read afresh. One commit compares all of them and the record of the shard, so no move begins
and no table is published in between.

Promises: of two processes that see the same fail-over, each finds the timeline noted in the end.
Refuses: an earlier timeline, another cluster, a move under way, and slot rows that differ from the table.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace

from apportion.errors import Conflict, InvalidInput, StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.shards.meta import ShardMeta
from apportion.shards.mover.book import KnownMoves, MoveBook
from apportion.shards.records import SetKeys, ShardRecord, read_record
from apportion.shards.reshard import BEFORE_SWITCH
from apportion.shards.slot_rows import SlotRow
from apportion.shards.timeline.admission import Admission
from apportion.shards.timeline.timeline import Timeline, disagreement, objections, went_back
from apportion.stores import api

_TRIES = 5


def admission_to(
    store: api.CoordinationStore,
    shards: dict[str, ShardRecord],
    meta: ShardMeta,
    has_left: Callable[[], bool],
    wait: Callable[[Coroutine[object, object, ShardRecord]], ShardRecord],
) -> Admission:
    """Return the admission of a process to one of its known shards. `wait` waits for a result of the control store."""

    def _asked(found: Timeline, rows: Mapping[int, SlotRow]) -> None:
        shards[meta.shard] = wait(admitted(store, (meta.set_id, meta.shard), found, rows))

    return Admission(meta=meta, has_left=has_left, noted=lambda: shards[meta.shard].timeline, ask=_asked)


async def admitted(
    store: api.CoordinationStore, place: tuple[str, str], found: Timeline, rows: Mapping[int, SlotRow]
) -> ShardRecord:
    """Note the timeline on which a shard was found, and return its record. `place` is the set and the shard.

    The noted timeline needs no commit. `StoreWentBack` lists the objections to another timeline.
    """
    name, shard = place
    book = MoveBook(store, name, SystemClock())
    for _ in range(_TRIES):
        kept = await record_of(store, book.keys, shard)
        before = kept.timeline
        if found.is_part_of(before) or (before is None and not found.number):
            return kept.record
        moves = await book.read()
        table, same_table = await book.table()
        if before is not None:
            wrong = disagreement(shard, rows, table, copied_to(shard, rows, moves))
            said = objections(before, found, wrong, moves_at(shard, moves))
            if said:
                raise went_back(place, before, found, said)
        await kept.note(store, found, [same_table, book.list_compare(moves)])
    hint = "Nothing was written. Run the same call again to go on."
    raise Conflict(f"the records of set {name} changed while shard {shard} was examined.", hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptShard:
    """The record of a shard in the control store, and the revision that wrote it."""

    key: str
    record: ShardRecord
    revision: int

    @property
    def timeline(self) -> Timeline | None:
        """The noted timeline."""
        return self.record.timeline

    async def note(self, store: api.CoordinationStore, found: Timeline, when: Sequence[api.Compare] = ()) -> bool:
        """Write a timeline into the record. Return False if the record, or a compared one, changed meanwhile."""
        same = api.Unchanged(key=self.key, revision=self.revision)
        put = api.Put(key=self.key, value=replace(self.record, timeline=found).encode())
        outcome = await store.commit(when=[same, *when], puts=[put])
        if isinstance(outcome, api.Unknown):
            raise StoreUnavailable("the control store", outcome.reason)
        return isinstance(outcome, api.Committed)


async def record_of(store: api.CoordinationStore, keys: SetKeys, shard: str) -> KeptShard:
    """Return the record of a shard. `InvalidInput` if the set has no such shard."""
    key = keys.shard(shard)
    for item in (await store.scan(key)).items:
        if item.key == key:
            return KeptShard(key=key, record=read_record(key, item.value, ShardRecord.decode), revision=item.revision)
    hint = "Look at the set: apportion shards status URL SET"
    raise InvalidInput("shard", shard, f"a shard of set {keys.name}", hint)


def moves_at(shard: str, moves: KnownMoves) -> tuple[str, ...]:
    """Return the moves and pins that are under way on a shard. One without a readable record may be on any shard."""
    found = []
    for move in sorted({*moves.moving, *moves.kept}):
        kept = moves.kept.get(move)
        if kept is None or shard in (kept.entry.group.source, kept.entry.group.target):
            found.append(move)
    return tuple(found)


def copied_to(shard: str, rows: Mapping[int, SlotRow], moves: KnownMoves) -> frozenset[int]:
    """Return the slots that a move copies to a shard, or has to delete there because it was taken back.

    The end of the move corrects the rows of these slots.
    """
    coming = {slot for slot, row in rows.items() if row.state == "incoming"}
    entries = (kept.entry for kept in moves.kept.values() if kept.entry.group.target == shard)
    open_groups = (each.group for each in entries if each.record.state in BEFORE_SWITCH | {"aborted"})
    return frozenset(slot for group in open_groups for slot in group.arriving.slots if slot in coming)
