"""Questions of operators about keys: the busiest keys of a queue, the head of a key, the owner of a lane."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from apportion.errors.brief import brief
from apportion.stores.lanes.tokens import LaneRecord
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.task_control import Question
from apportion.stores.task_records import OpenTask
from apportion.stores.task_values import TaskState


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStats:
    """A key of a queue: its lane, and how many of its tasks wait. Claimed tasks and dead ones do not wait."""

    key: str
    lane: int
    waiting: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class BusiestKeys(Question[tuple[KeyStats, ...]]):
    """The keys of a queue with the most waiting tasks, then by key. O(keyed tasks of the queue)."""

    queue: str
    most: int = 20


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHead:
    """The task that the other tasks of its key wait for."""

    task: str
    state: TaskState


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class HeadOfKey(Question[KeyHead | None]):
    """The task that the others of a key wait for: the claimed one, or the oldest. None: the key has no open task."""

    queue: str
    key: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOwner:
    """The owner of a lane as the store saw it last; `is_alive`: whether its session in this store lives."""

    owned: OwnedLane
    session: int
    is_alive: bool


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerOfLane(Question[LaneOwner | None]):
    """The owner of the lane of a partition; None: no worker has claimed there yet."""

    queue: str
    partition: int


def busiest(tasks: Iterable[OpenTask], question: BusiestKeys) -> tuple[KeyStats, ...]:
    """Return the answer to `BusiestKeys` from all open tasks."""
    waiting = Counter(
        (task.new.key, task.new.lane)
        for task in tasks
        if task.queue == question.queue and task.new.key is not None and task.state in ("ready", "delayed")
    )
    ranked = sorted(waiting.items(), key=lambda each: (-each[1], each[0]))[: question.most]
    return tuple(KeyStats(key=key, lane=lane, waiting=count) for (key, lane), count in ranked)


def head(tasks: Iterable[OpenTask], question: HeadOfKey) -> KeyHead | None:
    """Return the answer to `HeadOfKey` from all open tasks."""
    of_key = [task for task in tasks if (task.queue, task.new.key) == (question.queue, question.key)]
    first = min(of_key, key=lambda task: (task.session is None, task.position), default=None)
    return None if first is None else KeyHead(task=first.id, state=first.state)


def owner(record: LaneRecord | None, question: OwnerOfLane, alive: Collection[int]) -> LaneOwner | None:
    """Return the answer to `OwnerOfLane` from the record of the lane."""
    if record is None:
        return None
    owned = OwnedLane(queue=question.queue, partition=question.partition, token=record.token)
    return LaneOwner(owned=owned, session=record.session, is_alive=record.session in alive)
