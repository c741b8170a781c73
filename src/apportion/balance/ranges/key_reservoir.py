"""Key reservoir: a sample of fixed size from a stream of keys, in which each key of the stream is equally likely.

Promises: after n keys, each of them is in the sample with the probability size / n. The same keys and the same random
numbers give the same sample.
Refuses: to own the random source, which is an argument, and to be shared by threads without a lock.
Source: Algorithm R, Vitter 1985.
"""

from apportion.errors import InvalidInput
from apportion.model.numbers import check_int
from apportion.model.token import Position, check_position
from apportion.placement.hotkeys import RandomSource

MAX_KEYS = 2**16


class KeyReservoir:
    """At most `size` keys, sampled from all keys that were added. A key of many requests is in the sample often.

    A key is a position: its bytes, or the int plus 2**63 if the boundaries are ints. Memory: O(size).

    >>> from random import Random
    >>> reservoir = KeyReservoir(2, Random(7))
    >>> for key in (b"a", b"b", b"c", b"d"):
    ...     reservoir.add(key)
    >>> len(reservoir.keys), reservoir.seen
    (2, 4)
    """

    __slots__ = ("_keys", "_rng", "_size", "seen")

    def __init__(self, size: int, rng: RandomSource) -> None:
        check_int(
            "size of the reservoir", size, 1, MAX_KEYS, hint="256 keys place a split within some 3 % of the load."
        )
        if not callable(getattr(rng, "randrange", None)):
            raise InvalidInput("rng", rng, "a source of random numbers", "Pass a random.Random.")
        self._size, self._rng = size, rng
        self._keys: list[Position] = []
        self.seen: int = 0

    def add(self, key: Position) -> None:
        """Take one key of the stream. O(1)."""
        check_position("sampled key", key)
        self.seen += 1
        if len(self._keys) < self._size:
            self._keys.append(key)
            return
        place = self._rng.randrange(self.seen)
        if place < self._size:
            self._keys[place] = key

    @property
    def keys(self) -> tuple[Position, ...]:
        """The sampled keys, in no order."""
        return tuple(self._keys)

    def __repr__(self) -> str:
        return f"KeyReservoir({len(self._keys)} of {self.seen} keys)"
