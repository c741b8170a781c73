"""References: the rows of reference tables, equal on every shard. A new shard gets them from another shard.

Values of SQLite are read and written as the file has them, without the types of the models.

Promises: all rows of all tables come from one snapshot, and are written in one transaction.
Refuses (`Unequal`): a table with rows that differ from the rows of the other shard. Nobody can say which rows are
right.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, column, select
from sqlalchemy import table as bare_table
from sqlalchemy.orm import DeclarativeBase
from xxhash import xxh3_128_digest

from apportion.errors import Unequal
from apportion.shards.models import Reference
from apportion.shards.place import DatabasePlace
from apportion.shards.records import ShardRecord
from apportion.shards.takeover.takeover import reached

_BATCH = 1_000
_SHOWN = 8

Shown = tuple[str, ShardRecord]
"""A shard: its id, and its record."""


def reference_tables(base: type[DeclarativeBase]) -> list[Table]:
    """Return the reference tables of a base, parents before their children."""
    mappers = [each for each in base.registry.mappers if issubclass(each.class_, Reference)]
    wanted = {each.local_table for each in mappers}
    return [each for each in base.metadata.sorted_tables if each in wanted]


def copy_references(source: Shown, target: Shown, base: type[DeclarativeBase]) -> None:
    """Copy the rows of reference tables to a shard. A table that has rows there already must have equal rows."""
    if tables := reference_tables(base):
        reached(target[0], partial(_copied, source, target, tables))


def compare_references(
    connections: Mapping[str, Connection], base: type[DeclarativeBase], fault: Callable[[str], None]
) -> int:
    """Report each row of a reference table that is not the same on all shards. Return the number of rows. O(rows)."""
    (first, connection), *others = sorted(connections.items())
    is_raw = _is_raw(*connections.values())
    count = 0
    for table in reference_tables(base):
        wanted = _digests(connection, table, is_raw=is_raw)
        count += len(wanted)
        for shard, other in others:
            for key in _differing(wanted, _digests(other, table, is_raw=is_raw)):
                fault(f"{table.name} {key} is not the same on shard {first} and on shard {shard}")
    return count


def _copied(source: Shown, target: Shown, tables: list[Table]) -> None:
    with _snapshot(source[1]) as read, DatabasePlace(target[1].address()).engine() as engine, engine.begin() as write:
        is_raw = _is_raw(read, write)
        for table in tables:
            columns = _columns(table, is_raw=is_raw)
            if write.execute(select(*columns.values()).limit(1)).first() is None:
                _insert(read, write, columns)
            elif rows := _differing(*(_digests(each, table, is_raw=is_raw) for each in (read, write))):
                hint = f"Nothing was copied. Let the table be empty on {target[0]}, or equal on both."
                raise Unequal(table.name, rows[: _SHOWN + 1], f"differs on shard {source[0]} and {target[0]}", hint)


def _insert(read: Connection, write: Connection, columns: Mapping[str, Any]) -> None:
    into = next(iter(columns.values())).table
    found = read.execution_options(yield_per=_BATCH).execute(select(*columns.values()))
    for rows in found.partitions():
        write.execute(into.insert(), [dict(zip(columns, row, strict=True)) for row in rows])


@contextmanager
def _snapshot(record: ShardRecord) -> Iterator[Connection]:
    """Begin a transaction that reads all tables from one snapshot."""
    place = DatabasePlace(record.address())
    fence = place.fence
    with place.engine() as engine, engine.connect() as connection:
        reading = connection.execution_options(**fence.snapshot)
        with reading.begin():
            yield reading


def _is_raw(*connections: Connection) -> bool:
    return all(each.dialect.name == "sqlite" for each in connections)


def _columns(table: Table, *, is_raw: bool) -> dict[str, ColumnElement[Any]]:
    """Return the columns that are not computed, with the types of the model or, if `is_raw`, without types."""
    names = [each.name for each in table.columns if each.computed is None]
    made: Any = bare_table(table.name, *map(column, names), schema=table.schema) if is_raw else table
    return {name: made.c[name] for name in names}


def _digests(connection: Connection, table: Table, *, is_raw: bool) -> dict[str, bytes]:
    """Return a digest of each row, by its primary key."""
    columns = _columns(table, is_raw=is_raw)
    width = len(table.primary_key.columns)
    key = [columns[each.name] for each in table.primary_key.columns]
    rows = connection.execute(select(*key, *columns.values()), execution_options={"yield_per": _BATCH})
    return {repr(tuple(row[:width])): xxh3_128_digest(repr(tuple(row[width:])).encode()) for row in rows}


def _differing(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    return [key for key in sorted(first.keys() | second.keys()) if first.get(key) != second.get(key)]
