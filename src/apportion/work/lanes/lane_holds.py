"""Lane holds: the lanes in which one worker may claim now, and the holds of its claims on them.

Promises: `owned` returns each lane with its present token, and no lane after the deadline of the group's session. A
claim holds its lane until its hold is released or cancelled. A claim in a lane that has moved is given back. A lane
that the store refuses is reported once per token. If the worker still owns the lane after one `lease_ttl`, and the
store still refuses it, then the store's token of the lane is damaged.
Refuses: to wait, and to cancel a run.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from apportion.errors import NotOwner
from apportion.groups.holdings import Holding, Holdings
from apportion.groups.open_holds import Hold
from apportion.guards import note
from apportion.runtime.log_report import report
from apportion.stores.lanes.values import KEYED_LANES, OwnedLane
from apportion.stores.task_values import Claim, Receipt, Settlement
from apportion.work.lanes.lane_statistics import LaneStatistics

logger: logging.Logger = logging.getLogger("apportion.work")
LANE_MOVED = "its lane has moved"


class LaneHolds:
    """The lanes of a worker of one queue, and its holds on them. They come from the holdings of its membership."""

    def __init__(self, queue: str, holdings: Holdings, statistics: LaneStatistics) -> None:
        self._queue, self._holdings, self._statistics = queue, holdings, statistics
        self._holds: dict[Receipt, Hold] = {}
        self._seen: Mapping[int, Holding] = {}
        self._owned: tuple[OwnedLane, ...] = ()
        self._refused: dict[OwnedLane, float] = {}

    @property
    def receipts(self) -> Collection[Receipt]:
        """The claims that hold their lanes."""
        return self._holds.keys()

    def owned(self) -> tuple[OwnedLane, ...]:
        """Return the lanes in which the worker may claim now. O(1) unless the lanes have changed."""
        now = self._holdings.moment()
        if now is not self._seen:
            self._seen = now
            self._owned = tuple(
                OwnedLane(queue=self._queue, partition=each, token=now[each].token) for each in sorted(now)
            )
            for lane in self._owned:
                note(lane.token)  # the store compares this token at a claim
        return self._owned

    def held(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Settlement]]:
        """Hold the lanes of new claims; return the claims that may run, with the tokens of their lanes.

        The settlements give back the claims in lanes that have moved meanwhile.
        """
        held, moved = [], []
        for each in claims:
            if (claim := self._held(each)) is not None:
                held.append(claim)
            else:
                moved.append(Settlement(receipt=each.receipt, fate="released", reason=LANE_MOVED))
        return held, moved

    def _held(self, claim: Claim) -> Claim | None:
        if claim.key is None:
            return claim
        try:
            token, hold = self._holdings.enter(claim.lane - KEYED_LANES, partial(self._let_go, claim.receipt))
        except NotOwner:
            return None
        self._let_go(claim.receipt)
        self._holds[claim.receipt] = hold
        return claim._replace(lane_token=token)

    def release(self, receipts: Iterable[Receipt]) -> None:
        """End the holds of claims that are no longer open."""
        for each in receipts:
            self._let_go(each)

    def _let_go(self, receipt: Receipt) -> None:
        hold = self._holds.pop(receipt, None)
        if hold is not None:
            self._holdings.leave(hold)

    def refused(self, fenced: Collection[OwnedLane], *, now: float, patience_seconds: float) -> list[OwnedLane]:
        """Note the lanes for which the store knows a later owner; return the lanes for which the store must be wrong.

        A lane has a later owner only after this worker has lost the lane. A worker learns of a loss within
        `patience_seconds`. So if it still owns the lane after that time, the store's token of the lane is wrong.
        """
        new = [each for each in fenced if each not in self._refused]
        self._statistics.fenced += len(new)
        for each in new:
            words = "tasks: the store knows a later owner of lane %s of %s than %s, and allows no claim there"
            report(logger, logging.WARNING, words, each.partition, self._queue, each.token)
        since, owned = self._refused | dict.fromkeys(new, now), self.owned()
        self._refused = {each: at for each, at in since.items() if each in owned}
        return [each for each in fenced if self._refused.get(each, now) + patience_seconds < now]

    def mended(self, lane: OwnedLane) -> None:
        """Note that the store has the right token of a lane again. Later damage is reported anew."""
        words = "tasks: the store had a token of lane %s of %s that was never granted; the token is %s again"
        report(logger, logging.ERROR, words, lane.partition, self._queue, lane.token)
        self._refused.pop(lane, None)
