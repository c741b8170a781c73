"""Plain values: expressions with values that are here as they are in the database.

A value may change on its way from the database. SQLAlchemy rounds numbers, and takes any number for a boolean, if the
type says so. A type of one dialect, a TypeDecorator and a variant may have rules of their own. Then two values of the
database may be one here, or stand in another order. Such values are not compared here.

Refuses: what is not known to be plain. `cast()` makes a plain value of most others, for the database computes it.
"""

from typing import Any, TypeAlias

from sqlalchemy import (
    CHAR,
    REAL,
    BinaryExpression,
    Boolean,
    Case,
    Cast,
    Date,
    DateTime,
    Enum,
    Float,
    Integer,
    Label,
    LargeBinary,
    Null,
    Numeric,
    Over,
    String,
    Time,
    TypeCoerce,
    Uuid,
)
from sqlalchemy.sql import operators, sqltypes
from sqlalchemy.sql.elements import CollationClause, FunctionFilter, Grouping
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import ScalarSelect
from sqlalchemy.sql.visitors import iterate
from sqlalchemy.types import NullType

from apportion.shards.scatter.refusal import refuse
from apportion.shards.scatter.vocabulary import function_name, words

Kind: TypeAlias = type[Any]
"""The general type of plain values, such as `Integer` for those of `BigInteger`."""

_KINDS: tuple[Kind, ...] = (Boolean, Integer, Float, Numeric, DateTime, Date, Time, LargeBinary, Uuid, String)
_EXACT = (Integer, String, Uuid, LargeBinary)
_TIMES = (Date, DateTime, Time)
_DOUBLE = 25  # the least precision of a float of 8 bytes in PostgreSQL
_CAST_IN_SQLITE = (Integer, Float, String)
_RESULTS: dict[Kind, frozenset[str]] = {
    String: words(
        """lower upper initcap replace reverse substr substring left right trim ltrim rtrim lpad rpad concat hex md5
        split_part regexp_replace to_char typeof char strftime date datetime"""
    ),
    Integer: words("length char_length character_length ascii instr strpos count row_number rank dense_rank ntile"),
    DateTime: words("date_trunc"),
}
_AS_ARGUMENTS = words("coalesce nullif ifnull least greatest abs sum min max lag lead first_value last_value")


def kind_of_type(kind: Any) -> Kind | None:  # noqa: ANN401 - a type of SQLAlchemy
    """Return the general type of a plain type, None for any other type. Floats of 4 bytes are rounded by drivers."""
    is_own = type(kind).__module__ == sqltypes.__name__ and not kind._variant_mapping
    is_single = isinstance(kind, REAL) or (isinstance(kind, Float) and (kind.precision or _DOUBLE) < _DOUBLE)
    if not is_own or is_single or isinstance(kind, Enum | CHAR) or (isinstance(kind, Time) and kind.timezone):
        return None
    return next((each for each in _KINDS if isinstance(kind, each)), None)


def exact_kind(kind: Any) -> Kind | None:  # noqa: ANN401 - a type of SQLAlchemy
    """Return the general type of a plain type, if only values that are the same are equal. None for others."""
    found = kind_of_type(kind)
    return found if found in _EXACT and getattr(kind, "collation", None) is None else None


def kind_of_value(expression: Any, dialect: str) -> Kind:  # noqa: ANN401 - any expression
    """Return the kind of the values of an expression. `Unanswerable` if they are not plain."""
    bare = bare_value(expression)
    if isinstance(bare, ScalarSelect):
        [column] = bare.element.selected_columns
        return kind_of_value(column, dialect)
    found = _kind_of_function(bare, dialect) if isinstance(bare, FunctionElement) else kind_of_type(bare.type)
    if found is None or not _is_kept(bare, found, dialect):
        refuse(f"values of {expression} may differ from those in the database: use cast(), with Float for numbers")
    return found


def bare_value(expression: Any) -> Any:  # noqa: ANN401 - any expression
    """Return an expression without its label, brackets, collation, FILTER and window."""
    while True:
        if isinstance(expression, Label | Grouping | Over):
            expression = expression.element
        elif isinstance(expression, FunctionFilter):
            expression = expression.func
        elif getattr(expression, "operator", None) is operators.collate:
            expression = expression.left
        else:
            return expression


def collations_of(expression: Any) -> frozenset[str]:  # noqa: ANN401 - any expression
    """Return the collations that the values of an expression may have. `collate()` leaves only its own."""
    while isinstance(expression, Label | Grouping):
        expression = expression.element
    if getattr(expression, "operator", None) is operators.collate:
        return frozenset([f"{expression.right.collation}"])
    found = set[str]()
    for part in iterate(expression):
        if isinstance(part, CollationClause):
            found.add(f"{part.collation}")
        elif (name := getattr(getattr(part, "type", None), "collation", None)) is not None:
            found.add(f"{name}")
    return frozenset(found)


def _kind_of_function(function: Any, dialect: str) -> Kind | None:  # noqa: ANN401 - a function
    name, given = function_name(function), kind_of_type(function.type)
    if name == "avg" and isinstance(function.type, NullType):
        [argument] = function.clauses
        return Float if kind_of_value(argument, dialect) in (Integer, Numeric, Float) else None
    expected = next((kind for kind, names in _RESULTS.items() if name in names), None)
    if name in _AS_ARGUMENTS:
        kinds = {kind_of_value(each, dialect) for each in function.clauses if not isinstance(each, Null)}
        expected = kinds.pop() if len(kinds) == 1 else None
    return expected if given is expected or isinstance(function.type, NullType) else None


def _is_kept(expression: Any, kind: Kind, dialect: str) -> bool:  # noqa: ANN401 - an expression
    """Whether SQLAlchemy returns the values of an expression as the database has them."""
    if kind is Numeric and (
        dialect == "sqlite" or not getattr(expression.type, "asdecimal", False) or _has_float(expression)
    ):
        return False
    is_sum_of_times = dialect == "sqlite" and kind in _TIMES and isinstance(expression, BinaryExpression)
    if is_sum_of_times or (kind is Float and getattr(expression.type, "asdecimal", False)):
        return False
    if isinstance(expression, TypeCoerce):
        inner = expression.typed_expression
        is_float = dialect == "sqlite" and kind is Float and kind_of_type(inner.type) is Numeric
        return is_float or kind_of_value(inner, dialect) is kind
    if isinstance(expression, Cast):
        return dialect == "postgresql" or kind in _CAST_IN_SQLITE
    if isinstance(expression, Case):
        results = [result for _, result in expression.whens]
        results += [] if expression.else_ is None else [expression.else_]
        return {kind_of_value(each, dialect) for each in results if not isinstance(each, Null)} == {kind}
    return True


def _has_float(expression: Any) -> bool:  # noqa: ANN401 - an expression
    """Whether a part is a float, or a function that may return one."""
    return any(
        isinstance(part.type, Float) or (isinstance(part, FunctionElement) and isinstance(part.type, NullType))
        for part in iterate(expression)
        if hasattr(part, "type")
    )
