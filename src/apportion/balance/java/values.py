"""Java values: signed 32-bit integers, 32-bit floats, and strings as UTF-16 units with their hash and their order.

Promises: the numbers of a Java virtual machine on every platform, for all characters, also beyond 16 bits.
Source: the Java language specification; the documentation of `java.lang.String`, which fixes its hash and order.
"""

from struct import Struct, iter_unpack

from apportion import native

MAX_INT = 2**31 - 1

_FLOAT = Struct("f")
_BITS = 0xFFFFFFFF


def signed(number: int) -> int:
    """Return the low 32 bits of a number as a signed integer.

    >>> signed(2**31), signed(-1), signed(2**32 + 7)
    (-2147483648, -1, 7)
    """
    return ((number + 0x80000000) & _BITS) - 0x80000000


def float32(number: float) -> float:
    """Return the nearest 32-bit float.

    A sum, product or quotient of two such floats, rounded again, equals Java's result.

    >>> float32(0.1)
    0.10000000149011612
    """
    (rounded,) = _FLOAT.unpack(_FLOAT.pack(number))
    return float(rounded)


def string_hash(text: str) -> int:
    """Return a string's hash, signed. O(length).

    >>> string_hash("TestDB_0"), string_hash("Aa") == string_hash("BB"), string_hash("😀")
    (-1082655647, True, 1772899)
    """
    return native.extension.java_hash(text) if native.IN_USE else reference_hash(text)


def reference_hash(text: str) -> int:
    """Return a string's hash by the reference version."""
    found = 0
    for unit in _units(text):
        found = (31 * found + unit) & _BITS
    return signed(found)


def string_order(text: str) -> bytes:
    """Return the sort key of a string in Java's order: unit by unit, so astral characters come before U+E000.

    >>> sorted(["\\ue000", "😀"], key=string_order) == ["😀", "\\ue000"]
    True
    """
    return text.encode("utf-16-be", "surrogatepass")


def _units(text: str) -> "bytes | list[int]":
    if text.isascii():
        return text.encode()
    return [unit for (unit,) in iter_unpack(">H", string_order(text))]
