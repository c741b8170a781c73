"""Shards: the invariants of moves, S1 to S9. The model, the simulated world and tests of real processes check them.

`accepting` and `is_forbidden` are the two rules that the model shares. All else reads the facts of `sim.shard_facts`.
A row of a pinned key lies in the slot of that key, once a shard accepts this slot.
An acknowledged write replaces all writes that ended before it began. A row may show any write that is not replaced.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, TypeVar

from apportion.shards import slot_rows
from apportion.shards.reshard import MoveState
from apportion.shards.slot_rows import SlotRow
from apportion.sim.invariants.history import History
from apportion.sim.invariants.store import Invariant
from apportion.sim.shard_facts import (
    MoveLeftBehind,
    MoveSeen,
    RouterAsked,
    RowPlace,
    RowSeen,
    SlotRowsSeen,
    SlotSwept,
    TableSeen,
    WriteBegan,
    WriteEnded,
)
from apportion.tables.layout import Version

Name = TypeVar("Name")
OVER: frozenset[MoveState] = frozenset({"cleaned", "aborted"})
SETTLE_SECONDS = 15.0  # from the last fault to the end of a move: an election, and all acts of a move
MOST_REFRESHES = 2


def accepting(rows: Mapping[Name, SlotRow | None], named: Mapping[Name, Iterable[Version]]) -> list[Name]:
    """Return the shards that accept some writer of a slot, without a version or with one that names the shard."""
    return [
        shard
        for shard, row in rows.items()
        if slot_rows.accepts(row, None) or any(slot_rows.accepts(row, each) for each in named.get(shard, ()))
    ]


def is_forbidden(state: MoveState, *, is_source: bool) -> bool:
    """Whether a shard must accept no slot of a move: the target of an aborted move, the source of a switched one."""
    return state in ("switched", "complete", "cleaned") if is_source else state == "aborted"


@dataclass(slots=True, kw_only=True)
class WriteSeen:
    """A write, from its begin to its end; `ended` is infinite as long as nobody heard of its end."""

    is_deletion: bool
    began: float
    ended: float = inf
    is_refused: bool = False


@dataclass(slots=True)
class RowHistory:
    """The writes of one row by their numbers. `owed_since` is the latest begin of an acknowledged write."""

    writes: dict[int, WriteSeen] = field(default_factory=dict)
    owed_since: float = -inf

    def allows(self, write: int | None) -> bool:
        """Whether the row may show this write, or may be absent."""
        if write is None:
            return self.owed_since == -inf or any(
                each.is_deletion and self._lasts(each) for each in self.writes.values()
            )
        return self._lasts(self.writes[write])

    def is_deleted(self) -> bool:
        """Whether the latest acknowledged write was a deletion."""
        return any(each.is_deletion and each.began == self.owed_since for each in self.writes.values())

    def _lasts(self, write: WriteSeen) -> bool:
        return not write.is_refused and write.ended >= self.owed_since


class ShardsSeen:
    """The set as the facts tell it; each of `listeners` hears the number of a broken promise, and how it was broken."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[str, str], None]] = []
        self.rows: dict[str, Mapping[int, SlotRow]] = {}
        self.named: dict[int, dict[str, list[Version]]] = {}
        self.moves: dict[str, MoveSeen] = {}
        self._bans: dict[int, dict[str, MoveSeen]] = {}
        self._found: dict[str, dict[RowPlace, int]] = {}
        self._histories: dict[RowPlace, RowHistory] = {}
        self._places: dict[int, RowPlace] = {}
        self._of_slot: dict[int, set[RowPlace]] = {}
        self._pinned: Mapping[str, int] = {}
        self._unpinned: set[int] = set()

    def accepting(self, slot: int) -> list[str]:
        """Return the shards that accept a slot."""
        rows = {shard: found[slot] for shard, found in self.rows.items() if slot in found}
        return accepting(rows, self.named.get(slot, {}))

    def slotrowsseen(self, fact: SlotRowsSeen) -> None:
        """Take the slot rows of a shard."""
        before = self.rows.get(fact.shard, {})
        self.rows[fact.shard] = fact.rows
        self._look(slot for slot in {**before, **fact.rows} if before.get(slot) != fact.rows.get(slot))
        self._look_at_pins(self._pinned)

    def tableseen(self, fact: TableSeen) -> None:
        """Take a table."""
        for slot, shard in fact.owners.items():
            if shard is not None:
                self.named.setdefault(slot, {}).setdefault(shard, []).append(fact.version)
        self._unpinned = (self._unpinned | {*self._pinned.values()}) - {*fact.pinned.values()}
        self._pinned = fact.pinned
        self._look(fact.owners)
        self._look_at_pins(fact.pinned)

    def moveseen(self, fact: MoveSeen) -> None:
        """Take the state of a move. The shards that it forbids stay forbidden until another move brings the slot."""
        self.moves[fact.move] = fact
        for slot in fact.slots:
            bans = self._bans.setdefault(slot, {})
            for shard, is_source in ((fact.source, True), (fact.target, False)):
                if is_forbidden(fact.state, is_source=is_source):
                    bans[shard] = fact
            if fact.state == "switched":
                bans.pop(fact.target, None)
        self._look(fact.slots)

    def rowseen(self, fact: RowSeen) -> None:
        """Take a row, or its absence."""
        place, rows = fact.place, self._found.setdefault(fact.shard, {})
        if fact.home != place.slot:
            self._broken("S6", f"{place} is a row of slot {fact.home}")
        if fact.write is None:
            rows.pop(place, None)
        else:
            rows[place] = fact.write
        self._know(place)
        self._look_at_pins({_key(place)} & self._pinned.keys())
        if fact.shard in self.accepting(place.slot):
            self._look_at(place, fact.shard)

    def writebegan(self, fact: WriteBegan) -> None:
        """Take a write."""
        self._places[fact.write] = fact.place
        write = WriteSeen(is_deletion=fact.is_deletion, began=fact.at)
        self._know(fact.place).writes[fact.write] = write

    def writeended(self, fact: WriteEnded) -> None:
        """Take the end of a write."""
        place = self._places[fact.write]
        history = self._histories[place]
        write = history.writes[fact.write]
        write.is_refused = not fact.is_done
        write.ended = fact.at
        if fact.is_done:
            history.owed_since = max(history.owed_since, write.began)
        for shard in self.accepting(place.slot):
            self._look_at(place, shard)

    def slotswept(self, fact: SlotSwept) -> None:
        """Take a deletion of a clean-up."""
        row = self.rows.get(fact.shard, {}).get(fact.slot)
        if row is not None and row.state != "moved":
            self._broken("S7", f"{fact.shard} deletes rows of slot {fact.slot}, which is {row.state} there")

    def _broken(self, number: str, what: str) -> None:
        for listener in self.listeners:
            listener(number, what)

    def _know(self, place: RowPlace) -> RowHistory:
        self._of_slot.setdefault(place.slot, set()).add(place)
        return self._histories.setdefault(place, RowHistory())

    def _look(self, slots: Iterable[int]) -> None:
        for slot in slots:
            shards = self.accepting(slot)
            if len(shards) > 1:
                self._broken("S1", f"{shards} accept slot {slot}")
            for shard in shards:
                move = self._bans.get(slot, {}).get(shard)
                if move is not None:
                    self._broken("S4", f"{shard} accepts slot {slot}, though {move.move} is {move.state}")
                for place in self._of_slot.get(slot, ()):
                    self._look_at(place, shard)

    def _look_at_pins(self, keys: Iterable[str]) -> None:
        """Check that its own slot alone serves a pinned key, and that no shard accepts a slot that lost its key."""
        for key in keys:
            if not self.accepting(self._pinned[key]):
                continue
            for shard, found in self._found.items():
                for place in found:
                    is_strange = _key(place) == key and place.slot != self._pinned[key]
                    if is_strange and shard in self.accepting(place.slot):
                        self._broken("S6", f"{place} is on {shard}, and {key} has slot {self._pinned[key]}")
        for slot in self._unpinned:
            if shards := self.accepting(slot):
                self._broken("S6", f"{shards} accept slot {slot}, which has no key any more")

    def _look_at(self, place: RowPlace, shard: str) -> None:
        """Compare a row of a shard that accepts its slot with the writes that it may show."""
        history, found = self._histories[place], self._found.get(shard, {}).get(place)
        if history.allows(found):
            return
        if found is not None and history.is_deleted():
            self._broken("S3", f"{place} is alive on {shard} as write {found} left it, and was deleted")
        else:
            said = "is absent" if found is None else f"is as write {found} left it"
            self._broken("S2", f"{place} {said} on {shard}, and an acknowledged write is later")


def _key(place: RowPlace) -> str:
    """Return the shard key of a row. Its primary key begins with it."""
    return place.key.partition("/")[0]


class ShardInvariant(Invariant):
    """Some promises of moves, named in `numbers`. The first invariant of a history takes the facts for all of them."""

    numbers: ClassVar[frozenset[str]]

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        seen = history.shared.get(ShardsSeen)
        if seen is None:
            seen = history.shared[ShardsSeen] = ShardsSeen()
            for name in _TAKEN:
                setattr(self, name, getattr(seen, name))
        self.seen: ShardsSeen = seen
        seen.listeners.append(self._told)

    def _told(self, number: str, what: str) -> None:
        if number in self.numbers:
            self.broken(f"{number}: {what}")


class OneShardAccepts(ShardInvariant):
    """S1, S4: at most one shard accepts a slot. Targets of aborted moves and sources of switched ones accept none."""

    numbers: ClassVar[frozenset[str]] = frozenset({"S1", "S4"})


class WritesStay(ShardInvariant):
    """S2, S3, S6 and S7: rows show acknowledged writes or later ones, on the shard that accepts their slot."""

    numbers: ClassVar[frozenset[str]] = frozenset({"S2", "S3", "S6", "S7"})


class MovesEnd(ShardInvariant):
    """S5, S8 and S9: with faults ended, moves end, nothing of them is left, and routers find the shard of a slot."""

    numbers: ClassVar[frozenset[str]] = frozenset()

    def routerasked(self, fact: RouterAsked) -> None:
        """Check that a router arrives, and that no move is open, once there was time enough."""
        since, moves = self.history.calm_since, self.seen.moves
        if since is None or fact.at < since + SETTLE_SECONDS:
            return
        if fact.refreshes is None or fact.refreshes > MOST_REFRESHES:
            self.broken(f"S5: a router finds no shard of slot {fact.slot} in {MOST_REFRESHES} refreshes")
        for move in moves.values():
            if move.state not in OVER:
                self.broken(f"S9: {move.move} is {move.state} {fact.at - since:.1f} s after the last fault")

    def moveleftbehind(self, fact: MoveLeftBehind) -> None:
        """Check that nothing is left of a move that is over."""
        if fact.names:
            self.broken(f"S8: {', '.join(fact.names)} of {fact.move} are left on {fact.shard}")


_TAKEN = ("moveseen", "rowseen", "slotrowsseen", "slotswept", "tableseen", "writebegan", "writeended")
INVARIANTS: tuple[type[Invariant], ...] = (OneShardAccepts, WritesStay, MovesEnd)
