"""Aggregates: the value of an aggregate over all shards, from its parts on each shard.

    count    the sum of the counts
    sum      the sum of the sums; floats by `fsum`, numbers of PostgreSQL without a limit of digits
    min max  the least or greatest one, in the order of the database
    avg      the sum over the count: each shard sends both
    bool_and bool_or every    of the values that are not NULL

Promises: a mean of whole numbers or decimals of PostgreSQL has the digits that PostgreSQL gives it.
Source: https://github.com/postgres/postgres/blob/REL_17_STABLE/src/backend/utils/adt/numeric.c (select_div_scale)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_PREC, ROUND_HALF_UP, Context, Decimal
from math import fsum
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Float, Integer, Numeric, func
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import FunctionFilter, Grouping, Label
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType

from apportion.shards.scatter.colocation import Node, node_of
from apportion.shards.scatter.order import OrderKey, check_ordered, sort_key
from apportion.shards.scatter.plain_values import kind_of_type, kind_of_value
from apportion.shards.scatter.refusal import refuse
from apportion.shards.scatter.vocabulary import COMBINED, function_name

Combine: TypeAlias = Callable[[Sequence[Any]], Any]
Decides: TypeAlias = Callable[[Iterable[Node | None]], bool]

_BASE_DIGITS, _LEAST_DIGITS, _MOST_SCALE = 4, 16, 1000
_EXACT = Context(prec=MAX_PREC // 4, Emax=10**9, Emin=-(10**9))
_PLACE = sort_key([OrderKey(place=0)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate as shards compute it, and the function that makes its value.

    `combine` gets the values of `parts` from all shards, one sequence for each part.
    """

    parts: tuple[ColumnElement[Any], ...]
    combine: Callable[..., Any]


def name_of(expression: Any) -> str | None:  # noqa: ANN401 - any expression
    """Return the name of an aggregate function, None for any other expression."""
    while isinstance(expression, Label | Grouping):
        expression = expression.element
    function = expression.func if isinstance(expression, FunctionFilter) else expression
    name = function_name(function) if isinstance(function, FunctionElement) else ""
    return name if name in COMBINED else None


def aggregate(expression: Any, dialect: str, *, decides: Decides) -> Aggregate:  # noqa: ANN401 - an aggregate function
    """Return the parts of an aggregate. `Unanswerable` if its value cannot be made from parts.

    `decides` tells whether equal values of columns lie on one shard. Then each shard may count them once.
    """
    while isinstance(expression, Label | Grouping):
        expression = expression.element
    name, function = name_of(expression), getattr(expression, "func", expression)
    arguments = list(function.clauses)
    if name != "count" and len(arguments) != 1:
        refuse(f"{expression} has {len(arguments)} arguments")
    once = [each.element for each in arguments if _is_distinct(each)]
    if once and name not in ("min", "max") and not decides(map(node_of, once)):
        refuse(f"{expression} counts each value once, and a value may lie on several shards")
    if name in _OF_NUMBERS:
        return _OF_NUMBERS[name](expression, function, dialect)
    if name in ("min", "max"):
        check_ordered(arguments[0], dialect)
    _check_kept(expression, function)
    return Aggregate(parts=(expression,), combine=_COMBINED[name or ""])


def _is_distinct(argument: Any) -> bool:  # noqa: ANN401 - any expression
    return getattr(argument, "operator", None) is operators.distinct_op


def _check_number(argument: Any, dialect: str) -> None:  # noqa: ANN401 - any expression
    if kind_of_value(argument, dialect) not in (Integer, Numeric, Float):
        refuse(f"{argument} has the type {argument.type!r}, and only numbers are summed over shards")


def _check_kept(expression: Any, function: Any) -> None:  # noqa: ANN401 - an aggregate function
    """Refuse an aggregate with a type of its own. It may change the values of the shards before they are combined."""
    if isinstance(function.type, NullType):
        return
    wanted = Integer if name_of(function) == "count" else kind_of_type(next(iter(function.clauses)).type)
    if wanted is None or kind_of_type(function.type) is not wanted:
        refuse(f"{expression} has another type than its values: leave the type out, or use cast()")


def _total(expression: Any, function: Any, dialect: str) -> Aggregate:  # noqa: ANN401 - an aggregate function
    [argument] = function.clauses
    _check_number(argument, dialect)
    _check_kept(expression, function)
    if dialect == "postgresql":
        return Aggregate(parts=(expression,), combine=summed)
    return Aggregate(parts=(expression, _counted(expression, argument)), combine=_sum_of_sqlite)


def _mean(expression: Any, function: Any, dialect: str) -> Aggregate:  # noqa: ANN401 - an aggregate function
    [argument] = function.clauses
    _check_number(argument, dialect)
    if not isinstance(function.type, NullType):
        refuse(f"{expression} has a type of its own: leave it out")
    parts = (_filtered(func.sum(argument), expression), _counted(expression, argument))
    return Aggregate(parts=parts, combine=_mean_of_postgresql if dialect == "postgresql" else _mean_of_sqlite)


def _filtered(function: Any, expression: Any) -> Any:  # noqa: ANN401 - aggregate functions
    """Return a function with the filter of an expression, if there is one."""
    return function.filter(expression.criterion) if isinstance(expression, FunctionFilter) else function


def _counted(expression: Any, argument: Any) -> Any:  # noqa: ANN401 - an aggregate function, and its argument
    """Return the number of values of an aggregate."""
    return _filtered(func.count(argument), expression)


def _mean_of_postgresql(totals: Sequence[Any], counts: Sequence[int]) -> Any:  # noqa: ANN401 - a number
    count, whole = sum(counts), summed(totals)
    if not count:
        return None
    return whole / count if isinstance(whole, float) else divided(Decimal(whole), count)


def _mean_of_sqlite(totals: Sequence[Any], counts: Sequence[int]) -> float | None:
    whole = _sum_of_sqlite(totals, counts)
    return None if whole is None else float(whole) / sum(counts)


def _sum_of_sqlite(totals: Sequence[Any], counts: Sequence[int]) -> Any:  # noqa: ANN401 - a number
    """Return a sum. In SQLite it is NULL if there are infinities of both signs, and not only if there are no values."""
    if any(total is None and count for total, count in zip(totals, counts, strict=True)):
        return None
    whole = summed(totals)
    return whole if whole == whole else None  # noqa: PLR0124 - NaN differs from itself


def summed(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a number
    """Return the sum of the values that are not None, and None if all are."""
    numbers = [each for each in values if each is not None]
    if not numbers:
        return None
    if any(isinstance(each, float) for each in numbers):
        try:
            return fsum(numbers)
        except (OverflowError, ValueError):  # infinities of both signs
            return sum(map(float, numbers))
    total = numbers[0]
    for each in numbers[1:]:
        total = _EXACT.add(total, each) if isinstance(total, Decimal) else total + each
    return total


def divided(total: Decimal, count: int) -> Decimal:
    """Return a quotient with as many digits as PostgreSQL gives it.

    >>> divided(Decimal(10), 3), divided(Decimal("1.50"), 2), divided(Decimal(123456), 7)
    (Decimal('3.3333333333333333'), Decimal('0.75000000000000000000'), Decimal('17636.571428571429'))
    """
    if not total.is_finite():
        return total
    (weight, first), (below, second) = _leading(total), _leading(Decimal(count))
    steps = weight - below - (first <= second)
    exponent = total.as_tuple().exponent
    digits = max(0, -exponent if isinstance(exponent, int) else 0)
    scale = min(_MOST_SCALE, max(_LEAST_DIGITS - steps * _BASE_DIGITS, digits, 0))
    context = Context(prec=len(total.as_tuple().digits) + scale + 64, Emax=10**9, Emin=-(10**9))
    quotient = context.divide(total, Decimal(count))
    return quotient.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=context)


def _leading(number: Decimal) -> tuple[int, int]:
    """Return the place and the value of the first digit of a number in base 10 000."""
    if not number:
        return 0, 0
    weight = number.adjusted() // _BASE_DIGITS
    return weight, int(abs(number).scaleb(-weight * _BASE_DIGITS, context=_EXACT))


def _least(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a value
    found = [each for each in values if each is not None]
    return min(found, key=lambda each: _PLACE([each])) if found else None


def _greatest(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a value
    found = [each for each in values if each is not None]
    return max(found, key=lambda each: _PLACE([each])) if found else None


def _all(values: Sequence[bool | None]) -> bool | None:
    found = [each for each in values if each is not None]
    return all(found) if found else None


def _any(values: Sequence[bool | None]) -> bool | None:
    found = [each for each in values if each is not None]
    return any(found) if found else None


_COMBINED: Mapping[str, Combine] = {
    "count": sum,
    "min": _least,
    "max": _greatest,
    "bool_and": _all,
    "every": _all,
    "bool_or": _any,
}
_OF_NUMBERS: Mapping[str | None, Callable[..., Aggregate]] = {"sum": _total, "avg": _mean}
