"""Co-location: whether the rows that a statement brings together lie on one shard.

Two rows lie together if they have equal slots, equal shard keys, the same parent, or the same primary key. Conditions
of WHERE and ON say so if AND joins them. `column IN (subquery)` counts as an equality.

Promises: a statement of which a shard would see only a part of the rows is refused.
Refuses: to guess from values. Rows that happen to lie together today may be apart tomorrow. Equality of columns says
nothing if their types or collations may call unlike values equal.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

from sqlalchemy import BinaryExpression, BindParameter, Column, Label, Table
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BooleanClauseList, Grouping

from apportion.shards.models import Reference, Sharded, rule_of
from apportion.shards.scatter.plain_values import exact_kind
from apportion.shards.scatter.refusal import refuse

Node: TypeAlias = tuple[object, object]
"""A column of a source, or a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingColumns:
    """The columns of a sharded table that decide where a row lies.

    - `key`: the columns of the shard key, () for a child.
    - `parent`: the column of a child that names its parent, and the table of the parent.
    - `primary`: the columns of the primary key.
    """

    key: tuple[str, ...]
    parent: str
    parent_table: str
    primary: tuple[str, ...]

    @property
    def deciding(self) -> tuple[tuple[str, ...], ...]:
        """The lists of columns that each decide the shard of a row."""
        own = self.key or (self.parent,)
        return (("slot",), own, self.primary)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTables:
    """The tables of a set: the sharded ones with the place of their rows, and the reference tables."""

    sharded: Mapping[Table, DecidingColumns]
    references: frozenset[Table]

    @classmethod
    def of(cls, base: type[DeclarativeBase]) -> "SetTables":
        """Read the models of a base."""
        sharded: dict[Table, DecidingColumns] = {}
        references = set()
        for mapper in base.registry.mappers:
            table = mapper.local_table
            if issubclass(mapper.class_, Sharded) and mapper.inherits is None and isinstance(table, Table):
                rule = rule_of(mapper.class_)
                column = mapper.columns[rule.parent] if rule.parent else None
                named = "" if column is None else next(iter(column.foreign_keys)).column.table.fullname
                sharded[table] = DecidingColumns(
                    key=tuple(mapper.columns[name].name for name in rule.key),
                    parent="" if column is None else column.name,
                    parent_table=named,
                    primary=tuple(each.name for each in table.primary_key.columns),
                )
            elif issubclass(mapper.class_, Reference) and isinstance(table, Table):
                references.add(table)
        return cls(sharded=sharded, references=frozenset(references))


@dataclass(slots=True)
class Sources:
    """The sources of a statement, and the columns that its conditions make equal.

    A row of the result may lack the row of an `optional` source, because of an outer join. NULL decides no shard.
    """

    tables: SetTables
    sharded: dict[object, DecidingColumns] = field(default_factory=dict)
    names: dict[object, str] = field(default_factory=dict)
    optional: set[object] = field(default_factory=set)
    seen: set[object] = field(default_factory=set)
    _ties: set[frozenset[object]] = field(default_factory=set)
    _parents: dict[Node, Node] = field(default_factory=dict)

    def add(self, source: object, table: Table) -> None:
        """Add a table, or an alias of one. The same source twice would be taken for one: `Unanswerable`."""
        if source in self.seen:
            refuse(f"it reads {table.fullname} twice: give one of them an alias")
        self.seen.add(source)
        self.names[source] = table.fullname
        if table in self.tables.sharded:
            self.sharded[source] = self.tables.sharded[table]

    def copied(self) -> "Sources":
        """Return a copy for a query within this one. Its conditions say nothing about the query around it."""
        return replace(
            self, sharded=dict(self.sharded), names=dict(self.names), optional=set(self.optional), seen=set(self.seen),
            _ties=set(self._ties), _parents=dict(self._parents),
        )  # fmt: skip

    def tie(self, sources: Sequence[object]) -> None:
        """Note that rows of sources lie together, though no columns are equal in each row: an outer join."""
        self._ties |= {frozenset(pair) for pair in pairwise(sources)}

    def equal(self, one: Any, two: Any) -> None:  # noqa: ANN401 - any expressions
        """Note that two expressions have equal values in each row, if they are columns or values of one kind."""
        here, there = node_of(one), node_of(two)
        if here is not None and there is not None and exact_kind(one.type) is exact_kind(two.type):
            self._parents[self._root(here)] = self._root(there)

    def note(self, conditions: Iterable[Any]) -> None:
        """Note the equalities among conditions that AND joins."""
        for each in conjuncts(conditions):
            if isinstance(each, BinaryExpression) and each.operator is operators.eq:
                self.equal(each.left, each.right)

    def is_connected(self, sources: Sequence[object]) -> bool:
        """Whether all rows of these sharded sources that one row of the result is made of lie on one shard."""
        left, reached = [*sources[1:]], [*sources[:1]]
        while reached:
            one = reached.pop()
            near = [each for each in left if self._are_together(one, each)]
            reached += near
            left = [each for each in left if each not in near]
        return not left

    def decides(self, columns: Iterable[Node | None]) -> bool:
        """Whether rows with equal values of these columns lie on one shard."""
        given = {self._root(each) for each in columns if each is not None and each[0] not in self.optional}
        return any(
            {self._root((source, name)) for name in names} <= given
            for source, deciding_columns in self.sharded.items()
            if source not in self.optional
            for names in deciding_columns.deciding
        )

    def _are_together(self, one: object, two: object) -> bool:
        if frozenset((one, two)) in self._ties:
            return True
        here, there = self.sharded[one], self.sharded[two]
        pairs: list[tuple[tuple[str, ...], tuple[str, ...]]] = [(("slot",), ("slot",))]
        if here.key and there.key:
            pairs.append((here.key, there.key))
        if here.parent and here.parent_table == there.parent_table:
            pairs.append(((here.parent,), (there.parent,)))
        if here.parent and here.parent_table == self.names[two]:
            pairs.append(((here.parent,), there.primary))
        if there.parent and there.parent_table == self.names[one]:
            pairs.append((here.primary, (there.parent,)))
        if self.names[one] == self.names[two]:
            pairs.append((here.primary, there.primary))
        return any(self._are_equal(one, first, two, second) for first, second in pairs)

    def _are_equal(self, one: object, first: Sequence[str], two: object, second: Sequence[str]) -> bool:
        return len(first) == len(second) and all(
            self._root((one, a)) == self._root((two, b)) for a, b in zip(first, second, strict=True)
        )

    def _root(self, node: Node) -> Node:
        while (parent := self._parents.get(node, node)) != node:
            node = parent
        return node


def node_of(expression: Any) -> Node | None:  # noqa: ANN401 - any expression
    """Return the column of a source that an expression is, or its value. None for anything else.

    A value has the kind of its type: the text "1" is no number.
    """
    while isinstance(expression, Grouping | Label):
        expression = expression.element
    kind = exact_kind(getattr(expression, "type", None))
    if isinstance(expression, BindParameter) and kind is not None:
        return (kind, expression.effective_value) if _is_plain(expression.effective_value) else None
    if isinstance(expression, Column) and kind is not None and expression.table is not None:
        return expression.table, expression.name
    return None


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | bytes) and not isinstance(value, bool)


def conjuncts(conditions: Iterable[Any]) -> Iterator[Any]:
    """Yield the conditions that AND joins, each by itself."""
    for each in conditions:
        if isinstance(each, Grouping):
            yield from conjuncts([each.element])
        elif isinstance(each, BooleanClauseList) and each.operator is operators.and_:
            yield from conjuncts(each.clauses)
        else:
            yield each
