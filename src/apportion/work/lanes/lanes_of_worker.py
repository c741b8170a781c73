"""Lanes of a worker: the lanes that a worker gets when it begins, on a queue with or without keys.

Promises: wrong options are refused where the worker is made, before any effect. The number of partitions is compared
with that in the store before the worker joins the group.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from apportion.errors import InvalidInput
from apportion.stores.task_api import TaskStore
from apportion.work.lanes.keys import QueueKeys
from apportion.work.lanes.lane_member import LaneMember
from apportion.work.lanes.lane_statistics import LaneStatistics
from apportion.work.lanes.lanes import GroupLanes, Lanes, Lost

LanesOfWorker: TypeAlias = Callable[[TaskStore, Lost, Callable[[], None]], Awaitable[Lanes]]
"""Begins the lanes of one worker. Arguments: the task store, the handler of lost lanes, the handler of a failure."""


async def no_lanes(_tasks: TaskStore, _lost: Lost, _failed: Callable[[], None]) -> Lanes:
    """Return the lanes of a worker of a queue without keys."""
    return Lanes()


def lanes_of_worker(
    keys: QueueKeys | None, member: LaneMember | None, *, ttl_seconds: float, statistics: LaneStatistics
) -> LanesOfWorker:
    """Return the function that begins the lanes of a worker; `InvalidInput` for wrong options."""
    if keys is None:
        if member is not None:
            raise InvalidInput("member", member, "None on a queue without partitions", "Write Queue(…, partitions=64).")
        return no_lanes
    if member is not None and not isinstance(member, LaneMember):
        raise InvalidInput("member", member, "a LaneMember", 'Write member=apportion.LaneMember(member_id="mail-1").')
    options = (member or LaneMember()).options(keys, ttl_seconds=ttl_seconds)

    async def _begun(tasks: TaskStore, lost: Lost, failed: Callable[[], None]) -> Lanes:
        await keys.agree(tasks)
        return await GroupLanes.begin(
            keys.queue, keys.group_url, options, statistics, mend=tasks.control, lost=lost, failed=failed
        )

    return _begun
