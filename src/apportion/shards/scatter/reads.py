"""Reads: transactions that each read one shard, and the rows that the statement of a scatter has there.

A transaction that only reads begins on every shard, and reads the slot rows. When all have done so, it is known which
shard answers for which slot. While a shard has rows of other slots, as a move leaves and brings them, its statement
leaves these rows out.

Promises: a shard reads from one snapshot. Objects that were read belong to no session at the end.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Engine, Table, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from apportion.errors import TimedOut
from apportion.shards.pin import Fence
from apportion.shards.scatter.order import Row
from apportion.shards.scatter.owned_rows import without
from apportion.shards.scatter.plan import ScatterPlan
from apportion.shards.slot_rows import SlotState

_PAGE_ROWS = 32


class ShardRead:
    """A transaction that reads one shard. `seconds` is the time that the statements of a scatter took."""

    def __init__(self, shard: str, engine: Callable[[str], tuple[Engine, Fence]], timeout: float | None = None) -> None:
        self.shard: str = shard
        self.states: Mapping[int, SlotState] = {}
        self.rows: Iterator[Row] = iter(())
        self.seconds: float = 0.0
        self._engine, self._timeout, self._ends_at = engine, timeout, inf
        self._connection: Any = None
        self._fence: Any = None
        self._session: Any = None
        self._result: Any = None

    def begin(self) -> None:
        """Begin the transaction, and read the slot rows. `TimedOut` if the shard takes too long."""
        with self._timed():
            engine, self._fence = self._engine(self.shard)
            self._connection = engine.connect().execution_options(**self._fence.snapshot)
            self._connection.begin()
            if self._timeout is not None:
                self._ends_at = monotonic() + self._timeout
                self._fence.limit(self._connection, self._timeout)
            self.states = self._fence.states(self._connection)

    @property
    def connection(self) -> Connection:
        """The connection of the transaction, once it has begun."""
        found: Connection = self._connection
        return found

    def left_out(self, tables: Sequence[Table], owned: Collection[int]) -> tuple[int, ...]:
        """Return the slots that are not `owned`. Return none of them if the tables have no row of them here."""
        others = tuple(sorted(({*self.states} | self._fence.others(self._connection)) - {*owned}))
        return others if others and any(self._has_rows(table, others) for table in tables) else ()

    def execute(self, plan: ScatterPlan, tables: Sequence[Table], owned: Collection[int]) -> None:
        """Run the statement over the rows of owned slots. Its rows come in pages when they are asked for."""
        with self._timed():
            statement = plan.statement
            if others := self.left_out(tables, owned):
                statement = statement.options(without(others))
            self._session = Session(bind=self._connection, autoflush=False)
            self._result = self._session.execute(statement)
            self.rows = self._paged(self._result)

    def end(self) -> None:
        """End the transaction, if it has begun. An open result would keep a lock of a file."""
        if self._result is not None:
            self._result.close()
        if self._session is not None:
            self._session.expunge_all()
        if self._connection is not None:
            if self._timeout is not None and not self._connection.invalidated:
                self._fence.limit(self._connection, None)
            self._connection.close()

    def _has_rows(self, table: Table, slots: Sequence[int]) -> bool:
        found = select(table.c.slot).where(table.c.slot.in_(slots)).limit(1)
        return self._connection.execute(found).first() is not None

    def _paged(self, result: Any) -> Iterator[Row]:  # noqa: ANN401 - a result of SQLAlchemy
        while True:
            with self._timed():
                page = result.fetchmany(_PAGE_ROWS)
            if not page:
                return
            yield from page

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = monotonic()
        try:
            yield
        except DBAPIError as error:
            if monotonic() >= self._ends_at:
                raise TimedOut(f"the answer of shard {self.shard}", f"{self._timeout:g} s") from error
            raise
        finally:
            self.seconds += monotonic() - began
