"""Move group: the slots that move together from one shard to another, and the changes of their rows.

A group has at most 256 slots of one pair of shards, so one short transaction fences them all. The rows of these slots
change together. A change names the states that it accepts, and leaves a row in any other state as it is. So a change
that comes twice or late does no harm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from apportion.errors import InvalidInput
from apportion.shards.reshard import Label
from apportion.shards.slot_rows import SlotState
from apportion.tables.layout import Version

MOST_SLOTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveGroup:
    """Slots, ascending, that move from the shard `source` to the shard `target`. `move` is the id of the move."""

    move: str
    source: str
    target: str
    slots: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.slots) <= MOST_SLOTS or list(self.slots) != sorted(set(self.slots)):
            expected = f"1 to {MOST_SLOTS} slots, ascending, each once"
            raise InvalidInput("slots of a move", len(self.slots), expected, "Cut a larger move into groups.")

    def reversed(self) -> "MoveGroup":
        """Return the same move with source and target swapped."""
        return replace(self, source=self.target, target=self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One change of the rows of a group, from any of the states `before` to `after`. None means a slot without a row.

    The change sets the number of a row to `number`, or keeps the number if `keeps_number`. A row in any other state
    stays as it is.
    """

    before: tuple[SlotState | None, ...]
    after: SlotState
    number: Version | None = None
    keeps_number: bool = False


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
