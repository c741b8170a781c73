"""Order: values from several shards in the order of their database, and equal where the database says so.

NULL is the greatest value in PostgreSQL and the least in SQLite. NaN is equal to itself, and greater than all numbers.
Text has the order of its bytes under the collation "C" of PostgreSQL and BINARY of SQLite.

Refuses: the order of other collations, and of types that are not plain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import total_ordering
from operator import neg
from typing import Any, TypeAlias

from sqlalchemy import String

from apportion.shards.scatter.plain_values import collations_of, kind_of_value
from apportion.shards.scatter.refusal import refuse

Row: TypeAlias = Sequence[Any]

_BINARY = {"postgresql": frozenset(["C", "POSIX", "ucs_basic"]), "sqlite": frozenset(["BINARY"])}
_NAMED = {"postgresql": "C", "sqlite": "BINARY"}
_ALIKE = {"postgresql": _BINARY["postgresql"] | {"default"}, "sqlite": _BINARY["sqlite"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """One key of an order: the place of its value in a row, and the direction."""

    place: int
    is_descending: bool = False
    has_nulls_first: bool = False


def check_ordered(expression: Any, dialect: str) -> None:  # noqa: ANN401 - any expression
    """Refuse an expression unless its values have the order here that the dialect gives them."""
    kind, collations = kind_of_value(expression, dialect), collations_of(expression)
    is_told = collations or dialect == "sqlite"
    if kind is String and not (is_told and collations <= _BINARY[dialect]):
        refuse(f"{expression} is text: order it by collate({expression}, '{_NAMED[dialect]}')")


def check_alike(expression: Any, dialect: str) -> None:  # noqa: ANN401 - any expression
    """Refuse an expression unless its values are equal here if they are equal in the database."""
    kind, collations = kind_of_value(expression, dialect), collations_of(expression)
    if kind is String and not collations <= _ALIKE[dialect]:
        names = ", ".join(sorted(collations))
        refuse(f"{expression} has the collation {names}: group by collate({expression}, '{_NAMED[dialect]}')")


def nulls_first(dialect: str, *, is_descending: bool) -> bool:
    """Whether NULL comes first where the statement does not say."""
    return is_descending == (dialect == "postgresql")


def sort_key(keys: Sequence[OrderKey]) -> Callable[[Row], list[tuple[float, Any]]]:
    """Return the function that gives a row's place in an order. O(keys)."""
    parts = [(key.place, (0 if key.has_nulls_first else 3, 0), key.is_descending) for key in keys]

    def _place(row: Row) -> list[tuple[float, Any]]:
        found = list[tuple[float, Any]]()
        for place, null, is_descending in parts:
            value = row[place]
            if value is None:
                found.append(null)
            elif value != value:  # noqa: PLR0124 - NaN is greater than all numbers, and differs from itself
                found.append((1, 0) if is_descending else (2, 0))
            elif is_descending:
                found.append((1.5, _NEGATIVE.get(type(value), _Descending)(value)))
            else:
                found.append((1.5, _instant(value) if type(value) is datetime else value))
        return found

    return _place


class _Descending:
    """A value that comes before smaller ones."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:  # noqa: ANN401 - a value
        self.value = _instant(value) if type(value) is datetime else value

    def __lt__(self, other: "_Descending") -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(other.value == self.value)

    def __hash__(self) -> int:
        return hash(self.value)


_NEGATIVE: dict[type, Callable[[Any], Any]] = {int: neg, float: neg, bool: neg, Decimal: Decimal.copy_negate}


@total_ordering
class _Greatest:
    """NaN: equal to itself."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Greatest)

    def __lt__(self, _: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


_GREATEST = _Greatest()


def alike(row: Row) -> tuple[object, ...]:
    """Return a key that is equal for rows with equal values, as GROUP BY and DISTINCT see them. NULL is equal to NULL.

    >>> alike([float("nan")]) == alike([float("nan")]), alike([1]) == alike([Decimal("1.0")])
    (True, True)
    """
    return tuple(_alike(value) for value in row)


def _alike(value: object) -> object:
    if _is_nan(value):
        return _GREATEST
    return _instant(value) if type(value) is datetime else value


def _instant(value: datetime) -> datetime:
    """Return a time in UTC. Python compares two times of one zone by their clocks, which run an hour twice."""
    return value if value.tzinfo is None else value.astimezone(UTC)


def _is_nan(value: object) -> bool:
    return isinstance(value, float | Decimal) and value != value  # noqa: PLR0124 - NaN differs from itself
