"""Range split: cut ranges that are too large or too hot, at a sampled key.

Promises: both sides of a split contain a sampled key, so neither side is empty. The cut divides the sample as evenly as
its keys allow. Ranges furthest above a limit come first. The same input gives the same plan.
Refuses: to cut where one key has nearly all of the load: no boundary divides a key. The verdict `Unsplittable` names
the key and the remedies.
Source: Load-based splitting of CockroachDB, which weighs the requests on both sides of sampled keys.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import Literal, TypeAlias

from apportion.balance.ranges.range_limits import STANDARD, RangeLimits, check_time
from apportion.balance.ranges.range_load import RangeLoad, surveyed
from apportion.errors import BadRange, InvalidInput, shown
from apportion.errors.brief import brief
from apportion.model.token import KeyRange, Position, check_position

Cause: TypeAlias = Literal["load", "size"]

LEAST_KEYS = 16
"""A smaller sample says too little: the range waits for more keys."""

LEAST_SIDE = Fraction(1, 8)
"""A split is worth its cost if the lighter side has at least this share of the sample."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSplit:
    """The cut of a range at a key: `[start, at)` and `[at, end)`. The owner stays."""

    range: KeyRange
    at: Position
    cause: Cause

    def __post_init__(self) -> None:
        check_position("boundary of the split", self.at)
        if self.at not in self.range or self.at == self.range.start:
            hint = "Cut at a key after the first one of the range."
            raise BadRange("boundary of the split", self.at, f"a position inside {self.range}", hint)

    def halves(self, load: RangeLoad, *, now: float) -> tuple[RangeLoad, RangeLoad]:
        """Return both sides as ranges, with loads and sizes estimated from the sample, until they are measured."""
        if load.range != self.range:
            raise BadRange(
                "range", str(load.range), f"{self.range}, that of the split", "Pass the range it was made for."
            )
        check_time("now", now)
        asked, stored = load.share_before(self.at, load.requested_keys), load.share_before(self.at, load.stored_keys)
        left = round(load.requests * asked), round(load.size_bytes * stored)
        shared = bisect_left(load.requested_keys, self.at), bisect_left(load.stored_keys, self.at)
        return (
            replace(
                load,
                range=KeyRange(self.range.start, self.at),
                requests=left[0],
                size_bytes=left[1],
                changed_at=now,
                peaks=load.peaks.scaled(asked),
                requested_keys=load.requested_keys[: shared[0]],
                stored_keys=load.stored_keys[: shared[1]],
            ),
            replace(
                load,
                range=KeyRange(self.at, self.range.end),
                requests=load.requests - left[0],
                size_bytes=load.size_bytes - left[1],
                changed_at=now,
                peaks=load.peaks.scaled(1 - asked),
                requested_keys=load.requested_keys[shared[0] :],
                stored_keys=load.stored_keys[shared[1] :],
            ),
        )

    def __str__(self) -> str:
        return f"split {self.range} at {shown(self.at)} ({self.cause})"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Unsplittable:
    """The verdict on a range above a limit in which one key has nearly everything.

    `key_ratio` is the key's share of the sample. `parts` is the number of nodes or salts that brings each part of the
    key below the limit.
    """

    range: KeyRange
    key: Position
    cause: Cause
    key_ratio: float
    parts: int

    @property
    def advice(self) -> str:
        """The remedies, as a sentence for an operator."""
        key, share = shown(self.key), f"{self.key_ratio:.0%}"
        if self.cause == "size":
            return f"Key {key} has {share} of the rows of {self.range}. Divide it: salt(key, {self.parts}, rng)."
        return (
            f"Key {key} has {share} of the requests of {self.range}. If they read, cache the key, or copy it to "
            f"{self.parts} nodes with PopularKeys. If they write, divide it: salt(key, {self.parts}, rng)."
        )

    def __str__(self) -> str:
        return f"unsplittable {self.range}: {self.advice}"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """The splits to begin now, the most urgent first, and the ranges that no split helps."""

    splits: tuple[RangeSplit, ...]
    unsplittable: tuple[Unsplittable, ...]


def plan_split(
    loads: Iterable[RangeLoad], *, now: float, limits: RangeLimits = STANDARD, in_flight: Iterable[KeyRange] = ()
) -> SplitPlan:
    """Return the ranges to split, each at a sampled key, and those above a limit that no split helps.

    `in_flight` are the ranges of operations under way. They are left alone, and count against `most_in_flight`. Ranges
    younger than `least_age_seconds`, or with fewer than 16 sampled keys, wait. O(ranges log ranges + keys).

    Raises `BadRange` for ranges that overlap, and `InvalidInput` for a range above a limit without a sampled key.

    >>> load = RangeLoad(
    ...     range=KeyRange(b"", None), owner="a", size_bytes=0, requests=3000,
    ...     requested_keys=tuple(b"user-%02d" % number for number in range(20)),
    ... )
    >>> [str(split) for split in plan_split([load], now=600).splits]
    ["split [b'', end) at b'user-10' (load)"]
    """
    check_time("now", now)
    survey = surveyed(loads, limits, in_flight)
    settled = [load for load in survey.loads if survey.is_settled(load, now)]
    splits: list[RangeSplit] = []
    unsplittable: list[Unsplittable] = []
    for load in sorted(settled, key=lambda load: (-_excess(load, limits), load.range.start)):
        for found in _verdicts(load, limits):
            if isinstance(found, Unsplittable):
                unsplittable.append(found)
            else:
                splits.append(found)
                break
    return SplitPlan(splits=tuple(splits[: survey.room]), unsplittable=tuple(unsplittable))


def awaits_split(load: RangeLoad, limits: RangeLimits) -> bool:
    """Return whether a range will be split for its load, now or when it is old enough. O(keys)."""
    keys, excess = load.requested_keys, Fraction(load.requests, limits.split_requests)
    return (
        excess > 1 and any(isinstance(found, RangeSplit) for found in _verdict(load, "load", keys, excess))
        if keys
        else False
    )


def _excess(load: RangeLoad, limits: RangeLimits) -> Fraction:
    """Return how many times the limit a range has, of load or size."""
    return max(Fraction(load.requests, limits.split_requests), Fraction(load.size_bytes, limits.split_bytes))


def _verdicts(load: RangeLoad, limits: RangeLimits) -> Iterator[RangeSplit | Unsplittable]:
    """Yield a verdict for each limit that a range exceeds, load first; none if the sample is small."""
    if load.requests > limits.split_requests:
        yield from _verdict(load, "load", load.requested_keys, Fraction(load.requests, limits.split_requests))
    if load.size_bytes > limits.split_bytes:
        yield from _verdict(load, "size", load.stored_keys, Fraction(load.size_bytes, limits.split_bytes))


def _verdict(
    load: RangeLoad, cause: Cause, keys: tuple[Position, ...], excess: Fraction
) -> Iterator[RangeSplit | Unsplittable]:
    if not keys:
        name = "requested_keys" if cause == "load" else "stored_keys"
        expected = f"sampled keys of {load.range}, which exceeds its limit of {cause}"
        raise InvalidInput(name, (), expected, "Sample keys of each range with KeyReservoir.")
    if len(keys) < LEAST_KEYS:
        return
    lighter, at = _evenest_cut(keys)
    if lighter >= LEAST_SIDE * len(keys):
        yield RangeSplit(range=load.range, at=at, cause=cause)
        return
    key, count = max(Counter(keys).items(), key=lambda entry: entry[1])
    ratio = Fraction(count, len(keys))
    parts = max(2, -(-excess * ratio // 1))
    yield Unsplittable(range=load.range, key=key, cause=cause, key_ratio=float(ratio), parts=parts)


def _evenest_cut(keys: tuple[Position, ...]) -> tuple[int, Position]:
    """Return the number of keys on the lighter side, and the key that begins the right side; 0 if all are equal.

    Among equally even cuts, the first is taken. `keys` are sorted. O(keys).
    """
    best, before = (0, keys[0]), 0
    for key, equal in groupby(keys):
        lighter = min(before, len(keys) - before)
        if lighter > best[0]:
            best = lighter, key
        before += len(list(equal))
    return best
