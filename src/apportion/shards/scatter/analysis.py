"""Analysis: how a statement is answered over all shards, or the reason why it is not.

Rows of a plain query are those of all shards together. An order with a limit is asked of each shard, and merged. Groups
that lie on one shard each are rows too; all other groups are sent in parts, and combined.

Promises: a statement is answered as one database with all rows would answer it, or refused. Nothing is read for that.
Source: https://docs.sqlalchemy.org/en/20/core/selectable.html#sqlalchemy.sql.expression.Select
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, ColumnElement, False_, Label, Null, Select, True_
from sqlalchemy.orm import lazyload
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.selectable import Exists
from sqlalchemy.sql.visitors import iterate

from apportion.errors import InvalidInput, NotScatterable
from apportion.shards.scatter.aggregates import Decides, aggregate, name_of
from apportion.shards.scatter.colocation import SetTables, node_of
from apportion.shards.scatter.group_condition import condition
from apportion.shards.scatter.order import OrderKey, check_alike, check_ordered, nulls_first
from apportion.shards.scatter.owned_rows import check_reached
from apportion.shards.scatter.parts import (
    check_select,
    columns_of,
    flat,
    groups_of,
    inner_queries,
    is_plain,
    number_of,
    referred,
    sources_of,
    unknown_aggregate,
    unlimited,
    with_columns,
)
from apportion.shards.scatter.plan import Groups, Output, ScatterPlan
from apportion.shards.scatter.refusal import Unanswerable, refuse
from apportion.shards.scatter.sources import QuerySources


def analysed(statement: Any, tables: SetTables, dialect: str) -> ScatterPlan:  # noqa: ANN401 - of a caller
    """Return the plan of a statement. `NotScatterable` says why there is none."""
    try:
        plan = _plan(statement, tables, dialect)
        check_reached(plan.statement, dialect, tables)
    except InvalidInput as error:
        raise NotScatterable(statement, f"{error.problem} {error.hint}".rstrip(".")) from error
    except Unanswerable as error:
        raise NotScatterable(statement, f"{error}") from error
    return plan


def _plan(statement: Any, tables: SetTables, dialect: str) -> ScatterPlan:  # noqa: ANN401 - of a caller
    if not isinstance(statement, Select):
        refuse("it is no select()")
    check_select(statement)
    if not sources_of(statement):
        return _existence(statement, tables)
    sources = QuerySources(tables)
    sources.read(statement)
    if not sources.known.sharded:
        refuse("it reads no sharded table in FROM: read reference tables in a pinned session")
    return _Split(statement, sources, dialect).plan()


def _existence(select: Select[Any], tables: SetTables) -> ScatterPlan:
    """Return the plan of a query without FROM, which asks whether rows exist."""
    columns = columns_of(select)
    if select.whereclause is not None or not is_plain(select) or select._distinct or select._order_by_clauses:
        refuse("it has no FROM, and more than columns")
    for each in columns:
        bare = each.element if isinstance(each, Label) else each
        inner = next((query for _, query in inner_queries([bare])), None)
        if not isinstance(bare, Exists) or inner is None or not is_plain(inner):
            refuse(f"it has no FROM, and {bare} is no plain exists()")
        sources = QuerySources(tables)
        sources.read(inner, container=bare)
        if not sources.known.sharded:
            refuse("exists() reads no sharded table in FROM: ask for reference tables in a pinned session")
    outputs = tuple(Output(places=(place,), combine=any) for place in range(len(columns)))
    names = tuple(each["name"] for each in select.column_descriptions)
    return ScatterPlan(statement=select, names=names, groups=Groups(keys=(), outputs=outputs))


class _Split:
    """The split of one statement into that of each shard, and the rest."""

    def __init__(self, select: Select[Any], sources: QuerySources, dialect: str) -> None:
        self._select, self._sources, self._dialect = select, sources, dialect
        self._columns = columns_of(select)
        self._limit, self._offset = number_of(select._limit_clause), number_of(select._offset_clause) or 0

    def plan(self) -> ScatterPlan:
        """Return the plan."""
        select, known = self._select, self._sources.known
        if self._offset and not select._order_by_clauses:
            refuse("OFFSET without ORDER BY skips rows that nobody chose: add order_by()")
        if not self._sources.are_windows_local([*self._columns, *select._order_by_clauses]):
            refuse("a window reads rows of several shards: partition it by the shard key")
        groups = groups_of(select)
        if not is_plain(unlimited(select)) and not known.decides(map(node_of, groups)):
            return self._grouped(groups)
        is_distinct = bool(select._distinct) and not known.decides(map(node_of, self._columns))
        if is_distinct:
            if self._has_objects():
                refuse("it has DISTINCT over objects, and each shard makes its own: select columns")
            for each in self._columns:
                check_alike(each, self._dialect)
        return self._rows(is_distinct=is_distinct)

    def _rows(self, *, is_distinct: bool) -> ScatterPlan:
        """Return the plan of rows. A shard sends those of the first places of its order, and the keys of the order."""
        given, added, keys = list(self._select._raw_columns), list[Any](), list[OrderKey]()
        for element in flat(self._select._order_by_clauses):
            expression, key = self._key(element)
            place = _place(expression, given)
            if place is None:
                if self._select._distinct:
                    refuse(f"the order of distinct rows names {expression}, which is not selected")
                place = len(given) + len(added)
                added.append(expression.label(f"apportion_order_{len(added)}"))
            keys.append(replace(key, place=place))
        statement = with_columns(self._select, [*given, *added]) if added else self._select
        if self._limit is not None:
            statement = statement.limit(self._limit + self._offset)
        return self._planned(statement.offset(None), order=tuple(keys), is_distinct=is_distinct)

    def _grouped(self, groups: Sequence[Any]) -> ScatterPlan:
        """Return the plan of groups that are spread over shards. The parts of each group come from all of them."""
        select, known = self._select, self._sources.known
        if select._distinct:
            refuse("it has DISTINCT over groups that are spread over shards")
        if (function := unknown_aggregate([*self._columns, *select._order_by_clauses])) is not None:
            refuse(f"{function} cannot be made from those of the shards")
        for each in groups:
            check_alike(each, self._dialect)
        parts = _Parts(groups, known.decides, self._dialect)
        for each in self._columns:
            parts.place(each)
        keys = []
        for element in flat(select._order_by_clauses):
            expression, key = self._key(element)
            keys.append(replace(key, place=parts.place(expression)))
        having = condition(select._having_criteria, parts.place, self._dialect)
        bare = unlimited(select).order_by(None).group_by(None)._generate()
        bare._having_criteria = ()
        statement = with_columns(bare, parts.columns).group_by(*groups)
        found = Groups(keys=tuple(range(len(groups))), outputs=tuple(parts.outputs), having=having)
        return self._planned(statement, order=tuple(keys), groups=found)

    def _planned(self, statement: Select[Any], **more: Any) -> ScatterPlan:  # noqa: ANN401 - fields of the plan
        if self._has_objects():
            if "groups" in more:
                refuse("it selects objects of groups that are spread over shards: select columns")
            statement = statement.options(lazyload("*"))  # rows of a relation may lie on other shards
        names = tuple(each["name"] for each in self._select.column_descriptions)
        return ScatterPlan(statement=statement, names=names, limit=self._limit, offset=self._offset, **more)

    def _has_objects(self) -> bool:
        described = self._select.column_descriptions
        return any(each.get("entity") is not None and each["entity"] is each["expr"] for each in described)

    def _key(self, element: Any) -> tuple[Any, OrderKey]:  # noqa: ANN401 - an element of ORDER BY
        """Return the expression of an element of ORDER BY, and its direction."""
        is_descending, nulls = False, None
        element = referred(element, self._select)
        while isinstance(element, UnaryExpression) and element.modifier is not None:
            if element.modifier in (operators.nulls_first_op, operators.nulls_last_op):
                nulls = element.modifier is operators.nulls_first_op
            elif element.modifier in (operators.desc_op, operators.asc_op):
                is_descending = element.modifier is operators.desc_op
            else:
                refuse(f"the order {element} is not known")
            element = referred(element.element, self._select)
        while isinstance(element, Label):
            element = element.element
        if isinstance(element, True_ | False_ | Null):
            refuse(f"it has the order {element}, which is a constant")
        check_ordered(element, self._dialect)
        if nulls is None:
            nulls = nulls_first(self._dialect, is_descending=is_descending)
        return element, OrderKey(place=0, is_descending=is_descending, has_nulls_first=nulls)


class _Parts:
    """The columns that a shard sends for each group, and the outputs that are made of them."""

    def __init__(self, groups: Sequence[Any], decides: Decides, dialect: str) -> None:
        self._groups, self._decides, self._dialect = groups, decides, dialect
        self.columns: list[Any] = [each.label(f"apportion_{place}") for place, each in enumerate(groups)]
        self.outputs: list[Output] = []

    def place(self, expression: Any) -> int:  # noqa: ANN401 - any expression
        """Add a group or an aggregate to the outputs; return its place there."""
        bare = expression.element if isinstance(expression, Label) else expression
        same = next((place for place, each in enumerate(self._groups) if _are_same(bare, each)), None)
        self.outputs.append(self._aggregate(bare) if same is None else Output(places=(same,)))
        return len(self.outputs) - 1

    def _aggregate(self, expression: Any) -> Output:  # noqa: ANN401 - any expression
        if name_of(expression) is None:
            refuse(f"{expression} is no group and no aggregate: ask for its parts, and compute it from them")
        found = aggregate(expression, self._dialect, decides=self._decides)
        begin = len(self.columns)
        self.columns += [part.label(f"apportion_{begin + step}") for step, part in enumerate(found.parts)]
        return Output(places=tuple(range(begin, len(self.columns))), combine=found.combine)


def _place(expression: Any, given: Sequence[Any]) -> int | None:  # noqa: ANN401 - any expression
    """Return the place of an expression among columns, None if it is not there."""
    for place, each in enumerate(given):
        bare = each.element if isinstance(each, Label) else each
        if isinstance(bare, ColumnElement) and _are_same(bare, expression):
            return place
    return None


def _are_same(one: Any, two: Any) -> bool:  # noqa: ANN401 - any expressions
    """Whether two expressions have the same form, columns and values. The forms are keys of SQLAlchemy's cache."""
    first, second = (each._deannotate()._generate_cache_key() for each in (one, two))
    if first is None or second is None:
        return one is two
    values = [[each.effective_value for each in key.bindparams] for key in (first, second)]
    tables = [[part.table for part in iterate(each) if isinstance(part, Column)] for each in (one, two)]
    return bool(first.key == second.key and values[0] == values[1] and tables[0] == tables[1])
