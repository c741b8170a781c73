"""Peak windows: the highest load of a range in each of the last six windows of time.

A merge looks at the maximum over all six windows. Six windows of four hours cover a day, so the quiet of a night
alone joins no ranges that the next morning would split.

Promises: all ranges with the same length of windows begin their windows at the same times.
Refuses: to fill a gap. After a whole window without a sample, the count of windows starts again.
Source: the retention of the split decider of CockroachDB, which is also six windows, but of five minutes together.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from apportion.balance.ranges.range_limits import check_time
from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.numbers import check_int

WINDOWS = 6


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class PeakWindows:
    """The highest requests per second of each window, the oldest first; the last window goes on.

    `number` is the number of the last window, counted from time 0.

    >>> peaks = PeakWindows(window_seconds=60)
    >>> for now, requests in ((0, 5), (30, 9), (70, 4)):
    ...     peaks = peaks.seen(requests, now=now)
    >>> peaks.values, peaks.highest, peaks.is_complete
    ((9, 4), 9, False)
    """

    window_seconds: int = 4 * 3600
    number: int = 0
    values: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_int("window_seconds", self.window_seconds, 1, hint="Four hours, 14400, make six windows a day.")
        check_int("number of the window", self.number, 0, hint="Windows are counted from time 0.")
        if not isinstance(self.values, tuple) or len(self.values) > WINDOWS:
            hint = "Add samples with seen(requests, now=...)."
            raise InvalidInput("values of the windows", self.values, f"a tuple of at most {WINDOWS}", hint)
        for value in self.values:
            check_int("peak of a window", value, 0, hint="Give requests per second, rounded up.")

    @property
    def highest(self) -> int:
        """The maximum over all windows, 0 without one."""
        return max(self.values, default=0)

    @property
    def is_complete(self) -> bool:
        """Whether there are six windows, so that the maximum says enough for a merge."""
        return len(self.values) == WINDOWS

    def seen(self, requests: int, *, now: float) -> Self:
        """Return the windows after one more sample, at `now` in elapsed seconds. O(1)."""
        check_int("requests", requests, 0, hint="Give requests per second, rounded up.")
        check_time("now", now)
        number = int(now // self.window_seconds)
        if not self.values or number > self.number + 1:
            return replace(self, number=number, values=(requests,))
        if number < self.number:
            expected = f"at least {self.number * self.window_seconds}, the start of the last window"
            raise InvalidInput("now", now, expected, "Give elapsed seconds of one clock, in order.")
        if number == self.number:
            return replace(self, values=(*self.values[:-1], max(self.values[-1], requests)))
        return replace(self, number=number, values=(*self.values, requests)[-WINDOWS:])

    def scaled(self, ratio: Fraction) -> Self:
        """Return the windows of a part of the load, each peak rounded up."""
        return replace(self, values=tuple(-(-value * ratio // 1) for value in self.values))

    def plus(self, other: "PeakWindows") -> Self:
        """Return the sum of both in the windows that both have. Peaks of other times or lengths have no sum."""
        if (self.window_seconds, self.number) != (other.window_seconds, other.number):
            return replace(self, values=())
        pairs = list(zip(reversed(self.values), reversed(other.values), strict=False))
        return replace(self, values=tuple(one + another for one, another in reversed(pairs)))
