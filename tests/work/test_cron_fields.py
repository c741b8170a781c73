"""The fields of a rule mean the same as in the cron of Vixie: a second reader of fields, written from its source.

Beyond that source, a single value with a step goes to the end of its field, as in cronsim and croniter; the cron of
Vixie refuses it. The forms `L`, `LW`, `5L` and `mon#1` come from cronsim, and have no second reader here.
"""

import random
from datetime import date, timedelta

import pytest

from apportion.errors import InvalidInput
from apportion.work.cron.calendar import Cron

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
NAMES = {3: MONTHS, 4: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]}
FIELDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
PIECES = [
    *"0123456789",
    "12",
    "31",
    "59",
    "*",
    "*",
    "-",
    "-",
    "/",
    "/",
    ",",
    ",",
    "?",
    "l",
    "#",
    "sun",
    "mar",
    "+",
    "x",
]
ODD = [
    "37-37/4", "37/4", "5-3", "*/7", "1,2-5/2", "sun", "7", "0-7", "jan-mar/2", "?", "*/90", "0-6/7", "00", "7-7/2",
    "sun-sun/3", "sun-0/3", "mar-mar/2", "03-3/2", "5-5/0", "5-5/", "5--5/2", "1-1-1/2", "0-0/9", "1,7-7/2,3",
]  # fmt: skip
LEAP_YEAR = [date(2000, 1, 1) + timedelta(days=each) for each in range(366)]


def number(text, place):
    """Return a number or a name, as `get_number` does; None: there is none."""
    names = NAMES.get(place, [])
    if text.lower() in names:
        return names.index(text.lower()) + (place == 3)
    return int(text) if text.isascii() and text.isdigit() else None


def term(text, place):
    """Return the values of one element of a list, as `get_range` does; None: it is refused."""
    low, high = FIELDS[place]
    body, slash, step = text.partition("/")
    begin, dash, end = body.partition("-")
    if body == "*":
        first, last = low, high
    else:
        first = number(begin, place)
        last = number(end, place) if dash else high if slash else first
    by = 1 if not slash else int(step) if step.isascii() and step.isdigit() else 0
    if first is None or last is None or by == 0 or not low <= first <= last <= high:
        return None
    return set(range(first, last + 1, by))


def values(text, place):
    """Return the values of a field, 7 as 0 among weekdays; None: it is refused."""
    terms = [term(each, place) for each in text.split(",")]
    if None in terms:
        return None
    found = set().union(*terms)
    return {each % 7 for each in found} if place == 4 else found


def read(text, place):
    """Return the values of a field as our calendar has them; None: it is refused."""
    fields = ["0", "0", "*", "*", "*"]
    fields[place] = text
    try:
        cron = Cron(rule=" ".join(fields))
    except InvalidInput:
        return None
    if place < 2:
        return set((cron._minute_set, cron._hours)[place])
    days = list(filter(cron._is_day, LEAP_YEAR))
    return {(each.day, each.month, each.isoweekday() % 7)[place - 2] for each in days}


@pytest.mark.parametrize("text", ODD)
def test_an_odd_field_has_the_values_of_the_second_reader(text):
    assert [values(text, place) for place in range(5)] == [read(text, place) for place in range(5)]


def test_random_fields_have_the_values_of_the_second_reader():
    draw, different = random.Random(37), []
    for _ in range(4_000):
        text, place = "".join(draw.choices(PIECES, k=draw.randint(1, 7))), draw.randrange(5)
        if not (("l" in text or "#" in text) and place in (2, 4)) and values(text, place) != read(text, place):
            different.append((text, place))
    assert [] == different
