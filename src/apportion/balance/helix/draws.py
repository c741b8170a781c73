"""Draws: drawing several children of one parent, with Helix's rules for children that cannot be taken.

Promises: at most `count` children, none twice, none that is taken. Every pick ends. A try fails when every child has
been refused, or when the drawn child is out. At its 51st failed try a pick is given up, so fewer children may come
back.
Source: `CRUSHPlacementAlgorithm.select` of Helix, after Weil et al. 2006.
"""

from collections.abc import Collection, Sequence

from apportion import native
from apportion.balance.helix.straws import Straws

MOST_RETURNS = 50


def draw(straws: Straws, data: int, count: int, taken: Sequence[int] = ()) -> list[int]:
    """Return the children drawn for a partition's data, in their order, as places among the given children.

    >>> draw(Straws.of(["rack0", "rack1", "rack2"], [1000, 1000, 1000]), -1082655647, 2)
    [0, 1]
    """
    if not native.IN_USE:
        return reference_draw(straws, data, count, taken)
    return native.extension.draw_straws(straws, data & 0xFFFFFFFF, count, taken)


def reference_draw(straws: Straws, data: int, count: int, taken: Collection[int] = ()) -> list[int]:
    """Return the children that are drawn, by the reference version."""
    drawn: list[int] = []
    for pick in range(1, count + 1):
        # Helix goes on trying in vain where no child is left.
        if _is_exhausted(straws, taken, drawn):
            break
        found = _one(straws, data, pick, taken, drawn)
        if found is not None:
            drawn.append(found)
    return drawn


def _one(straws: Straws, data: int, pick: int, taken: Collection[int], drawn: list[int]) -> int | None:
    """Return the child of one pick, None when the pick is given up. Each failure shifts the attempt by one."""
    attempt, returns, refused = pick, 0, set[int]()
    while True:
        place = straws.longest(data, attempt)
        attempt += 1
        if place in drawn or place in taken:
            if place in taken:
                refused.add(place)
            if not _is_exhausted(straws, refused, drawn):
                continue
        elif straws.lengths[place]:
            return place
        if returns == MOST_RETURNS:
            return None
        returns += 1
        refused.clear()


def _is_exhausted(straws: Straws, refused: Collection[int], drawn: list[int]) -> bool:
    """Whether every child that is not out is refused, or drawn already."""
    return all(not length or place in refused or place in drawn for place, length in enumerate(straws.lengths))
