"""Partitions of keys: the lane of a key, and the comparison of a caller's number of partitions with that of its queue.

Promises: the partition of a key depends only on the UTF-8 of the key and the number of partitions, in every process and
release. It is the leading part of the hash, as the slot of `Slots` is: `hash * partitions >> 64`. A task is
refused if its caller used another number of partitions than the queue has. Otherwise its key would run in two lanes.
"""

from collections.abc import Iterable
from dataclasses import replace

from apportion.errors import InvalidInput
from apportion.placement import hashers
from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.task_records import OpenTask
from apportion.stores.task_values import NewTask

_digest = hashers.get("xxh3-64").digest


def partition_of(key: str, partitions: int) -> int:
    """Return the partition of a key. O(bytes of the key).

    >>> partition_of("tenant-42", 64)
    59
    """
    return _digest(key.encode()) * partitions >> 64


def placed(task: OpenTask, partitions: int | None) -> OpenTask:
    """Return an ended task that is opened again, in the lane that its key has now."""
    if task.new.key is None or partitions is None:
        return task
    return replace(task, new=replace(task.new, lane=KEYED_LANES + partition_of(task.new.key, partitions)))


def counted(tasks: Iterable[NewTask]) -> list[tuple[str, int]]:
    """Return the queues of keyed tasks, with the number of partitions by which the caller placed them."""
    return sorted({(each.queue, each.partitions) for each in tasks if each.partitions is not None})


def check_counted(tasks: Iterable[NewTask], queue: str, found: int | None) -> None:
    """Raise `InvalidInput` if a caller used another number of partitions for these tasks than their queue has."""
    for name, wanted in counted(tasks):
        if name == queue and wanted != found:
            raise _other(queue, found, wanted)


def agreed(queue: str, found: int | None, wanted: int) -> int:
    """Return the number of partitions of a queue; `InvalidInput` where it has another number than the wanted one."""
    if found not in (None, wanted):
        raise _other(queue, found, wanted)
    return wanted


def _other(queue: str, found: int | None, wanted: int) -> InvalidInput:
    name = f"partitions of queue {queue.rpartition('/')[2]}"
    if found is None:
        return InvalidInput(name, wanted, "none: the store has no number for this queue", "Open the queue anew.")
    hint = f"Open it with partitions={found}, or change the number: apportion tasks resize"
    return InvalidInput(name, wanted, f"{found}, the number of this queue", hint)
