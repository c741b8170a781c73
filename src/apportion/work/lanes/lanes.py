"""Lanes: the partitions of keys that one worker owns as a member of the group of its queue, on the I/O thread.

Promises: the worker claims tasks with a key only in lanes that it owns at that moment. Each claim holds its lane from
the answer of the store until the store has recorded the end of the claim. A planned move of a lane therefore waits for
the running tasks of the lane, and for nothing else, at most for `drain_timeout`. After that, or when the session in
the group ends, only the hold ends. The lane moves, the task runs on, and its key waits, because its claim is open.
Refuses: to cancel a run. The owner of a lane is only a hint. The open claim of a key is the lock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from apportion.groups.opening import Options
from apportion.groups.participation import Participation
from apportion.runtime.simulated import clock_here
from apportion.stores.lanes.values import MendLane, OwnedLane
from apportion.stores.task_values import Claim, Receipt, Settlement
from apportion.work.lanes.lane_holds import LaneHolds
from apportion.work.lanes.lane_statistics import LaneStatistics

Lost = Callable[[frozenset[int]], None]
Mend = Callable[[MendLane], Awaitable[int]]


class Lanes:
    """The lanes of a worker of a queue without keys: no lanes. `woken` is set when there may be new work."""

    def __init__(self) -> None:
        self.woken: asyncio.Event = asyncio.Event()

    def owned(self) -> tuple[OwnedLane, ...]:
        """Return the lanes in which the worker may claim now."""
        return ()

    def held(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Settlement]]:
        """Hold the lanes of new claims; return the claims that may run, with the tokens of their lanes.

        The settlements give back the claims in lanes that have moved meanwhile.
        """
        return list(claims), []

    def release(self, receipts: Iterable[Receipt]) -> None:
        """End the holds of claims that are no longer open."""

    async def refused(self, fenced: Collection[OwnedLane], session: int) -> None:
        """Note the lanes for which the store knows a later owner; mend those that this worker nevertheless owns.

        - `session`: the session of the worker in the task store.
        """

    async def until_settled(self) -> None:
        """Return once each lane of the queue has its intended owner."""

    def leave(self) -> None:
        """Begin to hand over all lanes."""

    async def end(self) -> None:
        """Leave the group. Raises the error that ended the membership, if any."""


class GroupLanes(Lanes):
    """The lanes of a worker of a queue with keys.

    - `mend`: carries out a command in the task store.
    - `lost`: is called with the partitions that the worker loses.
    - `failed`: is called when the membership ends and the worker has not left.
    """

    def __init__(
        self,
        queue: str,
        participation: Participation,
        statistics: LaneStatistics,
        *,
        mend: Mend,
        lost: Lost,
        failed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._clock, self._mend = clock_here(), mend
        self._patience_seconds = participation.options.ttl_seconds
        self._participation, self._statistics = participation, statistics
        self._holdings, self._lost = participation.holdings, lost
        self._holds = LaneHolds(queue, participation.holdings, statistics)
        statistics.begin(participation.driver)
        self._following = asyncio.ensure_future(self._follow())
        self._is_leaving = False
        self._following.add_done_callback(lambda _: None if self._is_leaving else failed())

    @classmethod
    async def begin(
        cls,
        queue: str,
        url: str,
        options: Options,
        statistics: LaneStatistics,
        *,
        mend: Mend,
        lost: Lost,
        failed: Callable[[], None],
    ) -> "GroupLanes":
        """Join the group; errors are those of `open_group`."""
        participation = await Participation.begin(url, options)
        return cls(queue, participation, statistics, mend=mend, lost=lost, failed=failed)

    def owned(self) -> tuple[OwnedLane, ...]:
        """See `Lanes`."""
        return self._holds.owned()

    def held(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Settlement]]:
        """See `Lanes`."""
        return self._holds.held(claims)

    def release(self, receipts: Iterable[Receipt]) -> None:
        """See `Lanes`."""
        self._holds.release(receipts)

    async def refused(self, fenced: Collection[OwnedLane], session: int) -> None:
        """See `Lanes`. Errors are those of the task store."""
        now = self._clock.elapsed()
        for each in self._holds.refused(fenced, now=now, patience_seconds=self._patience_seconds):
            if await self._mend(MendLane(owned=each, session=session)):
                self._holds.mended(each)

    async def until_settled(self) -> None:
        """See `Lanes`."""
        await self._participation.until_settled()

    def leave(self) -> None:
        """See `Lanes`."""
        self._is_leaving = True
        self._participation.leave()

    async def end(self) -> None:
        """See `Lanes`."""
        self._is_leaving = True
        try:
            await self._participation.end()
        finally:
            self._statistics.end(self._participation.driver)
            await asyncio.wait([self._following])
        self._following.result()

    async def _follow(self) -> None:
        """Take each gain and loss of lanes, until this member has left."""
        holdings = self._holdings
        holdings.consume()
        try:
            while (change := await self._participation.next_change()) is not None:
                if not holdings.tell(change):
                    continue
                if change.lost:
                    self._lost(frozenset(change.lost))
                if change.gained:
                    self.woken.set()
        finally:
            holdings.abandon()
