"""Placements that are a table: hash the key, search the boundaries.

The base of `circle` and `slots`. What they add is how the table is made and who comes second.
"""

from abc import ABC
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.model.token import Token
from apportion.model.topology import Topology
from apportion.placement.api import index_buffer
from apportion.placement.hashers import Digest, Hasher, position_of
from apportion.placement.keys import key_bytes, listed


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Tabular(ABC):
    """One table of single owners and the hash that leads into it. Lookup: O(log stretches)."""

    topology: Topology
    hasher: Hasher
    _leaders: Table = field(compare=False)
    _position: Digest = field(compare=False)
    _ends: tuple[Token, ...] = field(compare=False)
    _indexes: tuple[int, ...] = field(compare=False)
    _ids: tuple[str, ...] = field(compare=False)

    def _fill(self, table: Table, hasher: Hasher) -> None:
        """Take the table apart into what a lookup touches: stretch i ends below `_ends[i]`, `_ids[i]` owns it."""
        indexes = tuple(row[0] for row in table.rows)
        values = {
            "topology": table.topology,
            "hasher": hasher,
            "_leaders": table,
            "_position": position_of(hasher),
            "_ends": table.starts[1:],
            "_indexes": indexes,
            "_ids": tuple(table.topology.ids[index] for index in indexes),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        return self._ids[bisect_right(self._ends, self._position(key_bytes(key)))]

    def route_many(self, keys: Iterable[Key]) -> list[str]:
        """Return the node ids of many keys, in their order."""
        ids, ends, position = self._ids, self._ends, self._position
        return [ids[bisect_right(ends, position(key_bytes(key)))] for key in listed(keys)]

    def route_indexes(self, keys: Iterable[Key]) -> "array[int]":
        """Return indexes into `topology.nodes` as a buffer, in the order of the keys."""
        indexes = (self._indexes[self._stretch(key)] for key in listed(keys))
        return index_buffer(indexes, len(self.topology))

    def _stretch(self, key: Key) -> int:
        return bisect_right(self._ends, self._position(key_bytes(key)))
