"""Options with which a worker takes part in the group of a queue with keys, as in `apportion group run`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import whole
from apportion.console.options.zone_levels import zone_levels
from apportion.errors import InvalidInput
from apportion.groups.opening import DRAIN, SETTLE
from apportion.work.lanes.lane_member import LaneMember
from apportion.work.queue import TaskQueue


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LaneOptions:
    """How a worker shares the lanes of keys with the others; only for queues with partitions."""

    member_id: Annotated[
        str | None, Parameter(help="With keys: id of this worker (default: host name and a random part).")
    ] = None
    static: Annotated[bool, Parameter(help="With keys: keep the lanes over a restart.")] = False
    replace: Annotated[bool, Parameter(help="With keys: ask a living worker with this id to leave.")] = False
    drain_timeout: Annotated[
        timedelta, Parameter(help="With keys: time for which a lane that moves waits for its running tasks.")
    ] = DRAIN
    rejoin_grace: Annotated[
        timedelta | None, Parameter(help="With keys: time to wait for a static worker that is away (default: 60s).")
    ] = None
    throttle: Annotated[
        int | None, Parameter(converter=whole, help="With keys: largest number of planned moves of lanes at once.")
    ] = None
    settle: Annotated[timedelta, Parameter(help="With keys: time without a newcomer before lanes move.")] = SETTLE
    weight: Annotated[float | None, Parameter(help="With keys: weight; twice the weight, twice the lanes.")] = None
    zone: Annotated[str | None, Parameter(help="With keys: zone of this worker: eu/rack1.")] = None

    def member(self, queues: Sequence[TaskQueue]) -> LaneMember:
        """Return how the worker takes part in the group; `InvalidInput` for an option if no queue has keys."""
        given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        if given and not any(each.partitions for each in queues):
            option = f"--{given[0].replace('_', '-')}"
            hint = "Leave it out, or give a queue partitions: Queue(url, name, partitions=64)."
            raise InvalidInput(option, getattr(self, given[0]), "a queue with keys beside it", hint)
        return LaneMember(
            member_id=self.member_id,
            static=self.static,
            replace=self.replace,
            drain_timeout=self.drain_timeout,
            rejoin_grace=self.rejoin_grace,
            throttle=self.throttle,
            settle=self.settle,
            weight=self.weight,
            zone=zone_levels(self.zone),
        )


NO_LANE_OPTIONS = LaneOptions()
