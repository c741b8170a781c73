"""Parts of a statement: its columns, groups and limits, and those parts that no shard could answer for all of them.

Refuses: text, which nobody can examine; volatile functions; locks, samples, set operations and recursion.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from sqlalchemy import CTE, BindParameter, CompoundSelect, Label, Lateral, Select, TableSample, TextClause
from sqlalchemy.sql.elements import BooleanClauseList, ClauseList, Over
from sqlalchemy.sql.functions import FunctionAsBinary, FunctionElement
from sqlalchemy.sql.selectable import Exists, SelectBase
from sqlalchemy.sql.visitors import iterate

from apportion.errors import InvalidInput
from apportion.shards.pins.reach import check_parts
from apportion.shards.scatter.aggregates import name_of
from apportion.shards.scatter.order import Unordered


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VOLATILE = _words(
    """random randomblob gen_random_uuid uuid_generate_v4 uuidv4 uuidv7 clock_timestamp timeofday nextval currval
    lastval setval pg_sleep last_insert_rowid changes total_changes txid_current pg_current_xact_id pg_backend_pid
    set_config"""
)
"""Functions with another value on each shard."""

SCALAR = _words(
    """abs age ascii ceil ceiling char char_length coalesce concat current_date current_timestamp date date_part
    date_trunc datetime exp floor greatest hex ifnull iif initcap instr json_extract jsonb_extract_path_text julianday
    least left length ln log lower lpad ltrim md5 mod now nullif pow power regexp_replace replace reverse right round
    rpad rtrim sign split_part sqrt strftime strpos substr substring to_char trim trunc typeof unicode upper"""
)
"""Functions of one row. Any other function may be an aggregate."""


def refuse(reason: str) -> NoReturn:
    """Refuse a statement, for a reason in words."""
    raise Unordered(reason)


def check_statement(statement: Select[Any]) -> None:
    """Refuse parts that no shard could answer for all of them."""
    try:
        check_parts(statement)
    except InvalidInput as error:
        refuse(f"{error.problem} {error.hint}".rstrip("."))
    for part in iterate(statement):
        _check_part(part)
    if statement._with_options:
        refuse("it has options of the ORM: rows that they load may lie on other shards")


def _check_part(part: Any) -> None:  # noqa: ANN401 - any part of a statement
    if isinstance(part, TextClause) or (getattr(part, "is_literal", False) and part.name != "*"):
        refuse(f"it has text, which nobody can examine: {part}")
    if isinstance(part, CompoundSelect):
        refuse("it has a UNION, INTERSECT or EXCEPT: scatter each SELECT, and join the answers")
    if isinstance(part, CTE) and part.recursive:
        refuse("it has a recursive CTE")
    if isinstance(part, TableSample | Lateral):
        refuse("it has a sample of a table, or LATERAL")
    if isinstance(part, FunctionElement) and _name(part) in VOLATILE:
        refuse(f"{part} has another value on each shard")
    if isinstance(part, Select):
        _check_select(part)


def _check_select(select: Select[Any]) -> None:
    if select._for_update_arg is not None:
        refuse("FOR UPDATE locks rows of one shard: use a pinned session")
    if select._fetch_clause is not None:
        refuse("FETCH is not answered: use limit()")
    if select._distinct_on:
        refuse("DISTINCT ON is not answered")
    if select._prefixes or select._suffixes or select._independent_ctes:
        refuse("it has prefixes, suffixes or a CTE that nothing refers to")


def columns_of(select: Select[Any]) -> list[Any]:
    """Return the columns of a query, those of a model each by itself."""
    return list(select.selected_columns)


def groups_of(select: Select[Any]) -> list[Any]:
    """Return the expressions of GROUP BY."""
    found = []
    for each in flat(select._group_by_clauses):
        element = referred(each, select)
        while isinstance(element, Label):
            element = element.element
        if isinstance(element, FunctionElement) and _name(element) in ("rollup", "cube", "grouping_sets"):
            refuse("GROUP BY has ROLLUP, CUBE or GROUPING SETS")
        found.append(element)
    return found


def flat(elements: Iterable[Any]) -> Iterator[Any]:
    """Yield expressions, those of a list each by itself."""
    for each in elements:
        if isinstance(each, ClauseList) and not isinstance(each, BooleanClauseList):
            yield from flat(each.clauses)
        else:
            yield each


def referred(element: Any, select: Select[Any]) -> Any:  # noqa: ANN401 - an element of ORDER BY or GROUP BY
    """Return the expression that a label or a name stands for."""
    name = getattr(element, "__visit_name__", "")
    if name == "label_reference":
        return referred(element.element, select)
    if name == "textual_label_reference":
        for column in columns_of(select):
            if column.key == element.element or getattr(column, "name", None) == element.element:
                return column
        refuse(f"the name {element.element!r} is no column of the result")
    return element


def has_aggregate(columns: Iterable[Any]) -> bool:
    """Whether a column computes an aggregate, outside of subqueries and windows."""
    for each in columns:
        if isinstance(each, SelectBase | Over | Exists):
            continue
        if name_of(each) is not None or unknown_function([each]) is not None or has_aggregate(each.get_children()):
            return True
    return False


def unknown_function(columns: Iterable[Any]) -> Any:  # noqa: ANN401 - a function, or None
    """Return a function that may be an aggregate, and that nobody can combine. None if there is none."""
    for each in columns:
        if isinstance(each, SelectBase | Over | Exists):
            continue
        if _is_function(each) and name_of(each) is None and _name(each) not in SCALAR:
            return each
        if (found := unknown_function(each.get_children())) is not None:
            return found
    return None


def _is_function(part: Any) -> bool:  # noqa: ANN401 - any expression
    return isinstance(part, FunctionElement) and hasattr(part, "name") and not isinstance(part, FunctionAsBinary)


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


def _name(function: Any) -> str:  # noqa: ANN401 - a function
    return f"{getattr(function, 'name', '')}".lower()
