"""Facts of shards: the events in a set of shards, in the order of true time. The invariants of shards read them.

A simulated world writes them at every transition. A test of real processes writes the same facts. Its writers tell
their writes, and its verifier tells the slot rows, tables and rows that it finds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.shards.reshard import MoveState
from apportion.shards.slot_rows import SlotRow
from apportion.sim.facts import Fact
from apportion.tables.layout import Version


class RowPlace(NamedTuple):
    """A row of a sharded table: its slot, its table, and its primary key."""

    slot: int
    table: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRowsSeen(Fact):
    """A shard has these rows of slots from now on; a slot that is not in `rows` has none."""

    shard: str
    rows: Mapping[int, SlotRow]

    def __str__(self) -> str:
        rows = [f"{slot} {row.state}({row.number or ''})" for slot, row in sorted(self.rows.items())]
        return f"{self.shard} has slots {', '.join(rows)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSeen(Fact):
    """A version of the set's table was published: the shards of its slots, and the slots of pinned keys."""

    version: Version
    owners: Mapping[int, str | None]
    pinned: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"table {self.version} is {' '.join(map(str, self.owners.values()))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSeen(Fact):
    """The record of a move has this state from now on."""

    move: str
    state: MoveState
    source: str
    target: str
    slots: tuple[int, ...]

    def __str__(self) -> str:
        return f"move {self.move} of {self.slots} from {self.source} to {self.target} is {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSeen(Fact):
    """A shard has a row as this write left it; None if the row is absent. `home` is the slot of its shard key."""

    shard: str
    place: RowPlace
    write: int | None
    home: int

    def __str__(self) -> str:
        return f"{self.shard} has {self.place.key} {'no more' if self.write is None else f'as of write {self.write}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBegan(Fact):
    """A writer sends a write of a row; each write has a number of its own. A deletion leaves the row absent."""

    write: int
    place: RowPlace
    is_deletion: bool = False

    def __str__(self) -> str:
        return f"write {self.write} {'deletes' if self.is_deletion else 'puts'} {self.place.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEnded(Fact):
    """A writer heard that its write is done, or that nothing was written. A writer that hears nothing tells nothing."""

    write: int
    is_done: bool

    def __str__(self) -> str:
        return f"write {self.write} is {'done' if self.is_done else 'refused'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSwept(Fact):
    """The clean-up of a move deleted rows of a slot on a shard."""

    shard: str
    slot: int

    def __str__(self) -> str:
        return f"{self.shard} is swept of slot {self.slot}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLeftBehind(Fact):
    """A shard names the objects that are left of a move that is over."""

    shard: str
    move: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.shard} has {', '.join(self.names) or 'nothing'} left of move {self.move}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterAsked(Fact):
    """A router with some table looked for the shard of a slot: the refreshes that it took, or None if it found none."""

    slot: int
    refreshes: int | None

    def __str__(self) -> str:
        return f"a router looked for slot {self.slot}; refreshes until it arrived: {self.refreshes}"
