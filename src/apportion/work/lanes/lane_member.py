"""Lane member: the options of a worker in the group of its queue. The group decides the owner of each lane of keys."""

from dataclasses import dataclass
from datetime import timedelta

from apportion.errors.brief import brief
from apportion.groups.opening import DRAIN, SETTLE, Opening, Options
from apportion.work.lanes.keys import QueueKeys


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class LaneMember:
    """The part of one worker in the group of a queue with keys; the fields are those of `apportion.open_group`.

    - `member_id`: the id of the worker. Default: `APPORTION_MEMBER_ID`, else the host name and a random part.
    - `static`: whether the worker keeps its lanes over a restart, under an id that stays the same. Default: False.
    - `rejoin_grace`: the time for which the group waits for a static worker that is away. Default: 60 seconds.
    - `replace`: whether to ask a live worker of the same id to leave. Default: False.
    - `drain_timeout`: the time for which a lane that moves waits for its running tasks. After this time the tasks
      run on, and their keys wait for them. Default: 20 seconds.
    - `weight`: the share of this worker relative to the others. Default: `APPORTION_WEIGHT`, else 1.
    - `zone`: the fault domain, outermost first. Default: `APPORTION_ZONE`, else none.
    - `throttle`: the largest number of lanes that move at once in a planned move. Default: None, no limit.
    - `settle`: lanes move to new workers when no further worker has joined for this time. Default: 2 seconds.
    """

    member_id: str | None = None
    static: bool = False
    rejoin_grace: timedelta | None = None
    replace: bool = False
    drain_timeout: timedelta = DRAIN
    weight: float | None = None
    zone: tuple[str, ...] | None = None
    throttle: int | None = None
    settle: timedelta = SETTLE

    def options(self, keys: QueueKeys, *, ttl_seconds: float) -> Options:
        """Return the options of the member; `InvalidInput` for a wrong option."""
        opening = Opening(
            keys.group_url,
            keys.group,
            partitions=keys.partitions,
            member_id=self.member_id,
            static=self.static,
            lease_ttl=timedelta(seconds=ttl_seconds),
            drain_timeout=self.drain_timeout,
            rejoin_grace=self.rejoin_grace,
            weight=self.weight,
            zone=self.zone,
            replace=self.replace,
            throttle=self.throttle,
            settle=self.settle,
        )
        return opening.options
