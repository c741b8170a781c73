"""Survey: the findings on a database before it becomes a shard.

It counts the shard keys and names the largest ones. It shows how evenly the rows would lie on the shards, and lists the
obstacles.

Promises: one walk over each table with a shard key. Nothing is written.
Refuses: a key that cannot get a slot, with the error of `init`.
"""

from collections import Counter
from dataclasses import dataclass
from heapq import nlargest
from statistics import fmean, pstdev

from sqlalchemy import Connection, func, select
from sqlalchemy.orm import DeclarativeBase

from apportion.errors.brief import brief
from apportion.shards.takeover.obstacles import Obstacle, obstacles_in
from apportion.shards.takeover.rows import Tables
from apportion.shards.takeover.sharded_table import ShardedTable
from apportion.shards.takeover.takeover import tables_there

MOST_KEYS = 10
"""The number of largest keys that a survey names."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRows:
    """A shard key, as text, and its number of rows."""

    key: str
    rows: int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TableSurvey:
    """A sharded table and its number of rows. With a shard key, also the number of keys and the largest keys.

    `decided_by` names the columns of the shard key, or the column that names the parent. `cv_ratio` is the coefficient
    of variation of the rows per shard, for slots shared evenly among `shards` shards.
    """

    table: str
    decided_by: str
    rows: int
    keys: int | None = None
    largest: tuple[KeyRows, ...] = ()
    cv_ratio: float | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetSurvey:
    """A database before it becomes a shard. `shard` is the id of that shard, "" if no database has rows."""

    shard: str
    shards: int
    tables: tuple[TableSurvey, ...]
    obstacles: tuple[Obstacle, ...]


def survey_of(connection: Connection, shard: str, base: type[DeclarativeBase], *, slots: int, shards: int) -> SetSurvey:
    """Return the survey of a database, for a set of `shards` shards."""
    tables = tables_there(connection, base, slots)
    return SetSurvey(
        shard=shard,
        shards=shards,
        tables=tuple(_of(connection, tables, each, shards) for each in tables.each),
        obstacles=obstacles_in(connection, base),
    )


def _of(connection: Connection, tables: Tables, table: ShardedTable, shards: int) -> TableSurvey:
    if table.parent is not None:
        rows = connection.execute(select(func.count()).select_from(table.bare)).scalar_one()
        return TableSurvey(table=table.name, decided_by=table.parent.column, rows=rows)
    count, per_shard = 0, Counter[int]()
    largest: list[KeyRows] = []
    for values, slot, rows in tables.keys(connection, table):
        count += 1
        per_shard[slot * shards // tables.slots] += rows
        largest.append(KeyRows(key=", ".join(map(str, values)), rows=rows))
        if len(largest) > 100 * MOST_KEYS:
            largest = nlargest(MOST_KEYS, largest, key=_rows)
    spread = [per_shard[shard] for shard in range(shards)]
    return TableSurvey(
        table=table.name,
        decided_by=", ".join(table.key),
        rows=sum(spread),
        keys=count,
        largest=tuple(nlargest(MOST_KEYS, largest, key=_rows)),
        cv_ratio=pstdev(spread) / fmean(spread) if count else None,
    )


def _rows(key: KeyRows) -> tuple[int, str]:
    return key.rows, key.key
