"""Plan of a scatter: the statement that each shard runs, and the way in which their rows become one result."""

from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import Select

from apportion.shards.scatter.group_condition import Condition
from apportion.shards.scatter.order import OrderKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of the result: the places of its parts in a row of a shard, and the function that combines them.

    `combine` is None for a column that all rows of a group share.
    """

    places: tuple[int, ...]
    combine: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups that are spread over shards: the places of their keys, their columns, and the condition of HAVING."""

    keys: tuple[int, ...]
    outputs: tuple[Output, ...]
    having: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterPlan:
    """The plan of one statement.

    - `names`: the columns of the result. A row of a shard may have more, for the order.
    - `is_distinct`: equal rows of several shards are one.
    - `limit`, `offset`: those of the result.
    """

    statement: Select[Any]
    names: tuple[str, ...]
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    is_distinct: bool = False
    groups: Groups | None = None

    def at_most(self, rows: int) -> Self:
        """Return the plan with a limit for the rows of each shard, one above `rows`. Groups in parts have none."""
        if self.limit is not None or self.groups is not None:
            return self
        return replace(self, statement=self.statement.limit(self.offset + rows + 1))

    @property
    def width(self) -> int:
        """The number of columns of the result."""
        return len(self.names)
