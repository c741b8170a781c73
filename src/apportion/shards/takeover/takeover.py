"""Takeover: a database with rows becomes a shard, in short transactions, while programs write to it.

    begin    the columns of the slots are added, and triggers that empty the slot of a row that changes
    fill     the rows get their slots, a chunk at a time
    index    each table gets a unique index over (slot, primary key)
    end      one transaction fills the rows that came meanwhile, and makes the database a shard

Promises: the same call again resumes a call that was cut off anywhere. Before the end, programs that know no slots go
on as before. After the end, each row has its slot.
Refuses: rows that cannot get a slot, before anything is changed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import BadSnapshot, InvalidInput, StoreUnavailable
from apportion.errors.brief import brief
from apportion.shards.lost_table import next_step
from apportion.shards.schema import check_models_on
from apportion.shards.takeover.rows import CHUNK_ROWS, Place, Tables
from apportion.shards.takeover.sharded_table import ShardedTable, sharded_in_order

Result = TypeVar("Result")

_BEGIN: Place | None = None
_READ_ONLY = "25006"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverProgress:
    """The progress of a takeover. `rows` counts the rows of a table that got a slot, of `total` rows without one."""

    shard: str
    table: str
    rows: int
    total: int


class TakeoverStatements(Protocol):
    """The part of a takeover that depends on the dialect. Each call may be made again."""

    def begin(self, connection: Connection, tables: Tables) -> None:
        """Add the columns, and the triggers that keep them right. Parts that exist already stay."""

    def index(self, engine: Engine, table: ShardedTable) -> None:
        """Make the unique index over (slot, primary key)."""

    def lock(self, connection: Connection, tables: Tables) -> None:
        """Make writers wait until the end of the transaction."""

    def seal(self, engine: Engine, tables: Tables) -> None:
        """Do the last step, after the database has become a shard."""

    def end(self, connection: Connection, tables: Tables) -> None:
        """Replace the triggers of the takeover by those of a shard. By now each row has a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """One database that becomes the shard `shard`. `tables` are its existing tables. `reader` takes no lock."""

    shard: str
    engine: Engine
    reader: Engine
    base: type[DeclarativeBase]
    tables: Tables
    statements: TakeoverStatements
    told: Callable[[TakeoverProgress], None]

    async def run(self, end: Callable[[Connection], None]) -> None:
        """Take the tables over. `end` makes the database a shard, in the last transaction."""
        await asyncio.to_thread(within, self.reader, self.shard, self._check)
        await self._within(lambda connection: self.statements.begin(connection, self.tables))
        for table in self.tables.each:
            await self._filled(table)
        for table in self.tables.each:
            await asyncio.to_thread(reached, self.shard, partial(self.statements.index, self.reader, table))
        for table in self.tables.each:
            await self._filled(table)
        await self._within(lambda connection: self._end(connection, end))
        await asyncio.to_thread(reached, self.shard, partial(self.statements.seal, self.engine, self.tables))

    def _check(self, connection: Connection) -> None:
        check_models_on(connection, self.shard, self.base, is_taken=False)
        for table in self.tables.each:
            self.tables.check(connection, table)

    async def _filled(self, table: ShardedTable) -> None:
        """Fill the slots of a table, until a walk over it fills less than one chunk.

        Half of the time is left to writers.
        """
        left = partial(self.tables.without_slot, table=table)
        total = await asyncio.to_thread(within, self.reader, self.shard, left)
        done, walked = 0, CHUNK_ROWS
        while walked >= CHUNK_ROWS:
            walked, after = 0, _BEGIN
            while True:
                began = monotonic()
                count, after = await self._chunk(table, after)
                walked, done = walked + count, done + count
                if count:
                    self.told(TakeoverProgress(shard=self.shard, table=table.name, rows=done, total=max(done, total)))
                if count < CHUNK_ROWS:
                    break
                await asyncio.sleep(monotonic() - began)

    async def _chunk(self, table: ShardedTable, after: Place | None) -> tuple[int, Place | None]:
        return await self._within(lambda connection: self.tables.fill(connection, table, after))

    def _end(self, connection: Connection, end: Callable[[Connection], None]) -> None:
        self.statements.lock(connection, self.tables)
        for table in self.tables.each:
            while self.tables.fill(connection, table)[0]:
                pass
            if left := self.tables.without_slot(connection, table):
                hint = "Rows without a parent came meanwhile. Delete or mend them, and make the same call again."
                raise InvalidInput(f"rows of {table.name} that cannot get a slot", left, "none", hint)
        self.statements.end(connection, self.tables)
        end(connection)

    async def _within(self, act: Callable[[Connection], Result]) -> Result:
        return await asyncio.to_thread(within, self.engine, self.shard, act)


def tables_there(connection: Connection, base: type[DeclarativeBase], slots: int) -> Tables:
    """Return the sharded tables of a base that a database has already."""
    there = set(inspect(connection).get_table_names())
    found = tuple(each for each in sharded_in_order(base) if each.name in there)
    for each in found:
        if each.parent is not None and each.parent.table not in there:
            hint = f"A row of {each.name} gets the slot of its parent."
            raise InvalidInput(f"table {each.parent.table}", None, f"the table of the parents of {each.name}", hint)
    return Tables(each=found, slots=slots)


def within(engine: Engine, shard: str, act: Callable[[Connection], Result]) -> Result:
    """Do an act in one transaction. `StoreUnavailable` if the database cannot do it now."""

    def _done() -> Result:
        with engine.begin() as connection:
            return act(connection)

    return reached(shard, _done)


def reached(shard: str, act: Callable[[], Result]) -> Result:
    """Do an act on a database. `StoreUnavailable` if the database cannot do it now. `InvalidInput` for a standby."""
    try:
        return act()
    except DatabaseError as error:
        if getattr(error.orig, "sqlstate", None) == _READ_ONLY:
            hint = "Name the URL of the primary. If it is the primary, look at default_transaction_read_only."
            raise InvalidInput(f"server of shard {shard}", "one that takes no writes", "the primary", hint) from error
        if type(error) not in (DatabaseError, OperationalError):
            raise  # an error of a statement, which no wait can mend
        if step := next_step(f"{error.orig}"):
            found = f"{error.orig}"
            raise BadSnapshot(f"tables of shard {shard}", found, "those that apportion makes", step) from error
        hint = "Check the locks, the disk and the rights of the database. Then run the same call again to go on."
        raise StoreUnavailable(f"database of shard {shard}", str(error.orig).strip(), hint) from error
