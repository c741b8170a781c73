"""Interleaved rounds: contenders run A B C A B C ..., so that a slow moment of the machine hits all of them.

Promises: the same number of rounds for each, none of them the first; no garbage collection inside a round.
Refuses: to compare contenders of two races. Ratios are of medians; their spread is that of the rounds, pair by pair.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import sub, truediv
from statistics import median
from time import perf_counter_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure of the medians, and the least and the most that any round gave."""

    median: float
    least: float
    most: float

    def shown(self, unit: str, *, digits: int = 1) -> str:
        """Return the median with its unit and the range around it.

        >>> Spread(median=1.25, least=1.0, most=2.0).shown("ms", digits=2)
        '1.25 ms (1.00..2.00)'
        """
        median, least, most = (f"{value:.{digits}f}" for value in (self.median, self.least, self.most))
        return f"{median} {unit} ({least}..{most})"


Turn = Callable[[], object]


def race(
    contenders: Mapping[str, Turn], *, rounds: int, before: Callable[[Turn], object] = lambda _turn: None
) -> dict[str, list[int]]:
    """Return nanoseconds of each round by contender, in order. `before` is given every turn ahead of it, off the clock.

    With `before=operator.call` each finds the caches as it leaves them itself, else as the contender before it did.
    """
    times: dict[str, list[int]] = {name: [] for name in contenders}
    for contender in contenders.values():
        contender()
    for _ in range(rounds):
        for name, contender in contenders.items():
            before(contender)
            times[name].append(_timed(contender))
    return times


def spread(times_ns: Sequence[int], *, calls: int = 1) -> Spread:
    """Return the nanoseconds of one call, where a round makes `calls` of them."""
    return Spread(median=median(times_ns) / calls, least=min(times_ns) / calls, most=max(times_ns) / calls)


def speed_ratio(baseline_ns: Sequence[int], times_ns: Sequence[int]) -> Spread:
    """Return how many times as fast as the baseline a contender is; above 1 is faster."""
    return _paired(truediv, baseline_ns, times_ns)


def excess(times_ns: Sequence[int], baseline_ns: Sequence[int]) -> Spread:
    """Return how many nanoseconds a contender takes on top of the baseline."""
    return _paired(sub, times_ns, baseline_ns)


def _paired(compare: Callable[[float, float], float], left: Sequence[int], right: Sequence[int]) -> Spread:
    rounds = [compare(a, b) for a, b in zip(left, right, strict=True)]
    return Spread(median=compare(median(left), median(right)), least=min(rounds), most=max(rounds))


def _timed(contender: Callable[[], object]) -> int:
    with _no_collection():
        start = perf_counter_ns()
        contender()
        return perf_counter_ns() - start


@contextmanager
def _no_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
