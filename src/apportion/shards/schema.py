"""Schema: the tables of a set in one database. The module compares two shards, and the models with a shard.

Types are compared by the way in which the database stores values: in SQLite by the affinity of a column. The order of
columns does not count. In an SQLite file that had rows before, the column of the slot has no NOT NULL: triggers refuse
NULL there.

Promises: each difference is one sentence that names the table and the column.
Source: https://www.sqlite.org/datatype3.html#determination_of_column_affinity
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect, Index, Table, UniqueConstraint, inspect
from sqlalchemy.exc import CompileError
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import SchemaDiffers
from apportion.shards.models import Reference, Sharded

_AFFINITIES = (("INT", "integer"), ("CHAR", "text"), ("CLOB", "text"), ("TEXT", "text"), ("BLOB", "blob"))
_REALS = ("REAL", "FLOA", "DOUB")
_SLOT = "slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """A table: the type of each column, the columns without NULL, the primary key, and the unique constraints.

    `given` has the columns that get a value from the database.
    """

    types: Mapping[str, str]
    required: frozenset[str]
    given: frozenset[str]
    primary_key: tuple[str, ...]
    unique: frozenset[tuple[str, ...]]


Schema = Mapping[str, TableForm]


def schema_of(connection: Connection, base: type[DeclarativeBase]) -> Schema:
    """Return the sharded tables and the reference tables of a base in a database. Absent tables are left out."""
    inspector = inspect(connection)
    there = set(inspector.get_table_names())
    found = {}
    for table in _tables(base):
        if table.name not in there:
            continue
        columns = inspector.get_columns(table.name)
        key = tuple(inspector.get_pk_constraint(table.name)["constrained_columns"])
        indexes = [each for each in inspector.get_indexes(table.name) if each["unique"]]
        named: Any = [each["column_names"] for each in (*inspector.get_unique_constraints(table.name), *indexes)]
        found[table.name] = TableForm(
            types={each["name"]: _type(each["type"], connection.dialect) for each in columns},
            required=frozenset(each["name"] for each in columns if not each["nullable"]) - {_SLOT, *key},
            given=frozenset(each["name"] for each in columns if _is_given(each)),
            primary_key=key,
            unique=_uniques([tuple(filter(None, each)) for each in named]),
        )
    return found


def schema_of_models(base: type[DeclarativeBase], dialect: Dialect) -> Schema:
    """Return the sharded tables and the reference tables that a kind of database would make for a base."""
    found = {}
    for table in _tables(base):
        uniques = [each.columns for each in table.constraints if isinstance(each, UniqueConstraint)]
        uniques += [each.columns for each in table.indexes if isinstance(each, Index) and each.unique]
        key = tuple(each.name for each in table.primary_key.columns)
        found[table.name] = TableForm(
            types={each.name: _type(each.type, dialect) for each in table.columns},
            required=frozenset(each.name for each in table.columns if not each.nullable) - {_SLOT, *key},
            given=frozenset(each.name for each in table.columns if each.server_default or each.computed),
            primary_key=key,
            unique=_uniques([tuple(column.name for column in each) for each in uniques]),
        )
    return found


def check_models_on(connection: Connection, shard: str, base: type[DeclarativeBase], *, is_taken: bool = True) -> None:
    """Raise `SchemaDiffers` if a table of a shard cannot hold the rows of its model.

    If the database is not a shard yet (`is_taken` is False), an absent table or an absent column `slot` is no
    difference.
    """
    wanted, found = schema_of_models(base, connection.dialect), schema_of(connection, base)
    if differences := [*_unfit(wanted, found, is_taken=is_taken)]:
        raise SchemaDiffers("the models", f"shard {shard}", differences)


def check_equal(first: tuple[str, Schema], second: tuple[str, Schema]) -> None:
    """Raise `SchemaDiffers` if two shards have different tables. Each argument is an id and the tables of a shard."""
    if differences := [*schema_differences(first, second)]:
        raise SchemaDiffers(f"shard {first[0]}", f"shard {second[0]}", differences)


def schema_differences(first: tuple[str, Schema], second: tuple[str, Schema]) -> Iterator[str]:
    """Yield each difference between the tables of two shards. Each argument is an id and the tables of a shard."""
    for (_, ours), (shard, theirs) in ((first, second), (second, first)):
        for name, form in ours.items():
            other = theirs.get(name)
            if other is None:
                yield f"table {name} is absent in {shard}"
                continue
            yield from (
                f"{name}.{column} is absent in {shard}" for column in sorted(form.types.keys() - other.types.keys())
            )
            for columns in sorted(form.unique - other.unique):
                yield f"{name} is not unique over {', '.join(columns)} in {shard}"
            yield from (
                f"{name}.{column} may be NULL in {shard}"
                for column in sorted(form.required - other.required)
                if column in other.types
            )
    for name in sorted(first[1].keys() & second[1].keys()):
        yield from _unlike(name, first[1][name], second[1][name], second[0])


def affinity_of(declared: str) -> str:
    """Return the affinity of a column in SQLite, by the declared type of the column.

    >>> affinity_of("VARCHAR(20)"), affinity_of("BIGINT"), affinity_of("")
    ('text', 'integer', 'blob')
    """
    written = declared.upper()
    if not written:
        return "blob"
    real = "real" if any(mark in written for mark in _REALS) else "numeric"
    return next((affinity for mark, affinity in _AFFINITIES if mark in written), real)


def _unfit(wanted: Schema, found: Schema, *, is_taken: bool) -> Iterator[str]:
    for name, form in wanted.items():
        there = found.get(name)
        if there is None:
            if is_taken:
                yield f"table {name} is absent"
            continue
        absent = form.types.keys() - there.types.keys() - (set() if is_taken else {_SLOT})
        yield from (f"{name}.{column} is absent" for column in sorted(absent))
        for column in sorted(there.required - there.given - form.types.keys()):
            yield f"{name}.{column} needs a value that no model has"
        yield from _unlike(name, form, there, "the shard")


def _unlike(name: str, first: TableForm, second: TableForm, place: str) -> Iterator[str]:
    for column in sorted(first.types.keys() & second.types.keys()):
        if first.types[column] != second.types[column]:
            yield f"{name}.{column} is {second.types[column]} in {place}, not {first.types[column]}"
    if first.primary_key != second.primary_key:
        yield f"the primary key of {name} is {', '.join(second.primary_key) or 'absent'} in {place}"


def _tables(base: type[DeclarativeBase]) -> list[Table]:
    mappers = [each for each in base.registry.mappers if issubclass(each.class_, (Sharded, Reference))]
    tables = {each.local_table for each in mappers if isinstance(each.local_table, Table)}
    return sorted(tables, key=lambda table: table.name)


def _is_given(column: Any) -> bool:  # noqa: ANN401 - of the inspector
    return column.get("default") is not None or bool(column.get("computed"))


def _uniques(columns: Sequence[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(sorted(each)) for each in columns if _SLOT not in each)


def _type(kind: Any, dialect: Dialect) -> str:  # noqa: ANN401 - any type of SQLAlchemy
    try:
        written = kind.compile(dialect=dialect).upper()
    except CompileError:  # The type has no name in this dialect.
        written = ""
    return affinity_of(written) if dialect.name == "sqlite" else str(written)
