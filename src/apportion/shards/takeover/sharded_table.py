"""Sharded table: a table of the models in the form that statements need, without defaults of the application.

A statement on the mapped table would run the `onupdate` functions of its columns. But a takeover must change the slot
alone.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, TableClause, column, select, table, tuple_
from sqlalchemy.orm import DeclarativeBase, Mapper
from sqlalchemy.sql.selectable import NamedFromClause

from apportion.shards.models import RowRule, Sharded, rule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentColumn:
    """The column of a child that names its parent, and the table and the column of the parent."""

    column: str
    table: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedTable:
    """One sharded table: its primary key, and the columns of its shard key or, for a child, its parent."""

    mapped: Table
    bare: TableClause
    primary_key: tuple[str, ...]
    key: tuple[str, ...] = ()
    parent: ParentColumn | None = None

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.mapped.name

    @property
    def slot(self) -> ColumnElement[Any]:
        """The column of the slot."""
        (slot,) = self.columns(("slot",))
        return slot

    def columns(self, names: tuple[str, ...]) -> list[ColumnElement[Any]]:
        """Return columns by name."""
        return [self.bare.c[name] for name in names]

    def after(self, last: tuple[Any, ...]) -> ColumnElement[bool]:
        """Return the condition for rows with a greater primary key."""
        columns = self.columns(self.primary_key)
        return columns[0] > last[0] if len(columns) == 1 else tuple_(*columns) > tuple_(*last)

    def with_parent(
        self, parents: NamedFromClause[Any], *columns: ColumnElement[Any], is_outer: bool = False
    ) -> Select[Any]:
        """Return a query over a table. For a child, each row is joined with the row of its parent."""
        if self.parent is None:
            return select(*columns).select_from(self.bare)
        condition = parents.c[self.parent.target] == self.bare.c[self.parent.column]
        return select(*columns).select_from(self.bare.join(parents, condition, isouter=is_outer))


def sharded_in_order(base: type[DeclarativeBase]) -> tuple[ShardedTable, ...]:
    """Return the sharded tables of a base, each parent before its children."""
    models = [mapper for mapper in base.registry.mappers if issubclass(mapper.class_, Sharded)]
    found = {made.name: made for mapper in models if mapper.inherits is None and (made := _of(mapper)) is not None}
    order: list[str] = []
    for name in sorted(found):
        line = [name]
        while (parent := found[line[-1]].parent) is not None and parent.table in found and parent.table not in line:
            line.append(parent.table)
        order += [each for each in reversed(line) if each not in order]
    return tuple(found[name] for name in order)


def _of(mapper: Mapper[Any]) -> ShardedTable | None:
    mapped = mapper.local_table
    if not isinstance(mapped, Table):
        return None
    rule = rule_of(mapper.class_)
    columns: list[Any] = [column(each.name, each.type) for each in mapped.columns]
    return ShardedTable(
        mapped=mapped,
        bare=table(mapped.name, *columns, schema=mapped.schema),
        primary_key=tuple(each.name for each in mapped.primary_key.columns),
        key=tuple(mapper.columns[name].name for name in rule.key),
        parent=_parent(mapper, rule) if rule.parent else None,
    )


def _parent(mapper: Mapper[Any], rule: RowRule) -> ParentColumn:
    named = mapper.columns[rule.parent]
    target = next(iter(named.foreign_keys)).column  # each foreign key of this column names the parent
    return ParentColumn(column=named.name, table=target.table.name, target=target.name)
