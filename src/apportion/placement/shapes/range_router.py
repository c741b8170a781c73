"""Range router: search the range that contains a key, and name its owners.

The base class of `ranges`. If the native twin is in use, the class of the twin takes its place, so `ranges.route`
calls the twin directly. The class below is the reference and gives the same answers.

Range i goes from `bounds[i - 1]` up to, not including, `bounds[i]`; the last range goes to the end of all keys.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING

from apportion import native
from apportion.errors import InvalidInput
from apportion.model.plan import Key
from apportion.model.token import Position
from apportion.placement.api import index_buffer
from apportion.placement.keys.key_bytes import check_threads, key_bytes, listed
from apportion.placement.shapes.preferences import Preferences

FIRST_INT = -(2**63)


class ReferenceRangeRouter(Preferences):
    """Ranges and their owners. Lookup: O(log ranges)."""

    __slots__ = ("_are_ints", "_bounds", "_ids", "_rows")

    _bounds: tuple[Position, ...]
    _are_ints: bool
    _ids: tuple[str, ...]
    _rows: tuple[tuple[int, ...], ...]

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        return self._ids[self._rows[self._range(key)][0]]

    def route_many(self, keys: Iterable[Key], *, threads: int = 1) -> list[str]:
        """Return the node ids of many keys, in the order of the keys."""
        check_threads(threads)
        return [self._ids[self._rows[self._range(key)][0]] for key in listed(keys)]

    def route_indexes(self, keys: Iterable[Key], *, threads: int = 1) -> "array[int]":
        """Return indexes into `topology.nodes` as a buffer, in the order of the keys."""
        check_threads(threads)
        return index_buffer((self._rows[self._range(key)][0] for key in listed(keys)), len(self._ids))

    def _lay(
        self, ids: tuple[str, ...], bounds: tuple[Position, ...], rows: tuple[tuple[int, ...], ...], are_ints: bool
    ) -> None:
        """Take the boundaries (ascending positions) and the owners of each range. They never change after that."""
        values = {"_ids": ids, "_bounds": bounds, "_rows": rows, "_are_ints": are_ints}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _range(self, key: Key) -> int:
        return bisect_right(self._bounds, ordered_position(key, self._are_ints))


def ordered_position(key: Key, are_ints: bool, name: str = "key") -> Position:
    """Return the position of a key among keys of its kind: an int plus 2**63, or else the key's bytes.

    Raises `InvalidInput` for a key of the other kind, which has no position among these.
    """
    if are_ints is not isinstance(key, (int, Integral)):
        expected = "an int, like the boundaries" if are_ints else "str or bytes, like the boundaries"
        raise InvalidInput(name, key, expected, "Ints and text have no common order: use one of them throughout.")
    data = key_bytes(key)
    return int.from_bytes(data, "little", signed=True) - FIRST_INT if are_ints else data


if TYPE_CHECKING or not native.IN_USE:  # noqa: SIM108 - a type checker needs one class
    RangeRouter = ReferenceRangeRouter
else:
    RangeRouter = native.extension.RangeRouter
