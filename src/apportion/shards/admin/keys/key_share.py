"""Key share: the rows of a slot that get another slot, with the condition by which each table finds them.

Promises: before a row changes, each key of the slot is compared. The database and a router must take the same rows.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy import Connection, Dialect, literal_column, select
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.shards.admin.carrier import Carrier
from apportion.shards.pins.isolated_key import IsolatedKey, KeyCondition
from apportion.shards.place import DatabasePlace
from apportion.shards.slots import ShardKey
from apportion.shards.takeover.sharded_table import ShardedTable, sharded_in_order
from apportion.shards.takeover.takeover import within

Conditions: TypeAlias = Callable[[Sequence[ShardedTable], Dialect], tuple[KeyCondition, ...]]
"""Returns the condition of each table, in the words of a database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShare:
    """The conditions for some rows of a slot, and the number of these rows on a shard."""

    conditions: tuple[KeyCondition, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedShare:
    """The rows to count: the shard and the slot, the conditions, and whether a key is one of theirs."""

    shard: str
    slot: int
    conditions: Conditions
    has: Callable[[ShardKey], bool]


async def share_of(carrier: Carrier, base: type[DeclarativeBase], asked: AskedShare) -> KeyShare:
    """Return the conditions for rows, and count them. O(rows of the slot).

    `InvalidInput` if the database takes other rows than a router does.
    """
    return await asyncio.to_thread(_counted, carrier, base, asked)


def _counted(carrier: Carrier, base: type[DeclarativeBase], asked: AskedShare) -> KeyShare:
    tables = sharded_in_order(base)
    with DatabasePlace(carrier.followed.shards[asked.shard].address()).reader() as reader:
        conditions = asked.conditions(tables, reader.dialect)
        return within(reader, asked.shard, partial(_share, tables=tables, conditions=conditions, asked=asked))


def _share(
    connection: Connection, tables: Sequence[ShardedTable], conditions: tuple[KeyCondition, ...], asked: AskedShare
) -> KeyShare:
    isolated, count = IsolatedKey(key=b"", slot=asked.slot, conditions=conditions), 0
    for each in tables:
        condition: Any = literal_column(_condition(connection, isolated, tables, each.name))
        rows = each.bare.alias("kept")
        if each.key:
            values = [rows.c[name] for name in each.key]
            found = select(*values, condition).where(rows.c.slot == asked.slot).distinct()
            for *parts, is_found in connection.execute(found):
                _check_told(each, tuple(parts), asked, is_found=bool(is_found))
        counted: Any = select(literal_column("count(*)")).select_from(rows).where(condition)
        count += connection.execute(counted).scalar_one()
    return KeyShare(conditions=conditions, rows=count)


def _check_told(table: ShardedTable, parts: tuple[Any, ...], asked: AskedShare, *, is_found: bool) -> None:
    """Raise `InvalidInput` if the database takes other rows for those of the keys than a router does."""
    if asked.has(parts if len(parts) > 1 else parts[0]) != is_found:
        hint = "Store the shard key as text, as an integer or as a UUID, each value in one form."
        expected = "one that the database compares as a router does"
        raise InvalidInput(f"shard key {', '.join(table.key)} of {table.name}", parts, expected, hint)


def _condition(connection: Connection, isolated: IsolatedKey, tables: Sequence[ShardedTable], name: str) -> str:
    """Return the condition of a table in the words of its database, with its colons kept from SQLAlchemy."""
    if connection.dialect.name == "sqlite":
        from apportion.shards.sqlite.key_rows import condition  # noqa: PLC0415 - one kind of database is there

        return condition(isolated, name, isolated.slot)
    from apportion.shards.postgres.moving_rows import key_condition  # noqa: PLC0415 - needs the driver

    quote = connection.dialect.identifier_preparer
    names = {each.name: quote.format_table(each.mapped) for each in tables}
    return key_condition(isolated.line_of(name), isolated.slot, names)
