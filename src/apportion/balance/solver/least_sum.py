"""Least sum: some of the given sizes that together are enough, and hardly more than that.

All sums are found at once: bit n of a number says that some of the sizes make n units. The next size shifts this number
and joins it to itself. A unit is 1/4096 of the wanted sum, and each size counts as its whole units.
Source: https://en.wikipedia.org/wiki/Subset_sum_problem
"""

from collections.abc import Sequence

UNITS = 4096
"""The units of the wanted sum."""

_MOST_TIMES = 2


def least_sum(sizes: Sequence[int], wanted: int, most: int) -> list[int]:
    """Return the places of sizes with a sum of at least `wanted` and at most `most`; few large sizes are preferred.

    The sum is the least possible one below twice `wanted`, in whole units. Up to a `wanted` of 8191, a unit is 1.
    `sizes` ascend. The result is empty if nothing is wanted, or if no sum was found. O(sizes · units / 64).

    >>> least_sum([3, 5, 9], 7, 10), least_sum([3, 5, 9], 7, 8), least_sum([3, 5, 9], 7, 7)
    ([1, 0], [1, 0], [])
    """
    if wanted <= 0 or most < wanted:
        return []
    unit = max(1, wanted // UNITS)
    mask = (1 << _MOST_TIMES * (wanted // unit + 1)) - 1
    reached = [1]
    for size in sizes:
        reached.append(reached[-1] | (reached[-1] << size // unit & mask if size <= most else 0))
    start = -(-wanted // unit)
    first = reached[-1] >> start
    taken = _taken(sizes, unit, reached, start + (first & -first).bit_length() - 1) if first else []
    one = next(([place] for place, size in enumerate(sizes) if wanted <= size <= most), [])
    total = sum(sizes[place] for place in taken)
    return taken if taken and total <= most and (not one or total <= sizes[one[0]]) else one


def _taken(sizes: Sequence[int], unit: int, reached: Sequence[int], left: int) -> list[int]:
    """Return places that make so many units, from the largest size down."""
    taken = []
    for place in range(len(sizes) - 1, -1, -1):
        units = sizes[place] // unit
        if 0 < units <= left and reached[place] >> (left - units) & 1:
            taken.append(place)
            left -= units
    return taken
