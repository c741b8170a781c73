"""Clock changes: their effect on the future slots of a rule. Pure.

Promises: the slots of a touched time are the slots that `Cron.slots` yields for that time.
Source: the policies `gap` and `fold` of `calendar`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from apportion.errors.brief import brief
from apportion.work.cron.calendar import Cron
from apportion.work.cron.zone_data import zone_of

_STEP, _MINUTE = timedelta(hours=12), timedelta(minutes=1)  # no zone changes its clocks twice within a step


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedTime:
    """A local time of a rule. On this day, the clocks skip this time or repeat it. `slots` are its slots in UTC."""

    local: datetime
    slots: tuple[datetime, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """A change of the clocks at an instant, from the local time `before` to `after`.

    If the clocks go forward, the times between the two are skipped. If they go back, these times come twice. `touched`
    are the skipped or repeated times that match the rule.
    """

    at: datetime
    before: datetime
    after: datetime
    touched: tuple[TouchedTime, ...]

    @property
    def is_forward(self) -> bool:
        """Whether the clocks go forward."""
        return self.after > self.before


def clock_changes(cron: Cron, *, after: datetime, until: datetime) -> Iterator[ClockChange]:
    """Yield the clock changes of the zone that touch a time of the rule, later than `after` and up to `until`.

    >>> cron = Cron(rule="30 2 * * *", zone="America/New_York")
    >>> (change,) = clock_changes(cron, after=datetime(2026, 1, 1, tzinfo=UTC), until=datetime(2026, 6, 1, tzinfo=UTC))
    >>> [(str(each.local), *map(str, each.slots)) for each in change.touched]
    [('2026-03-08 02:30:00', '2026-03-08 07:00:00+00:00')]
    """
    zone = zone_of(cron.zone)
    for instant in _changes(zone, after.astimezone(UTC).replace(second=0, microsecond=0), until):
        before = _local(instant - _MINUTE, zone) + _MINUTE
        now = _local(instant, zone)
        first, last = min(before, now), max(before, now)
        times = [first + count * _MINUTE for count in range((last - first) // _MINUTE)]
        touched = tuple(TouchedTime(local=each, slots=cron.slots_at(each)) for each in times if cron.matches(each))
        if touched:
            yield ClockChange(at=instant, before=before, after=now, touched=touched)


def _changes(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the first minute of each new offset."""
    while after < until:
        later = min(after + _STEP, until)
        begin, end = after, later
        while _offset(begin, zone) != _offset(end, zone) and end - begin > _MINUTE:
            middle = begin + (end - begin) // 2 // _MINUTE * _MINUTE
            begin, end = (middle, end) if _offset(middle, zone) == _offset(after, zone) else (begin, middle)
        if _offset(after, zone) != _offset(later, zone):
            yield end
        after = later


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta | None:
    return instant.astimezone(zone).utcoffset()


def _local(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)
