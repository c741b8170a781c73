"""The straws of one parent: the length of each child's straw by weight, and the longest one for a partition.

Promises: Helix's lengths and ties. Helix sorts children from heavy to light, but the algorithm needs light to heavy.
So shares are **not** proportional: beside nine nodes of weight 1, one of weight 2 gets 0.75 of its share.
Source: the straw bucket of Weil et al. 2006; `CRUSHPlacementAlgorithm` of Helix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha1

from apportion.balance.helix.jenkins import hash3
from apportion.balance.java.hashmap import bin_of, bins_for
from apportion.balance.java.values import float32, string_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Straws:
    """The children of one parent: their words in the hash, their bins in Java's map, and the lengths of their straws.

    They draw in `order`, where the first of equals wins. A child of length 0 is out: without weight, or not live.
    """

    words: tuple[int, ...]
    bins: tuple[int, ...]
    lengths: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, names: Sequence[str], weights: Sequence[int]) -> "Straws":
        """Return the straws of named children; weight 0 for children that are out. O(children log children)."""
        bins = bins_for(len(names))
        words = tuple(map(node_word, names))
        return cls._of(words, tuple(bin_of(string_hash(name), bins) for name in names), weights)

    def weighing(self, weights: Sequence[int]) -> "Straws":
        """Return the straws of the same children with other weights."""
        return self._of(self.words, self.bins, weights)

    @classmethod
    def _of(cls, words: tuple[int, ...], bins: tuple[int, ...], weights: Sequence[int]) -> "Straws":
        by_weight = sorted(range(len(words)), key=lambda place: -weights[place])
        lengths = dict(zip(by_weight, straw_lengths([weights[place] for place in by_weight]), strict=True))
        return cls(
            words=words,
            bins=bins,
            lengths=tuple(lengths[place] for place in range(len(words))),
            # The order in which Java walks a map that got the heavy children first.
            order=tuple(sorted(by_weight, key=bins.__getitem__)),
        )

    def longest(self, data: int, attempt: int) -> int:
        """Return the child that draws the longest straw. O(children)."""
        best, winner = -1, 0
        for place in self.order:
            drawn = (hash3(data, self.words[place], attempt) & 0xFFFF) * self.lengths[place]
            if drawn > best:
                best, winner = drawn, place
        return winner


def node_word(name: str) -> int:
    """Return the word of a name in the hash: the first 4 bytes of its SHA-1.

    >>> node_word("root"), node_word("zone0")
    (3698780656, 2058022189)
    """
    return int.from_bytes(sha1(name.encode(), usedforsecurity=False).digest()[:4], "big")


def straw_lengths(weights: Sequence[int]) -> Iterator[int]:
    """Yield the length of each straw, 65536 the longest, for weights from heavy to light.

    All floats have 32 bits except the power, which has 53 significant bits. The last of these may differ between C
    libraries. 24 bits of the power are kept; these differ in one of 2^28 cases.

    >>> list(straw_lengths([2000, 1000, 1000, 0]))
    [65536, 56755, 56755, 0]
    """
    straw, below, last, left = 1.0, 0.0, 0.0, len(weights)
    for place, weight in enumerate(weights):
        yield int(straw * 65536) if weight else 0
        after = weights[place + 1] if place + 1 < len(weights) else 0
        if after in (0, weight):
            continue
        below = float32(below + float32(float32(float32(weight) - last) * left))
        left -= weights.count(after)
        rest = float32(below + float32(left * (after - weight)))
        straw = float32(straw * (1.0 / float32(below / rest)) ** (1.0 / left))
        last = float32(weight)
