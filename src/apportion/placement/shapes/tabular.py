"""Tabular: the base of placements with a table: hash the key, then search the boundaries.

The base of `circle` and `slots`. Each of these adds the way to make the table, and the nodes after the owner.
"""

from abc import ABC, abstractmethod
from array import array
from dataclasses import FrozenInstanceError, dataclass, field

from apportion.model.table import Table
from apportion.model.token import Token
from apportion.model.topology import Topology
from apportion.placement.hashers import Hasher, position_of
from apportion.placement.shapes.other_names import OtherNames
from apportion.placement.shapes.router import Router


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Tabular(Router, OtherNames, ABC):
    """One table of single owners and the hash that leads into it."""

    topology: Topology
    hasher: Hasher
    _made: list[Table] = field(compare=False)

    def _fill(self, topology: Topology, hasher: Hasher) -> None:
        """Take the topology and the hasher of the table; `_lay` takes its stretches."""
        self._check_unmade()
        for name, value in {"topology": topology, "hasher": hasher, "_made": []}.items():
            object.__setattr__(self, name, value)

    def _check_unmade(self) -> None:
        """Raise `FrozenInstanceError` if this object is made already; called before any field is set."""
        if hasattr(self, "topology"):
            raise FrozenInstanceError("a placement never changes: build another one, or call on(topology)")

    @property
    def _leaders(self) -> Table:
        """The table of single owners, made at its first use. O(stretches)."""
        if not self._made:
            self._made.append(self._make_table())
        return self._made[0]

    @property
    def slot_count(self) -> int | None:
        """The number of slots of the table, None if it is not made of slots."""
        return None

    @property
    def _met_by_walks(self) -> Topology | None:
        """The topology for walks: nodes that no walk meets are drained. None if preference lists are not walks.

        The native twin makes only lists that are walks, and only without `spread_level`.
        """
        return None

    @abstractmethod
    def _make_table(self) -> Table:
        """Return the table of single owners."""

    def _lay_table(self, table: Table) -> None:
        bounds = array("Q", [start - 1 for start in table.starts[1:] if isinstance(start, int)])
        owners = array("I", [row[0] for row in table.rows])
        self._lay(table.topology.ids, self.hasher, bounds.tobytes(), owners.tobytes())

    def _position(self, data: bytes) -> Token:
        return position_of(self.hasher)(data)
