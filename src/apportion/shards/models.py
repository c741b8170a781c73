"""Models of a set: a sharded table has the slot of each row, and a reference table is equal on every shard.

`Sharded` adds a column `slot` and a unique index over (slot, primary key). A child without the shard key names its own
column with the foreign key to the parent. With a foreign key (slot, parent), the database itself compares the two
slots.

Promises: a model says how its rows find their slot. If it does not, the class statement raises.
Source: https://docs.sqlalchemy.org/en/20/orm/declarative_mixins.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlalchemy import ForeignKeyConstraint, Index, MetaData, SmallInteger, Table, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Mapper, mapped_column

from apportion.errors import InvalidInput
from apportion.model.plan import Key
from apportion.shards.periods.period import PeriodLength
from apportion.shards.periods.timed_table import check_times, take_time
from apportion.shards.slots import ShardKey


class Sharded:
    """A table with its rows spread over the shards of a set.

    `__shard_key__` names the attribute that decides the slot by its value, or is a tuple of several names. A child
    without a shard key names the attribute of its foreign key in `__shard_parent__`.

    With `__shard_time__`, the attribute of a time in the primary key, old rows can leave by whole periods of the length
    `__shard_period__`: "day", "week", "month" or "year".
    """

    __shard_key__: ClassVar[str | tuple[str, ...]]
    __shard_parent__: ClassVar[str]
    __shard_time__: ClassVar[str]
    __shard_period__: ClassVar[PeriodLength]

    slot: Mapped[int] = mapped_column(SmallInteger, nullable=False)


class Reference:
    """A table that is equal on every shard, and that pinned sessions only read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """The rule by which a row finds its slot: the attributes of its shard key, or the column that names its parent."""

    key: tuple[str, ...] = ()
    parent: str = ""

    @property
    def fixed(self) -> tuple[str, ...]:
        """The attributes that never change in a row."""
        return (*self.key, "slot")

    def key_of(self, values: Mapping[str, Any]) -> ShardKey:
        """Return the shard key among the values of a row. `InvalidInput` if a part of the key is missing."""
        for name in self.key:
            if values.get(name) is None:
                raise InvalidInput(name, None, "a value, because it decides the slot of the row", "Set it first.")
        found: tuple[Key, ...] = tuple(values[name] for name in self.key)
        return found if len(found) > 1 else found[0]


_KEY = "apportion_key"
_RULES: dict[type, RowRule] = {}


def rule_of(model: type) -> RowRule:
    """Return the rule of a mapped class of `Sharded`."""
    rule = _RULES.get(model)
    if rule is None:
        rule = _RULES[model] = _rule(model)
    return rule


def check_models(base: type[DeclarativeBase]) -> None:
    """Refuse a base without a sharded model, or with a model that does not say how its rows find their slot."""
    if not (isinstance(base, type) and issubclass(base, DeclarativeBase)):
        raise InvalidInput("base", base, "a subclass of sqlalchemy.orm.DeclarativeBase", "Pass the base of the models.")
    sharded = [mapper.class_ for mapper in base.registry.mappers if issubclass(mapper.class_, Sharded)]
    if not sharded:
        hint = "Write class Place(shards.Sharded, Base), with a __shard_key__."
        raise InvalidInput("base", base.__name__, "a declarative base with a model of Sharded", hint)
    for model in sharded:
        rule_of(model)
    check_times(base.metadata)


def tables_of(base: type[DeclarativeBase]) -> list[Table]:
    """Return the sharded tables of a base, in the order of their names."""
    models = [mapper for mapper in base.registry.mappers if issubclass(mapper.class_, Sharded)]
    tables = {table for mapper in models if isinstance(table := mapper.local_table, Table)}
    return sorted(tables, key=lambda table: table.fullname)


def sharded_in(metadata: MetaData) -> list[Table]:
    """Return the sharded tables of a metadata, in the order of their names."""
    return sorted((each for each in metadata.tables.values() if _KEY in each.info), key=lambda table: table.fullname)


def key_columns(table: Table) -> tuple[str, ...]:
    """Return the names of the columns of a table's shard key, () for a child."""
    found: tuple[str, ...] = table.info.get(_KEY, ())
    return found


def parent_of(table: Table) -> tuple[str, str, str] | None:
    """Return the column of a child that names its parent, the table of the parent, and the column there."""
    for key in table.foreign_key_constraints:
        if key.column_keys[0] == "slot":
            _, named = key.elements
            return named.parent.name, named.column.table.name, named.column.name
    return None


def _rule(model: type) -> RowRule:
    key, parent = getattr(model, "__shard_key__", None), getattr(model, "__shard_parent__", None)
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if bool(names) == bool(parent):
        found = f"{model.__name__} with shard key {key!r} and parent {parent!r}"
        hint = 'Write __shard_key__ = "country", or __shard_parent__ = "place_id".'
        raise InvalidInput("model", found, "either a shard key or a parent", hint)
    for name in (*names, *([parent] if parent else ())):
        if not hasattr(model, name):
            raise InvalidInput("attribute", name, f"one that {model.__name__} maps", "Name a mapped attribute.")
    return RowRule(key=names, parent=parent or "")


def _check_inherited(mapper: Mapper[Any], base: Mapper[Any]) -> None:
    """Refuse a model with a part of each row in another table. That part would have no slot, and would never move."""
    if mapper.local_table is not base.local_table:
        name, owner = mapper.class_.__name__, base.class_.__name__
        hint = f"Leave out the table of {name}, or make it a child with __shard_parent__ in place of a subclass."
        raise InvalidInput("model", name, f"a subclass with its rows in the table of {owner} alone", hint)


@event.listens_for(Sharded, "after_mapper_constructed", propagate=True)
def _complete(mapper: Mapper[Any], model: type) -> None:
    """Add the index over (slot, primary key) to the table of a model. A child also gets the foreign key."""
    table = mapper.local_table
    if mapper.inherits is not None:
        _check_inherited(mapper, mapper.inherits)
        return
    if not isinstance(table, Table):
        return
    rule = rule_of(model)
    table.info[_KEY] = tuple(mapper.columns[name].name for name in rule.key)
    Index(f"{table.name}_by_slot", table.c.slot, *table.primary_key.columns, unique=True)
    take_time(mapper, table)
    if rule.parent:
        column = mapper.columns[rule.parent]
        targets = [key.target_fullname for key in column.foreign_keys]
        if len(targets) != 1:
            expected = "one foreign key, to the primary key of the parent"
            raise InvalidInput(f"foreign keys of {table.name}.{column.name}", len(targets), expected, "Declare it.")
        owner = targets[0].rpartition(".")[0]
        table.append_constraint(ForeignKeyConstraint(["slot", column.name], [f"{owner}.slot", targets[0]]))
