"""Witnesses: the number of partitions of a group, when one of the records that show it may be wrong.

Three kinds of records show the number: the group record, the target with one owner per partition, and the ownership
records.
Promises: two records that agree outvote the third. If no two agree, the target decides, because only the target has a
checksum. An ownership record that names an owner proves that its partition existed. This holds because a resize waits
until the group has no live member, and members that leave free their partitions. The resize itself frees the removed
partitions of killed members.
"""

from collections.abc import Iterable

from apportion.groups.view.view import View


def partitions_of(said: int | None, view: View, *, remembered: int | None = None) -> int | None:
    """Return the number of partitions of a group; None where no record shows it. O(partitions).

    `said` is the number in the group record, None if that is damaged. `remembered` is the number that a process knows
    from its time in the group. `remembered` decides between records that contradict each other. The view must accept
    any partition number.
    """
    target = None if view.target is None else len(view.target.owners)
    if said == target is not None:
        return said
    named = _most(each for each, of in view.own.items() if of.ownership.owner is not None or view.is_damaged(each))
    if remembered is not None and remembered in (said, target, named):
        return remembered
    if said is None and target is None:
        return _most(view.own)
    if said is None or target is None:
        return target or max(said or 0, named or 0)
    owned = (_most(view.own) if named is None else named) or said
    return said if owned == said or target < owned < said else target


def _most(partitions: Iterable[int]) -> int | None:
    """Return one more than the highest of some partitions, None for none."""
    return max((each + 1 for each in partitions), default=None)
