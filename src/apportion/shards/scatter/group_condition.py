"""Group condition: the condition of HAVING, evaluated over groups that were combined from several shards.

It knows comparisons of groups, aggregates and values, IS NULL, AND, OR and NOT, with the three truth values of SQL.

Refuses: everything else.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

from sqlalchemy import BinaryExpression, BindParameter, Float, Integer, Null, Numeric, String
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BooleanClauseList, Grouping, UnaryExpression

from apportion.shards.scatter.aggregates import name_of
from apportion.shards.scatter.order import OrderKey, Row, sort_key
from apportion.shards.scatter.plain_values import kind_of_type, kind_of_value
from apportion.shards.scatter.refusal import refuse

Condition: TypeAlias = Callable[[Row], bool | None]
Place: TypeAlias = Callable[[Any], int]

_ORDERED: Mapping[Any, Callable[[Any, Any], bool]] = {
    operators.lt: lt,
    operators.le: le,
    operators.gt: gt,
    operators.ge: ge,
}
_EQUAL: Mapping[Any, Callable[[Any, Any], bool]] = {operators.eq: eq, operators.ne: ne}
_VALUES: Mapping[Any, tuple[type, ...]] = {
    Integer: (int,),
    Float: (int, float),
    Numeric: (int, float, Decimal),
    String: (str,),
}
_PLACE = sort_key([OrderKey(place=0)])


def condition(criteria: Sequence[Any], place: Place, dialect: str) -> Condition | None:
    """Return the condition, None if there is none. `place` gives the place of an expression in the row of a group.

    `Unanswerable` for a condition that is not known.
    """
    parts = [_condition(each, place, dialect) for each in criteria]
    return (lambda row: _all(part(row) for part in parts)) if parts else None


def _condition(part: Any, place: Place, dialect: str) -> Condition:  # noqa: ANN401 - any expression
    if isinstance(part, Grouping):
        return _condition(part.element, place, dialect)
    if isinstance(part, BooleanClauseList):
        inner = [_condition(each, place, dialect) for each in part.clauses]
        if part.operator is operators.and_:
            return lambda row: _all(each(row) for each in inner)
        return lambda row: _any(each(row) for each in inner)
    if isinstance(part, UnaryExpression) and part.operator is operators.inv:
        negated = _condition(part.element, place, dialect)
        return lambda row: None if (found := negated(row)) is None else not found
    if not isinstance(part, BinaryExpression):
        refuse(f"HAVING has {part}: only comparisons of groups, aggregates and values are known")
    return _compared(part, place, dialect)


def _compared(part: BinaryExpression[Any], place: Place, dialect: str) -> Condition:
    if part.operator in (operators.is_, operators.is_not) and isinstance(part.right, Null):
        value, is_wanted = _value(part.left, place, dialect), part.operator is operators.is_
        return lambda row: (value(row) is None) is is_wanted
    compare = {**_EQUAL, **_ORDERED}.get(part.operator)
    kinds = {_kind(each, dialect) for each in (part.left, part.right)} if compare else set()
    is_known = kinds == {Numeric} or (kinds == {String} and part.operator in _EQUAL)
    if compare is None or not is_known:
        refuse(f"HAVING has {part}: only comparisons of numbers, = and != of text, and IS NULL are known")
    is_rounded = dialect == "postgresql"
    left, right = _value(part.left, place, dialect), _value(part.right, place, dialect)

    def _found(row: Row) -> bool | None:
        one, two = left(row), right(row)
        if one is None or two is None:
            return None
        if is_rounded and isinstance(one, float) != isinstance(two, float):  # as PostgreSQL compares with a float
            one, two = float(one), float(two)
        return bool(compare(_PLACE([one]), _PLACE([two])))

    return _found


def _kind(part: Any, dialect: str) -> object:  # noqa: ANN401 - any expression
    """Return the kind of a value. All numbers are of one kind."""
    if name_of(part) == "avg":
        return Numeric
    if isinstance(part, BindParameter):
        found = kind_of_type(part.type)
        if found not in _VALUES or type(part.effective_value) not in _VALUES[found]:
            refuse(f"HAVING has the value {part.effective_value!r}, whose type is not that of the other side")
    else:
        found = kind_of_value(part, dialect)
    return Numeric if found in (Integer, Float) else found


def _value(part: Any, place: Place, dialect: str) -> Callable[[Row], Any]:  # noqa: ANN401 - any expression
    if isinstance(part, BindParameter):
        value: Any = part.effective_value
        if dialect == "sqlite" and kind_of_type(part.type) in (Float, Numeric):
            value = float(value)  # as SQLAlchemy sends it
        return lambda _: value
    at = place(part)
    return lambda row: row[at]


def _all(found: Any) -> bool | None:  # noqa: ANN401 - truth values
    values = list(found)
    return False if False in values else None if None in values else True


def _any(found: Any) -> bool | None:  # noqa: ANN401 - truth values
    values = list(found)
    return True if True in values else None if None in values else False
