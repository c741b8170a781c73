"""Order: values from several shards in the order of their database, and equal where the database says so.

NULL is the greatest value in PostgreSQL and the least in SQLite. NaN is equal to itself, and greater than all numbers.
Text has the order of its bytes under the collation "C" of PostgreSQL and BINARY of SQLite.

Refuses: the order of other collations, and of types that are not plain.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import total_ordering
from operator import neg
from types import NoneType
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


def sort_key(keys: Sequence[OrderKey]) -> Callable[[Row], list[Any]]:
    """Return the function that gives a row's place in an order. O(keys)."""
    parts = [(key.place, *_turns(key)) for key in keys]

    def _place(row: Row) -> list[Any]:
        found: list[Any] = []  # list[Any]() would take as long as all the rest
        for place, turns, otherwise in parts:
            value = row[place]
            turn = turns.get(type(value), otherwise)
            found.append(value if turn is None else turn(value))
        return found

    return _place


Turn: TypeAlias = Callable[[Any], Any]
"""Makes the value that stands for a value in an order."""


def _turns(key: OrderKey) -> tuple[Mapping[type, Turn], Turn | None]:
    """Return the turn of each type for one key, and that of all other types. None: a value stands for itself."""
    null = _FIRST if key.has_nulls_first else _LAST
    turns, otherwise = (_FALLING, _Descending) if key.is_descending else (_RISING, None)
    return {**turns, NoneType: lambda _: null}, otherwise


@total_ordering
class _Beside:
    """A place before all values, or after them. It is equal to itself alone."""

    __slots__ = ("rank",)

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __lt__(self, other: object) -> bool:
        return self.rank < (other.rank if isinstance(other, _Beside) else 0)


_FIRST, _BELOW, _ABOVE, _LAST = map(_Beside, (-2, -1, 1, 2))


class _Descending:
    """A value that comes before smaller ones."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:  # noqa: ANN401 - a value
        self.value = _instant(value) if type(value) is datetime else value

    def __lt__(self, other: object) -> bool:
        return bool(other.value < self.value) if isinstance(other, _Descending) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(other.value == self.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _rising(number: float | Decimal) -> object:
    return number if number == number else _ABOVE  # noqa: PLR0124 - NaN is greater than all numbers, and not itself


def _falling(number: float | Decimal) -> object:
    if number != number:  # noqa: PLR0124 - NaN
        return _BELOW
    return -number if isinstance(number, float) else number.copy_negate()  # with all its digits


def alike(row: Row) -> tuple[object, ...]:
    """Return a key that is equal for rows with equal values, as GROUP BY and DISTINCT see them. NULL is equal to NULL.

    >>> alike([float("nan")]) == alike([float("nan")]), alike([1]) == alike([Decimal("1.0")])
    (True, True)
    """
    return tuple(_RISING[type(value)](value) if type(value) in _RISING else value for value in row)


def _instant(value: datetime) -> datetime:
    """Return a time in UTC. Python compares two times of one zone by their clocks, which run an hour twice."""
    return value if value.tzinfo is None else value.astimezone(UTC)


_RISING: Mapping[type, Turn] = {float: _rising, Decimal: _rising, datetime: _instant}
_FALLING: Mapping[type, Turn] = {int: neg, bool: neg, float: _falling, Decimal: _falling}
