"""Vocabulary: the expressions, operators and functions that a statement over all shards may have.

An expression that is not listed may read other rows, differ from shard to shard, or be an aggregate. The tree of a
statement does not say so, thus it is refused.

Refuses: text, custom operators, functions that are not listed, and columns of tables that the query does not read.
"""

from collections.abc import Container, Iterator
from typing import Any

from sqlalchemy import (
    BinaryExpression,
    BindParameter,
    Case,
    Cast,
    Column,
    Date,
    DateTime,
    Extract,
    False_,
    FunctionFilter,
    Label,
    Null,
    Over,
    Time,
    True_,
    TypeCoerce,
    UnaryExpression,
)
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ClauseList, CollationClause, ExpressionClauseList, Grouping, TypeClause
from sqlalchemy.sql.functions import Function, FunctionElement
from sqlalchemy.sql.selectable import ScalarSelect, SelectBase

from apportion.shards.scatter.refusal import refuse


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


SCALAR = words(
    """abs ascii ceil ceiling char char_length character_length coalesce concat date date_part date_trunc datetime exp
    extract floor greatest hex ifnull iif initcap instr json_extract jsonb_extract_path_text julianday least left length
    ln log lower lpad ltrim md5 mod nullif pow power regexp_replace replace reverse right round rpad rtrim sign
    split_part sqrt strftime strpos substr substring to_char trim trunc typeof unicode upper"""
)
"""Functions of one row, which give every shard the same value for the same row."""

COMBINED = words("count sum min max avg bool_and bool_or every")
"""Aggregates with a value that is made from those of the shards."""

_OTHERS = words(
    """total group_concat string_agg array_agg json_agg jsonb_agg json_group_array stddev stddev_pop stddev_samp
    variance var_pop var_samp bit_and bit_or"""
)
_WINDOWS = words("rank dense_rank row_number percent_rank cume_dist ntile lag lead first_value last_value nth_value")
_TIMES = words("date datetime julianday strftime time unixepoch")
_OPERATORS = frozenset(
    {
        operators.eq, operators.ne, operators.lt, operators.le, operators.gt, operators.ge,
        operators.add, operators.sub, operators.mul, operators.truediv, operators.floordiv, operators.mod,
        operators.neg, operators.concat_op, operators.and_, operators.or_, operators.inv,
        operators.is_, operators.is_not, operators.is_distinct_from, operators.is_not_distinct_from,
        operators.in_op, operators.not_in_op, operators.between_op, operators.not_between_op,
        operators.like_op, operators.not_like_op, operators.ilike_op, operators.not_ilike_op,
        operators.startswith_op, operators.not_startswith_op, operators.endswith_op, operators.not_endswith_op,
        operators.contains_op, operators.not_contains_op, operators.is_true, operators.is_false, operators.istrue,
        operators.isfalse, operators.exists, operators.collate, operators.comma_op, operators.distinct_op,
        operators.desc_op, operators.asc_op, operators.nulls_first_op, operators.nulls_last_op, None,
    }
)  # fmt: skip
_KNOWN = (
    BinaryExpression, BindParameter, Case, Cast, ClauseList, CollationClause, Column, ExpressionClauseList, Extract,
    False_, Function, FunctionFilter, Grouping, Label, Null, Over, ScalarSelect, SelectBase, True_, TypeClause,
    TypeCoerce, UnaryExpression,
)  # fmt: skip
_REFERENCES = ("label_reference", "textual_label_reference")


def check_expression(expression: Any, seen: Container[object], own: Container[object]) -> None:  # noqa: ANN401 - any
    """Refuse an expression with a part that is not known. Queries within it are not looked at.

    `own` are the sources of the query, and `seen` also those of the queries around it.
    """
    for part in parts_of(expression):
        is_star = getattr(part, "is_literal", False) and part.name == "*" and part is not expression
        is_known = is_star or isinstance(part, _KNOWN) or getattr(part, "__visit_name__", "") in _REFERENCES
        if not is_known or not type(part).__module__.startswith("sqlalchemy."):
            refuse(f"it has text, or an expression that cannot be examined: {part}")
        for name in ("operator", "modifier"):
            if getattr(part, name, None) not in _OPERATORS:
                refuse(f"it has the operator of {part}, which is not known")
        if isinstance(part, BindParameter) and part.callable is not None:
            refuse("it has a value that a function gives: pass the value")
        if isinstance(getattr(part, "type", None), DateTime | Date | Time) and _has_text(part):
            refuse(f"{part} takes a text for a time, and 'now' is another time on each shard: pass a datetime")
        if isinstance(part, Extract) and not part.field.isidentifier():
            refuse(f"it has text, which nobody can examine: {part.field}")
        if isinstance(part, Column) and part.table not in seen:
            refuse(f"it names {part}, and reads no such table: name the model in select() or join()")
        if isinstance(part, FunctionElement):
            _check_function(part, own)


def parts_of(expression: Any) -> Iterator[Any]:  # noqa: ANN401 - any expression
    """Yield an expression and its parts, and of a query within it only the query itself."""
    yield expression
    if not isinstance(expression, ScalarSelect | SelectBase):
        for part in expression.get_children():
            yield from parts_of(part)


def is_scalar(function: Any) -> bool:  # noqa: ANN401 - a function
    """Whether a function has a value for each row."""
    return function_name(function) in SCALAR


def function_name(function: Any) -> str:  # noqa: ANN401 - a function
    """Return the name of a function, as databases read it."""
    return f"{getattr(function, 'name', '')}".lower()


def _check_function(function: Any, own: Container[object]) -> None:  # noqa: ANN401 - a function
    name = function_name(function)
    if getattr(function, "packagenames", ()) or name not in SCALAR | COMBINED | _OTHERS | _WINDOWS:
        refuse(f"it has {function}: a function that is not known may be volatile, or an aggregate")
    if name in _TIMES and _has_now(function):
        refuse(f"{function} has another value on each shard: pass the time as a value")
    columns = [part for part in parts_of(function) if isinstance(part, Column)]
    if name not in SCALAR and not all(column.table in own for column in columns):
        refuse(f"{function} is an aggregate of a column of the query around it")


def _has_text(part: Any) -> bool:  # noqa: ANN401 - an expression of a time
    """Whether an expression is a text that a database reads as a time."""
    texts = (
        [part] if isinstance(part, BindParameter) else [*parts_of(part)] if isinstance(part, Cast | TypeCoerce) else []
    )
    return any(isinstance(each, BindParameter) and isinstance(each.value, str) for each in texts)


def _has_now(function: Any) -> bool:  # noqa: ANN401 - a function
    values = [part.value for part in parts_of(function) if isinstance(part, BindParameter)]
    is_bare = len(list(function.clauses)) == (function_name(function) == "strftime")
    texts = [each.lower() for each in values if isinstance(each, str)]
    return is_bare or any(word in text for text in texts for word in ("now", "localtime"))
