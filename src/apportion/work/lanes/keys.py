"""Keys of tasks: the lane of each key, and the check that a queue takes keys at all.

Refuses: a number of partitions that differs from the number in the store of the queue.
"""

from dataclasses import dataclass

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.groups.view.records import checked_partitions
from apportion.stores.api import Need
from apportion.stores.catalog import check_url
from apportion.stores.keys.partitions import partition_of
from apportion.stores.lanes.values import KEYED_LANES, AgreePartitions
from apportion.stores.task_api import TaskStore

_NEEDS: tuple[Need, ...] = ("fencing", "gapless_watch", "linearizable")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueKeys:
    """The keys of one queue: the number of its partitions, and the group of its workers.

    - `queue`: the name of the queue in its store, with the namespace.
    - `group_url`: the store of the group.

    >>> keys = QueueKeys(queue="apportion/mail", partitions=64, group_url="sqlite:///work.db")
    >>> keys.partition("tenant-42"), keys.group
    (59, 'work.mail')
    """

    queue: str
    partitions: int
    group_url: str

    @property
    def group(self) -> str:
        """The name of the group of the workers."""
        return group_of(self.queue.rpartition("/")[2])

    def partition(self, key: str) -> int:
        """Return the partition of a key. O(bytes of the key)."""
        return partition_of(key, self.partitions)

    def lane(self, key: str) -> int:
        """Return the lane of the tasks of a key."""
        return KEYED_LANES + self.partition(key)

    async def agree(self, tasks: TaskStore) -> None:
        """Note the number of partitions in the store; `InvalidInput` if the store has another number for the queue."""
        await tasks.control(AgreePartitions(queue=self.queue, partitions=self.partitions))


def group_of(queue: str) -> str:
    """Return the name of the group of the workers of a queue."""
    return f"work.{queue}"


def checked_keys(url: str, queue: str, partitions: int | None, group_url: str | None) -> QueueKeys | None:
    """Return the keys of a queue, None if it has no partitions. Refuse options that no queue can have."""
    if partitions is None:
        if group_url is not None:
            raise InvalidInput("group_url", group_url, "None without partitions", "Pass partitions=64 too.")
        return None
    checked_partitions(partitions)
    if group_url is not None:
        check_url(group_url, needs=_NEEDS)
    return QueueKeys(queue=queue, partitions=partitions, group_url=url if group_url is None else group_url)


def lane_of(key: str, keys: QueueKeys | None) -> int:
    """Return the lane of the tasks of a key; `InvalidInput` for a queue without keys."""
    if keys is None:
        hint = "Write Queue(url, name, partitions=64) in each program of the queue."
        raise InvalidInput("key", key, "no key on a queue without partitions", hint)
    return keys.lane(key)
