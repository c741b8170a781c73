"""Rows: many short lists of node indexes in one flat buffer, shared by assignments and the native twin.

A million lists of three indexes take 12 megabytes here, and about 200 megabytes as tuples.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, repeat
from operator import eq
from typing import Literal, overload

from apportion.errors import InvalidInput
from apportion.errors.brief import brief

Row = tuple[int, ...]

NOBODY = 2**32 - 1
"""Fills the end of a row that is shorter than the longest row."""


@brief
class Rows(Sequence[Row]):
    """Rows of indexes, read as tuples. `buffer` holds them in sequence, each filled up to `width` with `NOBODY`.

    `Rows` are equal to any sequence of the same tuples. Reading a row is O(width). `Rows` have no method that changes
    them.

    >>> rows = Rows.of([(0, 2), (1,)])
    >>> rows[0], len(rows), rows.width, list(rows.buffer) == [0, 2, 1, NOBODY]
    ((0, 2), 2, 2, True)
    """

    __slots__ = ("buffer", "width")

    buffer: "array[int]"
    width: int

    def __init__(self, buffer: "array[int]", *, width: int) -> None:
        if buffer.typecode != "I" or width < 1 or len(buffer) % width:
            hint = "Make rows with Rows.of()."
            raise InvalidInput(
                "rows", f"{len(buffer)} of type {buffer.typecode!r}", f"type 'I', a multiple of {width}", hint
            )
        self.buffer = buffer
        self.width = width

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "Rows":
        """Return rows laid out flat. `Rows` are returned as they are. O(rows)."""
        if isinstance(rows, Rows):
            return rows
        listed = rows if isinstance(rows, (list, tuple)) else list(rows)
        lengths = set(map(len, listed))
        width = max(lengths, default=1) or 1
        equal = listed if lengths == {width} else ((*row, *repeat(NOBODY, width - len(row))) for row in listed)
        return cls(array("I", chain.from_iterable(equal)), width=width)

    def first_invalid(self, nodes: int) -> int | None:
        """Return the first row that is not a list of distinct indexes below `nodes`, None if all rows are. O(size)."""
        if NOBODY not in self.buffer and max(self.buffer, default=-1) < nodes:
            columns = [self.buffer[place :: self.width] for place in range(self.width)]
            if not any(any(map(eq, *pair)) for pair in combinations(columns, 2)):
                return None
        for place, row in enumerate(self):
            padding = self.buffer[place * self.width + len(row) : (place + 1) * self.width]
            is_list = len(set(row)) == len(row) and set(padding) <= {NOBODY}
            if not is_list or any(index >= nodes for index in row):
                return place
        return None

    def trimmed(self) -> "Rows":
        """Return the same rows, no wider than the longest, so that equal rows have equal buffers. O(rows)."""
        width = self.width
        while width > 1 and self.buffer[width - 1 :: self.width].count(NOBODY) == len(self):
            width -= 1
        if width == self.width:
            return self
        narrow = array("I", bytes(4 * width * len(self)))
        for place in range(width):
            narrow[place::width] = self.buffer[place :: self.width]
        return Rows(narrow, width=width)

    def to_bytes(self) -> bytes:
        """Return the width and the indexes, 4 bytes each, little-endian. Equal rows give equal bytes."""
        rows = self.trimmed()
        return rows.width.to_bytes(4, "little") + _in_order(rows.buffer, "little").tobytes()

    def to_big_endian(self) -> bytes:
        """Return only the indexes, 4 bytes each, big-endian."""
        return _in_order(self.buffer, "big").tobytes()

    @classmethod
    def of_big_endian(cls, indexes: bytes, *, width: int) -> "Rows":
        """Return rows of this width from bytes that `to_big_endian` made."""
        return cls(_in_order(array("I", indexes), "big"), width=width)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, place: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(*place.indices(len(self))))
        start = range(len(self))[place] * self.width
        return _without_nobody(tuple(self.buffer[start : start + self.width]))

    def __iter__(self) -> Iterator[Row]:
        return map(_without_nobody, zip(*[iter(self.buffer)] * self.width, strict=True))

    def __len__(self) -> int:
        return len(self.buffer) // self.width

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows) and other.width == self.width:
            return self.buffer == other.buffer
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_equal, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Rows.of({list(self)})" if len(self) <= 8 else f"<{len(self)} rows of {self.width}>"


def _in_order(buffer: "array[int]", order: Literal["little", "big"]) -> "array[int]":
    """Convert numbers between the byte order of this machine and the given one, in either direction."""
    is_little = array("I", [1]).tobytes()[0] == 1
    if is_little == (order == "little"):
        return buffer
    swapped = array("I", buffer)
    swapped.byteswap()
    return swapped


def _without_nobody(padded: Row) -> Row:
    return padded[: padded.index(NOBODY)] if NOBODY in padded else padded


def _equal(row: Row, other: object) -> bool:
    return row == other
