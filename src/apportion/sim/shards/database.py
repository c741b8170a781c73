"""The database of a shard in a world: rows of sharded tables, rows of slots, tokens, logs and cursors of moves.

Every method is one transaction: nothing else happens while it runs, and an error has changed nothing. A transaction of
a mover begins with `show`. Promises: facts tell each change before the next transaction begins.
Refuses: writes that the rows of slots do not accept, and tokens that are older than one that was seen for the move.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.errors import InvariantBroken, StaleRoute
from apportion.guards.rule import decide
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup, RowChange
from apportion.shards.slot_rows import SlotRow, accepts, written
from apportion.sim.facts import Fact
from apportion.sim.shard_facts import RowPlace, RowSeen, SlotRowsSeen, SlotSwept
from apportion.tables.layout import Version

Row = tuple[int, int]  # the number of the write that left the row so, and the slot of its shard key


@dataclass(frozen=True, slots=True)
class KeptSlot:
    """The row of a slot, the move that changed it last, and the tombstone that it replaced."""

    row: SlotRow
    move: str = ""
    tombstone: SlotRow | None = None


@dataclass(slots=True)
class MoveLog:
    """The log of a move on its source: the changed rows, in the order of their commits."""

    slots: frozenset[int]
    entries: dict[int, RowPlace] = field(default_factory=dict)
    last: int = 0

    def add(self, place: RowPlace) -> None:
        """Log a row, if its slot moves."""
        if place.slot in self.slots:
            self.last += 1
            self.entries[self.last] = place


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCursor:
    """A move on its target: the last copied row, whether all rows are copied, their number, the verified attempt."""

    after: RowPlace | None = None
    is_copied: bool = False
    copied: int = 0
    verified: int = 0


class ShardDatabase:
    """One shard. `tell` takes each fact; `now` is the true time."""

    def __init__(
        self, name: str, slots: Mapping[int, SlotRow], *, now: Callable[[], float], tell: Callable[[Fact], None]
    ) -> None:
        self.name = name
        self.rows: dict[RowPlace, Row] = {}
        self.slots: dict[int, KeptSlot] = {slot: KeptSlot(row) for slot, row in slots.items()}
        self.tokens: dict[str, FencingToken] = {}
        self.logs: dict[str, MoveLog] = {}
        self.cursors: dict[str, CopyCursor] = {}
        self._now, self._tell = now, tell
        self._told: dict[int, SlotRow] = {}
        self.tell_slots()

    def tell_slots(self) -> None:
        """Tell the rows of slots, if they have changed."""
        rows = {slot: kept.row for slot, kept in self.slots.items()}
        if rows != self._told:
            self._told = rows
            self._tell(SlotRowsSeen(at=self._now(), shard=self.name, rows=rows))

    def write(self, version: Version | None, changes: Mapping[RowPlace, Row | None]) -> None:
        """Write rows as a writer that routed by a version, or by none; `StaleRoute` if a slot refuses the writer."""
        slots = sorted({place.slot for place in changes})
        for slot in slots:
            kept = self.slots.get(slot)
            if kept is None or not accepts(kept.row, version):
                raise StaleRoute(f"slot {slot}", self.name, version)
        for slot in slots:
            kept = self.slots[slot]
            self.slots[slot] = replace(kept, row=written(kept.row))
        self.tell_slots()
        self.put(changes)

    def put(self, changes: Mapping[RowPlace, Row | None]) -> None:
        """Write rows, whatever the rows of slots say; None deletes. Logs take the changed rows."""
        for place, row in changes.items():
            if row is None:
                self.rows.pop(place, None)
            else:
                self.rows[place] = row
            self._tell(
                RowSeen(
                    at=self._now(),
                    shard=self.name,
                    place=place,
                    write=None if row is None else row[0],
                    home=place.slot if row is None else row[1],
                )
            )
            for log in self.logs.values():
                log.add(place)

    def bring(self, group: MoveGroup, changes: Mapping[RowPlace, Row | None]) -> None:
        """Write rows of a move; `InvariantBroken` unless all its slots are incoming here."""
        kept = [self.slots.get(slot) for slot in group.slots]
        if any(each is None or each.row.state != "incoming" for each in kept):
            raise InvariantBroken(f"rows of move {group.move} were to be written while a slot was not incoming")
        self.put(changes)

    def show(self, move: str, token: FencingToken) -> None:
        """Keep the token of a mover; `Fenced` if a newer one was seen for the move."""
        shown = replace(token, resource=f"shards/{move}")
        self.tokens[move] = decide(self.tokens.get(move), shown)

    def change(self, group: MoveGroup, change: RowChange) -> None:
        """Change the rows of a group's slots."""
        for slot in group.slots:
            kept = self.slots.get(slot)
            state = None if kept is None else kept.row.state
            if state not in change.before:
                continue
            number = kept.row.number if kept is not None and change.keeps_number else change.number
            tombstone = kept.row if kept is not None and state == "moved" else None
            if kept is not None and state == change.after:
                tombstone = kept.tombstone
            self.slots[slot] = KeptSlot(SlotRow(state=change.after, number=number), group.move, tombstone)
        self.tell_slots()

    def clean(self, group: MoveGroup, most: int) -> int:
        """Delete some rows of slots that are `moved` here; return how many."""
        moved = {slot for slot in group.slots if slot in self.slots and self.slots[slot].row.state == "moved"}
        places = sorted(place for place in self.rows if place.slot in moved)[:most]
        for slot in sorted({place.slot for place in places}):
            self._tell(SlotSwept(at=self._now(), shard=self.name, slot=slot))
        self.put(dict.fromkeys(places))
        return len(places)

    def drop(self, group: MoveGroup) -> None:
        """Delete all that an aborted move brought here."""
        for slot in group.slots:
            kept = self.slots.get(slot)
            if kept is None or kept.row.state != "incoming" or kept.move != group.move:
                continue
            self.put({place: None for place in sorted(self.rows) if place.slot == slot})
            if kept.tombstone is None:
                del self.slots[slot]
            else:
                self.slots[slot] = KeptSlot(kept.tombstone)
        self.tell_slots()
        self.cursors.pop(group.move, None)

    def capture(self, group: MoveGroup) -> None:
        """Log the rows of a group that change from now on."""
        if group.move not in self.logs:
            self.logs[group.move] = MoveLog(frozenset(group.slots))

    def log(self, group: MoveGroup, places: Sequence[RowPlace]) -> None:
        """Log rows that have to be copied again."""
        for place in places if group.move in self.logs else ():
            self.logs[group.move].add(place)

    def forget(self, group: MoveGroup) -> None:
        """Delete the cursor of a move."""
        self.cursors.pop(group.move, None)

    def end_log(self, group: MoveGroup) -> None:
        """Delete the log of a move."""
        self.logs.pop(group.move, None)

    def read(self, slots: Sequence[int], after: RowPlace | None = None, most: int | None = None) -> dict[RowPlace, Row]:
        """Return rows of slots in their order."""
        found = sorted(place for place in self.rows if place.slot in slots and (after is None or place > after))
        return {place: self.rows[place] for place in found[:most]}

    def has_key(self, slot: int, key: str) -> bool:
        """Return whether a slot has rows of a shard key. The primary key of a row begins with its shard key."""
        return any(place.slot == slot and place.key.partition("/")[0] == key for place in self.rows)

    def left_behind(self, move: str) -> tuple[str, ...]:
        """Return the names of the objects that a move has left here."""
        own = {slot: kept.row.state for slot, kept in self.slots.items() if kept.move == move}
        slots = [f"slot {slot}" for slot, state in own.items() if state == "incoming"]
        rows = sorted({place.slot for place in self.rows if own.get(place.slot) == "moved"})
        log = ["log"] if move in self.logs else []
        cursor = ["cursor"] if move in self.cursors else []
        return (*slots, *(f"rows of slot {slot}" for slot in rows), *log, *cursor)
