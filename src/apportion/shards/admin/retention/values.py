"""Values of a run over partitions: the wishes of a caller, the steps that an observer hears, and the results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from apportion.errors.brief import brief
from apportion.model.epoch import FencingToken
from apportion.shards.periods.period import start_of
from apportion.shards.periods.records import TimePartition
from apportion.shards.periods.timed_table import TimedTable
from apportion.shards.records import ShardRecord
from apportion.shards.router import FollowedSet

PartitionStep: TypeAlias = Literal["made", "detached", "archived", "dropped"]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEvent:
    """A step of a run: the shard, its table, and the partition. `rows` counts archived rows, or deleted ones."""

    step: PartitionStep
    shard: str
    table: str
    partition: str
    rows: int = 0


PartitionObserved = Callable[[PartitionEvent], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWish:
    """The checked wishes of a caller. See `partitions`."""

    ahead: int | None = None
    older_than: timedelta | None = None
    drop: bool = False
    archive: Path | None = None

    def cutoff(self, timed: TimedTable, today: date) -> date | None:
        """Return the day before which all periods are due. None if no age is wished."""
        return None if self.older_than is None else start_of(timed.length, _day_before(today, self.older_than))


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPartitions:
    """The partitions of a shard, those that are due, and the names of those that this call made and dropped.

    A file of SQLite has no partitions. There, `due` has one entry for each table with old rows. `why` is the reason for
    which a shard was left out, or is not through.
    """

    shard: str
    partitions: tuple[TimePartition, ...] = ()
    due: tuple[TimePartition, ...] = ()
    made: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    rows_dropped: int = 0
    why: str = ""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetPartitions:
    """The shards of a set, by their ids, with their partitions."""

    shards: tuple[ShardPartitions, ...]

    @property
    def is_whole(self) -> bool:
        """Whether each shard is through."""
        return not any(each.why for each in self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """The work on one shard. Without a token, it only reads. `check` raises if this process is no longer elected."""

    followed: FollowedSet
    shard: str
    record: ShardRecord
    tables: Mapping[str, TimedTable]
    wish: PartitionWish
    told: PartitionObserved
    check: Callable[[], None]
    token: FencingToken | None = None
    move: str = "partitions"

    def tell(self, step: PartitionStep, table: str, partition: str, rows: int = 0) -> None:
        """Tell the observer of a step."""
        self.told(PartitionEvent(step=step, shard=self.shard, table=table, partition=partition, rows=rows))


def _day_before(today: date, age: timedelta) -> date:
    """Return the day that is an age before today, and the first day of all for a longer age."""
    return date.fromordinal(max(1, today.toordinal() - age.days - bool(age % timedelta(days=1))))
