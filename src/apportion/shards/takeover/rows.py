"""Rows of a takeover: fills the slots of rows without one, in chunks, and finds rows with a wrong slot.

Promises: a chunk changes the slot alone. Its rows are read and written in one transaction.
Refuses (`InvalidInput`): rows that cannot get a slot, because their key has no hash, or their parent is absent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, inspect, select, update

from apportion.errors import InvalidInput
from apportion.shards.slots import ShardKey, SlotTable, hash_slot, shard_key_bytes
from apportion.shards.takeover.sharded_table import ShardedTable

CHUNK_ROWS = 500
"""The rows of one transaction, so that writers wait for 20 ms at most."""

_READ_ROWS = 1000

Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The sharded tables of a database, parents first, and the number of hash slots of the set.

    `table` is the table of a set that was made. It knows the keys with slots of their own, and the ranges.
    """

    each: tuple[ShardedTable, ...]
    slots: int
    table: SlotTable | None = None

    def parent_of(self, child: ShardedTable) -> ShardedTable:
        """Return the table of a child's parents. For a table with a shard key, return the table itself."""
        return next((each for each in self.each if child.parent and each.name == child.parent.table), child)

    def fill(self, connection: Connection, table: ShardedTable, after: Place | None = None) -> tuple[int, Place | None]:
        """Set the slots of the next rows without one. Return their number, and the primary key of the last row."""
        width = len(table.primary_key)
        # The query locks these rows and their parents, so no writer changes a key.
        found = [(tuple(row[:width]), row[width:]) for row in connection.execute(self._unfilled(table, after))]
        if not found:
            return 0, None
        chosen = [{f"p{n}": part for n, part in enumerate(place)} for place, _ in found]
        conditions = [column == bindparam(f"p{n}") for n, column in enumerate(table.columns(table.primary_key))]
        statement = update(table.bare).where(*conditions).values(slot=bindparam("s"))
        slots = [self._slot(table, rest) for _, rest in found]
        connection.execute(statement, [{**place, "s": slot} for place, slot in zip(chosen, slots, strict=True)])
        return len(found), found[-1][0]

    def without_slot(self, connection: Connection, table: ShardedTable) -> int:
        """Return the number of rows without a slot."""
        statement = select(func.count()).select_from(table.bare).where(table.slot.is_(None))
        return connection.execute(statement).scalar_one()

    def wrong(
        self, connection: Connection, table: ShardedTable, *, among: Sequence[int] | None = None
    ) -> Iterator[Place]:
        """Yield the primary keys of rows with another slot than their key or their parent has.

        With `among`, read only the rows of these slots. Without it, read every row.
        """
        width = len(table.primary_key)
        parents = self.parent_of(table)
        deciding = [parents.slot] if table.parent else table.columns(table.key)
        statement = table.with_parent(parents.bare, *table.columns(table.primary_key), table.slot, *deciding)
        statement = statement.where(table.slot.is_not(None))
        if among is not None:
            statement = statement.where(table.slot.in_(among))
        for row in connection.execute(statement, execution_options={"yield_per": _READ_ROWS}):
            if row[width] != self._slot(table, row[width + 1 :]):
                yield tuple(row[:width])

    def keys(self, connection: Connection, table: ShardedTable) -> Iterator[tuple[Place, int, int]]:
        """Yield each value of the shard key with its slot and its number of rows. One query over the table."""
        columns = table.columns(table.key)
        statement = select(*columns, func.count()).select_from(table.bare).group_by(*columns)
        for *values, rows in connection.execute(statement, execution_options={"yield_per": _READ_ROWS}):
            yield tuple(values), slot_of(table, tuple(values), self.slots), rows

    def has_key(self, connection: Connection, slot: int, key: bytes) -> bool:
        """Whether a slot has a row with a shard key of these bytes. O(rows of the slot)."""
        for table in self.each:
            columns = table.columns(table.key)
            statement = select(*columns).where(table.slot == slot).distinct() if columns else None
            rows = () if statement is None else connection.execute(statement)
            if any(shard_key_bytes(_key(tuple(row))) == key for row in rows):
                return True
        return False

    def check(self, connection: Connection, table: ShardedTable) -> None:
        """Refuse rows that cannot get a slot, and rows that have a wrong slot already."""
        self._check_primary_key(connection, table)
        if table.parent:
            self._check_parents(connection, table)
        else:
            for _ in self.keys(connection, table):
                pass  # The walk itself refuses a key without a hash.
        family = (table, self.parent_of(table))
        if all(has_slot(connection, each) for each in family):
            self._check_slots(connection, table)

    def _check_slots(self, connection: Connection, table: ShardedTable) -> None:
        for place in self.wrong(connection, table):
            hint = "If the column slot belongs to the application, rename it. If not, set its values to NULL."
            expected = "the slot of its key, or NULL"
            raise InvalidInput(f"slot of the row {_shown(place)} of {table.name}", "another value", expected, hint)

    def _check_primary_key(self, connection: Connection, table: ShardedTable) -> None:
        for column in table.columns(table.primary_key):
            empty = select(func.count()).select_from(table.bare).where(column.is_(None))
            found = connection.execute(empty).scalar_one()
            if found:
                expected = "a primary key in each row"
                raise InvalidInput(f"rows of {table.name} without {column.key}", found, expected, "Set it, and retry.")

    def _check_parents(self, connection: Connection, table: ShardedTable) -> None:
        parent = self.parent_of(table)
        target = parent.bare.alias("parent")
        statement = table.with_parent(target, func.count(), is_outer=True)
        orphans = connection.execute(statement.where(target.c[parent.primary_key[0]].is_(None))).scalar_one()
        if orphans:
            field = f"rows of {table.name} without a row of {parent.name}"
            hint = f"A row of {table.name} gets the slot of its parent. Delete these rows, or mend them."
            raise InvalidInput(field, orphans, "a parent for each row", hint)

    def _unfilled(self, table: ShardedTable, after: Place | None) -> Any:  # noqa: ANN401 - a statement
        parents = self.parent_of(table)
        deciding = [parents.slot] if table.parent else table.columns(table.key)
        statement = table.with_parent(parents.bare, *table.columns(table.primary_key), *deciding)
        statement = statement.where(table.slot.is_(None))
        if table.parent:
            statement = statement.where(parents.slot.is_not(None))
        if after is not None:
            statement = statement.where(table.after(after))
        return statement.order_by(*table.columns(table.primary_key)).limit(CHUNK_ROWS).with_for_update(key_share=True)

    def _slot(self, table: ShardedTable, deciding: Any) -> int:  # noqa: ANN401 - a part of a row
        if table.parent:
            return int(deciding[0])
        if self.table is not None:
            return self.table.slot(_key(tuple(deciding)))
        return slot_of(table, tuple(deciding), self.slots)


def has_slot(connection: Connection, table: ShardedTable) -> bool:
    """Whether a table has a column `slot` already."""
    return "slot" in {each["name"] for each in inspect(connection).get_columns(table.name)}


def slot_of(table: ShardedTable, values: Place, slots: int) -> int:
    """Return the slot of the values of a shard key. `InvalidInput` names the table and its columns."""
    try:
        return hash_slot(_key(values), slots)
    except InvalidInput as error:
        error.within(f"shard key {', '.join(table.key)} of {table.name}")
        raise


def _key(values: Place) -> ShardKey:
    key: ShardKey = values if len(values) > 1 else values[0]
    return key


def _shown(place: Place) -> str:
    return ", ".join(map(str, place))
