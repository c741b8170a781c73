"""Batches: the moves of one member that wait for a commit, and those with a commit under way.

Promises: a partition is in one move at a time. Moves that were refused together are sent again in halves, before all
other moves.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from apportion.groups.handover import Act, Known


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMove:
    """One act on one partition, and the known state on which it was decided."""

    partition: int
    act: Act
    known: Known


@dataclass(slots=True)
class Batches:
    """Moves that wait, halves of refused batches, and batches under way; `busy` are the partitions of all these."""

    fresh: deque[PendingMove] = field(default_factory=deque)
    halves: deque[tuple[PendingMove, ...]] = field(default_factory=deque)
    sent: dict[int, tuple[PendingMove, ...]] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)
    last: int = 0

    def moves(self) -> Iterator[PendingMove]:
        """Iterate over all moves."""
        return chain(self.fresh, *self.halves, *self.sent.values())

    def next(self, width: int) -> tuple[PendingMove, ...]:
        """Take the moves of the next commit; none, if no move waits."""
        if self.halves:
            return self.halves.popleft()
        return tuple(self.fresh.popleft() for _ in range(min(width, len(self.fresh))))

    def put_back(self, moves: tuple[PendingMove, ...]) -> None:
        """Let some moves wait for the commit after this one."""
        if moves:
            self.halves.appendleft(moves)
