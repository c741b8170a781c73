"""TaskTransactions: the tasks of a database as statements for a transaction of the caller.

Promises: the statements are pure, and count under the same rules as the calls of `TaskStore`. Every call is good from
any thread.
Refuses: to commit. The transaction of the caller decides whether a statement counts.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from apportion.errors.brief import brief
from apportion.stores.task_values import Receipt


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatement:
    """A statement with values named as in `:name`."""

    sql: str
    values: Mapping[str, str]


class TaskTransactions(Protocol):
    """The tasks of one database, for statements on connections of its own libraries.

    Every call raises `NotPromised` for a store without a database.
    """

    def begin(self) -> AbstractContextManager[Any]:
        """Open a connection of the database's own library for a handler, in a transaction that the block ends.

        The block commits, or rolls back if it raises.
        """

    def completion(self, receipt: Receipt) -> TaskStatement:
        """Return the statement that completes a claim. It returns a row if the receipt is that of the open claim."""
