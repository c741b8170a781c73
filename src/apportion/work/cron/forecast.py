"""Forecast: the next slots of a rule, and the clock changes among them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.work.cron.calendar import Cron
from apportion.work.cron.clock_changes import ClockChange, clock_changes
from apportion.work.cron.due_slots import SlotRule

MOST_SLOTS = 10_000
_DAY = timedelta(days=1)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The slots of a rule after an instant, in UTC."""

    rule: SlotRule
    after: datetime
    slots: tuple[datetime, ...]

    @property
    def zone(self) -> str:
        """The zone in which the rule is read."""
        return self.rule.zone if isinstance(self.rule, Cron) else "UTC"

    def changes(self) -> tuple[ClockChange, ...]:
        """Return the clock changes that touch one of these slots, or skip one. O(days between the slots)."""
        if not isinstance(self.rule, Cron) or not self.slots:
            return ()
        last = self.slots[-1]
        found = clock_changes(self.rule, after=self.after - _DAY, until=last + _DAY)
        return tuple(each for each in found if self._is_here(each))

    def _is_here(self, change: ClockChange) -> bool:
        touched = [slot for each in change.touched for slot in each.slots] or [change.at]
        return any(self.after < each <= self.slots[-1] for each in touched)


def forecast(rule: SlotRule, *, after: datetime, most: int, stored: datetime | None = None) -> Forecast:
    """Return the next slots of a rule. `stored` is the first one, even if it is not a slot of the rule.

    >>> from datetime import UTC
    >>> from apportion.work.cron.calendar import Every
    >>> hourly = Every(period=timedelta(hours=1))
    >>> [each.hour for each in forecast(hourly, after=datetime(2026, 1, 1, tzinfo=UTC), most=3).slots]
    [1, 2, 3]
    """
    if type(most) is not int or not 1 <= most <= MOST_SLOTS:
        raise InvalidInput("most", most, f"an int in 1 .. {MOST_SLOTS}", "Ask for the slots after the last one.")
    slots: Iterator[datetime] = rule.slots(after if stored is None else stored)
    first = () if stored is None else (stored,)
    return Forecast(rule=rule, after=after, slots=(*first, *islice(slots, most - len(first))))
