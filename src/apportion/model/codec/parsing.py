"""Parsing: parts of parsed JSON, each accepted only if it has the kind that a snapshot needs there."""

from typing import NoReturn, TypeAlias, cast

from apportion.errors import BadSnapshot
from apportion.model.epoch import Epoch

Json: TypeAlias = object

_HEX_DIGITS = frozenset("0123456789abcdef")


def text(value: Json) -> str:
    """Return a string."""
    return value if isinstance(value, str) else refuse(value, "a string")


def integer(value: Json) -> int:
    """Return an integer of at most 64 bits and a sign."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64
    return value if isinstance(value, int) and fits else refuse(value, "an integer of at most 64 bits")


def hexadecimal(value: Json) -> int:
    """Return the number that 1 to 32 hexadecimal digits stand for."""
    digits = text(value)
    if not 0 < len(digits) <= 32 or not set(digits) <= _HEX_DIGITS:
        refuse(digits, "1 .. 32 hexadecimal digits")
    return int(digits, 16)


def items(value: Json, count: int | None = None) -> list[Json]:
    """Return the items of a list; exactly `count` of them, if the number is known."""
    listed = value if isinstance(value, list) else refuse(value, "a list")
    return listed if count in (None, len(listed)) else refuse(len(listed), f"a list of {count}")


def pairs(value: Json) -> dict[str, Json]:
    """Return the members of an object, whatever their names are."""
    return value if isinstance(value, dict) else refuse(value, "an object")


def members(value: Json, *names: str) -> list[Json]:
    """Return the members of an object that has exactly these names, in the order of the names."""
    found = pairs(value)
    return [found[name] for name in names] if set(found) == set(names) else refuse(", ".join(found), ", ".join(names))


def names_in(value: Json) -> tuple[str, ...]:
    """Return a list of strings."""
    listed = items(value)
    return cast(tuple[str, ...], tuple(listed)) if set(map(type, listed)) == {str} else tuple(map(text, listed))


def epoch(value: Json) -> Epoch:
    """Return an epoch, written as its number and its digest."""
    number, digest = items(value, 2)
    return Epoch(number=integer(number), digest=text(digest))


def refuse(value: Json, expected: str) -> NoReturn:
    """Raise `BadSnapshot` for a part of a snapshot."""
    raise BadSnapshot("snapshot member", value, expected, "Take a fresh copy.")
