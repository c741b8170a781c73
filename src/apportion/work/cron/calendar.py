"""Calendar: the slots of a schedule, as instants in UTC; pure, and equal in every process with the same zone data.

A rule counts elapsed time if its minute or hour begins with `*`: every instant that matches in local time is a slot.
Every other rule is fixed to local times. When the clocks of the zone go forward, some local times do not exist. With
`gap="run-after"`, all such times of a fixed rule share one slot, the first instant after the change. With "skip", they
have no slot. When the clocks go back, some local times come twice. `fold` chooses the `first` time, the `last`, or
`both`.

Promises: every slot is later than the one before it. A slot of a cron rule is a whole minute.
Refuses: rules with seconds, rules without any slot, and times before 1973. Some zones had offsets with half minutes
until then. There are no slots from the year 9999 on.
Source: cron of Debian. cronsim parses the rules, but does not compute the slots: it loses slots where clocks change by
half an hour. It reads the range `37-37/4` as `37/4`, so a range of one value is passed to it as that value alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from apportion.errors import InvalidInput, MissingExtra
from apportion.errors.brief import brief
from apportion.stores.schedules.values import Fold, Gap
from apportion.work.cron.zone_data import zone_of

if TYPE_CHECKING:
    from cronsim import CronSim

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MOST_CHARACTERS = 1_000
_RANGE_WITH_STEP = re.compile(r"(?<![^\s,])(\w+)-(\w+)/0*[1-9][0-9]*(?![^\s,])")
_LAST_WITH_STEP = re.compile(r"(?<![^\s,])LW?/", re.IGNORECASE)
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES = {name: value for value, name in (*enumerate(_DAYS), *enumerate(_MONTHS, 1))}
_EPOCH = date(1970, 1, 1)
_START, _FIRST, _END = (datetime(year, 1, 1, tzinfo=UTC) for year in (1970, 1973, 9999))
_LARGEST_OFFSET = 26 * 60  # minutes; no zone is further from UTC
_LONGEST_FOLD = timedelta(hours=25)  # islands that crossed the date line had one day twice
_DAYS_OF_THE_CALENDAR = 146_097  # dates and weekdays repeat after 400 years
_LONGEST_WAIT = timedelta(days=100 * 366)  # 29 February comes on each weekday within 40 years
_FAR = datetime(2040, 1, 1, tzinfo=UTC)  # by then, zone data has a rule for the clock changes and no list of them


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """A slot every `period`: the multiples of the period since 1970.

    >>> next(Every(period=timedelta(hours=1)).slots(datetime(2026, 1, 1, 7, 30, tzinfo=UTC))).isoformat()
    '2026-01-01T08:00:00+00:00'
    """

    period: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.period, timedelta) or not timedelta(seconds=1) <= self.period <= timedelta(days=366):
            given = f"{self.period}" if isinstance(self.period, timedelta) else self.period
            hint = "Write every(timedelta(minutes=5))"
            raise InvalidInput("period", given, "a timedelta from a second to 366 days", hint)
        if self.period % timedelta(milliseconds=1):
            raise InvalidInput("period", f"{self.period}", "whole milliseconds", "Write every(timedelta(minutes=5))")

    def slots(self, after: datetime) -> Iterator[datetime]:
        """Return the slots after an instant, up to the year 9999."""
        return self._later(_instant(after))

    def _later(self, begin: datetime) -> Iterator[datetime]:
        since = (begin - _START) // self.period * self.period
        while (since := since + self.period) < _END - _START:
            yield _START + since


@brief
@dataclass(frozen=True, kw_only=True)
class Cron:
    """The slots of a cron rule in a zone: five fields, or one of `MACROS`.

    >>> cron = Cron(rule="30 2 * * *", zone="America/New_York")
    >>> slots = cron.slots(datetime(2026, 3, 7, 12, tzinfo=UTC))  # on 8 March there is no 02:30
    >>> [next(slots).isoformat() for _ in range(2)]
    ['2026-03-08T07:00:00+00:00', '2026-03-09T06:30:00+00:00']
    """

    rule: str
    zone: str = "UTC"
    gap: Gap = "run-after"
    fold: Fold = "first"

    def __post_init__(self) -> None:
        for field, value, choices in (
            ("gap", self.gap, ("run-after", "skip")),
            ("fold", self.fold, ("first", "last", "both")),
        ):
            if value not in choices:
                raise InvalidInput(field, value, f"one of {', '.join(choices)}", f"The default is {choices[0]!r}.")
        if not any(self._is_day(date(2000, 1, 1) + timedelta(days=each)) for each in range(_DAYS_OF_THE_CALENDAR)):
            raise InvalidInput("rule", self.rule, "a rule with a day that exists", "Change its day, month or weekday.")
        self._zone  # noqa: B018 - an unknown zone is refused here
        may_lack_slots = self.gap == "skip" or not self._is_fixed
        if may_lack_slots and next(self.slots(_FAR), None) is None:
            hint = "The clocks skip each of its times: choose another time."
            raise InvalidInput("rule", self.rule, f"a rule with a time that exists in {self.zone}", hint)

    def slots(self, after: datetime) -> Iterator[datetime]:
        """Return the slots after an instant, up to the year 9999."""
        return self._later(_instant(after))

    def _later(self, begin: datetime) -> Iterator[datetime]:
        last = _minute(begin.replace(tzinfo=None))
        for minute in self._minutes((begin.astimezone(self._zone) - _LONGEST_FOLD).date(), last):
            if minute > last:
                last = minute
                yield datetime.fromtimestamp(minute * 60, UTC)

    def matches(self, local: datetime) -> bool:
        """Whether a local time, as a datetime without a zone, matches the rule."""
        is_time = local.hour in self._parsed.hours and local.minute in self._parsed.minutes
        return is_time and self._is_day(local.date())

    def slots_at(self, local: datetime) -> tuple[datetime, ...]:
        """Return the slots of a local time that matches the rule: none, one, or two around a change of the clocks."""
        found = self._chosen(local.date(), local.hour, local.minute)
        return tuple(datetime.fromtimestamp(minute * 60, UTC) for minute in dict.fromkeys(found))

    def _minutes(self, day: date, after: int) -> Iterator[int]:
        """Yield the slots of all local days from `day` on, as minutes since 1970, in order. A slot may come twice.

        Slots up to `after` may be left out.
        """
        waiting, found = list[int](), day
        while day < _END.date() and day - found < _LONGEST_WAIT:
            yield from _popped(waiting, below=(day - _EPOCH).days * 1_440 - _LARGEST_OFFSET)
            for hour in self._hours if self._is_day(day) else ():
                begin, end = self._passes(day, hour, 0), self._passes(day, hour, 59)
                yield from _popped(waiting, below=min(begin))
                if max(begin + end) > after:
                    is_even = begin[0] == begin[1] == end[0] - 59 == end[1] - 59
                    for minute in self._minutes_of_hour(day, hour, is_even=is_even):
                        heappush(waiting, minute)
                        found = day
            day += timedelta(days=1)

    def _minutes_of_hour(self, day: date, hour: int, *, is_even: bool) -> Iterator[int]:
        """Yield the slots of a local hour. `is_even`: the clocks do not change within the hour."""
        if is_even:
            begin, _ = self._passes(day, hour, 0)
            yield from (begin + minute for minute in self._minute_set)
            return
        for minute in self._minute_set:
            yield from self._chosen(day, hour, minute)

    def _chosen(self, day: date, hour: int, minute: int) -> tuple[int, ...]:
        """Return the slots of one local minute, by the policies `gap` and `fold`."""
        first, last = self._passes(day, hour, minute)
        if first > last:  # the clocks skip this minute
            is_run = self._is_fixed and self.gap == "run-after"
            return (self._first_after(last, first),) if is_run else ()
        if not self._is_fixed or self.fold == "both":
            return (first, last)
        return (first,) if self.fold == "first" else (last,)

    def _passes(self, day: date, hour: int, minute: int) -> tuple[int, int]:
        """Return the instants of a local minute by the offsets before and after a change of the clocks.

        Without a change, both are equal. If the clocks skip this minute, the first instant is the later one.
        """
        return _passes(self._zone, day, hour, minute)

    def _first_after(self, before: int, after: int) -> int:
        """Return the first minute with the offset of `after`. The clocks go forward between `before` and `after`."""
        offset = self._offset_at(after)
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (before, middle) if self._offset_at(middle) == offset else (middle, after)
        return after

    def _offset_at(self, minute: int) -> int:
        return _offset(datetime.fromtimestamp(minute * 60, self._zone))

    def _is_day(self, day: date) -> bool:
        return day.month in self._parsed.months and self._parsed.match_day(day)

    @cached_property
    def _zone(self) -> ZoneInfo:
        return zone_of(self.zone)

    @cached_property
    def _parsed(self) -> "CronSim":
        return _parsed(self.rule)

    @cached_property
    def _is_fixed(self) -> bool:
        minute, hour = MACROS.get(self.rule, self.rule).split()[:2]
        return not minute.startswith("*") and not hour.startswith("*")

    @cached_property
    def _hours(self) -> list[int]:
        return sorted(self._parsed.hours)

    @cached_property
    def _minute_set(self) -> list[int]:
        return sorted(self._parsed.minutes)


def cron_slots(
    rule: str, *, after: datetime, zone: str = "UTC", gap: Gap = "run-after", fold: Fold = "first"
) -> Iterator[datetime]:
    """Return the slots of a cron rule after an instant, as datetimes in UTC, up to the year 9999. Pure.

    - `rule`: five fields (minute, hour, day, month, weekday), or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    - `after`: a datetime with a zone. All slots are later.
    - `zone`: the zone in which the rule is read, for example "Europe/Berlin". Default: UTC.
    - `gap`, `fold`: the slots of a fixed rule where the clocks of the zone change; see the page on clock changes.

    `InvalidInput` for an invalid rule, zone or time. Source: cron of Debian.

    >>> from datetime import UTC, datetime
    >>> next(cron_slots("0 9 * * mon-fri", zone="Europe/Berlin", after=datetime(2026, 11, 20, 12, tzinfo=UTC)))
    datetime.datetime(2026, 11, 23, 8, 0, tzinfo=datetime.timezone.utc)
    """
    return Cron(rule=rule, zone=zone, gap=gap, fold=fold).slots(after)


def _parsed(rule: str) -> "CronSim":
    """Return a rule as cronsim reads it."""
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("cronsim", "tasks") from error
    text = MACROS.get(rule, rule) if isinstance(rule, str) else ""
    if _LAST_WITH_STEP.search(text):
        raise InvalidInput("rule", rule, "no step after L or LW", "Write L alone for the last day of the month.")
    hint = "Write minute, hour, day, month and weekday, as in '0 9 * * mon-fri'."
    if len(text.split()) == 6:
        raise InvalidInput("rule", rule, "five fields", "For a part of a minute, write every(timedelta(seconds=30)).")
    if len(text.split()) != 5 or len(text) > _MOST_CHARACTERS or not text.isascii():
        expected = f"five fields in at most {_MOST_CHARACTERS} characters of ASCII, or one of {', '.join(MACROS)}"
        raise InvalidInput("rule", rule if len(str(rule)) < 80 else f"{str(rule)[:80]}...", expected, hint)
    try:
        return CronSim(_RANGE_WITH_STEP.sub(_simplified, text), datetime(2000, 1, 1))  # noqa: DTZ001 - only read
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        raise InvalidInput("rule", rule, f"five fields of cron, with a valid {field}", hint) from error


def _simplified(term: re.Match[str]) -> str:
    """Return a range with a step as it is, but a range of one value as this value."""
    first, last = (int(each) if each.isdigit() else _NAMES.get(each.lower(), each) for each in (term[1], term[2]))
    return term[1] if first == last else term[0]


@lru_cache(maxsize=16_384)
def _passes(zone: ZoneInfo, day: date, hour: int, minute: int) -> tuple[int, int]:
    """Return the instants of a local minute. The cache serves schedules of one zone that are due together."""
    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
    count = _minute(local.replace(tzinfo=None))
    return count - _offset(local), count - _offset(local.replace(fold=1))


def _popped(waiting: list[int], *, below: int) -> Iterator[int]:
    while waiting and waiting[0] < below:
        yield heappop(waiting)


def _instant(after: datetime) -> datetime:
    if not isinstance(after, datetime) or after.tzinfo is None:
        given = f"{after}" if isinstance(after, datetime) else after
        raise InvalidInput("after", given, "a datetime with a zone", "Write datetime.now(UTC)")
    if not _FIRST <= after < _END:
        raise InvalidInput("after", str(after), "a time from 1973 on, before the year 9999", "Write datetime.now(UTC)")
    return after.astimezone(UTC)


def _minute(local: datetime) -> int:
    return (local.date() - _EPOCH).days * 1_440 + local.hour * 60 + local.minute


def _offset(local: datetime) -> int:
    """Return how far a local time is ahead of UTC, in minutes."""
    offset = local.utcoffset() or timedelta(0)
    return offset // timedelta(minutes=1)
