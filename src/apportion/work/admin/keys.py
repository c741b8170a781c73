"""Keys as an operator sees them: the busiest keys, the owner of a key, its first task, and the number of partitions.

Promises: `resize` changes both the group and the queue, or neither. It is refused while a worker of the queue runs or
a task with a key is open.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from apportion.errors import InvalidInput, UnknownOption, Unsafe
from apportion.errors.brief import brief
from apportion.groups.admin import acts as group_acts
from apportion.groups.admin.found import Found, read
from apportion.groups.admin.found import asked as asked_group
from apportion.groups.view.records import checked_partitions
from apportion.runtime.endings import or_undo
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import shown_url
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, KeyHead, KeyStats, LaneOwner, OwnerOfLane
from apportion.stores.lanes.values import KEYED_LANES, ResizePartitions, check_key
from apportion.stores.task_control import TaskRow
from apportion.work.admin.arguments import checked_queue
from apportion.work.admin.inquiry import Inquiry, asked
from apportion.work.lanes.keys import QueueKeys, group_of

_MOST = 1_000


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOwner:
    """The partition of a key, and the id of the living worker that owns its lane; None if no worker does."""

    queue: str
    key: str
    partition: int
    owner: str | None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class LaneNow:
    """The living owner of a lane, if any. `is_fenced`: the task store knows a later token, and refuses the owner."""

    owner: str | None
    is_fenced: bool = False


async def keyed(url: str, queue: str) -> QueueKeys:
    """Return the keys of a queue as its store has them; `InvalidInput` for a queue without keys."""
    checked_queue(queue)
    return await asked(url, lambda inquiry: _keys_of(inquiry, url, queue))


async def busiest(url: str, queue: str, *, most: int = 20) -> tuple[KeyStats, ...]:
    """See `facade.busiest`."""
    checked_queue(queue)
    if type(most) is not int or not 1 <= most <= _MOST:
        raise InvalidInput("most", most, f"an int in 1 .. {_MOST}", "Write most=20.")
    return await asked(url, lambda inquiry: inquiry.store.query(BusiestKeys(queue=inquiry.full(queue), most=most)))


async def owner(url: str, queue: str, key: str, *, group_url: str | None = None) -> KeyOwner:
    """See `facade.owner`."""
    checked_queue(queue)
    check_key(key)

    async def _owner(inquiry: Inquiry) -> KeyOwner:
        partition = (await _keys_of(inquiry, url, queue)).partition(key)
        lane = await _lane(inquiry, queue, partition, url if group_url is None else group_url)
        return KeyOwner(queue=queue, key=key, partition=partition, owner=lane.owner)

    return await asked(url, _owner)


async def head_of(inquiry: Inquiry, row: TaskRow) -> KeyHead | None:
    """Return the task of the same key that must end before a task; None if there is none."""
    if row.key is None:
        return None
    head = await inquiry.store.query(HeadOfKey(queue=inquiry.full(row.queue), key=row.key))
    return None if head is None or head.task == row.id else head


async def lane_of(inquiry: Inquiry, row: TaskRow, group_url: str) -> LaneNow | None:
    """Return the lane of a task with a key; None for a task without a key."""
    return None if row.key is None else await _lane(inquiry, row.queue, row.lane - KEYED_LANES, group_url)


async def resize(url: str, queue: str, partitions: int, *, group_url: str | None = None) -> int | None:
    """See `facade.resize`."""
    checked_queue(queue)
    checked_partitions(partitions)
    place = url if group_url is None else group_url

    async def _resized(inquiry: Inquiry) -> int | None:
        stats = await inquiry.queue(queue)
        group = await _resized_group(place, queue, partitions)
        async with or_undo(partial(_resized_group, place, queue, group)):
            if stats.workers:  # they use no keys, or their group is in another store
                hint = "Nothing was changed. Stop all workers first. A killed worker counts until its lease has ended."
                raise Unsafe(f"queue {queue} is in use by {stats.workers} worker(s).", hint)
            await inquiry.control(ResizePartitions(queue=inquiry.full(queue), partitions=partitions))
        return stats.partitions

    return await asked(url, _resized)


async def _resized_group(url: str, queue: str, partitions: int | None) -> int | None:
    """Give the group of a queue a number of partitions, and return the old number; None if there is no group yet."""
    if partitions is None or await asked_group(url, _group, queue) is None:
        return None
    before: Found = await asked_group(url, group_acts.resize, group_of(queue), partitions, shown_url(url))
    return before.record.partitions


async def _keys_of(inquiry: Inquiry, url: str, queue: str) -> QueueKeys:
    partitions = (await inquiry.queue(queue)).partitions
    if partitions is None:
        hint = "To use keys, write Queue(url, name, partitions=64) in its programs."
        raise InvalidInput("queue", queue, "a queue with keys", hint)
    return QueueKeys(queue=inquiry.full(queue), partitions=partitions, group_url=url)


async def _lane(inquiry: Inquiry, queue: str, partition: int, group_url: str) -> LaneNow:
    """Return a lane as its group has it. Without a group, the owner is the worker that claimed there last.

    The call reads the token in the task store first, and the group afterwards. So a hand-over in between does not look
    like damage.
    """
    last = await inquiry.store.query(OwnerOfLane(queue=inquiry.full(queue), partition=partition))
    found = await asked_group(group_url, _group, queue)
    if found is None:
        return LaneNow(owner=_member(last) if last is not None and last.is_alive else None)
    record = found.view.owned(partition).ownership
    if not found.view.is_live(record):
        return LaneNow(owner=None)
    granted, seen = (found.view.incarnation, record.epoch), (0, 0) if last is None else _epoch(last)
    is_other = last is not None and seen == granted and _member(last) != record.owner
    return LaneNow(owner=record.owner, is_fenced=seen > granted or is_other)


def _epoch(lane: LaneOwner) -> tuple[int, int]:
    return lane.owned.token.incarnation, lane.owned.token.epoch


def _member(lane: LaneOwner) -> str:
    return lane.owned.token.holder.partition(" ")[0]


async def _group(store: CoordinationStore, queue: str) -> Found | None:
    with suppress(UnknownOption, InvalidInput):  # no worker has joined yet
        return await read(store, group_of(queue), replay_seconds=0)
    return None
