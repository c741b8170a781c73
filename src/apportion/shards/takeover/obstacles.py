"""Obstacles: all tables of the models or the database that cannot move, and all rules that hold on one shard only.

Promises: an obstacle is found before anything is changed, and names the next step. Only a generated slot stops a set of
one shard. Primary keys that the database gives out, without a stride, stop a set of two shards.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, ForeignKeyConstraint, Index, Integer, Table, UniqueConstraint, inspect
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.shards.models import Reference
from apportion.shards.takeover.sharded_table import ShardedTable, sharded_in_order

ObstacleKind: TypeAlias = Literal["unique", "given-out", "undeclared", "foreign-key", "generated-slot"]
_OWN = ("apportion_", "sqlite_", "alembic_version")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One obstacle: its kind, the table, what is found, and the next step."""

    kind: ObstacleKind
    table: str
    found: str
    advice: str


def obstacles_of(base: type[DeclarativeBase]) -> tuple[Obstacle, ...]:
    """Return the obstacles in the models of a base, table by table. No database is read."""
    tables = sharded_in_order(base)
    group = {each.name: each for each in tables}
    references = _references(base)
    found = [obstacle for table in tables for obstacle in _of_table(table, group, references)]
    others = base.metadata.tables.keys() - group.keys() - references
    return (*found, *map(_undeclared, sorted(others)))


def obstacles_in(connection: Connection, base: type[DeclarativeBase]) -> tuple[Obstacle, ...]:
    """Return the obstacles in the models, and those in a database: other tables, and generated slots."""
    inspector = inspect(connection)
    there = [name for name in inspector.get_table_names() if not name.startswith(_OWN)]
    unknown = [name for name in sorted(there) if name not in base.metadata.tables]
    sharded = [each.name for each in sharded_in_order(base) if each.name in there]
    columns = {name: inspector.get_columns(name) for name in sharded}
    generated = [
        name for name, each in columns.items() if any(one["name"] == "slot" and one.get("computed") for one in each)
    ]
    return (*obstacles_of(base), *map(_undeclared, unknown), *map(_generated, generated))


def check_numbers(base: type[DeclarativeBase]) -> None:
    """Refuse models with a primary key that two shards would both give out."""
    for each in obstacles_of(base):
        if each.kind == "given-out":
            raise InvalidInput(f"model of {each.table}", each.found, "keys that no two shards give out", each.advice)


def check_slots(connection: Connection, base: type[DeclarativeBase]) -> None:
    """Refuse a generated column slot, in the models or in a database."""
    for each in obstacles_in(connection, base):
        if each.kind == "generated-slot":
            raise InvalidInput(f"table {each.table}", each.found, "a plain column slot, or none", each.advice)


def _of_table(table: ShardedTable, group: dict[str, ShardedTable], references: set[str]) -> Iterator[Obstacle]:
    key = {*table.key} if table.parent is None else {table.parent.column}
    mapped = table.mapped
    for columns in _uniques(mapped):
        if "slot" not in columns and not key <= columns:
            named = ", ".join(sorted(columns))
            advice = "It holds within each shard only. Add the shard key to it, or check it elsewhere."
            yield Obstacle(kind="unique", table=table.name, found=f"unique ({named})", advice=advice)
    given = mapped.autoincrement_column
    if given is not None and isinstance(given.type, Integer):
        advice = "Two shards would give out the same number. Use UUIDs, or a stride on PostgreSQL: --stride"
        yield Obstacle(kind="given-out", table=table.name, found=f"the database gives out {given.name}", advice=advice)
    if mapped.c.slot.computed is not None:
        yield _generated(table.name)
    for constraint in mapped.foreign_key_constraints:
        if not _stays_in_group(table, constraint, group, references):
            target = constraint.referred_table.name
            named = ", ".join(constraint.column_keys)
            advice = f"A row and its row of {target} may lie on two shards. Name the parent, or drop the foreign key."
            yield Obstacle(kind="foreign-key", table=table.name, found=f"({named}) names {target}", advice=advice)


def _stays_in_group(
    table: ShardedTable, constraint: ForeignKeyConstraint, group: dict[str, ShardedTable], references: set[str]
) -> bool:
    """Whether a row of the table and the row that its foreign key names always lie on one shard."""
    target = constraint.referred_table.name
    if target in references:
        return True
    if table.parent is not None and table.parent.column in constraint.column_keys:
        return target == table.parent.table
    named = {element.parent.name: element.column.name for element in constraint.elements}
    other = group.get(target)
    return "slot" in named or (
        other is not None and bool(other.key) and tuple(named.get(each) for each in table.key) == other.key
    )


def _uniques(mapped: Table) -> Iterator[set[str]]:
    for constraint in mapped.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield {each.name for each in constraint.columns}
    for index in mapped.indexes:
        if isinstance(index, Index) and index.unique:
            yield {each.name for each in index.columns}


def _references(base: type[DeclarativeBase]) -> set[str]:
    mappers = [each for each in base.registry.mappers if issubclass(each.class_, Reference)]
    return {each.local_table.name for each in mappers if isinstance(each.local_table, Table)}


def _undeclared(name: str) -> Obstacle:
    advice = "Its rows stay on one shard. Declare it as shards.Sharded or shards.Reference, or keep it elsewhere."
    return Obstacle(kind="undeclared", table=name, found="neither sharded nor a reference", advice=advice)


def _generated(name: str) -> Obstacle:
    advice = "Sessions write the slot of each row, so it cannot be generated. Drop the column: init adds a plain one."
    return Obstacle(kind="generated-slot", table=name, found="slot is a generated column", advice=advice)
