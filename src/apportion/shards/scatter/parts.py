"""Parts of a query: its columns, groups, limits, and the queries within it.

Refuses: parts that no shard could answer for all of them, such as a lock, a sample, a hint or DISTINCT ON.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import BindParameter, ClauseElement, ColumnElement, Join, Label, Over, Select
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import lazyload
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BooleanClauseList, ClauseList, ExpressionClauseList, Grouping
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import Exists, ScalarSelect, SelectBase, SelectStatementGrouping
from sqlalchemy.sql.visitors import iterate

from apportion.shards.scatter.refusal import refuse
from apportion.shards.scatter.vocabulary import COMBINED, function_name, is_scalar

_REFUSED = {
    "_for_update_arg": "FOR UPDATE locks rows of one shard: use a pinned session",
    "_fetch_clause": "FETCH is not answered: use limit()",
    "_distinct_on": "DISTINCT ON is not answered",
    "_prefixes": "it has prefixes",
    "_suffixes": "it has suffixes",
    "_independent_ctes": "it has a CTE that nothing refers to",
    "_hints": "it has hints for one table",
    "_statement_hints": "it has hints for the statement",
    "_params": "it has params(): write the values into the statement",
    "_with_options": "it has options of the ORM: rows that they load may lie on other shards",
}


def check_select(select: Select[Any]) -> None:
    """Refuse a query with parts that no shard could answer for all of them."""
    for name, reason in _REFUSED.items():
        value = getattr(select, name, None)
        if value is not None and (isinstance(value, ClauseElement) or value):
            refuse(reason)
    if any(isinstance(each, Join) for each in select._from_obj):
        refuse("it reads from a join(): write it as select(...).join(...)")
    if any(flags["full"] for *_, flags in select._setup_joins):
        refuse("FULL JOIN is not answered")
    if any("bundle" in each._annotations for each in select._raw_columns):
        refuse("it has a Bundle: select its columns")
    for each in select._raw_columns:
        _check_column(each)
    number_of(select._limit_clause)
    number_of(select._offset_clause)


def _check_column(column: Any) -> None:  # noqa: ANN401 - a column or a model
    """Refuse `distinct(column)`, and a model with properties that are no columns of its table."""
    bare = column.element if isinstance(column, Label) else column
    if getattr(bare, "operator", None) is operators.distinct_op:
        refuse("it has distinct() as a column: use select(...).distinct()")
    is_plain_table = not isinstance(column, ColumnElement) and "parententity" not in column._annotations
    if is_plain_table or isinstance(column, ClauseList):
        refuse(f"it has {column}, which is no column and no model")
    mapper = column._annotations.get("parentmapper")
    if mapper is not None and not hasattr(column, "type"):
        for each in mapper.column_attrs:
            if any(found not in mapper.local_table.c.values() for found in each.columns):
                refuse(f"{mapper.class_.__name__}.{each.key} is no column of its table: select columns")


def columns_of(select: Select[Any]) -> list[Any]:
    """Return the columns of a query, those of a model each by itself."""
    return list(select.selected_columns)


def sources_of(select: Select[Any]) -> list[Any]:
    """Return the elements of FROM. Relations that a model loads by a join are not among them."""
    return [*select.options(lazyload("*")).get_final_froms()]


def with_columns(select: Select[Any], columns: Iterable[Any]) -> Select[Any]:
    """Return a query with other columns and the same FROM. SQLAlchemy derives a part of it from the columns."""
    sources = sources_of(select)
    parts = [part for each in select._raw_columns for part in iterate(each)]
    entities = [part._annotations["parententity"] for part in parts if "parententity" in part._annotations]
    models = {each.selectable: each.entity for each in entities}
    firsts = [each for each in map(_first_of, sources) if each in models and each not in select._from_obj]
    made = select.select_from(*(models[each] for each in firsts)).with_only_columns(*columns)
    try:
        is_same = [f"{each}" for each in sources] == [f"{each}" for each in sources_of(made)]
    except InvalidRequestError:
        is_same = False
    if not is_same:
        refuse("its FROM depends on its columns: begin with select_from(Model)")
    return made


def _first_of(source: Any) -> Any:  # noqa: ANN401 - an element of FROM
    return _first_of(source.left) if isinstance(source, Join) else source


def on_clauses(select: Select[Any]) -> list[Any]:
    """Return the conditions of the joins of a query."""
    found, sources = list[Any](), sources_of(select)
    while sources:
        source = sources.pop()
        if isinstance(source, Join):
            sources += [source.left, source.right]
            found += [] if source.onclause is None else [source.onclause]
    return found


def inner_queries(expressions: Iterable[Any]) -> Iterator[tuple[Any, Select[Any]]]:
    """Yield each query within expressions, with the part that contains it. Leave out those within other queries."""
    for each in expressions:
        yield from _inner_queries(None, each)


def _inner_queries(container: Any, part: Any) -> Iterator[tuple[Any, Select[Any]]]:  # noqa: ANN401 - any expressions
    if isinstance(part, Select):
        yield container, part
    elif isinstance(part, SelectBase) and not isinstance(part, SelectStatementGrouping):
        refuse("it has a UNION, INTERSECT or EXCEPT: scatter each SELECT, and join the answers")
    else:
        is_bracket = isinstance(part, ScalarSelect | SelectStatementGrouping | Grouping)
        for each in part.get_children():
            yield from _inner_queries(container if is_bracket else part, each)


def groups_of(select: Select[Any]) -> list[Any]:
    """Return the expressions of GROUP BY."""
    found = []
    for each in flat(select._group_by_clauses):
        element = referred(each, select)
        if element is not each and getattr(element, "name", None) in _column_names(select):
            refuse(f"GROUP BY {element.name!r} may mean a column of the tables, or one of the result: name the column")
        while isinstance(element, Label):
            element = element.element
        found.append(element)
    return found


def _check_name(name: str, column: Any, select: Select[Any]) -> None:  # noqa: ANN401 - a column
    """Refuse a name that SQLAlchemy may take for another column: one of a table, or a selected one by its long name."""
    is_told = isinstance(column, Label) or _column_names(select)[name] == 1
    if not is_told or any(
        getattr(each, "_tq_label", None) == name for each in columns_of(select) if each is not column
    ):
        refuse(f"the name {name!r} may stand for several columns: name the column itself")


def _column_names(select: Select[Any]) -> Counter[str]:
    """Return the names of the columns in FROM, and the number of sources that have them."""
    sources, found = sources_of(select), Counter[str]()
    while sources:
        source = sources.pop()
        if isinstance(source, Join):
            sources += [source.left, source.right]
        else:
            found.update(column.name for column in source.c)
    return found


def flat(elements: Iterable[Any]) -> Iterator[Any]:
    """Yield expressions, those of a list each by itself."""
    for each in elements:
        if isinstance(each, ClauseList) and not isinstance(each, BooleanClauseList | ExpressionClauseList):
            yield from flat(each.clauses)
        else:
            yield each


def referred(element: Any, select: Select[Any]) -> Any:  # noqa: ANN401 - an element of ORDER BY or GROUP BY
    """Return the expression that a label or a name stands for."""
    name = getattr(element, "__visit_name__", "")
    if name == "label_reference":
        return referred(element.element, select)
    if name == "textual_label_reference":
        found = [each for each in columns_of(select) if element.element in (each.key, getattr(each, "name", None))]
        if len(found) != 1:
            refuse(f"the name {element.element!r} stands for {len(found)} columns of the result, and not for one")
        _check_name(element.element, found[0], select)
        return found[0]
    return element


def has_aggregate(columns: Iterable[Any]) -> bool:
    """Whether a column computes an aggregate, outside of subqueries and windows."""
    return next(_aggregates(columns), None) is not None


def unknown_aggregate(columns: Iterable[Any]) -> Any:  # noqa: ANN401 - a function, or None
    """Return an aggregate with a value that cannot be made from parts. None if there is none."""
    return next((each for each in _aggregates(columns) if function_name(each) not in COMBINED), None)


def _aggregates(columns: Iterable[Any]) -> Iterator[Any]:
    for each in columns:
        if isinstance(each, Over):  # a window is no aggregate, and may have some within
            yield from _aggregates([part for part in each.get_children() if part is not each.element])
            yield from _aggregates(each.element.get_children())
        elif not isinstance(each, ScalarSelect | SelectBase | Exists):
            if isinstance(each, FunctionElement) and not is_scalar(each):
                yield each
            yield from _aggregates(each.get_children())


def is_plain(select: Select[Any]) -> bool:
    """Whether each row of a query comes from one row of its sources, without a limit."""
    has_limit = select._limit_clause is not None or select._offset_clause is not None
    expressions = [*columns_of(select), *select._order_by_clauses]
    is_grouped = bool(select._group_by_clauses or select._having_criteria or has_aggregate(expressions))
    return not has_limit and not is_grouped


def unlimited(select: Select[Any]) -> Select[Any]:
    """Return a query without its limit and offset."""
    return select.limit(None).offset(None)


def number_of(clause: Any) -> int | None:  # noqa: ANN401 - a limit
    """Return the number of a limit or an offset, None if there is none."""
    if clause is None:
        return None
    value = clause.effective_value if isinstance(clause, BindParameter) else None
    if type(value) is not int or value < 0:
        refuse("a limit or an offset is no number")
    return value
