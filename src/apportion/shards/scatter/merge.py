"""Merge: the rows of all shards as the rows of one result.

Rows that shards sent in order are merged by a heap, so that the limit takes few of them. Groups in parts are combined
first, and then put in order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from typing import Any

from apportion.shards.scatter.order import Row, alike, sort_key
from apportion.shards.scatter.plan import Groups, ScatterPlan


def merged(plan: ScatterPlan, shards: Sequence[Iterable[Row]]) -> Iterator[Row]:
    """Yield the rows of the result. O(rows log shards); for groups, O(rows) in memory."""
    rows = chain.from_iterable(shards) if plan.groups is None else combined(plan.groups, chain.from_iterable(shards))
    if plan.order:
        place: Callable[[Row], Any] = sort_key(plan.order)
        rows = iter(sorted(rows, key=place)) if plan.groups else merge(*shards, key=place)
    if plan.is_distinct:
        rows = _distinct(rows, plan.width)
    end = None if plan.limit is None else plan.offset + plan.limit
    return (row[: plan.width] for row in islice(rows, plan.offset, end))


def combined(groups: Groups, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield a row for each group, from its parts."""
    found: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    keys = groups.keys
    for row in rows:
        found[alike([row[place] for place in keys])].append(row)
    for parts in found.values():
        whole = tuple(
            parts[0][each.places[0]]
            if each.combine is None
            else each.combine(*([part[place] for part in parts] for place in each.places))
            for each in groups.outputs
        )
        if groups.having is None or groups.having(whole):
            yield whole


def _distinct(rows: Iterable[Row], width: int) -> Iterator[Row]:
    seen = set()
    for row in rows:
        key = alike(row[:width])
        if key not in seen:
            seen.add(key)
            yield row
