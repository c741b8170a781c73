"""SlotSpace: the slot and the leaf of a key. The top bits of its hash are the slot, the next 8 bits the leaf.

Promises: the same key has the same position in every process and release; a slot is one range of positions.
Refuses: a number of slots that is no power of two, because a slot would then be no run of bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from apportion.errors import InvalidInput
from apportion.placement.hashers import DEFAULT, resolve

LEAF_BITS = 8
LEAVES = 2**LEAF_BITS
MOST_SLOTS = 2**14
_POSITION_BITS = 64


@dataclass(frozen=True, slots=True)
class SlotPart:
    """A slot of a map, or one of its 256 leaves. `leaf` is None for the whole slot."""

    slot: int
    leaf: int | None = None


@dataclass(frozen=True, slots=True)
class SlotSpace:
    """The slots of a map: a power of two, at most 16 384.

    >>> space = SlotSpace(1_024)
    >>> part = space.part_of(b"checkout")
    >>> (part.slot, part.leaf), space.position(b"checkout") in range(*space.bounds(part))
    ((805, 101), True)
    """

    slots: int

    def __post_init__(self) -> None:
        found = self.slots
        if type(found) is not int or not 0 < found <= MOST_SLOTS or found & (found - 1):
            hint = "Write 1024: several slots for each node that you will ever have."
            raise InvalidInput("slots", found, f"a power of two in 1 .. {MOST_SLOTS}", hint)

    def position(self, key: bytes) -> int:
        """Return the position of a key, 0 <= position < 2**64. O(length)."""
        return hash64(key)

    def part_of(self, key: bytes) -> SlotPart:
        """Return the slot and the leaf of a key. O(length)."""
        leaves = self.position(key) >> (_POSITION_BITS - self._bits - LEAF_BITS)
        return SlotPart(leaves >> LEAF_BITS, leaves & (LEAVES - 1))

    def slot_of(self, key: bytes) -> int:
        """Return the slot of a key. O(length)."""
        return self.position(key) >> (_POSITION_BITS - self._bits)

    def bounds(self, part: SlotPart) -> tuple[int, int]:
        """Return the first position of a part, and the first one after it."""
        bits = _POSITION_BITS - self._bits
        start = part.slot << bits
        if part.leaf is None:
            return start, start + (1 << bits)
        width = 1 << (bits - LEAF_BITS)
        return start + part.leaf * width, start + (part.leaf + 1) * width

    @property
    def _bits(self) -> int:
        return self.slots.bit_length() - 1


def hash64(data: bytes) -> int:
    """Return the 64-bit hash of data that positions and marks use: xxh3-64. O(length)."""
    return _hasher()(data)


@cache
def _hasher() -> Callable[[bytes], int]:
    return resolve(DEFAULT).digest
