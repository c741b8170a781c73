"""Move group: the slots that move together from one shard to another, and the changes of their rows.

A group has at most 256 slots of one pair of shards, so one short transaction fences them all. The rows of these slots
change together. A change names the states that it accepts, and leaves a row in any other state as it is. So a change
that comes twice or late does no harm.

A group may also be the rows of one key in one slot. They leave the slot of the source, and come to the target in a slot
of their own. The source keeps its slot for the other keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from apportion.errors import InvalidInput
from apportion.shards.pins.isolated_key import IsolatedKey
from apportion.shards.reshard import Label
from apportion.shards.slot_rows import SlotState
from apportion.tables.layout import Version

MOST_SLOTS = 256


class MoverWork(Protocol):
    """A work of a mover: a move, or the work on partitions. A shard keeps the newest token of each by its name."""

    @property
    def move(self) -> str:
        """The name of the work."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveGroup:
    """Slots, ascending, that move from the shard `source` to the shard `target`. `move` is the id of the move.

    With `isolated`, only the rows of this key move. They leave the group's one slot, and get the slot of the key.
    """

    move: str
    source: str
    target: str
    slots: tuple[int, ...]
    isolated: IsolatedKey | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.slots) <= MOST_SLOTS or list(self.slots) != sorted(set(self.slots)):
            expected = f"1 to {MOST_SLOTS} slots, ascending, each once"
            raise InvalidInput("slots of a move", len(self.slots), expected, "Cut a larger move into groups.")
        if self.isolated is not None and len(self.slots) > 1:
            hint = "Name the hash slot of the key."
            raise InvalidInput("slots of an isolated key", len(self.slots), "1 slot", hint)

    @property
    def arriving(self) -> "MoveGroup":
        """The same group as its target has it: an isolated key has its own slot there."""
        return self if self.isolated is None else replace(self, slots=(self.isolated.slot,), isolated=None)

    @property
    def listed(self) -> tuple[int, ...]:
        """All slots that no other move may take meanwhile."""
        return self.slots if self.isolated is None else (*self.slots, self.isolated.slot)

    def reversed(self) -> "MoveGroup":
        """Return the same move with source and target swapped."""
        return replace(self, source=self.target, target=self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One change of the rows of a group, from any of the states `before` to `after`. None means a slot without a row.

    The change sets the number of a row to `number`, or keeps the number if `keeps_number`. A row in any other state
    stays as it is. `sheds` marks a row: old rows of an isolated key may lie in its slot, so no report reads the slot.
    With `takes`, the rows of an isolated key get their slot on the same shard, and that slot its row, in one act.
    With `joins`, the rows of this slot get the other slot of the group, and its own row is deleted.
    """

    before: tuple[SlotState | None, ...]
    after: SlotState
    number: Version | None = None
    keeps_number: bool = False
    sheds: bool = False
    takes: bool = False
    joins: int | None = None


ROW_CHANGES: Mapping[Label, RowChange] = MappingProxyType(
    {
        "prepare": RowChange(before=(None, "moved"), after="incoming"),
        "fence": RowChange(before=("owner",), after="fenced", keeps_number=True),
        "unfence": RowChange(before=("fenced",), after="owner", keeps_number=True),
        "announce": RowChange(before=("incoming",), after="incoming"),
        "withdraw": RowChange(before=("incoming",), after="incoming"),
        "settle-source": RowChange(before=("fenced",), after="moved", keeps_number=True),
        "settle-target": RowChange(before=("incoming",), after="owner", keeps_number=True),
    }
)
"""The change of rows that each act makes. `announce` sets the number that the act names."""


def source_change(label: Label, newest: Version | None) -> RowChange:
    """Return the change of an isolated key's source. The source stays the owner of the slot, for the other keys.

    `settle-source` sets the number `newest`: the version of the table that names the key's own slot, or a later one.
    So the source refuses routers that still send the key there.
    """
    change = ROW_CHANGES[label]
    if label == "settle-source":
        return replace(change, after="owner", number=newest, keeps_number=False, sheds=True)
    return replace(change, sheds=label == "fence")
