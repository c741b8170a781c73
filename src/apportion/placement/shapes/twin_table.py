"""Twin table: the native twin gives the answers that a plan needs from a placement's table, without the table.

Promises: the answers of the table itself. Refuses: lists of more than one owner; these need the table.
"""

from dataclasses import dataclass
from struct import pack

from apportion import native
from apportion.model.epoch import Epoch
from apportion.model.plan import Change
from apportion.model.table import table_epoch
from apportion.model.token import KeyRange
from apportion.model.topology import Topology
from apportion.placement.shapes.tabular import Tabular


@dataclass(frozen=True, slots=True)
class LaidTable:
    """The table of single owners that a placement builds anyway, for its lookups."""

    placement: Tabular

    @property
    def topology(self) -> Topology:
        """The nodes that own."""
        return self.placement.topology

    @property
    def hasher(self) -> str:
        """The label of the hash that made positions of keys."""
        return self.placement.hasher.label

    @property
    def slots(self) -> int | None:
        """The number of slots of the table, None if it is not made of slots."""
        return self.placement.slot_count

    @property
    def epoch(self) -> Epoch:
        """The epoch of the table. O(stretches)."""
        starts, owners = native.extension.ranges(self.placement)
        lengths = pack("<Q", 1) * (len(owners) // 8)
        return table_epoch(self.topology, self.hasher, self.slots, (starts, lengths, owners))

    @property
    def is_measurable(self) -> bool:
        """Whether positions are tokens: always true."""
        return True

    def widths(self) -> dict[str, int]:
        """Return how many positions each node owns. O(stretches)."""
        return dict(zip(self.topology.ids, native.extension.widths(self.placement), strict=True))

    def diff(self, new: "LaidTable") -> tuple[Change, ...]:
        """Return exactly the ranges with another owner in `new`. O(stretches of both)."""
        return tuple(
            Change(KeyRange(start, end), (self.topology.ids[was],), (new.topology.ids[now],))
            for start, end, was, now in native.extension.changes(self.placement, new.placement)
        )


def both_laid(old: object, new: object) -> tuple[LaidTable, LaidTable] | None:
    """Return the tables of two placements with one hash, if the native twin has laid out both."""
    if native.IN_USE and isinstance(old, Tabular) and isinstance(new, Tabular) and old.hasher.label == new.hasher.label:
        return LaidTable(old), LaidTable(new)
    return None
