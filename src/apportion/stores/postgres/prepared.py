"""Prepared statements: with a cast at each value, values travel in binary form, without the cursor of the driver.

The casts of `SELECT f(%s::bigint, %s::text[])` give the form of each value, so no value is inspected. A few calls into
C turn a list of thousands of values into one array. A statement without casts has no `Prepared`, and uses a cursor.
Promises: a statement and its values mean the same as through a cursor.
Refuses: values that do not fit their cast; lists in lists.
"""

import re
import struct
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeAlias

from apportion.stores.postgres.driver import psycopg

Encoder: TypeAlias = Callable[[Any], bytes]
_PLACEHOLDER = re.compile(
    r"%[sb](?:::(bigint\[\]|boolean\[\]|bytea\[\]|text\[\]|bigint|boolean|bytea|integer|text)(?![\w\[]))?"
)
_bigint, _integer = struct.Struct("!q").pack, struct.Struct("!i").pack
_head = struct.Struct("!iiiii").pack
_NULL = b"\xff\xff\xff\xff"
_SHORT = 128  # a smaller length fits in one ASCII character


class Prepared:
    """A statement with numbered places, and the encoder of the value of each place."""

    def __init__(self, text: bytes, encoders: Sequence[Encoder]) -> None:
        self.text = text
        self.formats: list[int] = [1] * len(encoders)
        self._encoders = encoders

    def encoded(self, values: Sequence[object]) -> list[bytes | None]:
        """Return values in binary form; the driver's `DataError` for a value that does not fit its cast."""
        try:
            return [
                None if value is None else encode(value) for encode, value in zip(self._encoders, values, strict=True)
            ]
        except (struct.error, UnicodeEncodeError) as error:
            raise psycopg.DataError(str(error)) from error


@cache
def prepared(query: bytes) -> Prepared | None:
    """Return a statement of the driver in its prepared form; None if a value has no cast."""
    text = query.decode()
    casts = [each[1] for each in _PLACEHOLDER.finditer(text)]
    if not casts or None in casts or "%" in _PLACEHOLDER.sub("", text):
        return None
    numbers = iter(range(1, 1 + len(casts)))
    numbered = _PLACEHOLDER.sub(lambda each: f"${next(numbers)}::{each[1]}", text)
    return Prepared(numbered.encode(), [_ENCODERS[each] for each in casts])


def written(cast: str, values: Sequence[object]) -> bytes:
    """Return a list in binary form, to be sent many times in place of the list."""
    return _ENCODERS[cast](values)


def _boolean(value: object) -> bytes:
    return b"\1" if value else b"\0"


def _list(oid: int, items: Encoder) -> Encoder:
    """Return the encoder of a list. `items` encodes the values of a list that is not empty."""

    def _array(values: Sequence[Any] | bytes) -> bytes:
        if isinstance(values, bytes):
            return values  # already encoded, by `written`
        if not values:
            return struct.pack("!iii", 0, 0, oid)
        return _head(1, 1 if None in values else 0, oid, len(values), 1) + items(values)

    return _array


def _texts(values: Sequence[str | None]) -> bytes:
    """Encode texts. Texts of one short length, such as ids, are encoded all at once."""
    known = [each for each in values if each is not None]
    lengths = set(map(len, known))
    if len(known) == len(values) and len(lengths) == 1 and max(lengths) < _SHORT:
        length = f"\0\0\0{chr(max(lengths))}"
        joined = length + length.join(known)
        if joined.isascii():
            return joined.encode()
    return _bytes([None if each is None else each.encode() for each in values])


def _numbers(values: Sequence[int | None]) -> bytes:
    if None in values:
        return _bytes([None if each is None else _bigint(each) for each in values])
    flat: list[Any] = [8] * (2 * len(values))
    flat[1::2] = values
    return struct.pack("!" + "iq" * len(values), *flat)


def _booleans(values: Sequence[bool | None]) -> bytes:
    return _bytes([None if each is None else _boolean(each) for each in values])


def _bytes(values: Sequence[bytes | None]) -> bytes:
    return b"".join(chain.from_iterable((_NULL,) if each is None else (_integer(len(each)), each) for each in values))


_ENCODERS: dict[str, Encoder] = {
    "bigint": _bigint,
    "boolean": _boolean,
    "bytea": bytes,
    "integer": _integer,
    "text": str.encode,
    "bigint[]": _list(20, _numbers),
    "boolean[]": _list(16, _booleans),
    "bytea[]": _list(17, _bytes),
    "text[]": _list(25, _texts),
}
