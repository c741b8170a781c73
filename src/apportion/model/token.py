"""Token, Slot and KeyRange: where on the circle of hashes a key stands.

The circle has 2**64 positions. Ranges are half-open and never wrap: what wraps is written as two ranges.
"""

from dataclasses import dataclass
from typing import TypeAlias

from apportion.errors import BadRange

POSITIONS = 2**64
"""How many positions the circle has; every width and share is counted in them."""

Token: TypeAlias = int
"""A position on the circle, `0 <= token < POSITIONS`."""

Slot: TypeAlias = int
"""The number of one of a fixed count of equal stretches of the circle."""


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """The positions `start <= position < end`.

    >>> half = KeyRange(0, POSITIONS // 2)
    >>> half.width == 2**63, 5 in half, POSITIONS // 2 in half
    (True, True, False)
    >>> print(half)
    [0000000000000000, 8000000000000000)
    """

    start: Token
    end: int

    def __post_init__(self) -> None:
        for name, bound in (("range start", self.start), ("range end", self.end)):
            if type(bound) is not int or not 0 <= bound <= POSITIONS:
                raise BadRange(name, bound, "an int in 0 .. 2**64", "Give both bounds as positions on the circle.")
        if self.start >= self.end:
            raise BadRange(
                "range end", self.end, f"more than its start {self.start}", "Swap the bounds, or drop an empty range."
            )

    @property
    def width(self) -> int:
        """How many positions the range holds."""
        return self.end - self.start

    def __contains__(self, position: Token) -> bool:
        return self.start <= position < self.end

    def __str__(self) -> str:
        return f"[{self.start:016x}, {self.end:016x})"


def slot_start(slot: Slot, slots: int) -> Token:
    """Return the first position of a slot: the smallest p with `p * slots >> 64 == slot`.

    >>> [hex(slot_start(slot, 4)) for slot in (0, 1, 3)]
    ['0x0', '0x4000000000000000', '0xc000000000000000']
    """
    return -(-slot * POSITIONS // slots)
