"""Columns: long lists of numbers, positions and owners as flat hexadecimal text, read without a JSON parser.

A JSON parser makes an object of every number before any code can check one of them. A column is checked while it is
read. Before that check, the column takes at most half as much memory as its text.

Numbers have a fixed width and are big-endian, so that a token looks the same in a file as everywhere else.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from struct import Struct, pack
from typing import NoReturn

from apportion.errors import BadSnapshot
from apportion.model.rows import NOBODY, Row, Rows
from apportion.model.token import POSITIONS, Position

Columns = dict[str, bytes]

MAX_TEXTS = 2**19
"""The most texts that a column may hold; each takes some 80 bytes of memory before it can be checked."""

_WIDE = Struct(">QQ")
_NUMBER = {4: Struct(">I"), 8: Struct(">Q")}
_FOUR = Struct(">qqqq")


@dataclass(frozen=True, slots=True)
class SavedColumns:
    """The places of the digits of each column in a snapshot; a reader takes columns one by one until none is left."""

    data: bytes
    spans: dict[str, tuple[int, int]]

    def __contains__(self, name: str) -> bool:
        return name in self.spans

    def span(self, name: str) -> tuple[int, int]:
        """Remove a column and return the begin and the end of its digits; `BadSnapshot` if there is no such column."""
        listed = ", ".join(self.spans)
        return self.spans.pop(name) if name in self.spans else _refuse("columns of the snapshot", listed, name)

    def take(self, name: str) -> bytes:
        """Remove a column and return its bytes."""
        from binascii import unhexlify  # noqa: PLC0415 - loaded with the first snapshot

        start, end = self.span(name)
        try:
            with memoryview(self.data)[start:end] as digits:
                return unhexlify(digits)
        except ValueError:
            _refuse("column of the snapshot", name, "one of hexadecimal digits")


def number_column(numbers: Sequence[int], size: int) -> bytes:
    """Return numbers of `size` bytes each, 4 or 8."""
    return pack(f">{len(numbers)}{'I' if size == 4 else 'Q'}", *numbers)


def numbers_of(column: bytes, size: int, count: int) -> Iterator[int]:
    """Yield the `count` numbers of a column."""
    _check_length(column, size * count)
    return chain.from_iterable(_NUMBER[size].iter_unpack(column))


def wide_column(numbers: Iterable[int]) -> bytes:
    """Return numbers of 128 bits."""
    return b"".join(number.to_bytes(16, "big") for number in numbers)


def wide_numbers_of(column: bytes, count: int) -> Iterator[int]:
    """Yield the `count` numbers of 128 bits of a column."""
    _check_length(column, _WIDE.size * count)
    return (high << 64 | low for high, low in _WIDE.iter_unpack(column))


def four_column(rows: Iterable[tuple[int, ...]]) -> bytes:
    """Return rows of four numbers of 64 bits each, with sign."""
    return b"".join(_FOUR.pack(*row) for row in rows)


def fours_of(column: bytes, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the `count` rows of four numbers of a column."""
    _check_length(column, _FOUR.size * count)
    return _FOUR.iter_unpack(column)


def position_columns(name: str, positions: Sequence[Position | None]) -> Columns:
    """Return the column `name` of tokens. For byte strings, a second column holds the length of each.

    Two ends have other stored values: 0 for 2**64, the end of the circle, and an empty string for None, the end of all
    bytes. No range can end at 0 or at an empty string.
    """
    if positions and not isinstance(positions[0], int):
        texts = [position if isinstance(position, bytes) else b"" for position in positions]
        return {name: b"".join(texts), f"{name}_lengths": number_column(list(map(len, texts)), 4)}
    tokens = [position % POSITIONS for position in positions if isinstance(position, int)]
    return {name: number_column(tokens, 8)}


def positions_of(columns: SavedColumns, name: str, count: int | None = None) -> tuple[Position, ...]:
    """Return the positions of the column `name`; `count` of them, if the number is known."""
    column = columns.take(name)
    if f"{name}_lengths" not in columns:
        return tuple(numbers_of(column, 8, len(column) // 8 if count is None else count))
    lengths = columns.take(f"{name}_lengths")
    number = len(lengths) // 4 if count is None else count
    _check_length(column, sum(numbers_of(lengths, 4, number)))
    return tuple(_cut(column, numbers_of(lengths, 4, number)))


def ends_of(columns: SavedColumns, name: str, count: int) -> tuple[Position | None, ...]:
    """Return the ends of `count` ranges in the column `name`."""
    return tuple(end or (POSITIONS if end == 0 else None) for end in positions_of(columns, name, count))


def text_columns(name: str, texts: Sequence[str]) -> Columns:
    """Return the column `name` of texts in UTF-8, and a second column with the length of each."""
    encoded = [text.encode() for text in texts]
    if len(encoded) > MAX_TEXTS:
        _refuse(f"{name} in the snapshot", len(encoded), f"at most {MAX_TEXTS}")
    return {name: b"".join(encoded), f"{name}_lengths": number_column(list(map(len, encoded)), 4)}


def texts_of(columns: SavedColumns, name: str, count: int) -> tuple[str, ...]:
    """Return the `count` texts of the column `name`."""
    column, lengths = columns.take(name), columns.take(f"{name}_lengths")
    if count > MAX_TEXTS:
        _refuse(f"{name} in the snapshot", count, f"at most {MAX_TEXTS}")
    _check_length(column, sum(numbers_of(lengths, 4, count)))
    try:
        return tuple(map(bytes.decode, _cut(column, numbers_of(lengths, 4, count))))
    except UnicodeDecodeError:
        _refuse("column of the snapshot", name, "texts in UTF-8")


def row_column(rows: Sequence[Row]) -> tuple[int, bytes]:
    """Return the length of the longest row, at least 1, and the rows of node indexes, filled up to that length."""
    width = max(map(len, rows), default=1) or 1
    return width, number_column([index for row in rows for index in (*row, *(NOBODY,) * (width - len(row)))], 4)


def rows_of(column: bytes, width: int, count: int, nodes: int) -> tuple[Row, ...]:
    """Return `count` rows of distinct indexes below `nodes`. Equal indexes of different rows are one object."""
    if not 1 <= width <= max(1, nodes):
        _refuse("the longest row of the snapshot", width, f"1 .. {nodes} owners")
    indexes = numbers_of(column, 4, width * count)
    alone = [(index,) for index in range(nodes)]
    if width == 1:
        return tuple(alone[_checked(index, nodes)] if index != NOBODY else () for index in indexes)
    return tuple(_row(padded, alone) for padded in zip(*[indexes] * width, strict=True))


def flat_rows_of(column: bytes, width: int, count: int, nodes: int) -> Rows:
    """Return `count` rows of at most `width` indexes, without making a tuple. The caller checks the indexes."""
    if not 1 <= width <= max(1, nodes):
        _refuse("the longest row of the snapshot", width, f"1 .. {nodes} owners")
    _check_length(column, 4 * width * count)
    return Rows.of_big_endian(column, width=width)


def _row(padded: Row, alone: Sequence[Row]) -> Row:
    row = padded[: padded.index(NOBODY)] if NOBODY in padded else padded
    if len(set(row)) != len(row) or any(index != NOBODY for index in padded[len(row) :]):
        _refuse("a row of the snapshot", str(padded), "distinct owners, then none")
    return tuple(alone[_checked(index, len(alone))][0] for index in row)


def _checked(index: int, nodes: int) -> int:
    return index if index < nodes else _refuse("a row of the snapshot", index, f"a node's index, below {nodes}")


def _cut(column: bytes, lengths: Iterable[int]) -> Iterator[bytes]:
    start = 0
    for length in lengths:
        yield column[start : start + length]
        start += length


def _check_length(column: bytes, expected: int) -> None:
    if len(column) != expected:
        _refuse("length of a column of the snapshot", len(column), f"{expected} bytes")


def _refuse(field: str, value: object, expected: str) -> NoReturn:
    raise BadSnapshot(field, value, expected, "Take a fresh copy.")
