"""Timed table: a sharded table with a column of time, by which PostgreSQL keeps its rows in partitions.

Promises: a model that PostgreSQL could not partition is refused when its class is made, on each kind of database. So a
set that begins on SQLite can go to PostgreSQL.
Refuses: a time outside of the primary key, unique lists of columns without the time, and foreign keys to a timed table.
Source: https://www.postgresql.org/docs/current/ddl-partitioning.html#DDL-PARTITIONING-DECLARATIVE-LIMITATIONS
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Date, DateTime, Index, MetaData, Table, UniqueConstraint
from sqlalchemy.orm import Mapper

from apportion.errors import InvalidInput, UnknownOption
from apportion.shards.periods.period import LENGTHS, PeriodLength

MOST_NAME_CHARACTERS = 44
"""The longest name of a timed table. PostgreSQL cuts names at 63, and a partition also names its first day."""

_TIMED = "apportion_timed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedTable:
    """A table, its column of time, and the length of its periods."""

    name: str
    column: str
    length: PeriodLength


def take_time(mapper: Mapper[Any], table: Table) -> None:
    """Note the column of time of a model, if it names one, and let PostgreSQL make the table in partitions."""
    model = mapper.class_
    time, length = getattr(model, "__shard_time__", None), getattr(model, "__shard_period__", None)
    if time is None and length is None:
        return
    if time is None or length is None:
        found = f"{model.__name__} with time {time!r} and period {length!r}"
        hint = 'Write __shard_time__ = "created_at" and __shard_period__ = "month".'
        raise InvalidInput("model", found, "both a time and a period, or none", hint)
    if length not in LENGTHS:
        raise UnknownOption("period of a table", length, LENGTHS)
    if time not in mapper.columns:
        hint = "Name a mapped attribute."
        raise InvalidInput("attribute", time, f"one that {model.__name__} maps", hint)
    column = mapper.columns[time]
    if not isinstance(column.type, (Date, DateTime)):
        hint = "Use DateTime(timezone=True)."
        raise InvalidInput(f"type of {table.name}.{column.name}", f"{column.type!r}", "DateTime or Date", hint)
    if column.name not in table.primary_key.columns:
        found, hint = ", ".join(each.name for each in table.primary_key.columns), "Add primary_key=True to the time."
        raise InvalidInput(f"primary key of {table.name}", found, f"one with {column.name}, its time", hint)
    if len(table.fullname) > MOST_NAME_CHARACTERS:
        expected = f"at most {MOST_NAME_CHARACTERS} characters"
        raise InvalidInput("name of a table with a time", table.fullname, expected, "Give it a shorter name.")
    table.info[_TIMED] = TimedTable(name=table.fullname, column=column.name, length=length)
    quoted = column.name.replace('"', '""')
    table.dialect_options["postgresql"]["partition_by"] = f'RANGE ("{quoted}")'


def timed_of(table: Table) -> TimedTable | None:
    """Return the time of a table. None for a table without one."""
    found: TimedTable | None = table.info.get(_TIMED)
    return found


def timed_in(metadata: MetaData) -> tuple[TimedTable, ...]:
    """Return the timed tables of a metadata, in the order of their names."""
    found = [made for table in metadata.tables.values() if (made := timed_of(table)) is not None]
    return tuple(sorted(found, key=lambda each: each.name))


def check_times(metadata: MetaData) -> None:
    """Refuse unique lists of columns without the time of their table, and foreign keys to a timed table."""
    for table in metadata.tables.values():
        timed = timed_of(table)
        for columns in () if timed is None else _uniques(table):
            if timed is not None and timed.column not in columns:
                found, hint = ", ".join(sorted(columns)), "A table with a time is unique within its partitions only."
                raise InvalidInput(f"unique list of {table.name}", found, f"one with {timed.column}, its time", hint)
        for constraint in table.foreign_key_constraints:
            if timed_of(constraint.referred_table) is not None:
                found = f"a foreign key to {constraint.referred_table.name}, a table that drops rows by time"
                hint = "Drop the foreign key, and give this table the shard key and a time of its own."
                raise InvalidInput(f"table {table.name}", found, "none to a table with a time", hint)


def _uniques(table: Table) -> Iterator[set[str]]:
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield {each.name for each in constraint.columns}
    for index in table.indexes:
        if isinstance(index, Index) and index.unique:
            yield {each.name for each in index.columns}
