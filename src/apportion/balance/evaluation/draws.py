"""Draws: numbers as if drawn, from a seed and a name; the same on every machine and in every version.

Promises: integers only, from a hash that is fixed for ever. Refuses: secrecy; the seed and the name reveal the numbers.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from apportion.model.numbers import check_int
from apportion.placement import hashers

MAX_SEED = 2**63 - 1

Item = TypeVar("Item")


class Draws:
    """A sequence of numbers; another seed or another name gives another sequence.

    >>> Draws(1, "example").below(100), Draws(1, "example").below(100), Draws(2, "example").below(100)
    (29, 29, 86)
    """

    def __init__(self, seed: int, name: str) -> None:
        check_int("seed", seed, 0, MAX_SEED, hint="Any seed will do. The same seed gives the same figures.")
        self._name = f"apportion/evaluation/1/{seed}/{name}/"
        self._drawn = 0
        self._digest = hashers.get().digest

    def below(self, limit: int) -> int:
        """Return a number in 0 .. limit - 1."""
        self._drawn += 1
        return self._digest(f"{self._name}{self._drawn}".encode()) * limit >> 64

    def one_of(self, items: Sequence[Item]) -> Item:
        """Return one of some items."""
        return items[self.below(len(items))]

    def some_of(self, items: Iterable[Item], count: int) -> list[Item]:
        """Return `count` of the items in the order drawn; no place is drawn twice."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]
