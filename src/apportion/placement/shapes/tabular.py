"""Placements that are a table: hash the key, search the boundaries.

The base of `circle` and `slots`. What they add is how the table is made and who comes second.
"""

from abc import ABC, abstractmethod
from array import array
from dataclasses import FrozenInstanceError, dataclass, field

from apportion.model.table import Table
from apportion.model.token import Token
from apportion.model.topology import Topology
from apportion.placement.hashers import Hasher, position_of
from apportion.placement.shapes.router import Router


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Tabular(Router, ABC):
    """One table of single owners and the hash that leads into it."""

    topology: Topology
    hasher: Hasher
    _made: list[Table] = field(compare=False)

    def _fill(self, topology: Topology, hasher: Hasher) -> None:
        """Take what a table is about; its stretches are laid by `_lay`."""
        self._check_unmade()
        for name, value in {"topology": topology, "hasher": hasher, "_made": []}.items():
            object.__setattr__(self, name, value)

    def _check_unmade(self) -> None:
        """Raise `FrozenInstanceError` if this is made already; asked before any of its fields is set."""
        if hasattr(self, "topology"):
            raise FrozenInstanceError("a placement never changes: build another one, or move this one on(topology)")

    @property
    def _leaders(self) -> Table:
        """The table of single owners, made when first asked for. O(stretches)."""
        if not self._made:
            self._made.append(self._make_table())
        return self._made[0]

    @property
    def slot_count(self) -> int | None:
        """How many slots the table is made of, if it is."""
        return None

    @property
    def _met_by_walks(self) -> Topology | None:
        """The nodes that a walk meets, those that it does not drained; None where a preference list is no walk.

        Where it is one, and is spread over the zones as they are, the twin makes it.
        """
        return None

    @abstractmethod
    def _make_table(self) -> Table:
        """Return the table of single owners."""

    def _lay_table(self, table: Table) -> None:
        """Lay the stretches of a table of single owners."""
        bounds = array("Q", [start - 1 for start in table.starts[1:] if isinstance(start, int)])
        owners = array("I", [row[0] for row in table.rows])
        self._lay(table.topology.ids, self.hasher, bounds.tobytes(), owners.tobytes())

    def _position(self, data: bytes) -> Token:
        """Return where the bytes of a key stand on the circle."""
        return position_of(self.hasher)(data)
