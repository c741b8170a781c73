"""Slot walk: the slots of a schedule, found by a look at each minute; slow, and with nothing of the shipped calendar.

It is the oracle of worlds, demonstrations and figures. Its only source is `zoneinfo`: the local time of a minute, and
whether that local time comes twice.
Refuses: rules with more than lists, ranges, steps and names of weekdays. They raise `ValueError`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from zoneinfo import ZoneInfo

_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_WEEKDAYS = {name: str(number) for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_MINUTE_MS, _DAY_MINUTES = 60_000, 1_440
_LONGEST_DAYS = 400
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a local time


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMinute:
    """A minute since 1970, its local time, whether that time comes again, and the local times skipped just before."""

    minute: int
    local: datetime
    is_first: bool
    is_last: bool
    swallowed: tuple[datetime, ...]


@cache
def local_minutes(zone: str, day: int) -> tuple[LocalMinute, ...]:
    """Return the minutes of a day since 1970, in UTC. A day far from a change of the clocks costs one step a minute."""
    there, first = ZoneInfo(zone), day * _DAY_MINUTES
    near = range(first - _DAY_MINUTES, first + 2 * _DAY_MINUTES, 15)
    if len({datetime.fromtimestamp(minute * 60, there).utcoffset() for minute in near}) > 1:
        return tuple(_local_minute(there, minute) for minute in range(first, first + _DAY_MINUTES))
    begin, step = _naive(there, first), timedelta(minutes=1)
    return tuple(_plain_minute(first + each, begin + each * step) for each in range(_DAY_MINUTES))


def _local_minute(zone: ZoneInfo, minute: int) -> LocalMinute:
    aware = datetime.fromtimestamp(minute * 60, zone)
    is_twice = aware.replace(fold=0).utcoffset() != aware.replace(fold=1).utcoffset()
    local, before = aware.replace(tzinfo=None), _naive(zone, minute - 1)
    jumped = (local - before) // timedelta(minutes=1)
    return LocalMinute(
        minute=minute,
        local=local.replace(fold=0),
        is_first=not is_twice or aware.fold == 0,
        is_last=not is_twice or aware.fold == 1,
        swallowed=tuple(before + timedelta(minutes=each) for each in range(1, jumped)),
    )


def _plain_minute(minute: int, local: datetime) -> LocalMinute:
    return LocalMinute(minute=minute, local=local, is_first=True, is_last=True, swallowed=())


def _naive(zone: ZoneInfo, minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, zone).replace(tzinfo=None, fold=0)


@dataclass(frozen=True)
class SlotWalk:
    """The slots of a rule of cron in a zone, in milliseconds since 1970.

    >>> walk = SlotWalk("30 2 * * *", "America/New_York")
    >>> begin = int(datetime(2026, 3, 8, 5, tzinfo=UTC).timestamp()) * 1000  # the day without 02:30
    >>> datetime.fromtimestamp(walk.next(begin) / 1000, UTC).isoformat()
    '2026-03-08T07:00:00+00:00'
    """

    rule: str
    zone: str = "UTC"
    gap: str = "run-after"
    fold: str = "first"

    @cached_property
    def fields(self) -> tuple[frozenset[int], ...]:
        """The numbers of each field; `ValueError` for a field that this walk cannot read."""
        words = self.rule.split()
        return tuple(frozenset(_numbers(word, *ends)) for word, ends in zip(words, _FIELDS, strict=True))

    @property
    def is_readable(self) -> bool:
        """Whether this walk can read the rule."""
        try:
            return len(self.fields) == len(_FIELDS)
        except ValueError:
            return False

    def next(self, after: int) -> int:
        """Return the first slot after a time; `ValueError` if none comes within 400 days."""
        day = after // _MINUTE_MS // _DAY_MINUTES
        for each in range(day, day + _LONGEST_DAYS):
            for slot in self._of_day(each):
                if slot > after:
                    return slot
        raise ValueError(f"no slot of {self.rule!r} within {_LONGEST_DAYS} days")

    def newest(self, until: int, *, after: int) -> int | None:
        """Return the last slot after `after` and up to `until`; None if there is none."""
        day = until // _MINUTE_MS // _DAY_MINUTES
        for each in range(day, after // _MINUTE_MS // _DAY_MINUTES - 1, -1):
            found = [slot for slot in self._of_day(each) if after < slot <= until]
            if found:
                return found[-1]
        return None

    def between(self, after: int, until: int) -> Iterator[int]:
        """Yield the slots after a time and up to another."""
        for day in range(after // _MINUTE_MS // _DAY_MINUTES, until // _MINUTE_MS // _DAY_MINUTES + 1):
            yield from (slot for slot in self._of_day(day) if after < slot <= until)

    def _of_day(self, day: int) -> tuple[int, ...]:
        dates = [_EPOCH + timedelta(days=each) for each in (day - 1, day, day + 1)]  # no zone is further from UTC
        return _slots_of_day(self, day) if any(map(self._is_day, dates)) else ()

    def fires(self, each: LocalMinute) -> bool:
        """Whether a slot comes at a minute."""
        if not self._is_fixed:
            return self._matches(each.local)
        if self._matches(each.local):
            return self.fold == "both" or (each.is_first if self.fold == "first" else each.is_last)
        return self.gap == "run-after" and any(map(self._matches, each.swallowed))

    def _matches(self, local: datetime) -> bool:
        minutes, hours = self.fields[:2]
        return local.minute in minutes and local.hour in hours and self._is_day(local)

    def _is_day(self, local: datetime) -> bool:
        _, _, days, months, weekdays = self.fields
        is_day, is_weekday = local.day in days, bool({local.isoweekday(), local.isoweekday() % 7} & weekdays)
        return local.month in months and (is_day and is_weekday if self._needs_both else is_day or is_weekday)

    @cached_property
    def _is_fixed(self) -> bool:
        return not any(word.startswith("*") for word in self.rule.split()[:2])

    @cached_property
    def _needs_both(self) -> bool:
        _, _, day, _, weekday = self.rule.split()
        return day.startswith("*") or weekday.startswith("*")


@cache
def _slots_of_day(walk: SlotWalk, day: int) -> tuple[int, ...]:
    return tuple(each.minute * _MINUTE_MS for each in local_minutes(walk.zone, day) if walk.fires(each))


def _numbers(word: str, low: int, high: int) -> Iterator[int]:
    """Yield the numbers that one field stands for."""
    for part in word.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = low if first == "*" else int(_WEEKDAYS.get(first.lower(), first))
        end = high if first == "*" or (step and not dash) else int(_WEEKDAYS.get(last.lower(), last or begin))
        yield from range(begin, end + 1, int(step or 1))


def instant(moment: datetime) -> int:
    """Return a moment in milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
