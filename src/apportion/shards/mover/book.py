"""Book: reads the records of moves from the control store, and changes them by commits that compare the old records.

Promises: no commit changes a record that another process changed meanwhile. A slot is listed for one move at most.
Refuses: to treat a commit without a reply as failed. It raises `StoreUnavailable`, and the caller reads again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from apportion.errors import BadSnapshot, Conflict, InvalidInput, StoreUnavailable
from apportion.model.assignment import Assignment
from apportion.runtime.clock import Clock
from apportion.shards.migration.record import MigrationRecord
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.records import MoveEntry, decode_moving, encode_moving, name_of_pin, slot_of_pin
from apportion.shards.records import SetKeys, read_record
from apportion.shards.slots import SlotTable
from apportion.stores import api
from apportion.tables.layout import TableKeys, Version, decode_head, resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMove:
    """The record of a move in the control store, and the revision that wrote it."""

    entry: MoveEntry
    revision: int
    is_listed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMoves:
    """All moves of a set at one revision.

    `damaged` has the error of each unreadable record, of an unreadable list of moving slots, and of each listed move
    without a record.
    """

    kept: Mapping[str, KeptMove]
    moving: Mapping[str, tuple[int, ...]]
    moving_revision: int | None = None
    damaged: Mapping[str, BadSnapshot] = field(default_factory=dict)

    @property
    def taken(self) -> frozenset[int]:
        """All slots that move, or that a pinned key will have."""
        return frozenset(slot for slots in self.moving.values() for slot in slots)

    def moves_of(self, slot: int) -> str | None:
        """Return the move of a slot, None if the slot does not move."""
        return next((move for move, slots in self.moving.items() if slot in slots), None)


class MoveBook:
    """The records of the moves of one set."""

    def __init__(self, store: api.CoordinationStore, name: str, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self.keys: SetKeys = SetKeys(name)
        self._table = TableKeys(name)
        self.commit_seconds: float | None = None  # the duration of the last commit

    async def newest(self) -> Version:
        """Return the version of the newest table."""
        scan = await self._store.scan(self._table.head)
        for item in scan.items:
            if item.key == self._table.head:
                return Version(incarnation=scan.incarnation, number=decode_head(item.value).version)
        raise self._nothing()

    def _nothing(self) -> BadSnapshot:
        hint = "Look at the set: apportion shards doctor URL SET"
        return BadSnapshot(f"table of set {self.keys.name}", None, "a published table of slots", hint)

    async def read(self, *, needs_list: bool = True) -> KnownMoves:
        """Return all moves. Without `needs_list`, an unreadable list of moving slots is `damaged` too."""
        found = {item.key: item for item in (await self._store.scan(f"{self.keys.prefix}mov")).items}
        listed = found.pop(self.keys.moving, None)
        kept: dict[str, KeptMove] = {}
        damaged: dict[str, BadSnapshot] = {}
        moving: dict[str, tuple[int, ...]] = {}
        try:
            moving = {} if listed is None else read_record(listed.key, listed.value, decode_moving)
        except BadSnapshot as error:
            error.hint = _mended_by(self.keys)
            if needs_list:
                raise
            damaged[self.keys.moving] = error
        for key, item in found.items():
            move = key.removeprefix(self.keys.move(""))
            try:
                entry = read_record(key, item.value, partial(_entry, move))
            except BadSnapshot as error:
                damaged[key] = error
            else:
                kept[move] = KeptMove(entry=entry, revision=item.revision, is_listed=move in moving)
        for move in moving:
            if self.keys.move(move) not in found and slot_of_pin(move) is None:
                damaged[f"{self.keys.moving}: {move}"] = _stray(self.keys, move)
        return KnownMoves(
            kept=kept, moving=moving, moving_revision=None if listed is None else listed.revision, damaged=damaged
        )

    async def begin(self, entry: MoveEntry) -> bool:
        """List the slots of a move, and write its record. Return False if other records changed meanwhile: try again.

        `Conflict` names the move that has one of the slots, or the shard that owns a slot in place of the source, or a
        migration that has not ended.
        """
        moves, group = await self.read(), entry.group
        for slot in group.listed:
            other = moves.moves_of(slot)
            if other == group.move:
                return True  # An earlier commit has listed it, and its reply was lost.
            if other is not None:
                hint = "Let it end, or abort it: apportion shards abort URL SET"
                raise Conflict(f"slot {slot} moves already, in move {other}.", hint)
        puts = [
            api.Put(key=self.keys.moving, value=encode_moving({**moves.moving, group.move: group.listed})),
            api.Put(key=self.keys.move(group.move), value=entry.encode()),
        ]
        owned, unmigrated = await self._owned(group), (await self.ended_migration())[1]
        return await self._commit([owned, unmigrated, self.list_compare(moves), api.Absent(key=puts[1].key)], puts)

    async def migration(self) -> tuple[MigrationRecord | None, api.Compare]:
        """Return the record of the newest migration, and the compare that holds while it is the newest."""
        key = self.keys.migration
        for item in (await self._store.scan(key)).items:
            if item.key == key:
                record = read_record(key, item.value, MigrationRecord.decode)
                return record, api.Unchanged(key=key, revision=item.revision)
        return None, api.Absent(key=key)

    async def ended_migration(self) -> tuple[MigrationRecord | None, api.Compare]:
        """Do the same. `Conflict` if the migration has not ended."""
        record, same = await self.migration()
        if record is not None and not record.is_over:
            hint = f"Let it go on: apportion shards migrate URL {self.keys.name} --to {record.target}"
            raise Conflict(f"the migration of set {self.keys.name} to {record.target} has not ended.", hint)
        return record, same

    async def _owned(self, group: MoveGroup) -> api.Compare:
        """Return the compare that holds while the source owns all slots of a group in the newest table."""
        table, same = await self.table()
        for slot in group.slots:
            if table.owners.get(slot) != group.source:
                hint = "Make a new plan: apportion shards plan URL SET"
                raise Conflict(f"slot {slot} is owned by {table.owners.get(slot)}, not by {group.source}.", hint)
        key = group.isolated
        if key is not None and not key.is_free(table, group.slots[0]):
            raise Conflict(f"the key, or slot {key.slot}, has a place of its own already.", "Run the same call again.")
        return same

    async def table(self) -> tuple[SlotTable, api.Compare]:
        """Return the newest table, and the compare that holds while it is the newest."""
        scan = await self._store.scan(self._table.prefix)
        items = {item.key: item for item in scan.items}
        if self._table.head not in items:
            raise self._nothing()
        head = decode_head(items[self._table.head].value)
        value = resolved(head, self._table, {key: item.value for key, item in items.items()})
        if not isinstance(value, Assignment):
            raise self._nothing()
        table = SlotTable.of(Version(incarnation=scan.incarnation, number=head.version), value)
        return table, api.Unchanged(key=self._table.head, revision=items[self._table.head].revision)

    async def write(self, kept: KeptMove, entry: MoveEntry) -> bool:
        """Write the record of a move. Return False if it changed meanwhile."""
        return await self._commit([self.compare(kept)], [self.put(entry)])

    async def release(self, kept: KeptMove) -> bool:
        """Delete the record of a move that is over, and free its slots. Return False if a record changed meanwhile."""
        moves, group = await self.read(), kept.entry.group
        rest = {move: slots for move, slots in moves.moving.items() if move != group.move}
        is_listed = group.move in moves.moving
        when: list[api.Compare] = [self.compare(kept)]
        if is_listed:
            when.append(self.list_compare(moves))
        puts = [api.Put(key=self.keys.moving, value=encode_moving(rest))] if rest and is_listed else []
        gone = [] if rest or not is_listed else [self.keys.moving]
        return await self._commit(when, puts, [self.keys.move(group.move), *gone])

    async def enlist(self, moves: KnownMoves, move: str, slots: tuple[int, ...]) -> None:
        """List the slots of a pin or a merge. `Conflict` if the list changed meanwhile."""
        when, put = self.listing(moves, move, slots)
        if not await self._commit([when], [put]):
            raise Conflict("the list of moving slots changed meanwhile.", "Nothing was changed. Try again.")

    def listing(self, moves: KnownMoves, move: str, slots: tuple[int, ...]) -> tuple[api.Compare, api.Put]:
        """Return a compare and a put with which another commit lists slots. Then no move takes one of them."""
        value = encode_moving({**moves.moving, move: slots})
        return self.list_compare(moves), api.Put(key=self.keys.moving, value=value)

    def unlisting(self, moves: KnownMoves, move: str) -> tuple[api.Compare, api.Put]:
        """Return a compare and a put with which another commit frees the slots of a move or pin."""
        rest = {each: slots for each, slots in moves.moving.items() if each != move}
        return self.list_compare(moves), api.Put(key=self.keys.moving, value=encode_moving(rest))

    async def relist(self, pinned: Collection[int]) -> tuple[str, ...]:
        """Write a damaged list of moving slots anew, from the records of the moves. Return its damages, () if none.

        A damaged list no longer shows which pins were under way. So all `pinned` slots are listed, and the next mover
        examines each of them. An unreadable record of a move raises `BadSnapshot` in two cases. With an unreadable
        list, nobody knows the slots of that move. With a sound list, that record is the only damage, and this call
        cannot mend it.
        """
        moves = await self.read(needs_list=False)
        damages = {key: each for key, each in moves.damaged.items() if key.startswith(self.keys.moving)}
        due = {move: kept.entry.group.listed for move, kept in moves.kept.items()}
        if self.keys.moving in damages:
            for error in (each for key, each in moves.damaged.items() if key not in damages):
                raise error
            taken = {slot for slots in due.values() for slot in slots}
            due |= {name_of_pin(slot): (slot,) for slot in pinned if slot not in taken}
        else:
            due |= {move: slots for move, slots in moves.moving.items() if f"{self.keys.moving}: {move}" not in damages}
        if not damages:
            for error in moves.damaged.values():
                raise error
            return ()
        when = [self.list_compare(moves), *(self.compare(kept) for kept in moves.kept.values())]
        puts = [api.Put(key=self.keys.moving, value=encode_moving(due))] if due else []
        if not await self._commit(when, puts, [] if due else [self.keys.moving]):
            raise Conflict("a move began or ended meanwhile.", "Nothing was changed. Try again.")
        return tuple(each.problem for each in damages.values())

    async def unlist(self, move: str) -> None:
        """Free the slots of a move or pin that has no record. `Conflict` if the list changed meanwhile."""
        moves = await self.read()
        rest = {each: slots for each, slots in moves.moving.items() if each != move}
        if move not in moves.moving:
            return
        puts = [api.Put(key=self.keys.moving, value=encode_moving(rest))] if rest else []
        if not await self._commit([self.list_compare(moves)], puts, [] if rest else [self.keys.moving]):
            raise Conflict("the list of moving slots changed meanwhile.", "Nothing was changed. Try again.")

    def compare(self, kept: KeptMove) -> api.Compare:
        """Return the compare that holds while the record of a move stays unchanged."""
        return api.Unchanged(key=self.keys.move(kept.entry.group.move), revision=kept.revision)

    def put(self, entry: MoveEntry) -> api.Put:
        """Return the put of a move's record."""
        return api.Put(key=self.keys.move(entry.group.move), value=entry.encode())

    def list_compare(self, moves: KnownMoves) -> api.Compare:
        """Return the compare that holds while the list of moving slots stays unchanged."""
        if moves.moving_revision is None:
            return api.Absent(key=self.keys.moving)
        return api.Unchanged(key=self.keys.moving, revision=moves.moving_revision)

    async def _commit(self, when: list[api.Compare], puts: list[api.Put], deletes: list[str] | None = None) -> bool:
        began = self._clock.elapsed()
        outcome = await self._store.commit(when=when, puts=puts, deletes=deletes or ())
        self.commit_seconds = self._clock.elapsed() - began
        if isinstance(outcome, api.Unknown):
            raise StoreUnavailable("the control store", outcome.reason)
        return isinstance(outcome, api.Committed)


def _entry(move: str, data: bytes) -> MoveEntry:
    """Return the record of this move. A record of another move under its key is damage."""
    entry = MoveEntry.decode(data)
    if entry.group.move != move:
        raise BadSnapshot("field move", entry.group.move, move, "Restore the control store from a copy.")
    return entry


def _stray(keys: SetKeys, move: str) -> BadSnapshot:
    return BadSnapshot(f"move in record {keys.moving}", move, "a move with a record, or a pin", _mended_by(keys))


def _mended_by(keys: SetKeys) -> str:
    return f"Mend the list: apportion shards repair URL {keys.name}"


def check_slots(slots: Mapping[int, str], owners: Mapping[int, str | None], shards: Mapping[str, object]) -> None:
    """Refuse slots that the set does not have, and shards without a record in the set."""
    for slot, shard in slots.items():
        if slot not in owners:
            raise InvalidInput("slot", slot, "a slot of the set", "See the slots: apportion shards status URL SET")
        if shard not in shards:
            raise InvalidInput("shard", shard, f"one of {', '.join(sorted(shards))}", "Add it: apportion shards add")
