"""Hash order: the order in which Java walks a `HashMap` or `HashSet`. Answers of Helix and Kafka depend on it.

A table has 2**n bins. It grows when more than three quarters full and never shrinks. A key stands in the bin of its
hash; within a bin, keys keep the order in which they came.

Refuses: bins of more than eight keys, which Java turns into trees or spreads early. Nine names with the same low bits
in their hashes are mostly made on purpose. For such names the order may differ from Java's.
Source: `java.util.HashMap` of JDK 8 and later.
"""

from collections.abc import Collection

from apportion.balance.java.values import string_hash

_LEAST = 16


def in_order(keys: Collection[str], *, most: int = 0) -> list[str]:
    """Return keys in the order of a map that once held `most` of them; `keys` has them in the order in which they came.

    >>> in_order(["b", "Aa", "BB", "a"])
    ['Aa', 'BB', 'a', 'b']
    """
    return _in_bins(keys, bins_for(max(most, len(keys))))


def in_order_of_copy(keys: Collection[str]) -> list[str]:
    """Return keys in the order of a set that Java copied from a collection at once.

    Such a set grows earlier: 12 keys take 32 bins.

    >>> in_order(list("opqrstuvwxyz")) == in_order_of_copy(list("opqrstuvwxyz"))
    False
    """
    return _in_bins(keys, max(_LEAST, 1 << int(len(keys) / 0.75).bit_length()))


def bin_of(key_hash: int, bins: int) -> int:
    """Return the bin of a hash; `bins` is a power of two."""
    unsigned = key_hash & 0xFFFFFFFF
    return (unsigned ^ unsigned >> 16) & (bins - 1)


def bins_for(most: int) -> int:
    """Return the number of bins of a map that once held this many keys."""
    bins = _LEAST
    while 4 * most > 3 * bins:
        bins *= 2
    return bins


def _in_bins(keys: Collection[str], bins: int) -> list[str]:
    return sorted(keys, key=lambda key: bin_of(string_hash(key), bins))
