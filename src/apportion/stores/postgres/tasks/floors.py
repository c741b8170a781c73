"""Floors: the positions in the lanes of a task queue after which a handle looks for ready tasks.

A claim from the front of a lane reads the index entries of deleted tasks, as long as some snapshot keeps them. So a
claim begins after the last position that this handle has seen, the *floor*. A task can still become visible below the
floor, if its transaction took an earlier position and commits later. So a claim from time to time is a *rescan*: it
begins from a *low* position. No ready task is below the low position, and none can come there.

The *mark* is a number of a transaction that was drawn after a floor was seen. The low position moves to that floor once
no transaction with a smaller number runs, and no ready task is left below the floor. A transaction draws its number
before its positions, so all smaller positions are visible then.
Promises: a rescan finds each ready task. After a rescan, the next one waits for a second, or 50 times as long as the
rescan took, if that is longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apportion.stores.task_values import LANES

Places: TypeAlias = tuple[list[str], list[int], list[int]]  # queues, lanes, and positions to begin after
_LEAST_SECONDS = 1.0
_REST_RATIO = 50


@dataclass(slots=True)
class _Place:
    floor: int = 0
    low: int = 0
    marked: int = 0  # the floor that was seen before `mark` was drawn
    mark: int | None = None


class Floors:
    """The floors of the queues of one handle. The caller passes times, in seconds of one clock."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, int], _Place] = {}
        self._rescan_at = 0.0

    def is_rescan(self, queues: Sequence[str], now: float) -> bool:
        """Whether the next claim begins from the low positions."""
        return now >= self._rescan_at and any(place.floor > place.low for _, place in self._of(queues))

    def places(self, queues: Sequence[str], *, is_rescan: bool) -> Places:
        """Return the queue, the lane and the position to begin after, for each place, as columns."""
        found = self._of(queues)
        floors = [place.low if is_rescan else place.floor for _, place in found]
        return [queue for (queue, _), _ in found], [lane for (_, lane), _ in found], floors

    def claimed(self, queues: Sequence[str], heads: Sequence[int | None], last: dict[tuple[str, int], int]) -> None:
        """Note the result of a claim: `heads` are the first ready tasks by place, `last` the last claimed positions."""
        for (at, place), head in zip(self._of(queues), heads, strict=True):
            if at in last:
                place.floor = max(place.low, last[at])
            elif head is not None:
                place.floor = max(place.low, head - 1)

    def rescanned(
        self,
        queues: Sequence[str],
        left_at: Sequence[int | None],
        *,
        oldest_open: int,
        mark: int,
        now: float,
        took: float,
    ) -> None:
        """Move the low positions after a rescan, before `claimed` notes its claims.

        `left_at` are the first tasks by place that are still ready after the rescan. `mark` is the number of the
        rescan's transaction. The mark is only for floors that earlier claims have found. The rescan finds floors too,
        but its transaction may have drawn its number before it found them.
        """
        for (_, place), left in zip(self._of(queues), left_at, strict=True):
            if place.mark is not None and oldest_open >= place.mark:
                seen = place.marked if left is None else min(place.marked, left - 1)
                place.low, place.mark = max(place.low, seen), None
            if place.mark is None:
                place.marked, place.mark = place.floor, mark
        self._rescan_at = now + max(_LEAST_SECONDS, _REST_RATIO * took)

    def _of(self, queues: Sequence[str]) -> list[tuple[tuple[str, int], _Place]]:
        return [
            (at, self._places.setdefault(at, _Place())) for queue in queues for lane in LANES for at in [(queue, lane)]
        ]
