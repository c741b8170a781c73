"""Chunk commits: chunks of a table, in commits that stay within the limits of a store."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from apportion.stores import api

_SPACE_BYTES = 80  # an upper bound: a namespace and its slash are at most this long


@dataclass(frozen=True, slots=True)
class CommitRoom:
    """The room for chunks in a commit: the limits of the store, less the new head and the shared compares."""

    operations: int
    size_bytes: int

    def takes(self, sizes: Iterable[int]) -> int:
        """Return how many operations of these sizes fit, counted from the first one."""
        sums = takewhile(lambda total: total <= self.size_bytes, accumulate(sizes))
        return min(max(0, self.operations), sum(1 for _ in sums))

    def less(self, sizes: Iterable[int]) -> "CommitRoom":
        """Return the room that is left after operations of these sizes."""
        taken = list(sizes)
        return CommitRoom(self.operations - len(taken), self.size_bytes - sum(taken))


def room_of(limits: api.Capabilities, always: Sequence[api.Compare], pointer: api.Put) -> CommitRoom:
    """Return the room besides the compares of all commits and the put of the head."""
    compared = sum(key_bytes(compare.key) for compare in always)
    return CommitRoom(limits.max_operations - len(always), limits.max_commit_bytes - compared - put_bytes(pointer))


def batches(puts: list[api.Put], room: CommitRoom) -> Iterator[list[api.Put]]:
    """Yield the puts in groups that fit into a commit.

    A put that is too large makes its own group, which the store refuses.
    """
    while puts:
        count = max(1, room.takes(map(put_bytes, puts)))
        yield puts[:count]
        puts = puts[count:]


def absent(puts: Iterable[api.Put]) -> list[api.Compare]:
    """Return compares that fail if the key of a put exists already."""
    return [api.Absent(key=put.key) for put in puts]


def put_bytes(put: api.Put) -> int:
    """Return the most bytes that a put of a new key takes in a commit."""
    return len(put.value) + 2 * key_bytes(put.key)  # the key is compared and written


def key_bytes(key: str) -> int:
    """Return the most bytes that a key takes in a commit."""
    return len(key.encode()) + _SPACE_BYTES
