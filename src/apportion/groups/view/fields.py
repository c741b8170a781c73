"""Fields: the parts of a stored record, each taken only if its type and its range are right.

A reader takes one part of parsed JSON and returns the value of the field. Records name one reader per field.

Promises: a reader returns a value that the rest of the library accepts, or raises `BadSnapshot`.
Refuses: to repair. One wrong part makes the whole record damaged.
"""

import json
from collections.abc import Callable
from typing import NoReturn, TypeAlias, TypeVar

from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.codec.parsing import Json
from apportion.model.topology import MAX_WEIGHT, MIN_WEIGHT, check_name

Part = TypeVar("Part")
Reader: TypeAlias = Callable[[Json], Part]

MOST = 2**63 - 1
"""The largest revision, session, epoch or generation: SQL stores and guards keep them in signed 64 bits."""

HINT = "The record is ignored. Look at it with: apportion group show; repair it with: apportion group repair"


def whole(least: int, most: int = MOST) -> Reader[int]:
    """Return a reader of integers in a range.

    >>> whole(0)(7)
    7
    """

    def _read(value: Json) -> int:
        if type(value) is not int or not least <= value <= most:
            refuse(value, f"an integer in {least} .. {most}")
        return value

    return _read


def real(least: float, most: float) -> Reader[float]:
    """Return a reader of numbers in a range; NaN is refused."""

    def _read(value: Json) -> float:
        if type(value) not in (int, float) or not isinstance(value, int | float) or not least <= value <= most:
            refuse(value, f"a number in {least:g} .. {most:g}")
        return float(value)

    return _read


def weight(value: Json) -> float:
    """Return a weight: 0, or a weight that a node can have."""
    found = real(0, MAX_WEIGHT)(value)
    return found if found == 0 or found >= MIN_WEIGHT else refuse(value, f"0, or at least {MIN_WEIGHT:g}")


def flag(value: Json) -> bool:
    """Return true or false."""
    return value if isinstance(value, bool) else refuse(value, "true or false")


def text(value: Json) -> str:
    """Return a string that is UTF-8."""
    found = value if isinstance(value, str) else refuse(value, "a string")
    try:
        found.encode()
    except UnicodeEncodeError:
        refuse(value, "text of UTF-8")
    return found


def name(value: Json) -> str:
    """Return the name of a node, a member or a zone level."""
    try:
        return check_name("name", value)
    except InvalidInput:
        refuse(value, "a printable name of 1 .. 255 bytes")


def member_id(value: Json) -> str:
    """Return the id of a member, which is also a part of keys."""
    found = name(value)
    return refuse(value, "an id without /") if "/" in found else found


def choice(*names: str) -> Reader[str]:
    """Return a reader that takes one of a few words."""

    def _read(value: Json) -> str:
        return value if isinstance(value, str) and value in names else refuse(value, " or ".join(names))

    return _read


def optional(reader: Reader[Part]) -> Reader[Part | None]:
    """Return a reader that also takes null, as None."""
    return lambda value: None if value is None else reader(value)


def listed(reader: Reader[Part], most: int) -> Reader[tuple[Part, ...]]:
    """Return a reader of lists of at most `most` parts, as tuples."""

    def _read(value: Json) -> tuple[Part, ...]:
        if not isinstance(value, list) or len(value) > most:
            refuse(value, f"a list of at most {most} parts")
        return tuple(map(reader, value))

    return _read


def mapped(reader: Reader[Part], most: int) -> Reader[dict[str, Part]]:
    """Return a reader of objects of at most `most` members."""

    def _read(value: Json) -> dict[str, Part]:
        if not isinstance(value, dict) or len(value) > most:
            refuse(value, f"an object of at most {most} members")
        return {text(key): reader(each) for key, each in value.items()}

    return _read


def parsed(value: bytes) -> dict[str, Json]:
    """Return the members of a JSON object in UTF-8; `BadSnapshot` for anything else, even if nested too deep."""
    try:
        said: Json = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise BadSnapshot("record", value, "the JSON that apportion writes", HINT) from error
    return said if isinstance(said, dict) else refuse(said, "a JSON object")


def refuse(value: Json, expected: str) -> NoReturn:
    """Raise `BadSnapshot` for a part of a record."""
    raise BadSnapshot("record", value, expected, HINT)
