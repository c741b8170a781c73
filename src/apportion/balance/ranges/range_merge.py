"""Range merge: join neighbours that have been cold for six windows of time.

Promises: two ranges join only if the sums of their bytes and of their peaks stay below half of the limits of a split.
The peak of a range is the maximum over six windows. No range takes part in two merges at once. The coldest pairs come
first. The same input gives the same plan.
Refuses: ranges without six windows, ranges that are too young, and ranges with a gap between them.
Source: the merge rule of CockroachDB.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from apportion.balance.ranges.range_limits import STANDARD, RangeLimits, check_time
from apportion.balance.ranges.range_load import RangeLoad, surveyed
from apportion.errors import BadRange
from apportion.errors.brief import brief
from apportion.model.plan import Move
from apportion.model.token import KeyRange


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class RangeMerge:
    """Two neighbours that become one range of `owner`. If their owners differ, `move` comes first."""

    left: KeyRange
    right: KeyRange
    owner: str
    move: Move | None = None

    def __post_init__(self) -> None:
        if self.left.end != self.right.start:
            hint = "Join two ranges without a gap, the left one first."
            raise BadRange("right range", str(self.right), f"one that begins at the end of {self.left}", hint)

    @property
    def range(self) -> KeyRange:
        """The range after the merge."""
        return KeyRange(self.left.start, self.right.end)

    def joined(self, left: RangeLoad, right: RangeLoad, *, now: float) -> RangeLoad:
        """Return the new range, with the sums of both, until it is measured."""
        for load, expected in ((left, self.left), (right, self.right)):
            if load.range != expected:
                hint = "Pass the ranges that the merge was made for."
                raise BadRange("range", str(load.range), f"{expected}, that of the merge", hint)
        check_time("now", now)
        return replace(
            left,
            range=self.range,
            owner=self.owner,
            requests=left.requests + right.requests,
            size_bytes=left.size_bytes + right.size_bytes,
            changed_at=now,
            peaks=left.peaks.plus(right.peaks),
            requested_keys=(),
            stored_keys=(),
        )

    def __str__(self) -> str:
        return f"merge {self.left} and {self.right} on {self.owner}"


def plan_merge(
    loads: Iterable[RangeLoad], *, now: float, limits: RangeLimits = STANDARD, in_flight: Iterable[KeyRange] = ()
) -> tuple[RangeMerge, ...]:
    """Return the pairs of neighbours to merge, the coldest first.

    If the owners of a pair differ, the range with fewer bytes moves, of two equal ones the right range. `in_flight` are
    the ranges of operations under way. They are left alone, and count against `most_in_flight`. O(ranges log ranges).
    Raises `BadRange` for ranges that overlap.

    >>> from apportion.balance.ranges import PeakWindows
    >>> cold = PeakWindows(values=(90, 80, 70, 60, 50, 40))
    >>> loads = [
    ...     RangeLoad(range=key_range, owner="a", size_bytes=1000, requests=40, peaks=cold)
    ...     for key_range in (KeyRange(b"", b"m"), KeyRange(b"m", None))
    ... ]
    >>> [str(merge) for merge in plan_merge(loads, now=600)]
    ["merge [b'', b'm') and [b'm', end) on a"]
    """
    check_time("now", now)
    survey = surveyed(loads, limits, in_flight)
    cold = [
        (left, right)
        for left, right in pairwise(survey.loads)
        if left.range.end == right.range.start
        and _are_cold(left, right, limits)
        and survey.is_settled(left, now)
        and survey.is_settled(right, now)
    ]
    merges: list[RangeMerge] = []
    taken: set[KeyRange] = set()
    for left, right in sorted(cold, key=lambda pair: (_peak(pair[0]) + _peak(pair[1]), pair[0].range.start)):
        if len(merges) < survey.room and taken.isdisjoint((left.range, right.range)):
            taken |= {left.range, right.range}
            merges.append(_merge(left, right))
    return tuple(merges)


def _are_cold(left: RangeLoad, right: RangeLoad, limits: RangeLimits) -> bool:
    return (
        left.peaks.is_complete
        and right.peaks.is_complete
        and 2 * (_peak(left) + _peak(right)) < limits.split_requests
        and 2 * (left.size_bytes + right.size_bytes) < limits.split_bytes
    )


def _peak(load: RangeLoad) -> int:
    return max(load.requests, load.peaks.highest)


def _merge(left: RangeLoad, right: RangeLoad) -> RangeMerge:
    stays, goes = (right, left) if left.size_bytes < right.size_bytes else (left, right)
    move = None
    if stays.owner != goes.owner:
        width = goes.range.width if isinstance(goes.range.start, int) else 0
        move = Move(item=goes.range, source=goes.owner, target=stays.owner, width=width)
    return RangeMerge(left=left.range, right=right.range, owner=stays.owner, move=move)
