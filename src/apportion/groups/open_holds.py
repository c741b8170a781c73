"""Open holds: the work that is open in this process, and how to cancel it.

Refuses: locks, because a finalizer may end or begin a hold, and can interrupt any code. Each change is one step of a
dict.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from apportion.runtime.clock import Clock


@dataclass(slots=True, kw_only=True, eq=False)
class Hold:
    """Work that was begun on a partition, and how to cancel it; `since` is its start, infinity while it rests.

    A hold that rests keeps its partition like any other hold, but has no deadline of progress.
    """

    partition: int
    resource: str
    cancel: Callable[[], None]
    clock: Clock
    since: float

    def rest(self) -> None:
        """Keep the partition from now on, without a deadline of progress."""
        self.since = float("inf")

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Within the block the hold works, and its deadline counts from now; after the block the hold rests."""
        self.since = self.clock.elapsed()
        try:
            yield
        finally:
            self.rest()


class Holds:
    """The open holds, in the order in which they began."""

    def __init__(self) -> None:
        self._open: dict[Hold, None] = {}
        self._by_partition: dict[int, dict[Hold, None]] = {}

    def __iter__(self) -> Iterator[Hold]:
        """Iterate over the holds that were open at the time of the call."""
        return iter(list(self._open))

    def __len__(self) -> int:
        return len(self._open)

    def on(self, partition: int) -> bool:
        """Whether a hold is open on a partition."""
        return bool(self._by_partition.get(partition))

    def begin(self, hold: Hold) -> None:
        """Count one more hold."""
        self._open[hold] = None
        self._by_partition.setdefault(hold.partition, {})[hold] = None

    def end(self, hold: Hold) -> None:
        """Count one hold less."""
        self._by_partition[hold.partition].pop(hold, None)
        self._open.pop(hold, None)
