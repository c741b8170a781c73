"""Retry budget: the failures that a task may have, its waits before retries, and two exceptions for task functions.

A retry waits for a random time below a bound that doubles with every failure (full jitter). So tasks that failed at the
same time are not retried at the same time.
Source: https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from apportion.errors import InvalidInput
from apportion.errors.brief import brief

_LONGEST = timedelta(days=365)


class Snooze(Exception):
    """A task function raises this to run its task again later. It does not count as a failure."""

    def __init__(self, *, after: timedelta) -> None:
        super().__init__(f"again in {after}")
        self.after: timedelta = length("after", after)


class GivenBack(Snooze):
    """The end of a run that did not begin, or that was broken off from outside. Its task is ready again at once."""

    def __init__(self) -> None:
        super().__init__(after=timedelta(0))


class GiveUp(Exception):
    """A task function raises this if its task can never succeed. The task is dead at once, with this as its reason."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The failures and deaths that a task may have, and its waits. Every failure of a kind in `give_up_on` is final.

    >>> budget = Budget()
    >>> [budget.delay_ms(failures, lambda: 1.0) for failures in (1, 2, 3, 20)]
    [1000, 2000, 4000, 3600000]
    >>> budget.delay_ms(25, lambda: 1.0) is None
    True
    """

    failures: int = 25
    deaths: int | None = 5
    first_delay: timedelta = timedelta(seconds=1)
    longest_delay: timedelta = timedelta(hours=1)
    give_up_on: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        _count("failures", self.failures)
        if self.deaths is not None:
            _count("deaths", self.deaths)
        length("first_delay", self.first_delay)
        length("longest_delay", self.longest_delay)
        kinds = self.give_up_on if isinstance(self.give_up_on, tuple) else (None,)
        if not all(isinstance(each, type) and issubclass(each, Exception) for each in kinds):
            hint = "Write give_up_on=(ValueError,)"
            raise InvalidInput("give_up_on", self.give_up_on, "a tuple of exception classes", hint)

    def delay_ms(self, failures: int, draw: Callable[[], float]) -> int | None:
        """Return the wait after this many failures; None if the budget is spent. `draw` returns 0 to 1."""
        if failures >= self.failures:
            return None
        doubled = self.first_delay * 2 ** min(failures - 1, 40)
        return milliseconds(min(doubled, self.longest_delay) * draw())


def length(field: str, value: timedelta) -> timedelta:
    """Return a length of time from 0 to a year; `InvalidInput` for any other value."""
    if not isinstance(value, timedelta) or not timedelta(0) <= value <= _LONGEST:
        hint = f"Write {field}=timedelta(seconds=10)"
        shown = str(value) if isinstance(value, timedelta) else value
        raise InvalidInput(field, shown, "a timedelta from 0 to a year", hint)
    return value


def milliseconds(value: timedelta) -> int:
    """Return a length of time in whole milliseconds."""
    return round(value / timedelta(milliseconds=1))


def _count(field: str, value: int) -> None:
    if type(value) is not int or value < 1:
        raise InvalidInput(field, value, "an int of at least 1", "Leave it out for the default.")
