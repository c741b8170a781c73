"""Moves: a record of the moves that even members out, so that no two members swap partitions of one topic.

Before a partition goes from a to b, the record may show another partition of its topic that went from b to a. Then
that partition goes back in its place. If there are several such partitions, the first in the order of a Java hash set
goes back.

Source: KIP-54, and `AbstractStickyAssignor` of Kafka 4.1.
"""

from apportion.balance.java.hashmap import bin_of, bins_for
from apportion.balance.java.values import string_hash
from apportion.balance.kafka.subscription import Layout

Pair = tuple[int, int]


class _Moved:
    """The partitions of a topic that moved between two members, in the order of a Java hash set that never shrinks."""

    def __init__(self) -> None:
        self.indexes: dict[int, None] = {}
        self._most = 0

    def add(self, index: int) -> None:
        """Add a partition that is not there yet."""
        self.indexes[index] = None
        self._most = max(self._most, len(self.indexes))

    def first(self, topic_hash: int, start: int) -> int:
        """Return the first partition in that order. O(partitions moved)."""
        bins = bins_for(self._most)
        return min(self.indexes, key=lambda index: bin_of(partition_hash(topic_hash, index - start), bins))


class Moves:
    """All moves of partitions, from their first owners to their current ones."""

    def __init__(self, layout: Layout) -> None:
        self._starts = tuple(layout.starts.values())
        self._hashes = tuple(map(string_hash, layout.topics))
        self._pairs: dict[int, Pair] = {}
        self._by_topic: dict[int, dict[Pair, _Moved]] = {}

    def stand_in(self, topic: int, index: int, giver: int, taker: int) -> int:
        """Return the partition to send to `taker` so that this one can stay with `giver`; else this one."""
        source = self._pairs[index][0] if index in self._pairs else giver
        back = self._by_topic.get(topic, {}).get((taker, source))
        return index if back is None else back.first(self._hashes[topic], self._starts[topic])

    def note(self, topic: int, index: int, giver: int, taker: int) -> None:
        """Note that a partition went from one member to another; if it is back at its first owner, it never moved."""
        source, _ = self._forget(topic, index) if index in self._pairs else (giver, giver)
        if source != taker:
            self._pairs[index] = pair = source, taker
            self._by_topic.setdefault(topic, {}).setdefault(pair, _Moved()).add(index)

    def _forget(self, topic: int, index: int) -> Pair:
        pair = self._pairs.pop(index)
        moved = self._by_topic[topic][pair]
        del moved.indexes[index]
        if not moved.indexes:
            del self._by_topic[topic][pair]
        return pair


def partition_hash(topic_hash: int, number: int) -> int:
    """Return the hash of a partition of a topic, before it is cut to 32 bits."""
    return 31 * (31 + number) + topic_hash
