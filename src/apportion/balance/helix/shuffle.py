"""Java's seeded random numbers, and the shuffle that Helix draws with them.

Promises: the numbers of `java.util.Random` and the order of `Collections.shuffle`; their documentation fixes both.
"""

from collections.abc import MutableSequence
from typing import TypeVar

Item = TypeVar("Item")

_MASK = (1 << 48) - 1
_FACTOR = 0x5DEECE66D


def shuffle(items: MutableSequence[Item], seed: int) -> None:
    """Shuffle in place, from a signed seed. O(items).

    >>> cards = [1, 2, 3, 4, 5, 6]
    >>> shuffle(cards, 42)
    >>> cards
    [2, 1, 5, 6, 4, 3]
    """
    random = Random(seed)
    for place in range(len(items), 1, -1):
        other = random.below(place)
        items[place - 1], items[other] = items[other], items[place - 1]


class Random:
    """A generator of 48 bits.

    >>> random = Random(42)
    >>> [random.below(10) for _ in range(5)], random.below(8)
    ([0, 3, 8, 4, 0], 7)
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _FACTOR) & _MASK

    def below(self, bound: int) -> int:
        """Return the next number in 0 .. `bound` - 1."""
        drawn = self._next()
        if bound & (bound - 1) == 0:
            return bound * drawn >> 31
        while drawn - drawn % bound + bound - 1 >= 1 << 31:  # where Java's sum would be negative
            drawn = self._next()
        return drawn % bound

    def _next(self) -> int:
        self._state = (self._state * _FACTOR + 0xB) & _MASK
        return self._state >> 17
