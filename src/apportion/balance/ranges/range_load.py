"""Range load: the size and the load of one range of keys, as measured, and the check of a list of them.

Promises: a sampled key lies in its range, and no two ranges of a list overlap.
Refuses: to measure. The caller counts requests and bytes, and samples keys with `KeyReservoir`.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from apportion.balance.ranges.key_reservoir import MAX_KEYS
from apportion.balance.ranges.peak_windows import PeakWindows
from apportion.balance.ranges.range_limits import RangeLimits, check_time
from apportion.errors import BadRange, InvalidInput
from apportion.errors.brief import brief
from apportion.model.numbers import check_int
from apportion.model.token import KeyRange, Position, check_position, is_before
from apportion.model.topology import check_name


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLoad:
    """One range: its owner, its bytes, its requests per second, and keys sampled from both.

    - `requests`: the present load, a mean over some ten seconds. Any load that adds up will do, such as milliseconds
      of processor time, if `RangeLimits` has the same unit.
    - `peaks`: the load of the past. Without six windows of it, the range is not merged.
    - `changed_at`: the time of the last split or merge of this range, in elapsed seconds.
    - `requested_keys`: keys sampled from requests; they place a split for load.
    - `stored_keys`: keys sampled from the stored rows; they place a split for size.

    A key must be fit for a boundary. The rows of one entity, which stay together, have one key.
    """

    range: KeyRange
    owner: str
    size_bytes: int
    requests: int
    changed_at: float = 0
    peaks: PeakWindows = field(default_factory=PeakWindows)
    requested_keys: tuple[Position, ...] = ()
    stored_keys: tuple[Position, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.range, KeyRange):
            raise InvalidInput("range", self.range, "a KeyRange", "Pass a range that Ranges.scan names.")
        check_name("owner", self.owner)
        check_int("size_bytes", self.size_bytes, 0, hint="Give the bytes of the stored rows.")
        check_int("requests", self.requests, 0, hint="Give requests per second, rounded up.")
        check_time("changed_at", self.changed_at)
        if not isinstance(self.peaks, PeakWindows):
            raise InvalidInput("peaks", self.peaks, "PeakWindows", "Add samples with PeakWindows().seen(...).")
        for name in ("requested_keys", "stored_keys"):
            object.__setattr__(self, name, _checked_keys(name, getattr(self, name), self.range))

    def share_before(self, at: Position, keys: tuple[Position, ...]) -> Fraction:
        """Return the share of sampled keys before a position; one half without keys. O(log keys)."""
        return Fraction(bisect_left(keys, at), len(keys)) if keys else Fraction(1, 2)


def _checked_keys(name: str, keys: tuple[Position, ...], key_range: KeyRange) -> tuple[Position, ...]:
    """Return the keys in order; refuse a key outside of the range."""
    if not isinstance(keys, tuple) or len(keys) > MAX_KEYS:
        raise InvalidInput(name, keys, f"a tuple of at most {MAX_KEYS} positions", "Pass KeyReservoir.keys.")
    for key in keys:
        check_position(name, key)
        if key not in key_range:
            hint = "Sample each range apart; after a split, begin a new sample."
            raise BadRange(name, key, f"keys in {key_range}", hint)
    return tuple(sorted(keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSurvey:
    """Checked input of a planner: all ranges in order, and the operations under way."""

    loads: tuple[RangeLoad, ...]
    limits: RangeLimits
    in_flight: tuple[KeyRange, ...]

    @property
    def room(self) -> int:
        """The number of operations that may begin."""
        return max(0, self.limits.most_in_flight - len(self.in_flight))

    def is_free(self, load: RangeLoad) -> bool:
        """Return whether no operation under way touches a range. O(in flight)."""
        return not any(_overlap(load.range, other) for other in self.in_flight)

    def is_settled(self, load: RangeLoad, now: float) -> bool:
        """Return whether a range is free, and old enough for other boundaries."""
        return now - load.changed_at >= self.limits.least_age_seconds and self.is_free(load)


def surveyed(loads: Iterable[RangeLoad], limits: RangeLimits, in_flight: Iterable[KeyRange]) -> RangeSurvey:
    """Return the checked input of a planner; `BadRange` names the first overlap. O(n log n)."""
    if not isinstance(limits, RangeLimits):
        raise InvalidInput("limits", limits, "RangeLimits", "Write RangeLimits(split_requests=...).")
    listed, running = list(loads), list(in_flight)
    for load in listed:
        if not isinstance(load, RangeLoad):
            raise InvalidInput("load of a range", load, "a RangeLoad", "Write RangeLoad(range=..., owner=..., ...).")
    for each in running:
        if not isinstance(each, KeyRange):
            raise InvalidInput("range in flight", each, "a KeyRange", "Pass the ranges of splits, merges and moves.")
    for one, other in pairwise([*(load.range for load in listed), *running]):
        is_before(one.start, other.start)  # refuses tokens beside bytes
    listed.sort(key=lambda load: load.range.start)
    for left, right in pairwise(listed):
        if _overlap(left.range, right.range):
            hint = "Measure each range once, and all of them after the same change."
            raise BadRange("range", str(right.range), f"one that begins after {left.range}", hint)
    return RangeSurvey(loads=tuple(listed), limits=limits, in_flight=tuple(running))


def _overlap(one: KeyRange, other: KeyRange) -> bool:
    return (one.end is None or is_before(other.start, one.end)) and (
        other.end is None or is_before(one.start, other.end)
    )
