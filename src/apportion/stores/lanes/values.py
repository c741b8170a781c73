"""The values of keyed tasks in a task store: the lanes that a worker owns, and the questions and commands about keys.

A key belongs to one partition of its queue, and the tasks of that partition are one lane. A worker claims from the
lanes that it owns in the group of the queue, under the token of the group.
"""

from dataclasses import dataclass

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.epoch import FencingToken

KEYED_LANES = 16  # the lane of partition 0; those below it are priorities
MOST_KEY_BYTES = 1_024
MOST_PARTITIONS = 1 << 18  # a group has the same limit
MOST_EPOCH = 1 << 53  # each epoch takes a commit, and no store has so many commits


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedLane:
    """A partition of the keys of a queue, and the token under which its owner claims."""

    queue: str
    partition: int
    token: FencingToken

    @property
    def lane(self) -> int:
        """The lane of the partition."""
        return KEYED_LANES + self.partition


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class AgreePartitions:
    """Set the number of partitions of a queue if it has none; `InvalidInput` if it has another number."""

    queue: str
    partitions: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePartitions:
    """Change the number of partitions of a queue; `KeyedTasksOpen` while a keyed task of it is open."""

    queue: str
    partitions: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class MendLane:
    """Give a lane the token of its owner, if the lane has a higher one, or an equal one of another holder.

    Such a token in the lane is damage: no owner ever got it. `session` is that of the owner in this store.
    """

    owned: OwnedLane
    session: int


def check_key(key: str) -> None:
    """Raise `InvalidInput` for a key that no task can have."""
    hint = "Write key='tenant-42'; the tasks of one key run one at a time, in order."
    try:
        size = len(key.encode()) if isinstance(key, str) and "\0" not in key else 0
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= MOST_KEY_BYTES:
        value = f"{size} bytes" if size > MOST_KEY_BYTES else key
        raise InvalidInput("key", value, f"a str of 1 to {MOST_KEY_BYTES} bytes of UTF-8", hint)
