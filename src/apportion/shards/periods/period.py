"""Period: a day, a week, a month or a year of the calendar. Each begins at midnight UTC; weeks begin on Mondays.

Promises: pure. Each day lies in exactly one period of a length.
"""

from datetime import date, timedelta
from typing import Literal, TypeAlias, get_args

PeriodLength: TypeAlias = Literal["day", "week", "month", "year"]
"""The length of the periods of a table."""

LENGTHS: tuple[PeriodLength, ...] = get_args(PeriodLength)


def start_of(length: PeriodLength, day: date) -> date:
    """Return the first day of the period of a day.

    >>> start_of("month", date(2026, 3, 31)), start_of("week", date(2026, 3, 31))
    (datetime.date(2026, 3, 1), datetime.date(2026, 3, 30))
    """
    if length == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=day.day if length == "day" else 1, month=1 if length == "year" else day.month)


def next_start(length: PeriodLength, day: date) -> date:
    """Return the first day of the period that follows the period of a day.

    >>> next_start("month", date(2026, 12, 5)), next_start("day", date(2024, 2, 28))
    (datetime.date(2027, 1, 1), datetime.date(2024, 2, 29))
    """
    longest = {"day": 1, "week": 7, "month": 31, "year": 366}[length]
    return start_of(length, start_of(length, day) + timedelta(days=longest))


def starts_after(length: PeriodLength, day: date, count: int) -> date:
    """Return the first day of the period that comes `count` periods after the period of a day.

    >>> starts_after("month", date(2026, 11, 29), 3)
    datetime.date(2027, 2, 1)
    """
    start = start_of(length, day)
    for _ in range(count):
        start = next_start(length, start)
    return start
